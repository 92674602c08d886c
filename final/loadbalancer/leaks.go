package loadbalancer

import (
	"context"
	"fmt"
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
	// Remove deletes it; nil if nobody can be sure that it is this cluster's.
	Remove func(context.Context) error
}

// Leaks lists load balancers and certificates with our labels whose Service is
// gone, and routes in the pods' range to addresses that no server has. It only reads.
func (r *Reconciler) Leaks(ctx context.Context, pods netip.Prefix) ([]Leak, error) {
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
	var leaks []Leak
	for _, lb := range lbs {
		if l := r.orphan(lb.Labels, cluster); l != nil {
			l.What, l.Price = fmt.Sprintf("load balancer %d (%s)", lb.ID, lb.Name), price(lb)
			l.guard(func(ctx context.Context) error {
				result, _, err := r.Client.LoadBalancer.DeleteWithResult(ctx, lb)
				return await(ctx, r.Client, result.Action, err)
			})
			if lb.Protection.Delete {
				l.Why, l.Remove = l.Why+", protected against deletion", nil
			}
			leaks = append(leaks, *l)
		}
	}
	for _, c := range certificates {
		if l := r.orphan(c.Labels, cluster); l != nil && len(c.UsedBy) == 0 {
			l.What, l.Price = fmt.Sprintf("certificate %d (%s)", c.ID, c.Name), "free"
			l.guard(func(ctx context.Context) error {
				_, err := r.Client.Certificate.Delete(ctx, c)
				return err
			})
			leaks = append(leaks, *l)
		}
	}
	routes, err := r.deadRoutes(ctx, pods)
	return append(leaks, routes...), err
}

// orphan returns a Leak for what has our labels and no Service. What has the
// label of another cluster is not our concern.
func (r *Reconciler) orphan(labels map[string]string, cluster string) *Leak {
	uid := labels[ServiceLabel]
	if _, live := r.Owner(types.UID(uid)); uid == "" || live {
		return nil
	}
	l := &Leak{Why: "Service " + uid + " is gone"}
	switch labels[ClusterLabel] {
	case "":
		l.Why = "Service " + uid + " is gone, or another cluster's: the label " + ClusterLabel + " is missing"
	case cluster:
		l.Remove = func(context.Context) error { return nil } // allowed; guard says how
	default:
		return nil
	}
	return l
}

// guard sets how to remove what may be removed.
func (l *Leak) guard(remove func(context.Context) error) {
	if l.Remove != nil {
		l.Remove = remove
	}
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
	servers, err := r.Client.Server.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	var leaks []Leak
	for _, route := range network.Routes {
		destination, err := netip.ParsePrefix(route.Destination.String())
		if err != nil || !pods.Overlaps(destination) || destination.Bits() < pods.Bits() {
			continue
		}
		gateway, _ := netip.AddrFromSlice(route.Gateway)
		if slices.ContainsFunc(servers, func(s *hcloud.Server) bool {
			return slices.Contains(nodeinfo.PrivateIPs(s, network), gateway.Unmap())
		}) {
			continue
		}
		leaks = append(leaks, Leak{
			What:  fmt.Sprintf("route to %s by %s in network %s", route.Destination, route.Gateway, network.Name),
			Why:   "no server has the gateway's address",
			Price: "free, but there is room for 100",
			Remove: func(ctx context.Context) error {
				action, _, err := r.Client.Network.DeleteRoute(ctx, network, hcloud.NetworkDeleteRouteOpts{Route: route})
				return await(ctx, r.Client, action, err)
			},
		})
	}
	return leaks, nil
}
