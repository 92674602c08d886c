package cloud

import (
	"net/http"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// locations are the real ones. Names, texts, and zones are asserted by
// official acceptance tests; the coordinates are those of the cities.
var locations = []schema.Location{
	{ID: 1, Name: "fsn1", Description: "Falkenstein DC Park 1", Country: "DE", City: "Falkenstein", Latitude: 50.47612, Longitude: 12.370071, NetworkZone: "eu-central"},
	{ID: 2, Name: "nbg1", Description: "Nuremberg DC Park 1", Country: "DE", City: "Nuremberg", Latitude: 49.452102, Longitude: 11.076665, NetworkZone: "eu-central"},
	{ID: 3, Name: "hel1", Description: "Helsinki DC Park 1", Country: "FI", City: "Helsinki", Latitude: 60.169855, Longitude: 24.938379, NetworkZone: "eu-central"},
	{ID: 4, Name: "ash", Description: "Ashburn, VA", Country: "US", City: "Ashburn, VA", Latitude: 39.045821, Longitude: -77.487073, NetworkZone: "us-east"},
	{ID: 5, Name: "hil", Description: "Hillsboro, OR", Country: "US", City: "Hillsboro, OR", Latitude: 45.54222, Longitude: -122.951924, NetworkZone: "us-west"},
	{ID: 6, Name: "sin", Description: "Singapore", Country: "SG", City: "Singapore", Latitude: 1.283333, Longitude: 103.833333, NetworkZone: "ap-southeast"},
}

var locationList = collection[schema.Location]{
	key:     "locations",
	id:      locationID,
	filters: map[string]func(schema.Location) string{"name": locationName},
	sorts: map[string]func(a, b schema.Location) int{
		"id":   by(locationID),
		"name": by(locationName),
	},
}

func locationID(l schema.Location) int64    { return l.ID }
func locationName(l schema.Location) string { return l.Name }

var locationRoutes = routes{
	"GET /locations":      {http.StatusOK, func(r *request) (any, error) { return locationList.list(r, locations) }},
	"GET /locations/{id}": {http.StatusOK, getLocation},
}

func getLocation(r *request) (any, error) {
	l, ok := pick(locations, schema.IDOrName{ID: r.id}, locationID, locationName)
	if !ok {
		return nil, notFound("location", r.id)
	}
	return object{"location": l}, nil
}

// zoneExists reports whether any location lies in a network zone.
func zoneExists(zone string) bool {
	for _, l := range locations {
		if l.NetworkZone == zone {
			return true
		}
	}
	return false
}
