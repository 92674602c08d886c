package ccm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

// How a load balancer finds out whether a target works: the values that the API
// would choose.
const (
	healthCheckInterval = 15 * time.Second
	healthCheckTimeout  = 10 * time.Second
	healthCheckRetries  = 3
)

// stepKind is one kind of request that changes a load balancer.
type stepKind string

const (
	changeType     stepKind = "change type"
	attachNetwork  stepKind = "attach to network"
	removeTarget   stepKind = "remove target"
	addTarget      stepKind = "add target"
	deleteListener stepKind = "delete listener"
	updateListener stepKind = "update listener"
	addListener    stepKind = "add listener"
)

// step is one request that changes a load balancer. Which fields it uses depends
// on its kind.
type step struct {
	Kind         stepKind
	Type         string
	Network      int64
	Server       int64
	UsePrivateIP bool
	Listener     listener
}

// String describes a step for logs and errors.
func (s step) String() string {
	switch s.Kind {
	case changeType:
		return fmt.Sprintf("%s to %s", s.Kind, s.Type)
	case attachNetwork:
		return fmt.Sprintf("%s %d", s.Kind, s.Network)
	case removeTarget, addTarget:
		return fmt.Sprintf("%s server %d", s.Kind, s.Server)
	default:
		return fmt.Sprintf("%s %d", s.Kind, s.Listener.Port)
	}
}

// compare returns the steps that make an actual load balancer a wanted one, none
// if it is that already. Targets that are not servers are not ours to change.
func compare(wanted *wantedLoadBalancer, actual *hcloud.LoadBalancer) []step {
	var steps []step

	if actual.LoadBalancerType.Name != wanted.Type {
		steps = append(steps, step{Kind: changeType, Type: wanted.Type})
	}
	if wanted.Network != nil && !slices.ContainsFunc(actual.PrivateNet, func(n hcloud.LoadBalancerPrivateNet) bool { return n.Network.ID == wanted.Network.ID }) {
		steps = append(steps, step{Kind: attachNetwork, Network: wanted.Network.ID})
	}

	// New targets come before old ones go. A target that changes sides has to go
	// first: a server can be a target only once.
	present := map[int64]bool{}
	var obsolete []step
	for _, target := range actual.Targets {
		if target.Type != hcloud.LoadBalancerTargetTypeServer {
			continue
		}
		id := target.Server.Server.ID
		remove := step{Kind: removeTarget, Server: id}
		switch {
		case !slices.Contains(wanted.Targets, id):
			obsolete = append(obsolete, remove)
		case target.UsePrivateIP != wanted.UsePrivateIP:
			steps = append(steps, remove, step{Kind: addTarget, Server: id, UsePrivateIP: wanted.UsePrivateIP})
			present[id] = true
		default:
			present[id] = true
		}
	}
	for _, id := range wanted.Targets {
		if !present[id] {
			steps = append(steps, step{Kind: addTarget, Server: id, UsePrivateIP: wanted.UsePrivateIP})
		}
	}
	steps = append(steps, obsolete...)

	// Old listeners go before new ones come: a type has room for a few only.
	var updates, additions []step
	for _, l := range wanted.Listeners {
		i := slices.IndexFunc(actual.Services, func(s hcloud.LoadBalancerService) bool { return s.ListenPort == l.Port })
		switch {
		case i < 0:
			additions = append(additions, step{Kind: addListener, Listener: l})
		case !serves(actual.Services[i], l):
			updates = append(updates, step{Kind: updateListener, Listener: l})
		}
	}
	for _, service := range actual.Services {
		if !slices.ContainsFunc(wanted.Listeners, func(l listener) bool { return l.Port == service.ListenPort }) {
			steps = append(steps, step{Kind: deleteListener, Listener: listener{Port: service.ListenPort}})
		}
	}
	return append(append(steps, updates...), additions...)
}

// serves tells whether a service of a load balancer is what a listener asks for.
func serves(service hcloud.LoadBalancerService, l listener) bool {
	return service.Protocol == hcloud.LoadBalancerServiceProtocolTCP &&
		service.DestinationPort == l.NodePort &&
		!service.Proxyprotocol &&
		service.HealthCheck.Protocol == hcloud.LoadBalancerServiceProtocolTCP &&
		service.HealthCheck.Port == l.NodePort
}

// apply sends the request of a step. The action that it returns may not have
// ended yet, and must have before the next step.
func (s step) apply(ctx context.Context, client hcloud.LoadBalancerClient, lb *hcloud.LoadBalancer) (action *hcloud.Action, err error) {
	switch s.Kind {
	case changeType:
		action, _, err = client.ChangeType(ctx, lb, hcloud.LoadBalancerChangeTypeOpts{
			LoadBalancerType: &hcloud.LoadBalancerType{Name: s.Type},
		})
	case attachNetwork:
		action, _, err = client.AttachToNetwork(ctx, lb, hcloud.LoadBalancerAttachToNetworkOpts{
			Network: &hcloud.Network{ID: s.Network},
		})
	case removeTarget:
		action, _, err = client.RemoveServerTarget(ctx, lb, &hcloud.Server{ID: s.Server})
	case addTarget:
		action, _, err = client.AddServerTarget(ctx, lb, hcloud.LoadBalancerAddServerTargetOpts{
			Server:       &hcloud.Server{ID: s.Server},
			UsePrivateIP: &s.UsePrivateIP,
		})
	case deleteListener:
		action, _, err = client.DeleteService(ctx, lb, s.Listener.Port)
	case updateListener:
		action, _, err = client.UpdateService(ctx, lb, s.Listener.Port, hcloud.LoadBalancerUpdateServiceOpts{
			Protocol:        hcloud.LoadBalancerServiceProtocolTCP,
			DestinationPort: &s.Listener.NodePort,
			Proxyprotocol:   hcloud.Ptr(false),
			HealthCheck: &hcloud.LoadBalancerUpdateServiceOptsHealthCheck{
				Protocol: hcloud.LoadBalancerServiceProtocolTCP,
				Port:     &s.Listener.NodePort,
				Interval: hcloud.Ptr(healthCheckInterval),
				Timeout:  hcloud.Ptr(healthCheckTimeout),
				Retries:  hcloud.Ptr(healthCheckRetries),
			},
		})
	case addListener:
		action, _, err = client.AddService(ctx, lb, hcloud.LoadBalancerAddServiceOpts{
			Protocol:        hcloud.LoadBalancerServiceProtocolTCP,
			ListenPort:      &s.Listener.Port,
			DestinationPort: &s.Listener.NodePort,
			HealthCheck: &hcloud.LoadBalancerAddServiceOptsHealthCheck{
				Protocol: hcloud.LoadBalancerServiceProtocolTCP,
				Port:     &s.Listener.NodePort,
				Interval: hcloud.Ptr(healthCheckInterval),
				Timeout:  hcloud.Ptr(healthCheckTimeout),
				Retries:  hcloud.Ptr(healthCheckRetries),
			},
		})
	}
	return action, err
}
