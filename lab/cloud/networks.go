package cloud

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

type network struct {
	schema.Network // without members, which view fills in
	resource       resource
	members        []*member
}

// member is a server or load balancer in a network. It holds its addresses
// from the moment its attachment is asked for.
type member struct {
	owner   schema.ActionResourceReference
	serial  int64 // ascending; makes order and MAC address
	status  string
	ip      netip.Addr
	aliases []netip.Addr
	subnet  netip.Prefix
}

// States of members. API reference, networks: members.
const (
	attaching = "attaching"
	attached  = "ok"
	updating  = "updating"
	detaching = "detaching"
)

// view is the network as the API shows it. That members still on their way in
// are not among the servers is a guess.
func (n *network) view() schema.Network {
	v := n.Network
	v.Subnets = append([]schema.NetworkSubnet{}, n.Subnets...)
	v.Routes = append([]schema.NetworkRoute{}, n.Routes...)
	v.Servers, v.LoadBalancers = []int64{}, []int64{}
	for _, m := range n.members {
		switch {
		case m.status == attaching:
		case m.owner.Type == "server":
			v.Servers = append(v.Servers, m.owner.ID)
		default:
			v.LoadBalancers = append(v.LoadBalancers, m.owner.ID)
		}
	}
	slices.Sort(v.Servers)
	slices.Sort(v.LoadBalancers)
	return v
}

func networkViews(p *project) []schema.Network {
	views := []schema.Network{}
	for _, n := range byID(p.networks) {
		views = append(views, n.view())
	}
	return views
}

var networkList = collection[schema.Network]{
	key:     "networks",
	id:      func(n schema.Network) int64 { return n.ID },
	labels:  func(n schema.Network) map[string]string { return n.Labels },
	filters: map[string]func(schema.Network) string{"name": func(n schema.Network) string { return n.Name }},
	sorts: map[string]func(a, b schema.Network) int{
		"id":      by(func(n schema.Network) int64 { return n.ID }),
		"name":    by(func(n schema.Network) string { return n.Name }),
		"created": by(func(n schema.Network) int64 { return n.Created.Unix() }),
	},
}

var memberList = collection[schema.NetworkMember]{
	key: "members",
	id:  func(m schema.NetworkMember) int64 { return m.ID },
	filters: map[string]func(schema.NetworkMember) string{
		"type":   func(m schema.NetworkMember) string { return m.Type },
		"subnet": func(m schema.NetworkMember) string { return m.Subnet },
		"status": func(m schema.NetworkMember) string { return m.Status },
	},
	sorts: map[string]func(a, b schema.NetworkMember) int{
		"id":     by(func(m schema.NetworkMember) int64 { return m.ID }),
		"type":   by(func(m schema.NetworkMember) string { return m.Type }),
		"status": by(func(m schema.NetworkMember) string { return m.Status }),
		"ip": func(a, b schema.NetworkMember) int {
			x, _ := netip.ParseAddr(a.IP)
			y, _ := netip.ParseAddr(b.IP)
			return x.Compare(y)
		},
	},
}

var networkRoutes = merge(routes{
	"GET /networks":                                 {http.StatusOK, func(r *request) (any, error) { return networkList.list(r, networkViews(r.project)) }},
	"POST /networks":                                {http.StatusCreated, createNetwork},
	"GET /networks/{id}":                            {http.StatusOK, getNetwork},
	"PUT /networks/{id}":                            {http.StatusOK, updateNetwork},
	"DELETE /networks/{id}":                         {http.StatusNoContent, deleteNetwork},
	"GET /networks/{id}/members":                    {http.StatusOK, listMembers},
	"POST /networks/{id}/actions/add_subnet":        {http.StatusCreated, addSubnet},
	"POST /networks/{id}/actions/delete_subnet":     {http.StatusCreated, deleteSubnet},
	"POST /networks/{id}/actions/add_route":         {http.StatusCreated, addRoute},
	"POST /networks/{id}/actions/delete_route":      {http.StatusCreated, deleteRoute},
	"POST /networks/{id}/actions/change_ip_range":   {http.StatusCreated, changeIPRange},
	"POST /networks/{id}/actions/change_protection": {http.StatusCreated, changeNetworkProtection},
}, actionRoutesOf("/networks", "network", func(r *request) error {
	_, err := r.network()
	return err
}))

func (r *request) network() (*network, error) {
	if n, ok := r.project.networks[r.id]; ok {
		return n, nil
	}
	return nil, notFound("network", r.id)
}

// idleNetwork is the network of a request that changes it.
// API reference, network actions: "If a change is currently being performed on
// this Network, a error response with code conflict will be returned". The
// message is a guess, worded as seen for load balancers.
func (r *request) idleNetwork() (*network, error) {
	n, err := r.network()
	if err != nil {
		return nil, err
	}
	return n, n.idle()
}

func (n *network) idle() error {
	if n.resource.busy() {
		return failure(http.StatusConflict, "conflict", "network has changed during request")
	}
	return nil
}

// createNetwork answers without an action. API reference, create a network.
func createNetwork(r *request) (any, error) {
	var in struct {
		schema.NetworkCreateRequest
		Labels map[string]string `json:"labels"`
	}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if err := r.checkNetwork(0, in.Name, in.Labels); err != nil {
		return nil, err
	}
	ipRange, err := networkRange(in.IPRange)
	if err != nil {
		return nil, err
	}
	n := &network{Network: schema.Network{
		Name:                  in.Name,
		Created:               now(),
		IPRange:               ipRange.String(),
		Labels:                orEmpty(in.Labels),
		ExposeRoutesToVSwitch: in.ExposeRoutesToVSwitch,
	}}
	for _, s := range in.Subnets {
		if s, err = r.checkSubnet(n, s); err != nil {
			return nil, err
		}
		n.Subnets = append(n.Subnets, s)
	}
	for _, route := range in.Routes {
		if route, err = r.checkRoute(n, route); err != nil {
			return nil, err
		}
		n.Routes = append(n.Routes, route)
	}
	n.ID = r.cloud.nextID("network")
	n.resource.ActionResourceReference = schema.ActionResourceReference{ID: n.ID, Type: "network"}
	r.project.networks[n.ID] = n
	return object{"network": n.view()}, nil
}

func (r *request) checkNetwork(id int64, name string, labels map[string]string) error {
	if err := checkName(name); err != nil {
		return err
	}
	for _, n := range r.project.networks {
		if n.Name == name && n.ID != id {
			return notUnique("name", "name is already used") // seen live
		}
	}
	return checkLabels(labels)
}

// networkRange applies API reference, create a network: RFC 1918, at least /24.
func networkRange(text string) (netip.Prefix, error) {
	p, err := parseRange("ip_range", text)
	switch {
	case err != nil:
		return p, err
	case !private(p):
		return p, invalid("ip_range", "is not one of the private IPv4 ranges of RFC1918")
	case p.Bits() > 24:
		return p, invalid("ip_range", "is smaller than /24")
	}
	return p, nil
}

func getNetwork(r *request) (any, error) {
	n, err := r.network()
	if err != nil {
		return nil, err
	}
	return object{"network": n.view()}, nil
}

func updateNetwork(r *request) (any, error) {
	n, err := r.idleNetwork()
	if err != nil {
		return nil, err
	}
	in := struct {
		Name                  string            `json:"name"`
		Labels                map[string]string `json:"labels"`
		ExposeRoutesToVSwitch bool              `json:"expose_routes_to_vswitch"`
	}{n.Name, nil, n.ExposeRoutesToVSwitch}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.Labels == nil {
		in.Labels = n.Labels
	}
	if err := r.checkNetwork(n.ID, in.Name, in.Labels); err != nil {
		return nil, err
	}
	n.Name, n.Labels, n.ExposeRoutesToVSwitch = in.Name, in.Labels, in.ExposeRoutesToVSwitch
	return object{"network": n.view()}, nil
}

// deleteNetwork detaches the members. API reference, delete a network. That a
// running change is a conflict here, too, and that members lose their
// addresses at once, are guesses.
func deleteNetwork(r *request) (any, error) {
	n, err := r.network()
	if err != nil {
		return nil, err
	}
	if n.Protection.Delete {
		return nil, protected("network")
	}
	if err := n.idle(); err != nil {
		return nil, err
	}
	delete(r.project.networks, n.ID)
	r.project.dropUnreachable()
	return nil, nil
}

// listMembers is new since 2026-09-22. Changelog, network members.
func listMembers(r *request) (any, error) {
	n, err := r.network()
	if err != nil {
		return nil, err
	}
	members := []schema.NetworkMember{}
	for _, m := range n.members {
		members = append(members, schema.NetworkMember{
			Type:     m.owner.Type,
			ID:       m.owner.ID,
			IP:       m.ip.String(),
			Status:   m.status,
			AliasIPs: addrStrings(m.aliases),
			Subnet:   m.subnet.String(),
		})
	}
	return memberList.list(r, members)
}

func addrStrings(addrs []netip.Addr) []string {
	texts := []string{}
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return texts
}

// change starts an action that ends with an effect on a network.
func (r *request) change(n *network, command string, done func()) (any, error) {
	a := &action{done: done}
	a.Command = command
	r.start(a, &n.resource)
	return object{"action": a.Action}, nil
}

func addSubnet(r *request) (any, error) {
	n, err := r.idleNetwork()
	if err != nil {
		return nil, err
	}
	var in schema.NetworkSubnet
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	subnet, err := r.checkSubnet(n, in)
	if err != nil {
		return nil, err
	}
	return r.change(n, "add_subnet", func() { n.Subnets = append(n.Subnets, subnet) })
}

// checkSubnet applies API reference, add a subnet, and fills in what the API
// fills in.
func (r *request) checkSubnet(n *network, in schema.NetworkSubnet) (schema.NetworkSubnet, error) {
	if len(n.Subnets) >= r.project.settings.Limits.NetworkSubnets {
		return in, limitExceeded("network_subnets", "network subnet limit reached")
	}
	switch in.Type {
	case "":
		return in, required("type")
	case "cloud", "server":
		in.VSwitchID = 0
	case "vswitch":
		if in.VSwitchID == 0 {
			return in, required("vswitch_id")
		}
	default:
		return in, invalid("type", "must be one of cloud, server, vswitch")
	}
	switch {
	case in.NetworkZone == "":
		return in, required("network_zone")
	case !zoneExists(in.NetworkZone):
		return in, invalid("network_zone", "does not exist")
	case len(n.Subnets) > 0 && n.Subnets[0].NetworkZone != in.NetworkZone:
		// FAQ, networks: all subnets of a network lie in one zone. The code is a guess.
		return in, invalid("network_zone", "differs from the other subnets of the network")
	}
	for _, other := range r.project.networks {
		for _, s := range other.Subnets {
			if in.VSwitchID != 0 && s.VSwitchID == in.VSwitchID {
				return in, unprocessable("vswitch_id_already_used", "vSwitch is already used in another subnet") // code: hcloud-go
			}
		}
	}
	ipRange := netip.MustParsePrefix(n.IPRange)
	if in.IPRange == "" {
		p, ok := n.freeRange(ipRange)
		if !ok {
			return in, invalid("ip_range", "no /24 is left in the network")
		}
		in.IPRange = p.String()
	}
	p, err := parseRange("ip_range", in.IPRange)
	switch {
	case err != nil:
		return in, err
	case p.Bits() > 30:
		return in, invalid("ip_range", "is smaller than /30")
	case !covers(ipRange, p):
		return in, invalid("ip_range", "is not part of the network IP range (%s)", ipRange)
	case n.overlaps(p):
		return in, invalid("ip_range", "overlaps with another subnetwork or network route")
	}
	in.IPRange = p.String()
	// Seen live: the gateway is the first IP of the network, not of the subnet.
	in.Gateway = ipRange.Addr().Next().String()
	return in, nil
}

// freeRange is the first /24 of the network that nothing overlaps.
// API reference, add a subnet.
func (n *network) freeRange(ipRange netip.Prefix) (netip.Prefix, bool) {
	first := ipRange.Addr().As4()
	for i := range uint32(1) << (24 - ipRange.Bits()) {
		b := binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(first[:])+i<<8)
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte(b)), 24)
		if !n.overlaps(p) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// overlaps reports whether a range touches a subnet or the destination of a
// route. The default route does not count, for else nothing could stand beside
// it.
func (n *network) overlaps(p netip.Prefix) bool {
	for _, s := range n.Subnets {
		if p.Overlaps(netip.MustParsePrefix(s.IPRange)) {
			return true
		}
	}
	for _, r := range n.Routes {
		if d := netip.MustParsePrefix(r.Destination); d.Bits() > 0 && p.Overlaps(d) {
			return true
		}
	}
	return false
}

// deleteSubnet applies API reference, delete a subnet: not while resources are
// attached.
func deleteSubnet(r *request) (any, error) {
	n, err := r.idleNetwork()
	if err != nil {
		return nil, err
	}
	var in schema.NetworkActionDeleteSubnetRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	p, err := parseRange("ip_range", in.IPRange)
	if err != nil {
		return nil, err
	}
	is := func(s schema.NetworkSubnet) bool { return s.IPRange == p.String() }
	if !slices.ContainsFunc(n.Subnets, is) {
		return nil, failure(http.StatusNotFound, "not_found", "subnet %s not found", p) // guess
	}
	// Terraform looks for these words in the messages.
	inside := func(kind string) func(*member) bool {
		return func(m *member) bool { return m.subnet == p && m.owner.Type == kind }
	}
	switch {
	case slices.ContainsFunc(n.members, inside("server")):
		return nil, unprocessable("service_error", "cannot remove subnet because servers are attached to it")
	case slices.ContainsFunc(n.members, inside("load_balancer")):
		return nil, unprocessable("service_error", "cannot remove subnet because network has attached resources")
	}
	return r.change(n, "delete_subnet", func() { n.Subnets = slices.DeleteFunc(n.Subnets, is) })
}

func addRoute(r *request) (any, error) {
	n, err := r.idleNetwork()
	if err != nil {
		return nil, err
	}
	var in schema.NetworkRoute
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	route, err := r.checkRoute(n, in)
	if err != nil {
		return nil, err
	}
	return r.change(n, "add_route", func() { n.Routes = append(n.Routes, route) })
}

// checkRoute applies API reference, add a route. The gateway comes before the
// overlap, because a route into its own subnet was seen to be an "invalid
// gateway". The gateway need not be anyone's address (acceptance tests).
func (r *request) checkRoute(n *network, in schema.NetworkRoute) (schema.NetworkRoute, error) {
	if len(n.Routes) >= r.project.settings.Limits.NetworkRoutes {
		return in, limitExceeded("network_routes", "network route limit reached") // guess
	}
	destination, err := parseRange("destination", in.Destination)
	if err != nil {
		return in, err
	}
	gateway, err := parseIP("gateway", in.Gateway)
	if err != nil {
		return in, err
	}
	ipRange := netip.MustParsePrefix(n.IPRange)
	byDefault := destination.Bits() == 0
	behindVSwitch := slices.ContainsFunc(n.Subnets, func(s schema.NetworkSubnet) bool {
		return s.Type == "vswitch" && netip.MustParsePrefix(s.IPRange).Contains(gateway)
	})
	switch {
	case !ipRange.Contains(gateway):
		return in, rejected("gateway", "network route gateway not part of the network IP range (%s)", ipRange) // seen live
	case gateway == ipRange.Addr().Next(), gateway == publicGateway, behindVSwitch, !byDefault && destination.Contains(gateway):
		return in, rejected("gateway", "invalid gateway") // seen live
	case !byDefault && !private(destination):
		return in, invalid("destination", "is neither one of the private IPv4 ranges of RFC1918 nor 0.0.0.0/0")
	case !byDefault && destination.Contains(publicGateway):
		return in, invalid("destination", "overlaps with %s", publicGateway)
	case r.project.settings.StrictRoutes && !byDefault && !covers(ipRange, destination):
		return in, invalid("destination", "is not part of the network IP range (%s)", ipRange)
	case !byDefault && n.overlaps(destination),
		byDefault && slices.ContainsFunc(n.Routes, func(r schema.NetworkRoute) bool { return r.Destination == "0.0.0.0/0" }):
		return in, rejected("destination", "network route destination overlaps with another subnetwork or network route") // seen live
	}
	return schema.NetworkRoute{Destination: destination.String(), Gateway: gateway.String()}, nil
}

// deleteRoute needs both fields. API reference, delete a route. Nothing else
// ever removes a route: when the server of its gateway goes, it stays behind.
func deleteRoute(r *request) (any, error) {
	n, err := r.idleNetwork()
	if err != nil {
		return nil, err
	}
	var in schema.NetworkRoute
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	destination, err := parseRange("destination", in.Destination)
	if err != nil {
		return nil, err
	}
	gateway, err := parseIP("gateway", in.Gateway)
	if err != nil {
		return nil, err
	}
	route := schema.NetworkRoute{Destination: destination.String(), Gateway: gateway.String()}
	if !slices.Contains(n.Routes, route) {
		return nil, failure(http.StatusNotFound, "not_found", "route to %s via %s not found", destination, gateway) // message: guess
	}
	return r.change(n, "delete_route", func() {
		n.Routes = slices.DeleteFunc(n.Routes, func(r schema.NetworkRoute) bool { return r == route })
	})
}

// changeIPRange applies API reference, change the IP range: only ever larger,
// with the same start.
func changeIPRange(r *request) (any, error) {
	n, err := r.idleNetwork()
	if err != nil {
		return nil, err
	}
	var in schema.NetworkActionChangeIPRangeRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	p, err := networkRange(in.IPRange)
	if err != nil {
		return nil, err
	}
	old := netip.MustParsePrefix(n.IPRange)
	if p.Addr() != old.Addr() || p.Bits() > old.Bits() {
		return nil, invalid("ip_range", "must start with %s and be no smaller than %s", old.Addr(), old)
	}
	return r.change(n, "change_ip_range", func() { n.IPRange = p.String() })
}

func changeNetworkProtection(r *request) (any, error) {
	n, err := r.idleNetwork()
	if err != nil {
		return nil, err
	}
	in := n.Protection
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	a := &action{quick: true, done: func() { n.Protection = in }} // that it is born finished is a guess
	a.Command = "change_protection"
	r.start(a, &n.resource)
	return object{"action": a.Action}, nil
}

// seat is what an attachment asks for.
type seat struct {
	ip      string // empty for any
	aliases []string
	ipRange string // of the subnet; empty for any
	zone    string // of the owner's location
}

// join gives an address in the network to an owner, who is there but attaching.
func (r *request) join(n *network, owner schema.ActionResourceReference, want seat) (*member, error) {
	if err := n.idle(); err != nil {
		return nil, err // guess
	}
	if len(n.members) >= r.project.settings.Limits.NetworkMembers {
		return nil, limitExceeded("network_attached_resources", "network attached resources limit reached") // guess
	}
	m := &member{owner: owner, status: attaching}
	var err error
	if m.ip, m.subnet, err = n.place(want); err != nil {
		return nil, err
	}
	if m.aliases, err = n.checkAliases(m, want.aliases); err != nil {
		return nil, err
	}
	m.serial = r.cloud.nextID("member")
	n.members = append(n.members, m)
	return m, nil
}

func (n *network) leave(m *member) {
	n.members = slices.DeleteFunc(n.members, func(other *member) bool { return other == m })
}

// place finds the address for a new member. API reference, attach a server to a
// network. That the lowest free address is handed out is a guess.
func (n *network) place(want seat) (netip.Addr, netip.Prefix, error) {
	var none netip.Prefix
	asked := netip.Addr{}
	if want.ip != "" {
		var err error
		if asked, err = parseIP("ip", want.ip); err != nil {
			return asked, none, err
		}
	}
	subnets := []netip.Prefix{}
	for _, s := range n.Subnets {
		// vSwitch subnets are for dedicated servers.
		if s.Type != "vswitch" && s.NetworkZone == want.zone {
			subnets = append(subnets, netip.MustParsePrefix(s.IPRange))
		}
	}
	if want.ipRange != "" {
		p, err := parseRange("ip_range", want.ipRange)
		switch {
		case err != nil:
			return asked, none, err
		case !slices.Contains(subnets, p):
			return asked, none, noSubnet() // guess
		case asked.IsValid() && !p.Contains(asked):
			return asked, none, invalid("ip", "is not part of %s", p)
		}
		subnets = []netip.Prefix{p}
	}
	taken := n.taken(nil)
	for _, p := range subnets {
		switch {
		case asked.IsValid() && !p.Contains(asked):
			continue
		case asked.IsValid() && (taken[asked] || n.reserved(asked, p)):
			return asked, none, ipNotAvailable(asked)
		case asked.IsValid():
			return asked, p, nil
		}
		for ip := p.Addr(); p.Contains(ip); ip = ip.Next() {
			if !taken[ip] && !n.reserved(ip, p) {
				return ip, p, nil
			}
		}
	}
	return asked, none, noSubnet()
}

func noSubnet() *apiError {
	return unprocessable("no_subnet_available", "no subnet or IP available")
}

func ipNotAvailable(ip netip.Addr) *apiError {
	return unprocessable("ip_not_available", "IP %s is not available", ip)
}

// taken are the addresses that members hold, except those of one.
func (n *network) taken(except *member) map[netip.Addr]bool {
	taken := map[netip.Addr]bool{}
	for _, m := range n.members {
		if m == except {
			continue
		}
		taken[m.ip] = true
		for _, a := range m.aliases {
			taken[a] = true
		}
	}
	return taken
}

// reserved reports whether no one can have an address of a subnet.
// API reference and FAQ, networks: the network's first IP, the first and last
// of each subnet, 172.31.1.1.
func (n *network) reserved(ip netip.Addr, subnet netip.Prefix) bool {
	first := netip.MustParsePrefix(n.IPRange).Addr().Next()
	return ip == first || ip == subnet.Addr() || ip == lastIP(subnet) || ip == publicGateway
}

// checkAliases parses alias IPs of a member. That they must lie in the subnet
// of its IP is a guess.
func (n *network) checkAliases(m *member, texts []string) ([]netip.Addr, error) {
	taken := n.taken(m)
	taken[m.ip] = true
	aliases := []netip.Addr{}
	for _, text := range texts {
		ip, err := parseIP("alias_ips", text)
		switch {
		case err != nil:
			return nil, err
		case !m.subnet.Contains(ip):
			return nil, invalid("alias_ips", "%s is not part of %s", ip, m.subnet)
		case taken[ip] || n.reserved(ip, m.subnet):
			return nil, ipNotAvailable(ip)
		}
		taken[ip] = true
		aliases = append(aliases, ip)
	}
	return aliases, nil
}

// mac is unique in the cloud, with the prefix of the API reference's examples.
func (m *member) mac() string {
	return fmt.Sprintf("86:00:00:%02x:%02x:%02x", byte(m.serial>>16), byte(m.serial>>8), byte(m.serial))
}

// memberships of an owner, in the order of attachment.
func (p *project) memberships(owner schema.ActionResourceReference) []membership {
	all := []membership{}
	for _, n := range p.networks {
		for _, m := range n.members {
			if m.owner == owner {
				all = append(all, membership{n, m})
			}
		}
	}
	slices.SortFunc(all, by(func(m membership) int64 { return m.serial }))
	return all
}

type membership struct {
	network *network
	*member
}
