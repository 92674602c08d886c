package cloud

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// primaryIP is a public address, or for IPv6 a range. One that the API manages
// for a load balancer has no ID and is in no list.
type primaryIP struct {
	schema.PrimaryIP
	resource resource
}

// publicIPs are the addresses of a server or load balancer, by type.
type publicIPs map[string]*primaryIP

// Types of primary IPs. API reference, primary IPs.
const (
	ipv4 = "ipv4"
	ipv6 = "ipv6"
)

// unassigned is the assignee type of a free primary IP, announced for
// 2026-08-01. API reference, primary IPs.
const unassigned = "unassigned"

var primaryIPList = collection[*primaryIP]{
	key:    "primary_ips",
	id:     func(ip *primaryIP) int64 { return ip.ID },
	labels: func(ip *primaryIP) map[string]string { return ip.Labels },
	filters: map[string]func(*primaryIP) string{
		"name": func(ip *primaryIP) string { return ip.Name },
		"ip":   func(ip *primaryIP) string { return ip.IP },
	},
	sorts: map[string]func(a, b *primaryIP) int{
		"id":      by(func(ip *primaryIP) int64 { return ip.ID }),
		"created": by(func(ip *primaryIP) int64 { return ip.Created.Unix() }),
	},
}

var primaryIPRoutes = merge(routes{
	"GET /primary_ips":                                 {http.StatusOK, listPrimaryIPs},
	"POST /primary_ips":                                {http.StatusCreated, createPrimaryIP},
	"GET /primary_ips/{id}":                            {http.StatusOK, getPrimaryIP},
	"PUT /primary_ips/{id}":                            {http.StatusOK, updatePrimaryIP},
	"DELETE /primary_ips/{id}":                         {http.StatusNoContent, deletePrimaryIP},
	"POST /primary_ips/{id}/actions/assign":            {http.StatusCreated, assignPrimaryIP},
	"POST /primary_ips/{id}/actions/unassign":          {http.StatusCreated, unassignPrimaryIP},
	"POST /primary_ips/{id}/actions/change_dns_ptr":    {http.StatusCreated, changePrimaryIPPtr},
	"POST /primary_ips/{id}/actions/change_protection": {http.StatusCreated, changePrimaryIPProtection},
}, actionRoutesOf("/primary_ips", "primary_ip", func(r *request) error {
	_, err := r.primaryIP()
	return err
}))

func (r *request) primaryIP() (*primaryIP, error) {
	if ip, ok := r.project.primaryIPs[r.id]; ok {
		return ip, nil
	}
	return nil, notFound("primary IP", r.id)
}

// idlePrimaryIP is the primary IP of a request that changes it. API reference,
// update a primary IP: a change at the same time is a conflict. That this holds
// for all changes, and the message, are guesses.
func (r *request) idlePrimaryIP() (*primaryIP, error) {
	ip, err := r.primaryIP()
	if err == nil && ip.resource.busy() {
		err = failure(http.StatusConflict, "conflict", "primary IP has changed during request")
	}
	return ip, err
}

// newAddress is the next address of a type, that is not in the project yet.
func (c *Cloud) newAddress(typ string, l schema.Location) *primaryIP {
	ip := &primaryIP{PrimaryIP: schema.PrimaryIP{
		Type:         typ,
		Location:     l,
		Created:      now(),
		Labels:       map[string]string{},
		DNSPtr:       []schema.PrimaryIPDNSPTR{},
		AssigneeType: unassigned,
	}}
	if typ == ipv6 {
		ip.IP = c.nextIPv6().String()
		return ip
	}
	ip.IP = c.nextIPv4().String()
	ip.setPtr(ip.IP, nil)
	return ip
}

// addPrimaryIP puts a new primary IP into the project.
func (r *request) addPrimaryIP(typ string, l schema.Location) *primaryIP {
	ip := r.cloud.newAddress(typ, l)
	ip.ID = r.cloud.nextID("primary_ip")
	ip.Name = fmt.Sprintf("primary_ip-%d", ip.ID)
	ip.resource.ActionResourceReference = schema.ActionResourceReference{ID: ip.ID, Type: "primary_ip"}
	r.project.primaryIPs[ip.ID] = ip
	return ip
}

// claim finds the free primary IPs that a new server or load balancer asks for;
// an ID of 0 asks for none. API reference, create a server: the codes; that
// load balancers have the same is a guess.
func (r *request) claim(v4, v6 int64, l schema.Location) (claimed []*primaryIP, err error) {
	for _, want := range []struct {
		typ string
		id  int64
	}{{ipv4, v4}, {ipv6, v6}} {
		ip, ok := r.project.primaryIPs[want.id]
		switch {
		case want.id == 0:
			continue
		case !ok:
			return nil, noSuch("public_net."+want.typ, "primary IP", want.id)
		case ip.Type != want.typ:
			return nil, failure(http.StatusPreconditionFailed, "primary_ip_version_mismatch", "primary IP is not of type %s", want.typ)
		case ip.AssigneeID != nil:
			return nil, unprocessable("primary_ip_assigned", "primary IP is already assigned")
		case ip.Location.Name != l.Name:
			return nil, unprocessable("primary_ip_datacenter_mismatch", "primary IP is in another location")
		}
		claimed = append(claimed, ip)
	}
	return claimed, nil
}

func (ips publicIPs) assign(ip *primaryIP, to schema.ActionResourceReference) {
	ips[ip.Type] = ip
	ip.AssigneeID, ip.AssigneeType = &to.ID, to.Type
}

func (ips publicIPs) unassign(ip *primaryIP) {
	delete(ips, ip.Type)
	ip.AssigneeID, ip.AssigneeType = nil, unassigned
}

// release frees the addresses of something that is going.
// API reference, primary IPs: auto_delete.
func (p *project) release(ips publicIPs) {
	for _, ip := range ips {
		ips.unassign(ip)
		if ip.AutoDelete {
			delete(p.primaryIPs, ip.ID)
		}
	}
}

// nextIPv4 is the next address of ranges for documentation, and then of one for
// carriers' NAT, neither of which is anyone's on the Internet. No address is
// given out twice.
func (c *Cloud) nextIPv4() netip.Addr {
	n := c.nextID(ipv4)
	for _, p := range []string{"203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24", "100.64.0.0/10"} {
		p := netip.MustParsePrefix(p)
		hosts := int64(1)<<(32-p.Bits()) - 2
		if n <= hosts {
			b := p.Addr().As4()
			return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(b[:])+uint32(n))))
		}
		n -= hosts
	}
	return netip.IPv4Unspecified()
}

// nextIPv6 is the next /64 of the range for documentation.
func (c *Cloud) nextIPv6() netip.Prefix {
	b := netip.MustParseAddr("2001:db8::").As16()
	binary.BigEndian.PutUint32(b[4:], uint32(c.nextID(ipv6)))
	return netip.PrefixFrom(netip.AddrFrom16(b), 64)
}

// contains reports whether an address is, or lies in, the primary IP.
func (ip *primaryIP) contains(a netip.Addr) bool {
	if p, err := netip.ParsePrefix(ip.IP); err == nil {
		return p.Contains(a)
	}
	return ip.IP == a.String()
}

// host is the one address that a load balancer has of a primary IP. That it is
// the first of an IPv6 range is a guess.
func (ip *primaryIP) host() string {
	if p, err := netip.ParsePrefix(ip.IP); err == nil {
		return p.Addr().Next().String()
	}
	return ip.IP
}

// ptr is the reverse DNS entry of an address, or "".
func (ip *primaryIP) ptr(address string) string {
	for _, entry := range ip.DNSPtr {
		if entry.IP == address {
			return entry.DNSPtr
		}
	}
	return ""
}

// setPtr sets a reverse DNS entry, or resets it. API reference, change reverse
// DNS: null resets an IPv4 address to its default, and removes the entry of an
// IPv6 address.
func (ip *primaryIP) setPtr(address string, ptr *string) {
	entries := slices.DeleteFunc(slices.Clone(ip.DNSPtr), func(entry schema.PrimaryIPDNSPTR) bool { return entry.IP == address })
	if ptr == nil && ip.Type == ipv4 {
		b := netip.MustParseAddr(address).As4()
		text := fmt.Sprintf("static.%d.%d.%d.%d.clients.your-server.de", b[3], b[2], b[1], b[0])
		ptr = &text
	}
	if ptr != nil {
		entries = append(entries, schema.PrimaryIPDNSPTR{IP: address, DNSPtr: *ptr})
	}
	ip.DNSPtr = entries
}

// readPtr reads the body of a change_dns_ptr on one of some addresses, and
// returns what the change does.
func (r *request) readPtr(ips ...*primaryIP) (func(), error) {
	var in struct {
		IP     string  `json:"ip"`
		DNSPtr *string `json:"dns_ptr"`
	}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.IP == "" {
		return nil, required("ip")
	}
	address, err := netip.ParseAddr(in.IP)
	if err != nil {
		return nil, invalid("ip", "is not an IP address")
	}
	if in.DNSPtr != nil && (*in.DNSPtr == "" || checkHostname(*in.DNSPtr) != nil) {
		return nil, invalid("dns_ptr", "is not a domain name")
	}
	for _, ip := range ips {
		if ip.contains(address) {
			return func() { ip.setPtr(address.String(), in.DNSPtr) }, nil
		}
	}
	return nil, invalid("ip", "does not belong to the resource")
}

func listPrimaryIPs(r *request) (any, error) {
	return primaryIPList.list(r, byID(r.project.primaryIPs))
}

func getPrimaryIP(r *request) (any, error) {
	ip, err := r.primaryIP()
	if err != nil {
		return nil, err
	}
	return object{"primary_ip": ip}, nil
}

// createPrimaryIP applies API reference, create a primary IP: it needs a
// location, or a server that is off to be assigned to.
func createPrimaryIP(r *request) (any, error) {
	var in struct {
		Name         string            `json:"name"`
		Type         string            `json:"type"`
		Labels       map[string]string `json:"labels"`
		Location     schema.IDOrName   `json:"location"`
		AssigneeType string            `json:"assignee_type"`
		AssigneeID   int64             `json:"assignee_id"`
		AutoDelete   bool              `json:"auto_delete"`
	}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if err := r.checkPrimaryIP(0, in.Name, in.Labels); err != nil {
		return nil, err
	}
	if in.Type != ipv4 && in.Type != ipv6 {
		return nil, invalid("type", "must be one of ipv4, ipv6")
	}
	var s *server
	var l schema.Location
	switch {
	case in.AssigneeID != 0:
		var err error
		if s, err = r.assignee(in.AssigneeType, in.AssigneeID, in.Type); err != nil {
			return nil, err
		}
		l = s.Location
	case in.Location == schema.IDOrName{}:
		return nil, required("location")
	default:
		var ok bool
		if l, ok = pick(locations, in.Location, locationID, locationName); !ok {
			return nil, rejected("location", "location not found")
		}
	}
	ip := r.addPrimaryIP(in.Type, l)
	ip.Name, ip.Labels, ip.AutoDelete = in.Name, orEmpty(in.Labels), in.AutoDelete
	if s == nil {
		return object{"primary_ip": ip, "action": nil}, nil
	}
	a := r.assign(ip, s)
	return object{"primary_ip": ip, "action": a.Action}, nil
}

func (r *request) checkPrimaryIP(id int64, name string, labels map[string]string) error {
	if err := checkName(name); err != nil {
		return err
	}
	for _, ip := range r.project.primaryIPs {
		if ip.Name == name && ip.ID != id {
			return notUnique("name", "name is already used") // guess: worded as for networks
		}
	}
	return checkLabels(labels)
}

// assignee finds the server for a primary IP of a type.
// API reference, assign a primary IP: servers only, which are off.
func (r *request) assignee(kind string, id int64, typ string) (*server, error) {
	if kind != "server" {
		return nil, invalid("assignee_type", "must be server")
	}
	s, ok := r.project.servers[id]
	switch {
	case !ok:
		return nil, noSuch("assignee_id", "server", id)
	case s.resource.busy():
		return nil, serverLocked()
	case s.Status != "off":
		return nil, unprocessable("server_not_stopped", "server is not stopped")
	case s.ips[typ] != nil:
		return nil, unprocessable("server_has_"+typ, "server already has an %s address", strings.Replace(typ, "ip", "IP", 1))
	}
	return s, nil
}

// assign starts the assignment, which holds from the beginning so that nobody
// else gets the address.
func (r *request) assign(ip *primaryIP, s *server) *action {
	a := &action{begin: func() { s.ips.assign(ip, s.resource.ActionResourceReference) }}
	a.Command = "assign_primary_ip"
	return r.start(a, &s.resource, &ip.resource)
}

func assignPrimaryIP(r *request) (any, error) {
	ip, err := r.idlePrimaryIP()
	if err != nil {
		return nil, err
	}
	var in schema.PrimaryIPActionAssignRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if ip.AssigneeID != nil {
		return nil, unprocessable("primary_ip_already_assigned", "primary IP is already assigned")
	}
	s, err := r.assignee(in.AssigneeType, in.AssigneeID, ip.Type)
	if err != nil {
		return nil, err
	}
	if s.Location.Name != ip.Location.Name {
		return nil, unprocessable("primary_ip_datacenter_mismatch", "primary IP is in another location")
	}
	return object{"action": r.assign(ip, s).Action}, nil
}

// unassignPrimaryIP applies API reference, unassign a primary IP. Load
// balancers keep theirs for life; the code for that is a guess, and so is that
// a free one cannot be unassigned.
func unassignPrimaryIP(r *request) (any, error) {
	ip, err := r.idlePrimaryIP()
	if err != nil {
		return nil, err
	}
	switch {
	case ip.AssigneeID == nil:
		return nil, unprocessable("unsupported_error", "primary IP is not assigned")
	case ip.AssigneeType != "server":
		return nil, unprocessable("unsupported_error", "primary IP cannot be unassigned from a load balancer")
	}
	s := r.project.servers[*ip.AssigneeID]
	switch {
	case s.resource.busy():
		return nil, serverLocked()
	case s.Status != "off":
		return nil, unprocessable("server_not_stopped", "server is not stopped")
	case ip.Type == ipv4 && r.project.isPublicTarget(s):
		return nil, unprocessable("server_is_load_balancer_target", "server IPv4 address is a load balancer target")
	}
	a := &action{done: func() {
		s.ips.unassign(ip)
		r.project.dropUnreachable()
	}}
	a.Command = "unassign_primary_ip"
	r.start(a, &s.resource, &ip.resource)
	return object{"action": a.Action}, nil
}

func updatePrimaryIP(r *request) (any, error) {
	ip, err := r.idlePrimaryIP()
	if err != nil {
		return nil, err
	}
	in := struct {
		update
		AutoDelete bool `json:"auto_delete"`
	}{update{Name: ip.Name}, ip.AutoDelete}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.Labels == nil {
		in.Labels = ip.Labels
	}
	if err := r.checkPrimaryIP(ip.ID, in.Name, in.Labels); err != nil {
		return nil, err
	}
	if in.AutoDelete && ip.Protection.Delete {
		return nil, invalid("auto_delete", "excludes protection from deletion")
	}
	ip.Name, ip.Labels, ip.AutoDelete = in.Name, in.Labels, in.AutoDelete
	return object{"primary_ip": ip}, nil
}

// deletePrimaryIP applies API reference, delete a primary IP: since 2026-05-01
// an assigned one has to be unassigned first.
func deletePrimaryIP(r *request) (any, error) {
	ip, err := r.idlePrimaryIP()
	switch {
	case err != nil:
		return nil, err
	case ip.Protection.Delete:
		return nil, protected("primary IP")
	case ip.AssigneeID != nil:
		return nil, unprocessable("must_be_unassigned", "primary IP must be unassigned")
	}
	delete(r.project.primaryIPs, ip.ID)
	return nil, nil
}

func changePrimaryIPPtr(r *request) (any, error) {
	ip, err := r.idlePrimaryIP()
	if err != nil {
		return nil, err
	}
	change, err := r.readPtr(ip)
	if err != nil {
		return nil, err
	}
	return r.changePrimaryIP(ip, "change_dns_ptr", change)
}

// changePrimaryIPProtection applies API reference, change protection: not
// together with auto_delete.
func changePrimaryIPProtection(r *request) (any, error) {
	ip, err := r.idlePrimaryIP()
	if err != nil {
		return nil, err
	}
	in := ip.Protection
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.Delete && ip.AutoDelete {
		return nil, invalid("delete", "excludes auto_delete")
	}
	return r.changePrimaryIP(ip, "change_protection", func() { ip.Protection = in })
}

// changePrimaryIP starts an action that is born finished, as in the API
// reference's examples.
func (r *request) changePrimaryIP(ip *primaryIP, command string, done func()) (any, error) {
	a := &action{quick: true, done: done}
	a.Command = command
	r.start(a, &ip.resource)
	return object{"action": a.Action}, nil
}
