package cloud

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/netip"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

type server struct {
	schema.Server // without addresses, load balancers, and locked, which view fills in
	resource      resource
	ips           publicIPs
	power         int // counts changes of power, so that a late shutdown can tell that it is void
}

// view is the server as the API shows it. It shares no memory with s.
func (s *server) view(p *project) schema.Server {
	v := s.Server
	v.Locked = s.resource.busy()
	v.Labels = maps.Clone(s.Labels)
	if ip := s.ips[ipv4]; ip != nil {
		v.PublicNet.IPv4 = schema.ServerPublicNetIPv4{ID: ip.ID, IP: ip.IP, Blocked: ip.Blocked, DNSPtr: ip.ptr(ip.IP)}
	}
	v.PublicNet.IPv6.DNSPtr = []schema.ServerPublicNetIPv6DNSPtr{}
	if ip := s.ips[ipv6]; ip != nil {
		v.PublicNet.IPv6.ID, v.PublicNet.IPv6.IP, v.PublicNet.IPv6.Blocked = ip.ID, ip.IP, ip.Blocked
		for _, entry := range ip.DNSPtr {
			v.PublicNet.IPv6.DNSPtr = append(v.PublicNet.IPv6.DNSPtr, schema.ServerPublicNetIPv6DNSPtr{IP: entry.IP, DNSPtr: entry.DNSPtr})
		}
	}
	v.PublicNet.FloatingIPs = []int64{}
	v.PublicNet.Firewalls = []schema.ServerFirewall{}
	v.Volumes = []int64{}
	v.LoadBalancers = p.loadBalancersOf(s)
	v.PrivateNet = []schema.ServerPrivateNet{}
	for _, m := range p.memberships(s.resource.ActionResourceReference) {
		if m.status == attaching {
			continue
		}
		v.PrivateNet = append(v.PrivateNet, schema.ServerPrivateNet{
			Network:    m.network.ID,
			IP:         m.ip.String(),
			AliasIPs:   addrStrings(m.aliases),
			MACAddress: m.mac(),
		})
	}
	return v
}

// serverJSON is a server with null in place of public IPs that it lacks, which
// hcloud-go's schema cannot say. API reference, servers.
type serverJSON struct {
	schema.Server
	PublicNet publicNet `json:"public_net"`
}

type publicNet struct {
	schema.ServerPublicNet
	IPv4 *schema.ServerPublicNetIPv4 `json:"ipv4"`
	IPv6 *schema.ServerPublicNetIPv6 `json:"ipv6"`
}

func (s *server) json(p *project) serverJSON {
	v := serverJSON{Server: s.view(p)}
	v.PublicNet.ServerPublicNet = v.Server.PublicNet
	if v.Server.PublicNet.IPv4.IP != "" {
		v.PublicNet.IPv4 = &v.Server.PublicNet.IPv4
	}
	if v.Server.PublicNet.IPv6.IP != "" {
		v.PublicNet.IPv6 = &v.Server.PublicNet.IPv6
	}
	return v
}

var serverList = collection[*server]{
	key:    "servers",
	id:     func(s *server) int64 { return s.ID },
	labels: func(s *server) map[string]string { return s.Labels },
	filters: map[string]func(*server) string{
		"name":   func(s *server) string { return s.Name },
		"status": func(s *server) string { return s.Status },
	},
	sorts: map[string]func(a, b *server) int{
		"id":      by(func(s *server) int64 { return s.ID }),
		"name":    by(func(s *server) string { return s.Name }),
		"created": by(func(s *server) int64 { return s.Created.Unix() }),
	},
}

var serverRoutes = merge(routes{
	"GET /servers":                                   {http.StatusOK, listServers},
	"POST /servers":                                  {http.StatusCreated, createServer},
	"GET /servers/{id}":                              {http.StatusOK, getServer},
	"PUT /servers/{id}":                              {http.StatusOK, updateServer},
	"DELETE /servers/{id}":                           {http.StatusOK, deleteServer},
	"POST /servers/{id}/actions/poweron":             {http.StatusCreated, powerOn},
	"POST /servers/{id}/actions/poweroff":            {http.StatusCreated, powerOff},
	"POST /servers/{id}/actions/shutdown":            {http.StatusCreated, shutdown},
	"POST /servers/{id}/actions/reboot":              {http.StatusCreated, reboot},
	"POST /servers/{id}/actions/reset":               {http.StatusCreated, reset},
	"POST /servers/{id}/actions/attach_to_network":   {http.StatusCreated, attachServer},
	"POST /servers/{id}/actions/detach_from_network": {http.StatusCreated, detachServer},
	"POST /servers/{id}/actions/change_alias_ips":    {http.StatusCreated, changeAliasIPs},
	"POST /servers/{id}/actions/change_type":         {http.StatusCreated, changeServerType},
	"POST /servers/{id}/actions/change_protection":   {http.StatusCreated, changeServerProtection},
}, actionRoutesOf("/servers", "server", func(r *request) error {
	_, err := r.server()
	return err
}))

func (r *request) server() (*server, error) {
	if s, ok := r.project.servers[r.id]; ok {
		return s, nil
	}
	return nil, notFound("server", r.id)
}

// idleServer is the server of a request that changes it. A maintainer said
// that servers are locked while networks are attached and detached, rescales
// run, "and possibly others"; that all actions lock is a guess.
func (r *request) idleServer() (*server, error) {
	s, err := r.server()
	if err != nil {
		return nil, err
	}
	if s.resource.busy() {
		return nil, serverLocked()
	}
	return s, nil
}

func serverLocked() *apiError {
	return failure(http.StatusLocked, "locked", "cannot perform operation because server is locked") // seen live
}

func listServers(r *request) (any, error) {
	page, err := serverList.list(r, byID(r.project.servers))
	if err != nil {
		return nil, err
	}
	answer := page.(object)
	servers := []serverJSON{}
	for _, s := range answer["servers"].([]*server) {
		servers = append(servers, s.json(r.project))
	}
	answer["servers"] = servers
	return answer, nil
}

func getServer(r *request) (any, error) {
	s, err := r.server()
	if err != nil {
		return nil, err
	}
	return object{"server": s.json(r.project)}, nil
}

// createServer applies API reference, create a server. The answer comes while
// the server initializes: it then has its public IPs, and no private ones yet.
func createServer(r *request) (any, error) {
	// What hcloud-go's type is too narrow for: locations by numeric string,
	// SSH keys by name.
	var in struct {
		schema.ServerCreateRequest
		Labels    map[string]string `json:"labels"`
		Location  schema.IDOrName   `json:"location"`
		PublicNet struct {
			EnableIPv4 bool  `json:"enable_ipv4"`
			EnableIPv6 bool  `json:"enable_ipv6"`
			IPv4       int64 `json:"ipv4"`
			IPv6       int64 `json:"ipv6"`
		} `json:"public_net"`
		SSHKeys []schema.IDOrName `json:"ssh_keys"`
	}
	in.PublicNet.EnableIPv4, in.PublicNet.EnableIPv6 = true, true
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if err := r.checkServer(0, in.Name, in.Labels); err != nil {
		return nil, err
	}
	if len(r.project.servers) >= r.project.settings.Limits.Servers {
		return nil, limitExceeded("servers", "server limit reached") // message seen live
	}

	s := &server{ips: publicIPs{}}
	s.Name = in.Name
	s.Labels = orEmpty(in.Labels)
	s.Created = now()
	s.Status = "initializing"
	var err error
	if s.ServerType, s.Location, err = placement(in.ServerType, in.Location); err != nil {
		return nil, err
	}
	if in.Image == (schema.IDOrName{}) {
		return nil, required("image")
	}
	image, err := imageFor(in.Image, s.ServerType.Architecture)
	if err != nil {
		return nil, err
	}
	s.Image = &image
	s.PrimaryDiskSize = s.ServerType.Disk
	s.IncludedTraffic = s.ServerType.Prices[0].IncludedTraffic
	for _, ref := range in.SSHKeys {
		if _, ok := pick(byID(r.project.sshKeys), ref, sshKeyID, sshKeyName); !ok {
			return nil, rejected("ssh_keys", "SSH key not found")
		}
	}
	if len(in.UserData) > 32<<10 {
		return nil, invalid("user_data", "is longer than 32 KiB")
	}

	switch { // kinds of resources that this cloud has none of
	case len(in.Volumes) > 0:
		return nil, noSuch("volumes", "volume", in.Volumes[0])
	case len(in.Firewalls) > 0:
		return nil, noSuch("firewalls", "firewall", in.Firewalls[0].Firewall)
	case in.PlacementGroup != 0:
		return nil, noSuch("placement_group", "placement group", in.PlacementGroup)
	}
	claimed, err := r.claim(in.PublicNet.IPv4, in.PublicNet.IPv6, s.Location)
	if err != nil {
		return nil, err
	}

	s.ID = r.cloud.nextID("server")
	s.resource.ActionResourceReference = schema.ActionResourceReference{ID: s.ID, Type: "server"}
	attachments, err := r.attachNew(s, in.Networks)
	if err != nil {
		return nil, err
	}
	for _, ip := range claimed {
		s.ips.assign(ip, s.resource.ActionResourceReference)
	}
	for _, public := range []struct {
		typ     string
		enabled bool
	}{{ipv4, in.PublicNet.EnableIPv4}, {ipv6, in.PublicNet.EnableIPv6}} {
		if public.enabled && s.ips[public.typ] == nil {
			ip := r.addPrimaryIP(public.typ, s.Location)
			ip.AutoDelete = true // seen of primary IPs that come with a server
			s.ips.assign(ip, s.resource.ActionResourceReference)
		}
	}
	r.project.servers[s.ID] = s

	// Seen live, and in acceptance tests: the order of next_actions. That the
	// server vanishes again when its creation fails is a guess.
	create := &action{
		done: func() { s.Status = "off" },
		undo: func() { r.project.remove(s) },
	}
	create.Command = "create_server"
	if in.StartAfterCreate == nil || *in.StartAfterCreate {
		create.next = append(create.next, r.prepare(s.start(), &s.resource))
	}
	for _, a := range attachments {
		create.next = append(create.next, r.prepare(a.action, &s.resource, &a.network.resource))
	}
	r.start(create, &s.resource)

	next := []schema.Action{}
	for _, a := range create.next {
		next = append(next, a.Action)
	}
	var password *string
	if len(in.SSHKeys) == 0 {
		text := rand.Text()
		password = &text
	}
	return object{
		"server":        s.json(r.project),
		"action":        create.Action,
		"next_actions":  next,
		"root_password": password,
	}, nil
}

func (r *request) checkServer(id int64, name string, labels map[string]string) error {
	if err := checkHostname(name); err != nil {
		return err
	}
	for _, s := range r.project.servers {
		if s.Name == name && s.ID != id {
			return notUnique("name", "server name is already used") // seen live
		}
	}
	return checkLabels(labels)
}

// placement finds type and location of a new server. Without a location it is
// the first that has the type; which one the real API takes is unknown.
func placement(typeRef, locationRef schema.IDOrName) (t schema.ServerType, l schema.Location, err error) {
	if typeRef == (schema.IDOrName{}) {
		return t, l, required("server_type")
	}
	t, ok := pick(serverTypes, typeRef, serverTypeID, serverTypeName)
	if !ok {
		return t, l, rejected("server_type", "server type not found")
	}
	if locationRef == (schema.IDOrName{}) {
		locationRef.Name = t.Locations[0].Name
	}
	l, ok = pick(locations, locationRef, locationID, locationName)
	switch {
	case !ok:
		return t, l, rejected("location", "location not found")
	case !availableIn(t, l.Name):
		return t, l, rejected("location", "unsupported location for server type") // guess
	}
	return t, l, nil
}

// attachment is a running or planned attach_to_network.
type attachment struct {
	network *network
	action  *action
}

// attachNew attaches a server that is being created, to all networks or none.
func (r *request) attachNew(s *server, networks []int64) ([]attachment, error) {
	attachments := []attachment{}
	for _, id := range networks {
		a, err := r.attach(s, id, seat{})
		if err != nil {
			for _, a := range attachments {
				a.action.undo()
			}
			return nil, err
		}
		attachments = append(attachments, a)
	}
	return attachments, nil
}

// attach reserves a server's place in a network and returns the action that
// fills it.
func (r *request) attach(s *server, id int64, want seat) (attachment, error) {
	n, ok := r.project.networks[id]
	switch {
	case id == 0:
		return attachment{}, required("network")
	case !ok:
		return attachment{}, noSuch("network", "network", id)
	}
	for _, m := range r.project.memberships(s.resource.ActionResourceReference) {
		switch {
		case m.network == n:
			return attachment{}, unprocessable("server_already_attached", "server is already attached to network")
		case netip.MustParsePrefix(m.network.IPRange).Overlaps(netip.MustParsePrefix(n.IPRange)):
			return attachment{}, unprocessable("networks_overlap", "network IP range overlaps with one of the server networks")
		}
	}
	want.zone = s.Location.NetworkZone
	m, err := r.join(n, s.resource.ActionResourceReference, want)
	if err != nil {
		return attachment{}, err
	}
	a := &action{done: func() { m.status = attached }, undo: func() { n.leave(m) }}
	a.Command = "attach_to_network"
	return attachment{n, a}, nil
}

func updateServer(r *request) (any, error) {
	s, err := r.server()
	if err != nil {
		return nil, err
	}
	in := update{Name: s.Name}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.Labels == nil {
		in.Labels = s.Labels
	}
	if err := r.checkServer(s.ID, in.Name, in.Labels); err != nil {
		return nil, err
	}
	s.Name, s.Labels = in.Name, in.Labels
	return object{"server": s.json(r.project)}, nil
}

// act starts an action on a server. API reference, actions: the names of the
// commands, except delete_server, which is a guess.
func (r *request) act(s *server, command string, a *action, on ...*resource) (any, error) {
	a.Command = command
	r.start(a, append([]*resource{&s.resource}, on...)...)
	return object{"action": a.Action}, nil
}

// deleteServer applies API reference, delete a server: "This immediately
// removes the Server from your account". Its private IPs are free again, routes
// through it stay.
func deleteServer(r *request) (any, error) {
	s, err := r.server()
	if err != nil {
		return nil, err
	}
	if s.Protection.Delete {
		return nil, protected("server")
	}
	if s, err = r.idleServer(); err != nil {
		return nil, err
	}
	return r.act(s, "delete_server", &action{begin: func() { r.project.remove(s) }})
}

func (p *project) remove(s *server) {
	delete(p.servers, s.ID)
	for _, m := range p.memberships(s.resource.ActionResourceReference) {
		m.network.leave(m.member)
	}
	p.release(s.ips)
	p.dropUnreachable()
}

// turn makes a change of power: now to one status, at the end to another.
func (s *server) turn(during, after string) *action {
	return &action{
		begin: func() { s.power++; s.Status = during },
		done:  func() { s.Status = after },
	}
}

// start is the action that starts a server.
func (s *server) start() *action {
	a := s.turn("starting", "running")
	a.Command = "start_server"
	return a
}

// nothing is an action that changes nothing and is born finished, for changes
// that are not needed. That the real API does so is a guess.
func nothing() *action { return &action{quick: true} }

func powerOn(r *request) (any, error) {
	s, err := r.idleServer()
	if err != nil {
		return nil, err
	}
	if s.Status == "running" {
		return r.act(s, "start_server", nothing())
	}
	return r.act(s, "start_server", s.start())
}

func powerOff(r *request) (any, error) {
	s, err := r.idleServer()
	if err != nil {
		return nil, err
	}
	if s.Status == "off" {
		return r.act(s, "stop_server", nothing())
	}
	return r.act(s, "stop_server", s.turn("stopping", "off"))
}

// shutdown's action ends when the signal has been sent. API reference, shut
// down a server. The server is off some time later, unless its power has been
// changed meanwhile. That it reads as running until then is a guess.
func shutdown(r *request) (any, error) {
	s, err := r.idleServer()
	if err != nil {
		return nil, err
	}
	if s.Status == "off" {
		return r.act(s, "shutdown_server", nothing())
	}
	return r.act(s, "shutdown_server", &action{done: func() {
		power := s.power
		r.cloud.after(r.project.duration("shutdown"), func() {
			if s.power == power {
				s.power++
				s.Status = "off"
			}
		})
	}})
}

// reboot sends a signal, too. That a server that is off ignores it is a guess.
func reboot(r *request) (any, error) {
	s, err := r.idleServer()
	if err != nil {
		return nil, err
	}
	if s.Status == "off" {
		return r.act(s, "reboot_server", nothing())
	}
	return r.act(s, "reboot_server", s.turn("running", "running"))
}

// reset cuts power and starts the server again. API reference, reset a server.
func reset(r *request) (any, error) {
	s, err := r.idleServer()
	if err != nil {
		return nil, err
	}
	return r.act(s, "reset_server", s.turn("starting", "running"))
}

func attachServer(r *request) (any, error) {
	s, err := r.idleServer()
	if err != nil {
		return nil, err
	}
	var in struct {
		Network  int64    `json:"network"`
		IP       string   `json:"ip"`
		AliasIPs []string `json:"alias_ips"`
		IPRange  string   `json:"ip_range"`
	}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	a, err := r.attach(s, in.Network, seat{ip: in.IP, aliases: in.AliasIPs, ipRange: in.IPRange})
	if err != nil {
		return nil, err
	}
	return r.act(s, a.action.Command, a.action, &a.network.resource)
}

// membership is the place of a server in the network that the body names.
// Terraform takes not_found for "was not attached".
func (r *request) membership(s *server, id int64) (membership, error) {
	if id == 0 {
		return membership{}, required("network")
	}
	for _, m := range r.project.memberships(s.resource.ActionResourceReference) {
		if m.network.ID == id {
			return m, m.network.idle()
		}
	}
	return membership{}, failure(http.StatusNotFound, "not_found", "server is not attached to network with ID %d", id)
}

func detachServer(r *request) (any, error) {
	s, err := r.idleServer()
	if err != nil {
		return nil, err
	}
	var in schema.ServerActionDetachFromNetworkRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	m, err := r.membership(s, in.Network)
	if err != nil {
		return nil, err
	}
	return r.act(s, "detach_from_network", &action{
		begin: func() { m.status = detaching },
		done: func() {
			m.network.leave(m.member)
			r.project.dropUnreachable()
		},
	}, &m.network.resource)
}

// changeAliasIPs replaces all aliases. API reference, change alias IPs.
func changeAliasIPs(r *request) (any, error) {
	s, err := r.idleServer()
	if err != nil {
		return nil, err
	}
	var in schema.ServerActionChangeAliasIPsRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.AliasIPs == nil {
		return nil, required("alias_ips")
	}
	m, err := r.membership(s, in.Network)
	if err != nil {
		return nil, err
	}
	aliases, err := m.network.checkAliases(m.member, in.AliasIPs)
	if err != nil {
		return nil, err
	}
	return r.act(s, "change_alias_ips", &action{
		begin: func() { m.status = updating },
		done:  func() { m.status, m.aliases = attached, aliases },
	}, &m.network.resource)
}

// changeServerType applies API reference, change the type of a server: stopped
// before, started after; same architecture and no smaller disk. That the same
// type is refused is a guess.
func changeServerType(r *request) (any, error) {
	s, err := r.idleServer()
	if err != nil {
		return nil, err
	}
	var in schema.ServerActionChangeTypeRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.ServerType == (schema.IDOrName{}) {
		return nil, required("server_type")
	}
	t, ok := pick(serverTypes, in.ServerType, serverTypeID, serverTypeName)
	switch {
	case !ok:
		return nil, rejected("server_type", "server type not found")
	case s.Status != "off":
		return nil, unprocessable("server_not_stopped", "server is not stopped")
	case t.ID == s.ServerType.ID, t.Architecture != s.ServerType.Architecture, t.Disk < s.PrimaryDiskSize, !availableIn(t, s.Location.Name):
		return nil, unprocessable("invalid_server_type", "server type does not fit for the given server")
	}
	a := s.turn("migrating", "running")
	finish := a.done
	a.done = func() {
		finish()
		s.ServerType = t
		if in.UpgradeDisk {
			s.PrimaryDiskSize = t.Disk
		}
	}
	return r.act(s, "change_server_type", a)
}

// changeServerProtection applies API reference, change protection: "currently
// delete and rebuild attribute needs to have the same value". The code is a
// guess, and that the action is born finished.
func changeServerProtection(r *request) (any, error) {
	s, err := r.idleServer()
	if err != nil {
		return nil, err
	}
	in := s.Protection
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.Delete != in.Rebuild {
		return nil, invalid("rebuild", "must have the same value as delete")
	}
	return r.act(s, "change_protection", &action{quick: true, done: func() { s.Protection = in }})
}
