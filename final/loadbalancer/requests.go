package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

// createOpts is the request that makes a load balancer, complete. What the API
// does not take in it, an address in the network, leaves network and private
// targets to the steps that follow.
func (d *Desired) createOpts() hcloud.LoadBalancerCreateOpts {
	opts := hcloud.LoadBalancerCreateOpts{
		Name:             d.Name,
		Labels:           d.Labels,
		LoadBalancerType: &hcloud.LoadBalancerType{Name: d.Type},
		NetworkZone:      hcloud.NetworkZone(d.NetworkZone),
		Algorithm:        &hcloud.LoadBalancerAlgorithm{Type: d.Algorithm},
		PublicInterface:  &d.Public,
	}
	if d.Location != "" {
		opts.Location = &hcloud.Location{Name: d.Location}
	}
	if d.PublicIPv4 != 0 || d.PublicIPv6 != 0 {
		opts.PublicNet = &hcloud.LoadBalancerCreateOptsPublicNet{}
		if d.PublicIPv4 != 0 {
			opts.PublicNet.IPv4 = &hcloud.PrimaryIP{ID: d.PublicIPv4}
		}
		if d.PublicIPv6 != 0 {
			opts.PublicNet.IPv6 = &hcloud.PrimaryIP{ID: d.PublicIPv6}
		}
	}
	anywhere := !d.PrivateIP.IsValid() && !d.Subnet.IsValid()
	if d.Network != 0 && anywhere {
		opts.Network = &hcloud.Network{ID: d.Network}
	}
	for _, l := range d.Listeners {
		opts.Services = append(opts.Services, l.createOpts())
	}
	if !d.UsePrivateIP || anywhere {
		for _, t := range d.Targets {
			opts.Targets = append(opts.Targets, hcloud.LoadBalancerCreateOptsTarget{
				Type:         hcloud.LoadBalancerTargetTypeServer,
				Server:       hcloud.LoadBalancerCreateOptsTargetServer{Server: &hcloud.Server{ID: t.Server}},
				UsePrivateIP: &d.UsePrivateIP,
			})
		}
	}
	return opts
}

func (l Listener) createOpts() hcloud.LoadBalancerCreateOptsService {
	opts := hcloud.LoadBalancerCreateOptsService{
		Protocol:        l.Protocol,
		ListenPort:      &l.Port,
		DestinationPort: &l.NodePort,
		Proxyprotocol:   &l.ProxyProtocol,
		HealthCheck: &hcloud.LoadBalancerCreateOptsServiceHealthCheck{
			Protocol: l.Health.Protocol, Port: &l.Health.Port, Interval: &l.Health.Interval, Timeout: &l.Health.Timeout, Retries: &l.Health.Retries,
		},
	}
	if h := l.HTTP; h != nil {
		opts.HTTP = &hcloud.LoadBalancerCreateOptsServiceHTTP{
			CookieName: &h.CookieName, CookieLifetime: &h.CookieLifetime, TimeoutIdle: &h.TimeoutIdle,
			StickySessions: &h.StickySessions, RedirectHTTP: &h.Redirect, Certificates: h.certificates(),
		}
	}
	if h := l.Health.HTTP; h != nil {
		opts.HealthCheck.HTTP = &hcloud.LoadBalancerCreateOptsServiceHealthCheckHTTP{Domain: &h.Domain, Path: &h.Path, StatusCodes: h.StatusCodes, TLS: &h.TLS}
	}
	return opts
}

func (h *HTTP) certificates() []*hcloud.Certificate {
	var all []*hcloud.Certificate
	for _, id := range h.Certificates {
		all = append(all, &hcloud.Certificate{ID: id})
	}
	return all
}

// addOpts and updateOpts say the same as createOpts, in other types of the client's.
func (l Listener) addOpts() hcloud.LoadBalancerAddServiceOpts {
	c := l.createOpts()
	opts := hcloud.LoadBalancerAddServiceOpts{
		Protocol: c.Protocol, ListenPort: c.ListenPort, DestinationPort: c.DestinationPort, Proxyprotocol: c.Proxyprotocol,
		HealthCheck: &hcloud.LoadBalancerAddServiceOptsHealthCheck{
			Protocol: c.HealthCheck.Protocol, Port: c.HealthCheck.Port, Interval: c.HealthCheck.Interval, Timeout: c.HealthCheck.Timeout, Retries: c.HealthCheck.Retries,
			HTTP: (*hcloud.LoadBalancerAddServiceOptsHealthCheckHTTP)(c.HealthCheck.HTTP),
		},
		HTTP: (*hcloud.LoadBalancerAddServiceOptsHTTP)(c.HTTP),
	}
	return opts
}

func (l Listener) updateOpts() hcloud.LoadBalancerUpdateServiceOpts {
	c := l.createOpts()
	return hcloud.LoadBalancerUpdateServiceOpts{
		Protocol: c.Protocol, DestinationPort: c.DestinationPort, Proxyprotocol: c.Proxyprotocol,
		HealthCheck: &hcloud.LoadBalancerUpdateServiceOptsHealthCheck{
			Protocol: c.HealthCheck.Protocol, Port: c.HealthCheck.Port, Interval: c.HealthCheck.Interval, Timeout: c.HealthCheck.Timeout, Retries: c.HealthCheck.Retries,
			HTTP: (*hcloud.LoadBalancerUpdateServiceOptsHealthCheckHTTP)(c.HealthCheck.HTTP),
		},
		HTTP: (*hcloud.LoadBalancerUpdateServiceOptsHTTP)(c.HTTP),
	}
}

// actionTimeout bounds the wait for one action. The controller sets no deadline:
// without one, an action that never ends would hold up a worker for ever.
const actionTimeout = 30 * time.Second

// await waits for the action that a request has returned, unless the request has
// failed.
func await(ctx context.Context, client *hcloud.Client, action *hcloud.Action, err error) error {
	if err != nil || action == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	if err := client.Action.WaitFor(ctx, action); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("action %d still runs after %s: %w", action.ID, actionTimeout, err)
		}
		return err
	}
	return nil
}

// do sends the request of a step and waits for its end. What is as it should be
// already is no error.
func (s Step) do(ctx context.Context, client *hcloud.Client, lb *hcloud.LoadBalancer) error {
	if s.Kind == MoveTarget {
		return s.move(ctx, client, lb)
	}
	action, err := s.send(ctx, &client.LoadBalancer, lb)
	err = await(ctx, client, action, err)
	if s.done(err) {
		return nil
	}
	return err
}

// done tells whether an error says that there was nothing to do.
func (s Step) done(err error) bool {
	switch s.Kind {
	case RemoveTarget: // invalid_input: the server itself is gone
		return hcloud.IsError(err, hcloud.ErrorCodeNotFound, hcloud.ErrorCodeInvalidInput, "load_balancer_target_not_found")
	case AddTarget:
		return hcloud.IsError(err, hcloud.ErrorCodeTargetAlreadyDefined)
	case DeleteListener:
		return hcloud.IsError(err, hcloud.ErrorCodeNotFound)
	}
	return false
}

// move takes a target off one side and puts it on the other. If that does not
// want it, it goes back to where it was.
func (s Step) move(ctx context.Context, client *hcloud.Client, lb *hcloud.LoadBalancer) error {
	remove, add := s, s
	remove.Kind, add.Kind = RemoveTarget, AddTarget
	if err := remove.do(ctx, client, lb); err != nil {
		return err
	}
	err := add.do(ctx, client, lb)
	if err != nil {
		add.Private = !s.Private
		err = joinErrors(err, add.do(ctx, client, lb))
	}
	return err
}

func (s Step) send(ctx context.Context, client *hcloud.LoadBalancerClient, lb *hcloud.LoadBalancer) (action *hcloud.Action, err error) {
	switch s.Kind {
	case SetLabels:
		_, _, err = client.Update(ctx, lb, hcloud.LoadBalancerUpdateOpts{Name: s.Name, Labels: s.Labels})
	case ChangeType:
		action, _, err = client.ChangeType(ctx, lb, hcloud.LoadBalancerChangeTypeOpts{LoadBalancerType: &hcloud.LoadBalancerType{Name: s.Type}})
	case ChangeAlgorithm:
		action, _, err = client.ChangeAlgorithm(ctx, lb, hcloud.LoadBalancerChangeAlgorithmOpts{Type: s.Algorithm})
	case Detach:
		action, _, err = client.DetachFromNetwork(ctx, lb, hcloud.LoadBalancerDetachFromNetworkOpts{Network: &hcloud.Network{ID: s.Network}})
	case Attach:
		opts := hcloud.LoadBalancerAttachToNetworkOpts{Network: &hcloud.Network{ID: s.Network}}
		if s.IP.IsValid() {
			opts.IP = s.IP.AsSlice()
		}
		if s.Subnet.IsValid() {
			opts.IPRange = ipNet(s.Subnet)
		}
		action, _, err = client.AttachToNetwork(ctx, lb, opts)
	case EnablePublic:
		action, _, err = client.EnablePublicInterface(ctx, lb)
	case DisablePublic:
		action, _, err = client.DisablePublicInterface(ctx, lb)
	case SetRDNS:
		ip := lb.PublicNet.IPv4.IP
		if s.Family == "ipv6" {
			ip = lb.PublicNet.IPv6.IP
		}
		var ptr *string
		if s.RDNS != "" {
			ptr = &s.RDNS
		}
		action, _, err = client.ChangeDNSPtr(ctx, lb, ip.String(), ptr)
	case AddTarget:
		action, _, err = client.AddServerTarget(ctx, lb, hcloud.LoadBalancerAddServerTargetOpts{Server: &hcloud.Server{ID: s.Target.Server}, UsePrivateIP: &s.Private})
	case RemoveTarget:
		action, _, err = client.RemoveServerTarget(ctx, lb, &hcloud.Server{ID: s.Target.Server})
	case AddListener:
		action, _, err = client.AddService(ctx, lb, s.Listener.addOpts())
	case UpdateListener:
		action, _, err = client.UpdateService(ctx, lb, s.Listener.Port, s.Listener.updateOpts())
	case DeleteListener:
		action, _, err = client.DeleteService(ctx, lb, s.Listener.Port)
	default:
		err = fmt.Errorf("no request for step %q", s.Kind)
	}
	return action, err
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// explain adds to an error of the API what it says about fields, and what to do.
func explain(err error) error {
	var apiErr hcloud.Error
	if !errors.As(err, &apiErr) {
		return err
	}
	if details, ok := apiErr.Details.(hcloud.ErrorDetailsInvalidInput); ok {
		var fields []string
		for _, f := range details.Fields {
			fields = append(fields, fmt.Sprintf("%s (%s)", f.Name, strings.Join(f.Messages, ", ")))
		}
		if len(fields) > 0 {
			return fmt.Errorf("%w: %s", err, strings.Join(fields, ", "))
		}
	}
	if remedy := remedies[apiErr.Code]; remedy != "" {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}

// remedies are for error codes that a user can do something about.
var remedies = map[hcloud.ErrorCode]string{
	"resolve_cloud_public_targets_error":      "the server has no public IPv4 address, so set annotation " + Prefix + "use-private-ip to true",
	"resolve_cloud_private_targets_error":     "the server is not in the network of HCLOUD_NETWORK, so attach it",
	hcloud.ErrorCodeUniquenessError:           "choose another name with annotation " + Prefix + "name",
	"invalid_load_balancer_type":              "choose a type with room for all ports and targets",
	"ip_not_available":                        "choose another address with annotation " + Prefix + "private-ipv4",
	"no_subnet_available":                     "the network has no such subnet: see annotation " + Prefix + "private-subnet-ip-range",
	hcloud.ErrorCodeSourcePortAlreadyUsed:     "another listener has the port",
	"targets_without_use_private_ip":          "somebody else has added targets with their public IP",
	"load_balancer_public_interface_disabled": "set annotation " + Prefix + "use-private-ip to true",
}
