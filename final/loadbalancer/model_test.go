package loadbalancer

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

// model is a load balancer as the API would keep it. It refuses what the API
// refuses, and knows what was never ours.
type model struct {
	t  *testing.T
	lb *hcloud.LoadBalancer
}

// types have less room than the real ones, so that it runs out.
var types3 = map[string]*hcloud.LoadBalancerType{
	"small": {Name: "small", MaxServices: 3, MaxTargets: 4},
	"large": {Name: "large", MaxServices: 6, MaxTargets: 9},
}

// create does what the API does with createOpts.
func create(t *testing.T, d *Desired) *model {
	opts := d.createOpts()
	m := &model{t, &hcloud.LoadBalancer{
		ID: 1, Name: opts.Name, Labels: maps.Clone(opts.Labels),
		LoadBalancerType: types3[opts.LoadBalancerType.Name],
		Algorithm:        *opts.Algorithm,
		PublicNet: hcloud.LoadBalancerPublicNet{
			Enabled: *opts.PublicInterface,
			IPv4:    hcloud.LoadBalancerPublicNetIPv4{IP: net.ParseIP("203.0.113.1"), DNSPtr: "default"},
			IPv6:    hcloud.LoadBalancerPublicNetIPv6{IP: net.ParseIP("2001:db8::1"), DNSPtr: "default"},
		},
	}}
	if opts.Network != nil {
		m.lb.PrivateNet = []hcloud.LoadBalancerPrivateNet{{Network: opts.Network, IP: net.ParseIP("10.0.0.9")}}
	}
	for _, l := range d.Listeners {
		m.apply(Step{Kind: AddListener, Listener: l})
	}
	for _, target := range opts.Targets {
		m.apply(Step{Kind: AddTarget, Target: Target{Server: target.Server.Server.ID}, Private: *target.UsePrivateIP})
	}
	return m
}

// apply is what the API does with a step.
func (m *model) apply(s Step) {
	m.t.Helper()
	lb := m.lb
	refuse := func(format string, args ...any) {
		m.t.Helper()
		m.t.Fatalf("%s: refused: %s", s, fmt.Sprintf(format, args...))
	}
	target := slices.IndexFunc(lb.Targets, func(t hcloud.LoadBalancerTarget) bool {
		return t.Type == hcloud.LoadBalancerTargetTypeServer && t.Server.Server.ID == s.Target.Server
	})
	service := slices.IndexFunc(lb.Services, func(l hcloud.LoadBalancerService) bool { return l.ListenPort == s.Listener.Port })
	switch s.Kind {
	case SetLabels:
		lb.Name, lb.Labels = s.Name, maps.Clone(s.Labels)
		for key, value := range s.Labels {
			if len(value) > maxLabelValue {
				refuse("label %s is too long", key)
			}
		}
	case ChangeType:
		typ := types3[s.Type]
		if len(lb.Services) > typ.MaxServices || len(lb.Targets) > typ.MaxTargets {
			refuse("type is too small")
		}
		lb.LoadBalancerType = typ
	case ChangeAlgorithm:
		lb.Algorithm.Type = s.Algorithm
	case Detach:
		lb.PrivateNet = nil
		lb.Targets = slices.DeleteFunc(lb.Targets, func(t hcloud.LoadBalancerTarget) bool { return t.UsePrivateIP })
	case Attach:
		if len(lb.PrivateNet) > 0 {
			refuse("already attached")
		}
		ip := net.ParseIP("10.0.0.9")
		if s.Subnet.IsValid() {
			ip = s.Subnet.Addr().Next().AsSlice()
		}
		if s.IP.IsValid() {
			ip = s.IP.AsSlice()
		}
		lb.PrivateNet = []hcloud.LoadBalancerPrivateNet{{Network: &hcloud.Network{ID: s.Network}, IP: ip}}
	case EnablePublic:
		lb.PublicNet.Enabled = true
	case DisablePublic:
		if slices.ContainsFunc(lb.Targets, func(t hcloud.LoadBalancerTarget) bool {
			return !t.UsePrivateIP && t.Type != hcloud.LoadBalancerTargetTypeIP
		}) {
			refuse("there are public targets")
		}
		lb.PublicNet.Enabled = false
	case SetRDNS:
		ptr := s.RDNS
		if ptr == "" {
			ptr = "default"
		}
		if s.Family == "ipv4" {
			lb.PublicNet.IPv4.DNSPtr = ptr
		} else {
			lb.PublicNet.IPv6.DNSPtr = ptr
		}
	case MoveTarget:
		remove := s
		remove.Kind, s.Kind = RemoveTarget, AddTarget
		m.apply(remove)
		m.apply(s)
	case RemoveTarget:
		if target < 0 {
			refuse("no such target")
		}
		m.mine(lb.Targets[target].HealthStatus)
		lb.Targets = slices.Delete(lb.Targets, target, target+1)
	case AddTarget:
		switch {
		case target >= 0:
			refuse("it is a target already")
		case len(lb.Targets) >= lb.LoadBalancerType.MaxTargets:
			refuse("no room")
		case s.Private && len(lb.PrivateNet) == 0:
			refuse("not attached")
		case !s.Private && !lb.PublicNet.Enabled:
			refuse("public interface is disabled")
		}
		lb.Targets = append(lb.Targets, hcloud.LoadBalancerTarget{
			Type: hcloud.LoadBalancerTargetTypeServer, UsePrivateIP: s.Private,
			Server: &hcloud.LoadBalancerTargetServer{Server: &hcloud.Server{ID: s.Target.Server}},
		})
	case AddListener, UpdateListener:
		switch {
		case s.Kind == AddListener && service >= 0:
			refuse("port is used")
		case s.Kind == AddListener && len(lb.Services) >= lb.LoadBalancerType.MaxServices:
			refuse("no room")
		case s.Kind == UpdateListener && service < 0:
			refuse("no such listener")
		}
		if s.Kind == UpdateListener {
			m.notForeign(s.Listener.Port)
			lb.Services = slices.Delete(lb.Services, service, service+1)
		}
		lb.Services = append(lb.Services, serviceOf(s.Listener))
		m.ports(refuse)
	case DeleteListener:
		if service < 0 {
			refuse("no such listener")
		}
		m.notForeign(s.Listener.Port)
		lb.Services = slices.Delete(lb.Services, service, service+1)
	}
}

// ports refuses two listeners on one port, that of a redirect included.
func (m *model) ports(refuse func(string, ...any)) {
	m.t.Helper()
	used := map[int]bool{}
	for _, l := range m.lb.Services {
		ports := []int{l.ListenPort}
		if l.HTTP.RedirectHTTP {
			ports = append(ports, 80)
		}
		for _, port := range ports {
			if used[port] {
				refuse("port %d is used", port)
			}
			used[port] = true
		}
	}
}

// Others have a listener on this port, and their targets have a health status
// with this port: steps must not touch either.
const foreignPort = 6443

func (m *model) notForeign(port int) {
	m.t.Helper()
	if port == foreignPort {
		m.t.Fatalf("port %d is not ours", port)
	}
}

func (m *model) mine(status []hcloud.LoadBalancerTargetHealthStatus) {
	m.t.Helper()
	for _, s := range status {
		m.notForeign(s.ListenPort)
	}
}

func serviceOf(l Listener) hcloud.LoadBalancerService {
	s := hcloud.LoadBalancerService{
		Protocol: l.Protocol, ListenPort: l.Port, DestinationPort: l.NodePort, Proxyprotocol: l.ProxyProtocol,
		HealthCheck: hcloud.LoadBalancerServiceHealthCheck{
			Protocol: l.Health.Protocol, Port: l.Health.Port, Interval: l.Health.Interval, Timeout: l.Health.Timeout, Retries: l.Health.Retries,
		},
	}
	if h := l.HTTP; h != nil {
		s.HTTP = hcloud.LoadBalancerServiceHTTP{
			CookieName: h.CookieName, CookieLifetime: h.CookieLifetime, TimeoutIdle: h.TimeoutIdle,
			RedirectHTTP: h.Redirect, StickySessions: h.StickySessions, Certificates: h.certificates(),
		}
	}
	if h := l.Health.HTTP; h != nil {
		s.HealthCheck.HTTP = &hcloud.LoadBalancerServiceHealthCheckHTTP{Domain: h.Domain, Path: h.Path, StatusCodes: h.StatusCodes, TLS: h.TLS}
	}
	return s
}

// pass plans and applies once, and returns the steps.
func (m *model) pass(d *Desired, typ *hcloud.LoadBalancerType) (steps []Step, waiting bool) {
	m.t.Helper()
	Fit(d, m.lb, typ)
	steps, waiting = Plan(d, m.lb, typ)
	for _, s := range steps {
		if s.Why == "" || strings.Contains(s.String(), "\n") {
			m.t.Errorf("step %q does not say why in one line", s)
		}
		m.apply(s)
	}
	return steps, waiting
}

// shape is what people see of a load balancer, in an order that does not matter.
func (m *model) shape() hcloud.LoadBalancer {
	lb := *m.lb
	lb.Targets = slices.SortedFunc(slices.Values(lb.Targets), func(a, b hcloud.LoadBalancerTarget) int {
		return strings.Compare(fmt.Sprint(targetKey(a)), fmt.Sprint(targetKey(b)))
	})
	lb.Services = slices.SortedFunc(slices.Values(lb.Services), func(a, b hcloud.LoadBalancerService) int { return a.ListenPort - b.ListenPort })
	return lb
}

func targetKey(t hcloud.LoadBalancerTarget) string {
	switch {
	case t.Server != nil:
		return fmt.Sprint("server ", t.Server.Server.ID)
	case t.IP != nil:
		return "ip " + t.IP.IP
	}
	return "selector " + t.LabelSelector.Selector
}
