package cloud

import (
	"net/http"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// loadBalancerTypes are the real ones. Everything about lb11 is asserted by
// official acceptance tests; services and targets of lb21 are quoted by users.
// The rest is guessed.
var loadBalancerTypes = []schema.LoadBalancerType{
	loadBalancerType(1, "lb11", "LB11", 5, 25, 10, 10_000, "5.3900"),
	loadBalancerType(2, "lb21", "LB21", 15, 75, 25, 20_000, "16.4000"),
	loadBalancerType(3, "lb31", "LB31", 30, 150, 50, 40_000, "32.9000"),
}

func loadBalancerType(id int64, name, description string, services, targets, certificates, connections int, monthly string) schema.LoadBalancerType {
	t := schema.LoadBalancerType{
		ID: id, Name: name, Description: description,
		MaxServices: services, MaxTargets: targets,
		MaxAssignedCertificates: certificates, MaxConnections: connections,
	}
	price := func(net string) schema.Price { return schema.Price{Net: net, Gross: net} }
	for _, l := range locations {
		t.Prices = append(t.Prices, schema.PricingLoadBalancerTypePrice{
			Location:          l.Name,
			PriceHourly:       price("0.0100"),
			PriceMonthly:      price(monthly),
			IncludedTraffic:   20 << 40,
			PricePerTBTraffic: price("1.0000"),
		})
	}
	return t
}

var loadBalancerTypeList = collection[schema.LoadBalancerType]{
	key:     "load_balancer_types",
	id:      loadBalancerTypeID,
	filters: map[string]func(schema.LoadBalancerType) string{"name": loadBalancerTypeName},
}

func loadBalancerTypeID(t schema.LoadBalancerType) int64    { return t.ID }
func loadBalancerTypeName(t schema.LoadBalancerType) string { return t.Name }

var loadBalancerTypeRoutes = routes{
	"GET /load_balancer_types": {http.StatusOK, func(r *request) (any, error) {
		return loadBalancerTypeList.list(r, loadBalancerTypes)
	}},
	"GET /load_balancer_types/{id}": {http.StatusOK, getLoadBalancerType},
}

func getLoadBalancerType(r *request) (any, error) {
	t, ok := pick(loadBalancerTypes, schema.IDOrName{ID: r.id}, loadBalancerTypeID, loadBalancerTypeName)
	if !ok {
		return nil, notFound("load balancer type", r.id)
	}
	return object{"load_balancer_type": t}, nil
}
