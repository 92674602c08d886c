package loadbalancer

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

// Kind is a kind of request that changes a load balancer.
type Kind string

// Kinds.
const (
	SetLabels       Kind = "set name and labels"
	ChangeType      Kind = "change type"
	ChangeAlgorithm Kind = "change algorithm"
	Detach          Kind = "detach from network"
	Attach          Kind = "attach to network"
	EnablePublic    Kind = "enable the public interface"
	DisablePublic   Kind = "disable the public interface"
	SetRDNS         Kind = "set reverse DNS"
	AddTarget       Kind = "add target"
	MoveTarget      Kind = "move target" // between the public and the private side
	RemoveTarget    Kind = "remove target"
	AddListener     Kind = "add listener"
	UpdateListener  Kind = "update listener"
	DeleteListener  Kind = "delete listener"
)

// Step is one request that changes a load balancer. Which fields it uses depends
// on its kind.
type Step struct {
	Kind Kind
	Why  string

	Name      string
	Labels    map[string]string
	Type      string
	Algorithm hcloud.LoadBalancerAlgorithmType
	Network   int64
	IP        netip.Addr
	Subnet    netip.Prefix
	Family    string // ipv4 or ipv6, of a reverse DNS entry
	RDNS      string // empty to reset it
	Target    Target
	Private   bool
	Listener  Listener

	// Last steps forget what is done. They wait until all others have succeeded.
	Last bool
}

// String says in one line what a step changes, and why.
func (s Step) String() string { return s.What() + ": " + s.Why }

// What says what a step changes.
func (s Step) What() string {
	switch s.Kind {
	case SetLabels:
		return fmt.Sprintf("%s of %s", s.Kind, s.Name)
	case ChangeType:
		return fmt.Sprintf("%s to %s", s.Kind, s.Type)
	case ChangeAlgorithm:
		return fmt.Sprintf("%s to %s", s.Kind, s.Algorithm)
	case Detach, Attach:
		return fmt.Sprintf("%s %d", s.Kind, s.Network)
	case SetRDNS:
		return fmt.Sprintf("%s of %s to %q", s.Kind, s.Family, s.RDNS)
	case AddTarget, MoveTarget, RemoveTarget:
		text := fmt.Sprintf("%s server %d", s.Kind, s.Target.Server)
		if s.Target.Node != "" {
			text += " (Node " + s.Target.Node + ")"
		}
		return text
	case AddListener, UpdateListener, DeleteListener:
		return fmt.Sprintf("%s %d", s.Kind, s.Listener.Port)
	}
	return string(s.Kind)
}

// shown tells whether the status of a Service may show what a step changes: the
// addresses, or whether a listener expects the PROXY protocol.
func (s Step) shown() bool {
	switch s.Kind {
	case Detach, Attach, EnablePublic, DisablePublic, AddListener, UpdateListener, DeleteListener:
		return true
	}
	return false
}

// Plan returns the steps, in their order, that make a load balancer what is
// desired, none if it is that already. typ is the type that it is to have, nil
// if nobody knows it. waiting is true if more steps will be due once the load
// balancer has found out which targets are healthy.
//
// No step changes a listener or target that is not ours.
func Plan(d *Desired, actual *hcloud.LoadBalancer, typ *hcloud.LoadBalancerType) (steps []Step, waiting bool) {
	p := &planner{d: d, actual: actual, ours: holdingsOf(actual, d.Labels[AdoptedLabel] != "")}
	first, last := p.labels()
	growing := p.changesType(typ) && !shrinks(typ, actual.LoadBalancerType)

	p.add(first...)
	if growing {
		p.add(Step{Kind: ChangeType, Type: d.Type, Why: "the type is " + actual.LoadBalancerType.Name})
	}
	if d.Algorithm != actual.Algorithm.Type {
		p.add(Step{Kind: ChangeAlgorithm, Algorithm: d.Algorithm, Why: fmt.Sprintf("the algorithm is %s", actual.Algorithm.Type)})
	}
	if d.Public && !actual.PublicNet.Enabled {
		p.add(Step{Kind: EnablePublic, Why: "it is disabled"})
	}
	p.network()
	limits := p.during(typ, growing)
	p.targets(limits.MaxTargets)
	if !d.Public && actual.PublicNet.Enabled && !p.publicLeft {
		p.add(Step{Kind: DisablePublic, Why: "it is enabled"})
	}
	p.listeners(limits.MaxServices)
	p.rdns()
	if p.changesType(typ) && !growing {
		p.add(Step{Kind: ChangeType, Type: d.Type, Why: "the type is " + actual.LoadBalancerType.Name})
	}
	p.add(last...)
	return p.steps, p.waiting
}

type planner struct {
	d      *Desired
	actual *hcloud.LoadBalancer
	ours   holdings

	steps      []Step
	waiting    bool
	detached   bool // from the network, and so from all private targets
	publicLeft bool // there are still targets on the public side
}

func (p *planner) add(steps ...Step) { p.steps = append(p.steps, steps...) }

// changesType tells whether another type is asked for. What no annotation asks
// for must be larger.
func (p *planner) changesType(typ *hcloud.LoadBalancerType) bool {
	if p.d.Type == p.actual.LoadBalancerType.Name {
		return false
	}
	return p.d.TypeGiven || typ != nil && typ.MaxTargets > p.actual.LoadBalancerType.MaxTargets
}

func shrinks(typ, from *hcloud.LoadBalancerType) bool {
	return typ != nil && (typ.MaxTargets < from.MaxTargets || typ.MaxServices < from.MaxServices)
}

// during is the type whose limits apply while listeners and targets change.
func (p *planner) during(typ *hcloud.LoadBalancerType, growing bool) *hcloud.LoadBalancerType {
	if growing && typ != nil {
		return typ
	}
	return p.actual.LoadBalancerType
}

// labels returns what has to be written down before the other steps, and what
// may be forgotten after them. If we are interrupted in between, we still know
// what is ours.
func (p *planner) labels() (first, last []Step) {
	final := withoutOurs(p.actual.Labels)
	maps.Copy(final, p.d.Labels)
	early := maps.Clone(final)

	rdns := map[string]bool{}
	for family, value := range map[string]string{"ipv4": p.d.IPv4RDNS, "ipv6": p.d.IPv6RDNS} {
		if value != "" {
			rdns[family] = true
		}
	}
	recordWords(final, rdnsLabel, rdns)
	for word := range strings.SplitSeq(p.actual.Labels[rdnsLabel], ".") {
		if word != "" {
			rdns[word] = true
		}
	}
	recordWords(early, rdnsLabel, rdns)

	if !p.ours.all {
		ports, servers := map[int]bool{}, map[int64]bool{}
		for _, l := range p.d.Listeners {
			ports[l.Port] = true
		}
		for _, t := range p.d.Targets {
			if p.ours.server(t.Server) || !p.isTarget(t.Server) {
				servers[t.Server] = true
			}
		}
		writeDown(final, portsLabel, ports)
		writeDown(final, serversLabel, servers)
		maps.Copy(ports, p.ours.ports)
		maps.Copy(servers, p.ours.servers)
		writeDown(early, portsLabel, ports)
		writeDown(early, serversLabel, servers)
	}

	name, why := p.actual.Name, relabelled(p.actual.Labels, early)
	if p.d.Name != name {
		name, why = p.d.Name, "the name is "+name
	}
	if name != p.actual.Name || !maps.Equal(early, p.actual.Labels) {
		first = append(first, Step{Kind: SetLabels, Name: name, Labels: early, Why: why})
	}
	if !maps.Equal(final, early) {
		last = append(last, Step{Kind: SetLabels, Name: name, Labels: final, Why: "what they remember is done", Last: true})
	}
	return first, last
}

// relabelled says what is wrong with labels.
func relabelled(actual, want map[string]string) string {
	var why []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, there := actual[key]; !there {
			why = append(why, "the label "+key+" is missing")
		} else if value != want[key] {
			why = append(why, fmt.Sprintf("the label %s is %s instead of %s", key, value, want[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(actual)) {
		if _, wanted := want[key]; !wanted {
			why = append(why, "the label "+key+" has done its work")
		}
	}
	return strings.Join(why, ", ")
}

func recordWords(labels map[string]string, key string, words map[string]bool) {
	if len(words) > 0 {
		labels[key] = strings.Join(slices.Sorted(maps.Keys(words)), ".")
	}
}

func (p *planner) isTarget(server int64) bool {
	return slices.ContainsFunc(p.actual.Targets, func(t hcloud.LoadBalancerTarget) bool {
		return t.Type == hcloud.LoadBalancerTargetTypeServer && t.Server.Server.ID == server
	})
}

// network attaches the load balancer where it should be. Others' private targets
// would be lost with a detachment, so one of theirs stays where it is.
func (p *planner) network() {
	if p.d.Network == 0 {
		return
	}
	attach := Step{Kind: Attach, Network: p.d.Network, IP: p.d.PrivateIP, Subnet: p.d.Subnet, Why: "it is not attached"}
	if len(p.actual.PrivateNet) > 0 {
		why := p.d.leaves(p.actual)
		if why == "" || !p.ours.all {
			return
		}
		p.detached = true
		attach.Why = why
		p.add(Step{Kind: Detach, Network: p.actual.PrivateNet[0].Network.ID, Why: why})
	}
	p.add(attach)
}

// targets adds new ones before old ones go, as long as there is room.
func (p *planner) targets(room int) {
	wanted := map[int64]Target{}
	for _, t := range p.d.Targets {
		wanted[t.Server] = t
	}
	var obsolete, wrong []hcloud.LoadBalancerTarget
	settling := false
	for _, t := range p.actual.Targets {
		if t.UsePrivateIP && p.detached {
			continue // it has gone with the network
		}
		room--
		if t.Type != hcloud.LoadBalancerTargetTypeServer || !p.ours.target(t) {
			p.publicLeft = p.publicLeft || !t.UsePrivateIP && t.Type != hcloud.LoadBalancerTargetTypeIP
			if t.Type == hcloud.LoadBalancerTargetTypeServer {
				delete(wanted, t.Server.Server.ID) // it is there, and others' business
			}
			continue
		}
		id := t.Server.Server.ID
		_, ok := wanted[id]
		switch {
		case !ok:
			obsolete = append(obsolete, t)
		case t.UsePrivateIP != p.d.UsePrivateIP:
			wrong = append(wrong, t)
		default:
			settling = settling || healthOf(t) == unknown
			delete(wanted, id)
		}
	}
	moves := p.moves(wrong, wanted, settling)
	for _, t := range wrong {
		delete(wanted, t.Server.Server.ID)
	}

	remove := func() {
		t := obsolete[0]
		obsolete = obsolete[1:]
		room++
		p.add(Step{Kind: RemoveTarget, Target: Target{Server: t.Server.Server.ID}, Private: t.UsePrivateIP, Why: "no Node that is wanted has it"})
	}
	for _, t := range p.d.Targets {
		if _, ok := wanted[t.Server]; !ok {
			continue
		}
		if room <= 0 && len(obsolete) > 0 {
			remove()
		}
		room--
		p.add(Step{Kind: AddTarget, Target: t, Private: p.d.UsePrivateIP, Why: "it is not there"})
	}
	p.add(moves...)
	for len(obsolete) > 0 {
		remove()
	}
}

// moves returns steps for targets on the wrong side. A server can be a target
// once, so it has to go before it comes back, and is not known to be healthy for
// a while. At most a quarter of the others is moved at a time, and no more until
// all that were moved are known. Unhealthy ones are no loss.
func (p *planner) moves(wrong []hcloud.LoadBalancerTarget, wanted map[int64]Target, settling bool) (moves []Step) {
	budget := 0
	for _, t := range wrong {
		if healthOf(t) != unhealthy {
			budget++
		}
	}
	budget = (budget + 3) / 4
	if settling {
		budget = 0
	}
	side := "public IP"
	if p.d.UsePrivateIP {
		side = "private IP"
	}
	for _, t := range wrong {
		if healthOf(t) != unhealthy {
			if budget == 0 {
				p.waiting = true
				p.publicLeft = p.publicLeft || !t.UsePrivateIP
				continue
			}
			budget--
		}
		moves = append(moves, Step{Kind: MoveTarget, Target: wanted[t.Server.Server.ID], Private: p.d.UsePrivateIP, Why: "it is to be reached by its " + side})
	}
	return moves
}

type health int

const (
	unhealthy health = iota // for all listeners, or there are none
	unknown                 // for one listener at least
	healthy
)

// healthOf sums up what the listeners have found out about a target. One that is
// healthy for any of them is of use.
func healthOf(t hcloud.LoadBalancerTarget) health {
	h := unhealthy
	for _, status := range t.HealthStatus {
		switch status.Status {
		case hcloud.LoadBalancerTargetHealthStatusStatusUnknown:
			return unknown
		case hcloud.LoadBalancerTargetHealthStatusStatusHealthy:
			h = healthy
		case hcloud.LoadBalancerTargetHealthStatusStatusUnhealthy:
		}
	}
	return h
}

// listeners adds new ones before old ones go, as far as the type has room. Only
// port 80 and a redirect, which needs that port, get out of each other's way
// first.
func (p *planner) listeners(limit int) {
	var first, early, late, additions, last []Step
	redirect := slices.ContainsFunc(p.d.Listeners, func(l Listener) bool { return l.HTTP != nil && l.HTTP.Redirect })
	port80 := slices.ContainsFunc(p.d.Listeners, func(l Listener) bool { return l.Port == 80 })
	for _, l := range p.d.Listeners {
		i := slices.IndexFunc(p.actual.Services, func(s hcloud.LoadBalancerService) bool { return s.ListenPort == l.Port })
		if i < 0 {
			additions = append(additions, Step{Kind: AddListener, Listener: l, Why: "it is not there"})
			continue
		}
		why := differences(l, listenerOf(p.actual.Services[i]))
		switch {
		case why == "" || !p.ours.port(l.Port):
		case p.actual.Services[i].HTTP.RedirectHTTP:
			early = append(early, Step{Kind: UpdateListener, Listener: l, Why: why})
		default:
			late = append(late, Step{Kind: UpdateListener, Listener: l, Why: why})
		}
	}
	for _, s := range p.actual.Services {
		if !p.ours.port(s.ListenPort) || slices.ContainsFunc(p.d.Listeners, func(l Listener) bool { return l.Port == s.ListenPort }) {
			continue
		}
		step := Step{Kind: DeleteListener, Listener: Listener{Port: s.ListenPort}, Why: "the Service has no such port"}
		if redirect && s.ListenPort == 80 || (redirect || port80) && s.HTTP.RedirectHTTP {
			first = append(first, step)
		} else {
			last = append(last, step)
		}
	}
	p.add(slices.Concat(first, early, late)...)
	room := limit - len(p.actual.Services) + len(first)
	for _, addition := range additions {
		if room <= 0 && len(last) > 0 {
			p.add(last[0])
			last, room = last[1:], room+1
		}
		p.add(addition)
		room--
	}
	p.add(last...)
}

// listenerOf returns what the API shows, in our terms.
func listenerOf(s hcloud.LoadBalancerService) Listener {
	l := Listener{
		Port: s.ListenPort, NodePort: s.DestinationPort, Protocol: s.Protocol, ProxyProtocol: s.Proxyprotocol,
		Health: Health{Protocol: s.HealthCheck.Protocol, Port: s.HealthCheck.Port, Interval: s.HealthCheck.Interval, Timeout: s.HealthCheck.Timeout, Retries: s.HealthCheck.Retries},
	}
	if s.Protocol != hcloud.LoadBalancerServiceProtocolTCP {
		l.HTTP = &HTTP{
			CookieName: s.HTTP.CookieName, CookieLifetime: s.HTTP.CookieLifetime, TimeoutIdle: s.HTTP.TimeoutIdle,
			StickySessions: s.HTTP.StickySessions, Redirect: s.HTTP.RedirectHTTP,
		}
		for _, c := range s.HTTP.Certificates {
			l.HTTP.Certificates = append(l.HTTP.Certificates, c.ID)
		}
		slices.Sort(l.HTTP.Certificates)
	}
	if h := s.HealthCheck.HTTP; h != nil && l.Health.Protocol == hcloud.LoadBalancerServiceProtocolHTTP {
		l.Health.HTTP = &HealthHTTP{Domain: h.Domain, Path: h.Path, StatusCodes: h.StatusCodes, TLS: h.TLS}
	}
	return l
}

// differences names what of a listener is not as wanted, and how it is.
func differences(want, got Listener) string {
	var all []string
	differ := func(what string, want, got any) {
		if a, b := fmt.Sprint(want), fmt.Sprint(got); a != b {
			all = append(all, fmt.Sprintf("the %s is %s instead of %s", what, cmp.Or(b, "missing"), cmp.Or(a, "none")))
		}
	}
	differ("protocol", want.Protocol, got.Protocol)
	differ("destination port", want.NodePort, got.NodePort)
	differ("PROXY protocol", want.ProxyProtocol, got.ProxyProtocol)
	if w, g := want.HTTP, got.HTTP; w != nil && g != nil {
		differ("cookie name", w.CookieName, g.CookieName)
		differ("cookie lifetime", w.CookieLifetime, g.CookieLifetime)
		differ("idle timeout", w.TimeoutIdle, g.TimeoutIdle)
		differ("stickiness", w.StickySessions, g.StickySessions)
		differ("redirect", w.Redirect, g.Redirect)
		differ("list of certificates", w.Certificates, g.Certificates)
	}
	differ("health check protocol", want.Health.Protocol, got.Health.Protocol)
	differ("health check port", want.Health.Port, got.Health.Port)
	differ("health check interval", want.Health.Interval, got.Health.Interval)
	differ("health check timeout", want.Health.Timeout, got.Health.Timeout)
	differ("health check retries", want.Health.Retries, got.Health.Retries)
	if w, g := want.Health.HTTP, got.Health.HTTP; w != nil && g != nil {
		differ("health check domain", w.Domain, g.Domain)
		differ("health check path", w.Path, g.Path)
		differ("list of health check status codes", w.StatusCodes, g.StatusCodes)
		differ("health check TLS", w.TLS, g.TLS)
	}
	return strings.Join(all, ", ")
}

// rdns sets entries, and resets those that we have set and nobody wants any more.
func (p *planner) rdns() {
	set := strings.Split(p.actual.Labels[rdnsLabel], ".")
	for _, entry := range []struct {
		family, want, got string
		exists            bool
	}{
		{"ipv4", p.d.IPv4RDNS, p.actual.PublicNet.IPv4.DNSPtr, p.actual.PublicNet.IPv4.IP != nil},
		{"ipv6", p.d.IPv6RDNS, p.actual.PublicNet.IPv6.DNSPtr, p.actual.PublicNet.IPv6.IP != nil},
	} {
		switch {
		case !entry.exists:
		case entry.want != "" && entry.want != entry.got:
			p.add(Step{Kind: SetRDNS, Family: entry.family, RDNS: entry.want, Why: fmt.Sprintf("it is %q", entry.got)})
		case entry.want == "" && slices.Contains(set, entry.family):
			p.add(Step{Kind: SetRDNS, Family: entry.family, Why: "nothing asks for one any more"})
		}
	}
}
