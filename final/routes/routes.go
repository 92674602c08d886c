// Package routes reads and changes the routes of one network.
//
// The API does one change of a network at a time and refuses all others, while
// the route controller asks for up to 200 at once.
package routes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// timeout bounds one change, with all its retries, from its turn on.
const timeout = time.Minute

// backoff spaces the tries while another change of the network runs.
var backoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Cap: 10 * time.Second, Steps: 100}

// ErrFull says that a network has as many routes as it may have.
var ErrFull = errors.New("the network has no room for another route")

// Route leads packets for a range to the server with an IP.
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

// String describes a route for logs and errors.
func (r Route) String() string { return fmt.Sprintf("route to %s via %s", r.Destination, r.Gateway) }

// Table is the routes of a network. It is safe for concurrent use.
type Table struct {
	client  *hcloud.Client
	network *hcloud.Network

	// turn holds a value while somebody reads or changes the network and the
	// fields below.
	turn chan struct{}
	seen map[netip.Prefix]netip.Addr // the routes when last heard of
	room int                         // number of routes at which another one was refused; 0 if none was
}

// NewTable returns the routes of a network.
func NewTable(client *hcloud.Client, network *hcloud.Network) *Table {
	return &Table{client: client, network: network, turn: make(chan struct{}, 1)}
}

// List reads all routes.
func (t *Table) List(ctx context.Context) ([]Route, error) {
	release, err := t.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return t.read(ctx)
}

// Add makes a route to a destination, unless there is one. Then it returns the
// gateway of that one, which may be another, and changes nothing. The error wraps
// ErrFull if the network has no room.
func (t *Table) Add(ctx context.Context, wanted Route) (present netip.Addr, err error) {
	release, err := t.take(ctx)
	if err != nil {
		return netip.Addr{}, err
	}
	defer release()
	if gateway, ok := t.seen[wanted.Destination]; ok {
		return gateway, nil
	}
	if t.room > 0 && len(t.seen) >= t.room {
		return netip.Addr{}, fmt.Errorf("add %s: %w", wanted, ErrFull)
	}
	err = t.add(ctx, wanted)
	if !hcloud.IsError(err, hcloud.ErrorCodeInvalidInput) {
		return wanted.Gateway, err
	}
	// Somebody else may have been faster. The API does not say what is wrong.
	if _, readErr := t.read(ctx); readErr != nil {
		return netip.Addr{}, readErr
	}
	if gateway, ok := t.seen[wanted.Destination]; ok {
		return gateway, nil
	}
	return netip.Addr{}, err
}

// Replace removes a route and makes another one to the same destination.
func (t *Table) Replace(ctx context.Context, old, wanted Route) error {
	release, err := t.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := t.remove(ctx, old); err != nil {
		return err
	}
	return t.add(ctx, wanted)
}

// Remove removes a route. One that is gone, or leads elsewhere, is no error.
func (t *Table) Remove(ctx context.Context, route Route) error {
	release, err := t.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	return t.remove(ctx, route)
}

// take waits for the turn of the caller, who must call release.
func (t *Table) take(ctx context.Context) (release func(), err error) {
	select {
	case t.turn <- struct{}{}:
		return func() { <-t.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read, add and remove are called by who has the turn.

func (t *Table) read(ctx context.Context) ([]Route, error) {
	network, _, err := t.client.Network.GetByID(ctx, t.network.ID)
	if err != nil {
		return nil, fmt.Errorf("look up network %d: %w", t.network.ID, err)
	}
	if network == nil {
		return nil, fmt.Errorf("network %d has vanished", t.network.ID)
	}
	var routes []Route
	t.seen = map[netip.Prefix]netip.Addr{}
	for _, r := range network.Routes {
		destination, err := netip.ParsePrefix(r.Destination.String())
		gateway, ok := netip.AddrFromSlice(r.Gateway)
		if err != nil || !ok {
			return nil, fmt.Errorf("network %d has a route to %s via %s", t.network.ID, r.Destination, r.Gateway)
		}
		routes = append(routes, Route{destination, gateway.Unmap()})
		t.seen[destination] = gateway.Unmap()
	}
	return routes, nil
}

func (t *Table) add(ctx context.Context, route Route) error {
	err := t.change(ctx, func(ctx context.Context) (*hcloud.Action, *hcloud.Response, error) {
		return t.client.Network.AddRoute(ctx, t.network, hcloud.NetworkAddRouteOpts{Route: route.schema()})
	})
	if hcloud.IsError(err, hcloud.ErrorCodeResourceLimitExceeded) {
		t.room = len(t.seen)
		return fmt.Errorf("add %s: %w: %w", route, ErrFull, err)
	}
	if err != nil {
		return fmt.Errorf("add %s: %w", route, err)
	}
	t.room = 0
	if t.seen != nil {
		t.seen[route.Destination] = route.Gateway
	}
	klog.FromContext(ctx).Info("Added route", "destination", route.Destination, "gateway", route.Gateway)
	return nil
}

func (t *Table) remove(ctx context.Context, route Route) error {
	if gateway, ok := t.seen[route.Destination]; t.seen != nil && (!ok || gateway != route.Gateway) {
		return nil
	}
	err := t.change(ctx, func(ctx context.Context) (*hcloud.Action, *hcloud.Response, error) {
		return t.client.Network.DeleteRoute(ctx, t.network, hcloud.NetworkDeleteRouteOpts{Route: route.schema()})
	})
	if err != nil && !hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
		return fmt.Errorf("delete %s: %w", route, err)
	}
	if t.seen[route.Destination] == route.Gateway {
		delete(t.seen, route.Destination)
	}
	if err == nil {
		klog.FromContext(ctx).Info("Deleted route", "destination", route.Destination, "gateway", route.Gateway)
	}
	return nil
}

// change sends a request that changes the network and waits for its action.
// While somebody else's change runs, it tries again.
func (t *Table) change(ctx context.Context, request func(context.Context) (*hcloud.Action, *hcloud.Response, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	var busy error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (done bool, err error) {
		action, _, err := request(ctx)
		if hcloud.IsError(err, hcloud.ErrorCodeLocked, hcloud.ErrorCodeConflict) {
			busy = err
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, t.client.Action.WaitFor(ctx, action)
	})
	if wait.Interrupted(err) && busy != nil {
		return busy // says more than that the time is over
	}
	return err
}

func (r Route) schema() hcloud.NetworkRoute {
	destination := r.Destination.Masked()
	return hcloud.NetworkRoute{
		Destination: &net.IPNet{
			IP:   destination.Addr().AsSlice(),
			Mask: net.CIDRMask(destination.Bits(), destination.Addr().BitLen()),
		},
		Gateway: r.Gateway.AsSlice(),
	}
}
