package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/metrics"
	"example.com/ccm-from-scratch/final/nodes"
	"example.com/ccm-from-scratch/final/providerid"
	"example.com/ccm-from-scratch/final/routes"
	"example.com/ccm-from-scratch/final/servers"
)

// Routes keeps a route in the network for the pod CIDR of each Node.
type Routes struct {
	table        *routes.Table
	servers      *servers.Servers
	network      *hcloud.Network
	clusterCIDRs []netip.Prefix
	nodes        corelisters.NodeLister
	nodesSynced  func() bool
	events       *events.Recorder
	metrics      *metrics.Metrics

	mu       sync.Mutex
	gateways map[netip.Addr]int64 // servers by their IPs in the network
	ours     map[int64]bool       // those of them that are, or have been, Nodes of this cluster
}

var _ cloudprovider.Routes = &Routes{}

// parseCIDRs reads --cluster-cidr: one CIDR, or two with a comma between them.
func parseCIDRs(clusterCIDR string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for cidr := range strings.SplitSeq(clusterCIDR, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(cidr))
		if err != nil {
			return nil, fmt.Errorf("--cluster-cidr: %w", err)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// ListRoutes is called for each pass of the route controller. The controller
// deletes each listed route that no Node's pod CIDR asks for, and calls
// CreateRoute for each pod CIDR without a route. On an error it does nothing.
//
// Two kinds of routes are somebody else's, and are not listed: those outside of
// the cluster's CIDRs, and those to a server that is none of this cluster's Nodes
// and has not been one. Names do not count: server and Node may have different ones.
func (r *Routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	r.metrics.Operation("ListRoutes")
	ctx = metrics.Routing.In(ctx)
	if !r.nodesSynced() {
		return nil, errors.New("the list of Nodes is not complete yet")
	}
	all, err := r.table.List(ctx)
	if err != nil {
		return nil, err
	}
	owners, err := r.owners(ctx, r.servers.Calm())
	if err != nil {
		return nil, err
	}
	if r.anyDeadEnd(all) { // or the answer is too old
		if owners, err = r.owners(ctx, servers.JustNow); err != nil {
			return nil, err
		}
	}

	var listed []*cloudprovider.Route
	for _, route := range all {
		node, known := owners[route.Gateway]
		if !r.inCluster(route.Destination) || !known && r.foreign(route.Gateway) {
			continue
		}
		listed = append(listed, &cloudprovider.Route{
			Name:            route.Gateway.String(), // all that DeleteRoute needs beside the destination
			DestinationCIDR: route.Destination.String(),
			TargetNode:      node,
			Blackhole:       !known,
		})
	}
	return listed, nil
}

// CreateRoute is called for each pod CIDR that has no route to its Node. On an
// error the controller records an event and marks the Node's network as
// unavailable, until a later pass succeeds.
//
// A Node of another cloud, and a pod CIDR of IPv6, get no route here: networks
// route IPv4 between servers only. That is no error: it would take the Node out
// of service although whoever is responsible may have done all that is needed.
func (r *Routes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) (err error) {
	r.metrics.Operation("CreateRoute")
	ctx = metrics.Routing.In(ctx)
	defer func() { r.metrics.Outcome("CreateRoute", err) }()
	destination, err := netip.ParsePrefix(route.DestinationCIDR)
	if err != nil {
		return err
	}
	if destination.Addr().Is6() {
		return nil
	}
	node, err := r.nodes.Get(string(route.TargetNode))
	if err != nil {
		return err
	}
	gateway, ours, err := r.gateway(ctx, node)
	if err != nil || !ours {
		return err
	}
	wanted := routes.Route{Destination: destination.Masked(), Gateway: gateway}
	if !r.inCluster(wanted.Destination) {
		r.events.Warn(node, events.ClusterCIDRMisconfigured, "pod CIDR %s is not within --cluster-cidr: its route will never be removed", wanted.Destination)
	}

	present, err := r.table.Add(ctx, wanted)
	if err != nil || present == wanted.Gateway {
		return err
	}
	// It leads to a server that had this pod CIDR before, or to another cluster's.
	there := routes.Route{Destination: wanted.Destination, Gateway: present}
	leftover, err := r.leftover(ctx, there)
	if err != nil {
		return err
	}
	if !leftover {
		r.events.Warn(node, events.RouteConflict, "pod CIDR %s is routed to %s, a server that is none of this cluster's Nodes: two clusters must not share a range", wanted.Destination, present)
		return fmt.Errorf("%s is routed to %s, a server that is none of this cluster's", wanted.Destination, present)
	}
	return r.table.Replace(ctx, there, wanted)
}

// DeleteRoute is called for routes that ListRoutes has returned. A route that is
// gone already, or leads elsewhere by now, is what the controller wants.
func (r *Routes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) (err error) {
	r.metrics.Operation("DeleteRoute")
	defer func() { r.metrics.Outcome("DeleteRoute", err) }()
	destination, err := netip.ParsePrefix(route.DestinationCIDR)
	if err != nil {
		return err
	}
	gateway, err := netip.ParseAddr(route.Name)
	if err != nil {
		return fmt.Errorf("route %q was not listed by us: %w", route.Name, err)
	}
	return r.table.Remove(ctx, routes.Route{Destination: destination, Gateway: gateway})
}

// inCluster tells whether all of a range belongs to the cluster.
func (r *Routes) inCluster(destination netip.Prefix) bool {
	for _, cidr := range r.clusterCIDRs {
		if cidr.Contains(destination.Addr()) && cidr.Bits() <= destination.Bits() {
			return true
		}
	}
	return false
}

// anyDeadEnd tells whether a route of the cluster leads to an IP that no server has.
func (r *Routes) anyDeadEnd(all []routes.Route) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, route := range all {
		if _, exists := r.gateways[route.Gateway]; !exists && r.inCluster(route.Destination) {
			return true
		}
	}
	return false
}

// exists tells whether a gateway was the IP of a server when last heard of.
func (r *Routes) exists(gateway netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, exists := r.gateways[gateway]
	return exists
}

// foreign tells whether a gateway is a server that has never been a Node of this
// cluster. An IP that no server has is a dead end, and belongs to nobody.
func (r *Routes) foreign(gateway netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, exists := r.gateways[gateway]
	return exists && !r.ours[id]
}

// leftover tells whether a route of the cluster serves nobody any more: it leads
// to no server, or to one that is, or has been, one of our Nodes, by provider ID
// or, with more doubt, by name.
func (r *Routes) leftover(ctx context.Context, route routes.Route) (bool, error) {
	switch {
	case r.foreign(route.Gateway):
		if named, err := r.leftByName(route); err != nil || !named {
			return false, err
		}
	case r.exists(route.Gateway):
		return true, nil
	}
	// The server may have another name by now, or be too new to be known.
	if _, err := r.owners(ctx, servers.JustNow); err != nil {
		return false, err
	}
	if !r.foreign(route.Gateway) {
		return true, nil
	}
	return r.leftByName(route)
}

// leftByName tells whether a route leads to the server with the name of a Node
// without provider ID that does not have this pod CIDR, so it had it before it
// registered again. ListRoutes leaves such a route until somebody needs the range.
func (r *Routes) leftByName(route routes.Route) (bool, error) {
	all, err := r.nodes.List(labels.Everything())
	return slices.ContainsFunc(all, func(node *corev1.Node) bool {
		if node.Spec.ProviderID != "" || nodes.Uninitialized(node) || slices.Contains(node.Spec.PodCIDRs, route.Destination.String()) {
			return false
		}
		server := r.servers.Named(node.Name)
		return server != nil && slices.Contains(nodes.PrivateIPs(server, r.network), route.Gateway)
	}), err
}

// owners returns the names of the Nodes whose servers are in the network, by the
// servers' IPs there. It notes all servers in the network for foreign.
func (r *Routes) owners(ctx context.Context, age time.Duration) (map[netip.Addr]types.NodeName, error) {
	all, err := r.nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	list, err := r.servers.List(ctx, age)
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	owners, gateways, current := map[netip.Addr]types.NodeName{}, map[netip.Addr]int64{}, map[int64]bool{}
	for _, server := range list {
		for _, ip := range nodes.PrivateIPs(server, r.network) {
			gateways[ip] = server.ID
		}
	}
	for _, node := range all {
		id, err := providerid.Parse(node.Spec.ProviderID)
		if err != nil {
			continue // not initialized, or of another cloud
		}
		server, err := r.servers.ByID(ctx, id, age)
		if errors.Is(err, servers.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up server by ID %d: %w", id, err)
		}
		for _, ip := range nodes.PrivateIPs(server, r.network) {
			owners[ip], gateways[ip], current[id] = types.NodeName(node.Name), id, true
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range gateways {
		current[id] = current[id] || r.ours[id]
	}
	r.gateways, r.ours = gateways, current
	return owners, nil
}

// gateway returns the IP that a Node's server has in the network. ours is false
// for a Node of another cloud.
func (r *Routes) gateway(ctx context.Context, node *corev1.Node) (gateway netip.Addr, ours bool, err error) {
	server, err := r.server(ctx, node)
	if err != nil || server == nil {
		return gateway, false, err
	}
	if gateway = nodes.PrivateIP(server, r.network); !gateway.IsValid() {
		return gateway, false, fmt.Errorf("server %d is not attached to network %d", server.ID, r.network.ID)
	}
	return gateway, true, nil
}

// server returns the server behind a Node, nil if it is of another cloud.
func (r *Routes) server(ctx context.Context, node *corev1.Node) (*hcloud.Server, error) {
	if node.Spec.ProviderID == "" {
		return r.named(ctx, node)
	}
	id, err := providerid.Parse(node.Spec.ProviderID)
	if err != nil {
		return nil, nil //nolint:nilerr // no server of this cloud
	}
	// The controller asks in each pass for a route that cannot be made.
	server, err := r.servers.ByID(ctx, id, r.servers.Calm())
	if errors.Is(err, servers.ErrNotFound) {
		return nil, fmt.Errorf("server with ID %d: %w", id, cloudprovider.InstanceNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("look up server by ID %d: %w", id, err)
	}
	return server, nil
}

// named returns the server with the name of a Node whose kubelet was never told
// of a cloud. A name proves little: such a server's routes are made, and never
// listed, so that none is deleted that another cluster may have made. One that the
// Node has left behind is replaced when another Node has its range.
func (r *Routes) named(ctx context.Context, node *corev1.Node) (*hcloud.Server, error) {
	if nodes.Uninitialized(node) {
		return nil, fmt.Errorf("node %s is not initialized yet", node.Name)
	}
	server := r.servers.Named(node.Name)
	if server != nil || time.Since(node.CreationTimestamp.Time) > r.servers.Calm() {
		return server, nil // the list that ListRoutes has read is newer than the Node
	}
	server, err := r.servers.ByName(ctx, node.Name)
	if errors.Is(err, servers.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up server by name %q: %w", node.Name, err)
	}
	return server, nil
}
