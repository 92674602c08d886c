package cloud

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// images are a sample of the real system images. The ID of ubuntu-24.04 for
// x86 is asserted by official acceptance tests, the others are guesses.
var images = []schema.Image{
	systemImage(114690387, "debian", "12", "Debian 12", "x86", time.Date(2023, 6, 13, 6, 0, 0, 0, time.UTC)),
	systemImage(114690389, "debian", "12", "Debian 12", "arm", time.Date(2023, 6, 13, 6, 0, 0, 0, time.UTC)),
	systemImage(161547269, "ubuntu", "24.04", "Ubuntu 24.04", "x86", time.Date(2024, 4, 25, 13, 0, 0, 0, time.UTC)),
	systemImage(161547270, "ubuntu", "24.04", "Ubuntu 24.04", "arm", time.Date(2024, 4, 25, 13, 0, 0, 0, time.UTC)),
}

func systemImage(id int64, flavor, version, description, arch string, created time.Time) schema.Image {
	name := flavor + "-" + version
	return schema.Image{
		ID: id, Name: &name, Description: description, Type: "system", Status: "available",
		OSFlavor: flavor, OSVersion: &version, Architecture: arch,
		DiskSize: 5, RapidDeploy: true, Created: &created, Labels: map[string]string{},
	}
}

var imageList = collection[schema.Image]{
	key:    "images",
	id:     imageID,
	labels: func(i schema.Image) map[string]string { return i.Labels },
	filters: map[string]func(schema.Image) string{
		"name":         imageName,
		"type":         func(i schema.Image) string { return i.Type },
		"status":       func(i schema.Image) string { return i.Status },
		"architecture": func(i schema.Image) string { return i.Architecture },
		"bound_to": func(i schema.Image) string {
			if i.BoundTo == nil {
				return ""
			}
			return strconv.FormatInt(*i.BoundTo, 10)
		},
	},
	sorts: map[string]func(a, b schema.Image) int{
		"id":      by(imageID),
		"name":    by(imageName),
		"created": by(func(i schema.Image) int64 { return i.Created.Unix() }),
	},
}

func imageID(i schema.Image) int64    { return i.ID }
func imageName(i schema.Image) string { return *i.Name } // system images have one

var imageRoutes = routes{
	"GET /images":      {http.StatusOK, func(r *request) (any, error) { return imageList.list(r, images) }},
	"GET /images/{id}": {http.StatusOK, getImage},
}

func getImage(r *request) (any, error) {
	i, ok := pick(images, schema.IDOrName{ID: r.id}, imageID, imageName)
	if !ok {
		return nil, notFound("image", r.id)
	}
	return object{"image": i}, nil
}

// imageFor finds an image for servers of an architecture. A name can mean one
// image for each.
func imageFor(ref schema.IDOrName, arch string) (image schema.Image, err error) {
	fitting := slices.DeleteFunc(slices.Clone(images), func(i schema.Image) bool { return i.Architecture != arch })
	if image, ok := pick(fitting, ref, imageID, imageName); ok {
		return image, nil
	}
	if _, ok := pick(images, ref, imageID, imageName); ok {
		// API reference, create a server: both must have the same
		// architecture. The message is a guess.
		return image, invalid("image", "has not the architecture %s of the server type", arch)
	}
	return image, rejected("image", "image not found")
}
