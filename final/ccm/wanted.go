package ccm

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// Annotations of a Service. They have the names that the official CCM uses.
const (
	annotationLocation     = "load-balancer.hetzner.cloud/location"
	annotationNetworkZone  = "load-balancer.hetzner.cloud/network-zone"
	annotationType         = "load-balancer.hetzner.cloud/type"
	annotationUsePrivateIP = "load-balancer.hetzner.cloud/use-private-ip"
)

// Environment variables with the values for Services without the annotation.
const (
	envLocation     = "HCLOUD_LOAD_BALANCERS_LOCATION"
	envNetworkZone  = "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE"
	envType         = "HCLOUD_LOAD_BALANCERS_TYPE"
	envUsePrivateIP = "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP"
)

// defaultType is the smallest type of load balancer.
const defaultType = "lb11"

// loadBalancerDefaults apply where a Service has no annotation.
type loadBalancerDefaults struct {
	Location     string
	NetworkZone  string
	Type         string
	UsePrivateIP bool
}

// loadBalancerDefaultsFromEnv returns an error if a variable has no sensible value.
func loadBalancerDefaultsFromEnv() (loadBalancerDefaults, error) {
	defaults := loadBalancerDefaults{
		Location:    os.Getenv(envLocation),
		NetworkZone: os.Getenv(envNetworkZone),
		Type:        cmp.Or(os.Getenv(envType), defaultType),
	}
	if defaults.Location != "" && defaults.NetworkZone != "" {
		return defaults, fmt.Errorf("%s and %s are both set: a load balancer has one or the other", envLocation, envNetworkZone)
	}
	if value := os.Getenv(envUsePrivateIP); value != "" {
		var err error
		if defaults.UsePrivateIP, err = strconv.ParseBool(value); err != nil {
			return defaults, fmt.Errorf("%s %q is neither true nor false", envUsePrivateIP, value)
		}
	}
	return defaults, nil
}

// wantedLoadBalancer is what a Service and its nodes ask for.
type wantedLoadBalancer struct {
	Name         string
	Labels       map[string]string
	Type         string
	Location     string          // where to create it; empty if NetworkZone is set
	NetworkZone  string          // where to create it; empty if Location is set
	Network      *hcloud.Network // to attach it to; may be nil
	Listeners    []listener      // by port
	Targets      []int64         // server IDs, in ascending order
	UsePrivateIP bool            // reach targets through Network
}

// listener takes TCP connections at Port, and passes them to NodePort of the targets.
type listener struct {
	Port     int
	NodePort int
}

// wantLoadBalancer returns what a Service asks for, or an error that says what
// is wrong with it. The error becomes an event of the Service. Nothing has been
// changed by then, so the last good state goes on working.
func wantLoadBalancer(service *corev1.Service, nodes []*corev1.Node, defaults loadBalancerDefaults, network *hcloud.Network) (*wantedLoadBalancer, error) {
	wanted := &wantedLoadBalancer{
		Name:         cloudprovider.DefaultLoadBalancerName(service),
		Labels:       map[string]string{serviceUIDLabel: string(service.UID)},
		Type:         cmp.Or(service.Annotations[annotationType], defaults.Type),
		Location:     service.Annotations[annotationLocation],
		NetworkZone:  service.Annotations[annotationNetworkZone],
		Network:      network,
		UsePrivateIP: defaults.UsePrivateIP,
	}

	switch {
	case wanted.Location != "" && wanted.NetworkZone != "":
		return nil, fmt.Errorf("annotations %s and %s are both set: a load balancer has one or the other", annotationLocation, annotationNetworkZone)
	case wanted.Location == "" && wanted.NetworkZone == "":
		wanted.Location, wanted.NetworkZone = defaults.Location, defaults.NetworkZone
	}
	if wanted.Location == "" && wanted.NetworkZone == "" {
		return nil, fmt.Errorf("no place for the load balancer: set annotation %s or %s, or variable %s or %s",
			annotationLocation, annotationNetworkZone, envLocation, envNetworkZone)
	}

	if value, ok := service.Annotations[annotationUsePrivateIP]; ok {
		var err error
		if wanted.UsePrivateIP, err = strconv.ParseBool(value); err != nil {
			return nil, fmt.Errorf("annotation %s: %q is neither true nor false", annotationUsePrivateIP, value)
		}
	}
	if wanted.UsePrivateIP && network == nil {
		return nil, fmt.Errorf("annotation %s or variable %s needs a network: set HCLOUD_NETWORK", annotationUsePrivateIP, envUsePrivateIP)
	}

	for _, port := range service.Spec.Ports {
		if port.Protocol != corev1.ProtocolTCP {
			return nil, fmt.Errorf("port %d/%s: load balancers serve TCP only", port.Port, port.Protocol)
		}
		if port.NodePort == 0 {
			return nil, fmt.Errorf("port %d has no node port: set allocateLoadBalancerNodePorts to true", port.Port)
		}
		wanted.Listeners = append(wanted.Listeners, listener{Port: int(port.Port), NodePort: int(port.NodePort)})
	}
	slices.SortFunc(wanted.Listeners, func(a, b listener) int { return a.Port - b.Port })

	for _, node := range nodes {
		// A Node may be new, or of another cloud. The others must not wait for it.
		if id, err := parseProviderID(node.Spec.ProviderID); err == nil {
			wanted.Targets = append(wanted.Targets, id)
		}
	}
	slices.Sort(wanted.Targets)
	return wanted, nil
}

// createOpts is the request that makes a new load balancer, complete.
func (w *wantedLoadBalancer) createOpts() hcloud.LoadBalancerCreateOpts {
	opts := hcloud.LoadBalancerCreateOpts{
		Name:             w.Name,
		Labels:           w.Labels,
		LoadBalancerType: &hcloud.LoadBalancerType{Name: w.Type},
		NetworkZone:      hcloud.NetworkZone(w.NetworkZone),
		Network:          w.Network,
	}
	if w.Location != "" {
		opts.Location = &hcloud.Location{Name: w.Location}
	}
	for _, listener := range w.Listeners {
		opts.Services = append(opts.Services, hcloud.LoadBalancerCreateOptsService{
			Protocol:        hcloud.LoadBalancerServiceProtocolTCP,
			ListenPort:      &listener.Port,
			DestinationPort: &listener.NodePort,
			HealthCheck: &hcloud.LoadBalancerCreateOptsServiceHealthCheck{
				Protocol: hcloud.LoadBalancerServiceProtocolTCP,
				Port:     &listener.NodePort,
				Interval: hcloud.Ptr(healthCheckInterval),
				Timeout:  hcloud.Ptr(healthCheckTimeout),
				Retries:  hcloud.Ptr(healthCheckRetries),
			},
		})
	}
	for _, id := range w.Targets {
		opts.Targets = append(opts.Targets, hcloud.LoadBalancerCreateOptsTarget{
			Type:         hcloud.LoadBalancerTargetTypeServer,
			Server:       hcloud.LoadBalancerCreateOptsTargetServer{Server: &hcloud.Server{ID: id}},
			UsePrivateIP: &w.UsePrivateIP,
		})
	}
	return opts
}
