package loadbalancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"example.com/ccm-from-scratch/final/events"
)

// ConflictError says that a load balancer, or a part of it, is somebody else's.
type ConflictError struct {
	LoadBalancer string
	Owner        string // and the remedy
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("load balancer %s belongs to %s", e.LoadBalancer, e.Owner)
}

// identity is what Services are compared with.
type identity struct {
	cluster string                                // of this cluster; empty if nobody knows it
	owner   func(types.UID) (name string, _ bool) // the Service of this cluster with that UID, if there is one
}

// identify returns the Service's load balancer, nil if it has none, and whether
// others have things on it that stay.
//
// The label with the Service's UID decides. If that is lost, the name that
// contains the UID is as good. An address in the Service's status tells which
// one it is, and not who has made it. A name from an annotation tells neither:
// what has it must belong to nobody, or to a Service that this cluster no longer
// has.
func identify(service *corev1.Service, s *Settings, id identity, lbs []*hcloud.LoadBalancer) (lb *hcloud.LoadBalancer, adopted bool, err error) {
	labelled := filter(lbs, func(lb *hcloud.LoadBalancer) bool { return ownerOf(lb.Labels) == service.UID })
	switch {
	case len(labelled) > 1:
		return nil, false, fmt.Errorf("%d load balancers have the label %s=%s, or %s: remove it from all but one", len(labelled), ServiceLabel, service.UID, AdoptedLabel)
	case len(labelled) == 1:
		return id.ofThisCluster(service, labelled[0], s)
	}
	unlabelled := filter(lbs, func(lb *hcloud.LoadBalancer) bool {
		return ownerOf(lb.Labels) == "" && (hasDefaultName(service, lb) || hasAddress(service, lb))
	})
	switch {
	case len(unlabelled) > 1:
		return nil, false, fmt.Errorf("load balancers %s and %s may both be the Service's: set the label %s=%s of the one that was made for it", unlabelled[0].Name, unlabelled[1].Name, ServiceLabel, service.UID)
	case len(unlabelled) == 1:
		return id.ofThisCluster(service, unlabelled[0], s)
	}
	named := filter(lbs, func(lb *hcloud.LoadBalancer) bool { return s.Name != "" && lb.Name == s.Name })
	if len(named) == 0 {
		return nil, false, nil
	}
	return id.byName(service, named[0], s)
}

func filter(lbs []*hcloud.LoadBalancer, keep func(*hcloud.LoadBalancer) bool) []*hcloud.LoadBalancer {
	var kept []*hcloud.LoadBalancer
	for _, lb := range lbs {
		if keep(lb) {
			kept = append(kept, lb)
		}
	}
	return kept
}

// hasDefaultName tells whether the load balancer has the name that contains the
// Service's UID. Nobody else gives such a name.
func hasDefaultName(service *corev1.Service, lb *hcloud.LoadBalancer) bool {
	return lb.Name == cloudprovider.DefaultLoadBalancerName(service)
}

// hasAddress tells whether the Service's status shows the load balancer's public IP.
func hasAddress(service *corev1.Service, lb *hcloud.LoadBalancer) bool {
	return slices.ContainsFunc(service.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		return i.IP != "" && lb.PublicNet.IPv4.IP != nil && i.IP == lb.PublicNet.IPv4.IP.String()
	})
}

// wasIts tells whether a load balancer, if there is one, was the Service's before,
// even if it has lost its label.
func wasIts(service *corev1.Service, lb *hcloud.LoadBalancer) bool {
	return lb != nil && (ownerOf(lb.Labels) == service.UID || hasDefaultName(service, lb) || hasAddress(service, lb))
}

// ofThisCluster accepts a load balancer unless another cluster's label is on it.
func (id identity) ofThisCluster(service *corev1.Service, lb *hcloud.LoadBalancer, s *Settings) (*hcloud.LoadBalancer, bool, error) {
	if cluster := lb.Labels[ClusterLabel]; cluster != "" && id.cluster != "" && cluster != id.cluster && !s.TakeOver {
		return nil, false, &ConflictError{lb.Name, fmt.Sprintf("cluster %s: if that is gone, set annotation %stakeover to true", cluster, Prefix)}
	}
	return lb, isAdopted(service, lb, s), nil
}

// isAdopted tells whether others have made the load balancer: a label says so,
// or there is nothing that says that we have. Taking over ends it.
func isAdopted(service *corev1.Service, lb *hcloud.LoadBalancer, s *Settings) bool {
	unknown := ownerOf(lb.Labels) == "" && !hasDefaultName(service, lb)
	return (lb.Labels[AdoptedLabel] != "" || unknown) && !s.TakeOver
}

// byName decides about a load balancer that an annotation names.
func (id identity) byName(service *corev1.Service, lb *hcloud.LoadBalancer, s *Settings) (*hcloud.LoadBalancer, bool, error) {
	owner, cluster := ownerOf(lb.Labels), lb.Labels[ClusterLabel]
	if name, live := id.owner(owner); owner != "" && live {
		return nil, false, &ConflictError{lb.Name, fmt.Sprintf("Service %s: choose another name with annotation %sname", name, Prefix)}
	}
	nobodys, ours := owner == "" && cluster == "", cluster != "" && cluster == id.cluster
	if nobodys || ours || s.TakeOver {
		return lb, isAdopted(service, lb, s), nil
	}
	return nil, false, &ConflictError{lb.Name, fmt.Sprintf("Service %s of cluster %s: if that is gone, set annotation %stakeover to true", cmp.Or(string(owner), "unknown"), cmp.Or(cluster, "unknown"), Prefix)}
}

// adopt leaves to others what they have made: what no annotation asks for is
// wanted as it is, and their name always. Who does not reach targets through the
// network does not mind which one it is. The label that the official CCM has, too,
// is for what was made for a Service: tools that keep that one, and take away the
// others, must not make the load balancer look so.
func (d *Desired) adopt(s *Settings, lb *hcloud.LoadBalancer) (warnings []Warning) {
	if s.Name != "" && s.Name != lb.Name {
		warnings = append(warnings, Warning{events.NotApplied, fmt.Sprintf("annotation %sname: %s is not applied, somebody else has named the load balancer %s; to get another one, delete the Service", Prefix, s.Name, lb.Name)})
	}
	d.Labels[AdoptedLabel] = d.Labels[ServiceLabel]
	delete(d.Labels, ServiceLabel)
	d.Name = lb.Name
	if !s.has("type") {
		d.Type = lb.LoadBalancerType.Name
	}
	if !s.has("algorithm-type") {
		d.Algorithm = lb.Algorithm.Type
	}
	if !s.has("disable-public-network") {
		d.Public = lb.PublicNet.Enabled
	}
	switch {
	case !s.UsePrivateIP && !s.has("private-ipv4", "private-subnet-ip-range"):
		d.Network = 0
	case len(lb.PrivateNet) > 0 && !s.has("private-subnet-ip-range"):
		d.Subnet = netip.Prefix{}
	}
	return warnings
}

// checkListeners refuses to share a port of an adopted load balancer with a
// listener that is not ours.
func checkListeners(d *Desired, lb *hcloud.LoadBalancer) error {
	ours := holdingsOf(lb, d.Labels[AdoptedLabel] != "")
	for _, l := range d.Listeners {
		if !ours.port(l.Port) && slices.ContainsFunc(lb.Services, func(s hcloud.LoadBalancerService) bool { return s.ListenPort == l.Port }) {
			return &ConflictError{fmt.Sprintf("%s, port %d", lb.Name, l.Port), fmt.Sprintf("whoever has added that listener: delete it, use another port, or set annotation %stakeover to true", Prefix)}
		}
	}
	return nil
}
