package cloud

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// target is where a load balancer sends connections to.
type target struct {
	kind     string // server, label_selector, or ip
	server   *server
	text     string          // the label selector as it came
	selector labels.Selector // or nil
	ip       netip.Addr      // of kind ip; of a server only if not its primary IPv4
	inside   bool            // use_private_ip
	since    time.Time       // of its existence; the zero time while it is new
}

// private reports whether a target is reached through the network.
func (t *target) private() bool { return t.inside || t.kind == "ip" && t.ip.IsPrivate() }

// same reports whether two targets are one for the API. That a server is
// another target with another of its addresses is a guess.
func (t *target) same(other *target) bool {
	return t.kind == other.kind && t.server == other.server && t.text == other.text && t.ip == other.ip
}

// targetRequest is a target in the body of a request.
// API reference, add a target.
type targetRequest struct {
	Type   string `json:"type"`
	Server *struct {
		ID int64  `json:"id"`
		IP string `json:"ip"`
	} `json:"server"`
	LabelSelector *schema.LoadBalancerTargetLabelSelector `json:"label_selector"`
	IP            *schema.LoadBalancerTargetIP            `json:"ip"`
	UsePrivateIP  bool                                    `json:"use_private_ip"`
}

// readTarget understands a target, which need not be one of the load balancer.
func (r *request) readTarget(in targetRequest) (*target, error) {
	t := &target{kind: in.Type, inside: in.UsePrivateIP}
	switch {
	case in.Type == "":
		return nil, required("type")
	case in.Type == "server" && in.Server != nil:
		if t.server = r.project.servers[in.Server.ID]; t.server == nil {
			return nil, noSuch("server", "server", in.Server.ID) // seen live
		}
		if in.Server.IP == "" {
			return t, nil
		}
		ip, err := netip.ParseAddr(in.Server.IP)
		if err != nil || t.inside {
			return nil, invalid("server.ip", "must be a public IP, without use_private_ip")
		}
		if v4 := t.server.ips[ipv4]; v4 == nil || v4.IP != ip.String() {
			t.ip = ip
		}
		return t, nil
	case in.Type == "label_selector" && in.LabelSelector != nil:
		t.text = in.LabelSelector.Selector
		if len(t.text) > 1000 {
			return nil, invalid("label_selector.selector", "is longer than 1000 characters")
		}
		selector, err := parseSelector("label_selector.selector", t.text)
		if err != nil {
			return nil, err
		}
		if selector == nil {
			return nil, required("label_selector.selector")
		}
		t.selector = selector
		return t, nil
	case in.Type == "ip" && in.IP != nil:
		ip, err := netip.ParseAddr(in.IP.IP)
		if err != nil || ip.Zone() != "" {
			return nil, invalid("ip.ip", "is not an IP address")
		}
		if t.inside {
			return nil, invalid("use_private_ip", "is not for targets of type ip")
		}
		t.ip = ip
		return t, nil
	}
	if err := oneOf("type", in.Type, "server", "label_selector", "ip"); err != nil {
		return nil, err
	}
	return nil, required(in.Type)
}

// newTarget is a target that a load balancer can have.
func (r *request) newTarget(lb *loadBalancer, in targetRequest) (*target, error) {
	t, err := r.readTarget(in)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(lb.targets, t.same) {
		return nil, unprocessable("target_already_defined", "load balancer target is already defined")
	}
	// Label selectors count as one target each, which is a guess.
	if len(lb.targets) >= lb.LoadBalancerType.MaxTargets {
		return nil, limitExceeded("load_balancer_targets", "load balancer target limit reached") // guess
	}
	if t.kind == "ip" && !t.private() && r.cloud.owns(t.ip) {
		return nil, unprocessable("ip_not_owned", "IP is not owned by the project owner")
	}
	return t, r.project.reach(lb, t)
}

// owns reports whether an address is one of the cloud's own, which cannot be
// targets of type ip. API reference, add a target. That every other address is
// a dedicated server of the project's owner is a convenience of the lab.
func (c *Cloud) owns(a netip.Addr) bool {
	for _, p := range c.projects {
		for _, ip := range p.primaryIPs {
			if ip.contains(a) {
				return true
			}
		}
		for _, lb := range p.loadBalancers {
			for _, ip := range lb.ips {
				if ip.contains(a) {
					return true
				}
			}
		}
	}
	return false
}

func notAttached() *apiError {
	return unprocessable("load_balancer_not_attached_to_network", "load balancer is not attached to a network") // seen live
}

// reach reports why a load balancer cannot have a target where it is now.
// API reference, add a target: the codes.
func (p *project) reach(lb *loadBalancer, t *target) error {
	nets := p.memberships(lb.resource.ActionResourceReference)
	switch {
	case t.private() && len(nets) == 0:
		return notAttached()
	case !t.private() && !lb.PublicNet.Enabled:
		return unprocessable("load_balancer_public_interface_disabled", "load balancer public interface is disabled")
	case t.kind == "server":
		_, err := p.addressOf(t.server, lb, t)
		return err
	case t.kind == "ip" && t.private():
		vSwitches := []netip.Prefix{}
		for _, s := range nets[0].network.Subnets {
			if s.Type == "vswitch" {
				vSwitches = append(vSwitches, netip.MustParsePrefix(s.IPRange))
			}
		}
		switch {
		case len(vSwitches) == 0:
			return unprocessable("network_has_no_vswitch_subnet", "network has no vSwitch subnet")
		case !slices.ContainsFunc(vSwitches, func(p netip.Prefix) bool { return p.Contains(t.ip) }):
			return unprocessable("ip_not_in_vswitch_subnet", "IP does not belong to the vSwitch subnet of the attached network")
		}
	}
	return nil
}

// addressOf is the address at which a load balancer reaches a server of a
// target. For private targets the API reference is silent; that it is the
// private IP is a guess.
func (p *project) addressOf(s *server, lb *loadBalancer, t *target) (string, error) {
	v4, v6 := s.ips[ipv4], s.ips[ipv6]
	switch {
	case p.servers[s.ID] != s:
		return "", noSuch("server", "server", s.ID)
	case t.inside:
		for _, theirs := range p.memberships(s.resource.ActionResourceReference) {
			for _, ours := range p.memberships(lb.resource.ActionResourceReference) {
				if ours.network == theirs.network && theirs.status != attaching {
					return theirs.ip.String(), nil
				}
			}
		}
		return "", unprocessable("resolve_cloud_private_targets_error", "server is not attached to the network of the load balancer")
	case t.ip.IsValid() && (v6 == nil || !v6.contains(t.ip)):
		return "", unprocessable("ip_not_assigned_to_server", "IP is not assigned to the server")
	case t.ip.IsValid():
		return t.ip.String(), nil
	case v4 == nil:
		return "", unprocessable("resolve_cloud_public_targets_error", "server does not have a public IPv4 address")
	}
	return v4.IP, nil
}

// sends reports whether a target includes a server, and at which address. That
// a label selector skips servers without one is a guess.
func (p *project) sends(lb *loadBalancer, t *target, s *server) (address string, ok bool) {
	if t.server != s && (t.selector == nil || !t.selector.Matches(labels.Set(s.Labels))) {
		return "", false
	}
	address, err := p.addressOf(s, lb, t)
	return address, err == nil
}

// loadBalancersOf are those that send connections to a server.
func (p *project) loadBalancersOf(s *server) []int64 {
	ids := []int64{}
	for _, lb := range byID(p.loadBalancers) {
		if slices.ContainsFunc(lb.targets, func(t *target) bool {
			_, ok := p.sends(lb, t, s)
			return ok
		}) {
			ids = append(ids, lb.ID)
		}
	}
	return ids
}

// isPublicTarget reports whether a load balancer reaches the server by its IPv4
// address.
func (p *project) isPublicTarget(s *server) bool {
	for _, lb := range p.loadBalancers {
		if slices.ContainsFunc(lb.targets, func(t *target) bool { return t.server == s && !t.inside && !t.ip.IsValid() }) {
			return true
		}
	}
	return false
}

// dropUnreachable removes the targets that have lost their server or network.
// Users see targets go with their servers, and private ones with the network
// (Terraform). That a server which leaves the network goes, too, is a guess.
func (p *project) dropUnreachable() {
	for _, lb := range p.loadBalancers {
		lb.targets = slices.DeleteFunc(lb.targets, func(t *target) bool { return p.reach(lb, t) != nil })
	}
}

// targetView is a target as the API shows it: what does not belong to its type
// is missing. API reference, load balancers.
type targetView struct {
	Type          string                                  `json:"type"`
	Server        *targetServer                           `json:"server,omitempty"`
	LabelSelector *schema.LoadBalancerTargetLabelSelector `json:"label_selector,omitempty"`
	IP            *schema.LoadBalancerTargetIP            `json:"ip,omitempty"`
	HealthStatus  []healthStatus                          `json:"health_status,omitzero"`
	UsePrivateIP  *bool                                   `json:"use_private_ip,omitempty"`
	Targets       []targetView                            `json:"targets,omitzero"`
}

type targetServer struct {
	ID int64  `json:"id"`
	IP string `json:"ip"`
}

func (p *project) targetView(lb *loadBalancer, t *target) targetView {
	health := func(s *server) []healthStatus {
		statuses := []healthStatus{}
		for _, svc := range lb.services {
			statuses = append(statuses, svc.health(p, t.since, s))
		}
		return statuses
	}
	server := func(s *server, address string) targetView {
		return targetView{Type: "server", Server: &targetServer{s.ID, address}, HealthStatus: health(s), UsePrivateIP: &t.inside}
	}
	switch t.kind {
	case "server":
		address, _ := p.sends(lb, t, t.server)
		return server(t.server, address)
	case "ip":
		return targetView{Type: t.kind, IP: &schema.LoadBalancerTargetIP{IP: t.ip.String()}, HealthStatus: health(nil)}
	}
	views := []targetView{}
	for _, s := range byID(p.servers) {
		if address, ok := p.sends(lb, t, s); ok {
			views = append(views, server(s, address))
		}
	}
	return targetView{
		Type:          t.kind,
		LabelSelector: &schema.LoadBalancerTargetLabelSelector{Selector: t.text},
		UsePrivateIP:  &t.inside,
		Targets:       views,
	}
}

func addTarget(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	var in targetRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	t, err := r.newTarget(lb, in)
	if err != nil {
		return nil, err
	}
	return r.balance(lb, "add_target", &action{done: func() {
		if r.project.reach(lb, t) == nil { // its server may be gone
			lb.targets = append(lb.targets, t)
			r.checkLater(lb)
		}
	}})
}

// removeTarget ignores use_private_ip. That a target which is none is
// load_balancer_target_not_found comes from Terraform's provider, its status is
// a guess.
func removeTarget(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	var in targetRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	in.UsePrivateIP = false
	gone, err := r.readTarget(in)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(lb.targets, gone.same) {
		return nil, failure(http.StatusNotFound, "load_balancer_target_not_found", "load balancer target not found")
	}
	return r.balance(lb, "remove_target", &action{done: func() {
		lb.targets = slices.DeleteFunc(lb.targets, gone.same)
	}})
}
