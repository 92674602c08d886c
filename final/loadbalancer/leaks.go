package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/apimachinery/pkg/types"

	nodeinfo "example.com/ccm-from-scratch/final/nodes"
)

// Leak is something in the cloud that this cluster has made and no longer needs.
type Leak struct {
	What, Why, Price string
	// Remove deletes it, unless it is needed by now; nil if nobody can be sure that
	// it is this cluster's, and nobody else's.
	Remove func(context.Context) error
}

// errNeeded says that a Leak is none any more.
var errNeeded = errors.New("it has changed since it was listed, and may be needed")

// Live returns the UIDs of all Services that have a load balancer, or are about to.
type Live func(context.Context) (map[types.UID]bool, error)

// Leaks lists load balancers and certificates with our labels whose Service is
// gone, and routes in the pods' range to addresses that no server has. It only reads.
//
// The cluster is asked after the cloud, and again before anything is removed: a
// Service comes before its load balancer.
func (r *Reconciler) Leaks(ctx context.Context, pods netip.Prefix, live Live) ([]Leak, error) {
	cluster, err := r.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("find out which cluster this is: %w", err)
	}
	lbs, err := r.Client.LoadBalancer.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("list load balancers: %w", err)
	}
	certificates, err := r.Client.Certificate.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("list certificates: %w", err)
	}
	services, err := live(ctx)
	if err != nil {
		return nil, err
	}
	var leaks []Leak
	for _, lb := range lbs {
		why, certain := orphan(lb.Labels, cluster, services)
		switch {
		case why == "":
			continue
		case lb.Labels[AdoptedLabel] != "":
			why, certain = why+", made by others", false
		case lb.Protection.Delete:
			why, certain = why+", protected against deletion", false
		}
		l := Leak{What: fmt.Sprintf("load balancer %d (%s)", lb.ID, lb.Name), Why: why, Price: price(lb)}
		if certain {
			l.Remove = func(ctx context.Context) error { return r.removeLoadBalancer(ctx, lb, live) }
		}
		leaks = append(leaks, l)
	}
	for _, c := range certificates {
		why, certain := orphan(c.Labels, cluster, services)
		if why == "" || len(c.UsedBy) > 0 {
			continue
		}
		l := Leak{What: fmt.Sprintf("certificate %d (%s)", c.ID, c.Name), Why: why, Price: "free"}
		if certain {
			l.Remove = func(ctx context.Context) error { return r.removeCertificate(ctx, c, live) }
		}
		leaks = append(leaks, l)
	}
	routes, err := r.deadRoutes(ctx, pods)
	return append(leaks, routes...), err
}

// orphan says why nothing needs what has our labels, empty if something does, and
// whether it is certain that it is this cluster's. What has the label of another
// cluster is not our concern.
func orphan(labels map[string]string, cluster string, services map[types.UID]bool) (why string, certain bool) {
	uid, of := ownerOf(labels), labels[ClusterLabel]
	switch {
	case uid == "" || services[uid]:
		return "", false
	case of == "":
		return fmt.Sprintf("Service %s is gone, or another cluster's: the label %s is missing", uid, ClusterLabel), false
	case of != cluster:
		return "", false
	}
	return fmt.Sprintf("Service %s is gone", uid), true
}

// stillGone returns an error if the Service of something is there after all.
func stillGone(ctx context.Context, labels map[string]string, live Live) error {
	services, err := live(ctx)
	if err == nil && services[ownerOf(labels)] {
		err = errNeeded
	}
	return err
}

func (r *Reconciler) removeLoadBalancer(ctx context.Context, listed *hcloud.LoadBalancer, live Live) error {
	if err := stillGone(ctx, listed.Labels, live); err != nil {
		return err
	}
	lb, _, err := r.Client.LoadBalancer.GetByID(ctx, listed.ID)
	switch {
	case err != nil || lb == nil:
		return err
	case lb.Protection.Delete || !maps.Equal(lb.Labels, listed.Labels):
		return errNeeded
	}
	result, _, err := r.Client.LoadBalancer.DeleteWithResult(ctx, lb)
	return await(ctx, r.Client, result.Action, err)
}

func (r *Reconciler) removeCertificate(ctx context.Context, listed *hcloud.Certificate, live Live) error {
	if err := stillGone(ctx, listed.Labels, live); err != nil {
		return err
	}
	c, _, err := r.Client.Certificate.GetByID(ctx, listed.ID)
	switch {
	case err != nil || c == nil:
		return err
	case len(c.UsedBy) > 0 || !maps.Equal(c.Labels, listed.Labels):
		return errNeeded
	}
	_, err = r.Client.Certificate.Delete(ctx, c)
	return err
}

// price is the type, and what a month of it costs where the load balancer is. The
// API does not say in which currency: each project has one.
func price(lb *hcloud.LoadBalancer) string {
	for _, p := range lb.LoadBalancerType.Pricings {
		net, err := strconv.ParseFloat(p.Monthly.Net, 64)
		if err == nil && lb.Location != nil && p.Location.Name == lb.Location.Name {
			return fmt.Sprintf("%s: %.2f a month, without VAT", lb.LoadBalancerType.Name, net)
		}
	}
	return lb.LoadBalancerType.Name
}

// deadRoutes lists routes in the pods' range whose gateway is no server.
func (r *Reconciler) deadRoutes(ctx context.Context, pods netip.Prefix) ([]Leak, error) {
	if r.Network == nil {
		return nil, nil
	}
	network, _, err := r.Client.Network.GetByID(ctx, r.Network.ID)
	if err != nil {
		return nil, fmt.Errorf("look up network %d: %w", r.Network.ID, err)
	}
	if network == nil {
		return nil, fmt.Errorf("network %d has vanished", r.Network.ID)
	}
	dead, err := r.deadEnds(ctx, network)
	if err != nil {
		return nil, err
	}
	var leaks []Leak
	for _, route := range network.Routes {
		destination, err := netip.ParsePrefix(route.Destination.String())
		if err != nil || !pods.Overlaps(destination) || destination.Bits() < pods.Bits() || !dead(route) {
			continue
		}
		leaks = append(leaks, Leak{
			What:  fmt.Sprintf("route to %s by %s in network %s", route.Destination, route.Gateway, network.Name),
			Why:   "no server has the gateway's address",
			Price: "free, but there is room for 100",
			Remove: func(ctx context.Context) error {
				if dead, err := r.deadEnds(ctx, network); err != nil {
					return err
				} else if !dead(route) {
					return errNeeded
				}
				action, _, err := r.Client.Network.DeleteRoute(ctx, network, hcloud.NetworkDeleteRouteOpts{Route: route})
				return await(ctx, r.Client, action, err)
			},
		})
	}
	return leaks, nil
}

// deadEnds returns what tells of a route whether its gateway is no server.
func (r *Reconciler) deadEnds(ctx context.Context, network *hcloud.Network) (func(hcloud.NetworkRoute) bool, error) {
	servers, err := r.Client.Server.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	return func(route hcloud.NetworkRoute) bool {
		gateway, _ := netip.AddrFromSlice(route.Gateway)
		return !slices.ContainsFunc(servers, func(s *hcloud.Server) bool {
			return slices.Contains(nodeinfo.PrivateIPs(s, network), gateway.Unmap())
		})
	}, nil
}
