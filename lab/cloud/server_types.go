package cloud

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// serverTypes are a sample of the real ones. ID, size, and category of cpx22
// are asserted by official acceptance tests; IDs, locations, and prices of the
// others are guesses.
var serverTypes = []schema.ServerType{
	serverType(45, "cax11", "CAX11", "cost_optimized", "shared", "arm", 2, 4, 40, "4.4900", "fsn1", "nbg1", "hel1"),
	serverType(96, "ccx13", "CCX13 Dedicated CPU", "general_purpose", "dedicated", "x86", 2, 8, 80, "14.4900", "fsn1", "nbg1", "hel1", "ash", "hil", "sin"),
	serverType(109, "cpx22", "CPX 22", "regular_purpose", "shared", "x86", 2, 4, 80, "7.9900", "fsn1", "nbg1", "hel1", "sin"),
	serverType(110, "cpx32", "CPX 32", "regular_purpose", "shared", "x86", 4, 8, 160, "13.9900", "fsn1", "nbg1", "hel1", "sin"),
	serverType(114, "cx23", "CX23", "cost_optimized", "shared", "x86", 2, 4, 40, "3.4900", "fsn1", "nbg1", "hel1"),
}

func serverType(id int64, name, description, category, cpu, arch string, cores int, memory float32, disk int, monthly string, in ...string) schema.ServerType {
	t := schema.ServerType{
		ID: id, Name: name, Description: description, Category: category,
		Cores: cores, Memory: memory, Disk: disk,
		StorageType: "local", CPUType: cpu, Architecture: arch,
	}
	price := func(net string) schema.Price { return schema.Price{Net: net, Gross: net} }
	for _, l := range locations {
		if !slices.Contains(in, l.Name) {
			continue
		}
		t.Locations = append(t.Locations, schema.ServerTypeLocation{ID: l.ID, Name: l.Name, Available: true, Recommended: true})
		t.Prices = append(t.Prices, schema.PricingServerTypePrice{
			Location:          l.Name,
			PriceHourly:       price("0.0100"),
			PriceMonthly:      price(monthly),
			IncludedTraffic:   20 << 40,
			PricePerTBTraffic: price("1.0000"),
		})
	}
	return t
}

// availableIn reports whether servers of the type can be had in a location.
func availableIn(t schema.ServerType, location string) bool {
	return slices.ContainsFunc(t.Locations, func(l schema.ServerTypeLocation) bool { return l.Name == location && l.Available })
}

var serverTypeList = collection[schema.ServerType]{
	key:     "server_types",
	id:      serverTypeID,
	filters: map[string]func(schema.ServerType) string{"name": serverTypeName},
}

func serverTypeID(t schema.ServerType) int64    { return t.ID }
func serverTypeName(t schema.ServerType) string { return t.Name }

var serverTypeRoutes = routes{
	"GET /server_types":      {http.StatusOK, func(r *request) (any, error) { return serverTypeList.list(r, serverTypes) }},
	"GET /server_types/{id}": {http.StatusOK, getServerType},
}

func getServerType(r *request) (any, error) {
	t, ok := pick(serverTypes, schema.IDOrName{ID: r.id}, serverTypeID, serverTypeName)
	if !ok {
		return nil, notFound("server type", r.id)
	}
	return object{"server_type": t}, nil
}

// pick finds the item that a field which takes an ID or a name means. A number
// is an ID first, but may also be a name.
func pick[T any](items []T, ref schema.IDOrName, id func(T) int64, name func(T) string) (item T, ok bool) {
	for _, item := range items {
		if ref.ID != 0 && id(item) == ref.ID {
			return item, true
		}
	}
	want := ref.Name
	if want == "" && ref.ID != 0 {
		want = strconv.FormatInt(ref.ID, 10)
	}
	for _, item := range items {
		if want != "" && name(item) == want {
			return item, true
		}
	}
	return item, false
}
