package cloudctl

import (
	"context"
	"fmt"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/spf13/cobra"
)

var locations = noun[hcloud.Location]{
	name: "location",
	get: func(ctx context.Context, api *hcloud.Client, idOrName string) (*hcloud.Location, *hcloud.Response, error) {
		return api.Location.Get(ctx, idOrName)
	},
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.Location, error) {
		return api.Location.AllWithOpts(ctx, hcloud.LocationListOpts{ListOpts: o})
	},
	table: table[hcloud.Location]{
		shown: "id,name,description,network_zone,country,city",
		columns: map[string]func(*hcloud.Location) string{
			"id":           func(l *hcloud.Location) string { return strconv.FormatInt(l.ID, 10) },
			"name":         func(l *hcloud.Location) string { return l.Name },
			"description":  func(l *hcloud.Location) string { return l.Description },
			"network_zone": func(l *hcloud.Location) string { return string(l.NetworkZone) },
			"country":      func(l *hcloud.Location) string { return l.Country },
			"city":         func(l *hcloud.Location) string { return l.City },
		},
		schema: func(l *hcloud.Location) any { return hcloud.SchemaFromLocation(l) },
	},
}

func locationCommand(c *ctl) *cobra.Command {
	return group("location", "List locations", locations.listCommand(c), locations.describeCommand(c))
}

var serverTypes = noun[hcloud.ServerType]{
	name: "server type",
	get: func(ctx context.Context, api *hcloud.Client, idOrName string) (*hcloud.ServerType, *hcloud.Response, error) {
		return api.ServerType.Get(ctx, idOrName)
	},
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.ServerType, error) {
		return api.ServerType.AllWithOpts(ctx, hcloud.ServerTypeListOpts{ListOpts: o})
	},
	table: table[hcloud.ServerType]{
		shown: "id,name,cores,cpu_type,architecture,memory,disk",
		columns: map[string]func(*hcloud.ServerType) string{
			"id":           func(t *hcloud.ServerType) string { return strconv.FormatInt(t.ID, 10) },
			"name":         func(t *hcloud.ServerType) string { return t.Name },
			"description":  func(t *hcloud.ServerType) string { return t.Description },
			"cores":        func(t *hcloud.ServerType) string { return strconv.Itoa(t.Cores) },
			"cpu_type":     func(t *hcloud.ServerType) string { return string(t.CPUType) },
			"architecture": func(t *hcloud.ServerType) string { return string(t.Architecture) },
			"memory":       func(t *hcloud.ServerType) string { return fmt.Sprintf("%.1f GB", t.Memory) },
			"disk":         func(t *hcloud.ServerType) string { return fmt.Sprintf("%d GB", t.Disk) },
		},
		schema: func(t *hcloud.ServerType) any { return hcloud.SchemaFromServerType(t) },
	},
}

func serverTypeCommand(c *ctl) *cobra.Command {
	return group("server-type", "List server types", serverTypes.listCommand(c), serverTypes.describeCommand(c))
}

var images = noun[hcloud.Image]{
	name: "image",
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.Image, error) {
		return api.Image.AllWithOpts(ctx, hcloud.ImageListOpts{ListOpts: o})
	},
	table: table[hcloud.Image]{
		shown: "id,type,name,description,architecture,disk_size",
		columns: map[string]func(*hcloud.Image) string{
			"id":           func(i *hcloud.Image) string { return strconv.FormatInt(i.ID, 10) },
			"type":         func(i *hcloud.Image) string { return string(i.Type) },
			"name":         func(i *hcloud.Image) string { return i.Name },
			"description":  func(i *hcloud.Image) string { return i.Description },
			"architecture": func(i *hcloud.Image) string { return string(i.Architecture) },
			"disk_size":    func(i *hcloud.Image) string { return fmt.Sprintf("%.0f GB", i.DiskSize) },
		},
		schema: func(i *hcloud.Image) any { return hcloud.SchemaFromImage(i) },
	},
	labels: func(i *hcloud.Image) map[string]string { return i.Labels },
}

func imageCommand(c *ctl) *cobra.Command {
	return group("image", "List images", images.listCommand(c))
}
