package ccm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
)

// routeTimeout bounds one change of a route, with all its retries.
const routeTimeout = time.Minute

// routeBackoff spaces the tries while another change of the network runs.
var routeBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Cap: 10 * time.Second, Steps: 100}

// Routes keeps a route in the network for the pod CIDR of each Node.
type Routes struct {
	client       *hcloud.Client
	network      *hcloud.Network
	clusterCIDRs []netip.Prefix
	nodes        corelisters.NodeLister
	nodesSynced  func() bool

	// mu is held during a change of the network: the API does one at a time,
	// the controller asks for up to 200.
	mu sync.Mutex
}

var _ cloudprovider.Routes = &Routes{}

// newRoutes returns the routes of a network. clusterCIDR is the value of
// --cluster-cidr: one CIDR, or two with a comma between them.
func newRoutes(client *hcloud.Client, network *hcloud.Network, clusterCIDR string, nodes coreinformers.NodeInformer) (*Routes, error) {
	r := &Routes{
		client:      client,
		network:     network,
		nodes:       nodes.Lister(),
		nodesSynced: nodes.Informer().HasSynced,
	}
	for cidr := range strings.SplitSeq(clusterCIDR, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(cidr))
		if err != nil {
			return nil, fmt.Errorf("--cluster-cidr: %w", err)
		}
		r.clusterCIDRs = append(r.clusterCIDRs, prefix)
	}
	return r, nil
}

// ListRoutes is called every --route-reconciliation-period. The controller
// deletes each listed route that no Node's pod CIDR asks for, and calls
// CreateRoute for each pod CIDR without a route. On an error it does nothing.
//
// A route outside of the cluster's CIDRs is not listed: it is somebody else's.
// A route is listed with the Node whose server has the gateway's IP. Names do
// not count: server and Node may have different ones.
func (r *Routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	if !r.nodesSynced() {
		return nil, errors.New("the list of Nodes is not complete yet")
	}
	network, err := r.currentNetwork(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := r.nodesByGateway(ctx)
	if err != nil {
		return nil, err
	}

	var routes []*cloudprovider.Route
	for _, route := range network.Routes {
		if !r.ours(route) {
			continue
		}
		gateway := route.Gateway.String()
		node, known := nodes[gateway]
		routes = append(routes, &cloudprovider.Route{
			Name:            gateway, // all that DeleteRoute needs beside the destination
			DestinationCIDR: route.Destination.String(),
			TargetNode:      node,
			Blackhole:       !known,
		})
	}
	return routes, nil
}

// CreateRoute is called for each pod CIDR that has no route to its Node. On an
// error the controller records an event and marks the Node's network as
// unavailable, until a later pass succeeds.
//
// A Node of another cloud, and a pod CIDR of IPv6, get no route here: networks
// route IPv4 between servers only. That is no error: it would take the Node out
// of service although whoever is responsible may have done all that is needed.
func (r *Routes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	destination, err := netip.ParsePrefix(route.DestinationCIDR)
	if err != nil {
		return err
	}
	if destination.Addr().Is6() {
		return nil
	}
	gateway, ours, err := r.gateway(ctx, route.TargetNode)
	if err != nil || !ours {
		return err
	}
	wanted := hcloud.NetworkRoute{Destination: ipNet(destination), Gateway: gateway}

	r.mu.Lock()
	defer r.mu.Unlock()

	// The controller has just looked: most likely the destination is free.
	err = r.add(ctx, wanted)
	if !hcloud.IsError(err, hcloud.ErrorCodeInvalidInput) {
		return err
	}
	// It is not, or the route is wrong in another way. The API does not say which.
	network, lookupErr := r.currentNetwork(ctx)
	if lookupErr != nil {
		return lookupErr
	}
	for _, present := range network.Routes {
		if present.Destination.String() != wanted.Destination.String() {
			continue
		}
		if present.Gateway.Equal(wanted.Gateway) {
			return nil
		}
		// It leads to a server that had this pod CIDR before.
		if err := r.remove(ctx, present); err != nil {
			return err
		}
		return r.add(ctx, wanted)
	}
	return err
}

// DeleteRoute is called for routes that ListRoutes has returned. A route that is
// gone already, or leads elsewhere by now, is what the controller wants.
func (r *Routes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	destination, err := netip.ParsePrefix(route.DestinationCIDR)
	if err != nil {
		return err
	}
	gateway, err := netip.ParseAddr(route.Name)
	if err != nil {
		return fmt.Errorf("route %q was not listed by us: %w", route.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.remove(ctx, hcloud.NetworkRoute{Destination: ipNet(destination), Gateway: gateway.AsSlice()})
}

// ours tells whether all of a route's destination belongs to the cluster.
func (r *Routes) ours(route hcloud.NetworkRoute) bool {
	destination, err := netip.ParsePrefix(route.Destination.String())
	if err != nil {
		return false
	}
	for _, cidr := range r.clusterCIDRs {
		if cidr.Contains(destination.Addr()) && cidr.Bits() <= destination.Bits() {
			return true
		}
	}
	return false
}

func (r *Routes) currentNetwork(ctx context.Context) (*hcloud.Network, error) {
	network, _, err := r.client.Network.GetByID(ctx, r.network.ID)
	if err != nil {
		return nil, fmt.Errorf("look up network %d: %w", r.network.ID, err)
	}
	if network == nil {
		return nil, fmt.Errorf("network %d has vanished", r.network.ID)
	}
	return network, nil
}

// nodesByGateway returns the names of the Nodes whose servers are in the
// network, by the servers' IPs there.
func (r *Routes) nodesByGateway(ctx context.Context) (map[string]types.NodeName, error) {
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	servers, err := r.client.Server.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	byID := map[int64]*hcloud.Server{}
	for _, server := range servers {
		byID[server.ID] = server
	}

	byGateway := map[string]types.NodeName{}
	for _, node := range nodes {
		id, err := parseProviderID(node.Spec.ProviderID)
		if err != nil {
			continue // not initialized, or of another cloud
		}
		server := byID[id]
		if server == nil {
			// What a list does not have may exist nevertheless, and its route would
			// be deleted. Only the server itself can be known to be gone.
			if server, _, err = r.client.Server.GetByID(ctx, id); err != nil {
				return nil, fmt.Errorf("look up server by ID %d: %w", id, err)
			}
		}
		if server == nil {
			continue
		}
		if ip := privateIP(server, r.network); ip != nil {
			byGateway[ip.String()] = types.NodeName(node.Name)
		}
	}
	return byGateway, nil
}

// gateway returns the IP that a Node's server has in the network. ours is false
// for a Node of another cloud.
func (r *Routes) gateway(ctx context.Context, name types.NodeName) (gateway net.IP, ours bool, err error) {
	node, err := r.nodes.Get(string(name))
	if err != nil {
		return nil, false, err
	}
	if node.Spec.ProviderID == "" {
		return nil, false, fmt.Errorf("node %s is not initialized yet", name)
	}
	id, err := parseProviderID(node.Spec.ProviderID)
	if err != nil {
		return nil, false, nil
	}
	server, _, err := r.client.Server.GetByID(ctx, id)
	if err != nil {
		return nil, false, fmt.Errorf("look up server by ID %d: %w", id, err)
	}
	if server == nil {
		return nil, false, fmt.Errorf("server with ID %d: %w", id, cloudprovider.InstanceNotFound)
	}
	if gateway = privateIP(server, r.network); gateway == nil {
		return nil, false, fmt.Errorf("server %d is not attached to network %d", id, r.network.ID)
	}
	return gateway, true, nil
}

func (r *Routes) add(ctx context.Context, route hcloud.NetworkRoute) error {
	err := r.change(ctx, func(ctx context.Context) (*hcloud.Action, *hcloud.Response, error) {
		return r.client.Network.AddRoute(ctx, r.network, hcloud.NetworkAddRouteOpts{Route: route})
	})
	if err != nil {
		return fmt.Errorf("add route to %s via %s: %w", route.Destination, route.Gateway, err)
	}
	klog.FromContext(ctx).Info("Added route", "destination", route.Destination, "gateway", route.Gateway)
	return nil
}

func (r *Routes) remove(ctx context.Context, route hcloud.NetworkRoute) error {
	err := r.change(ctx, func(ctx context.Context) (*hcloud.Action, *hcloud.Response, error) {
		return r.client.Network.DeleteRoute(ctx, r.network, hcloud.NetworkDeleteRouteOpts{Route: route})
	})
	if hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete route to %s via %s: %w", route.Destination, route.Gateway, err)
	}
	klog.FromContext(ctx).Info("Deleted route", "destination", route.Destination, "gateway", route.Gateway)
	return nil
}

// change sends a request that changes the network and waits for its action.
// While somebody else's change runs, it tries again.
func (r *Routes) change(ctx context.Context, request func(context.Context) (*hcloud.Action, *hcloud.Response, error)) error {
	ctx, cancel := context.WithTimeout(ctx, routeTimeout)
	defer cancel()

	var busy error
	err := wait.ExponentialBackoffWithContext(ctx, routeBackoff, func(ctx context.Context) (done bool, err error) {
		action, _, err := request(ctx)
		if hcloud.IsError(err, hcloud.ErrorCodeLocked, hcloud.ErrorCodeConflict) {
			busy = err
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, r.client.Action.WaitFor(ctx, action)
	})
	if wait.Interrupted(err) && busy != nil {
		return busy // says more than that the time is over
	}
	return err
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	prefix = prefix.Masked()
	return &net.IPNet{
		IP:   prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}
}
