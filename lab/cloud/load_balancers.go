package cloud

import (
	"maps"
	"net/http"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

type loadBalancer struct {
	schema.LoadBalancer // without networks, addresses, services, and targets, which view fills in
	resource            resource
	ips                 publicIPs
	services            []*service
	targets             []*target
}

// loadBalancerView is a load balancer as the API shows it, with null and
// missing fields that hcloud-go's schema cannot say. API reference, load
// balancers.
type loadBalancerView struct {
	schema.LoadBalancer
	PublicNet loadBalancerPublicNet `json:"public_net"`
	Services  []service             `json:"services"`
	Targets   []targetView          `json:"targets"`
}

type loadBalancerPublicNet struct {
	Enabled bool     `json:"enabled"`
	IPv4    publicIP `json:"ipv4"`
	IPv6    publicIP `json:"ipv6"`
}

type publicIP struct {
	ID      *int64  `json:"id"` // null for an address that the API manages
	IP      string  `json:"ip"`
	Blocked bool    `json:"blocked"`
	DNSPtr  *string `json:"dns_ptr"`
}

func (ip *primaryIP) publicIP() publicIP {
	v := publicIP{IP: ip.host(), Blocked: ip.Blocked}
	if ip.ID != 0 {
		v.ID = &ip.ID
	}
	if ptr := ip.ptr(v.IP); ptr != "" {
		v.DNSPtr = &ptr
	}
	return v
}

// view shows addresses also while the public interface is off, which is a
// guess.
func (lb *loadBalancer) view(p *project) loadBalancerView {
	v := loadBalancerView{
		LoadBalancer: lb.LoadBalancer,
		PublicNet:    loadBalancerPublicNet{lb.PublicNet.Enabled, lb.ips[ipv4].publicIP(), lb.ips[ipv6].publicIP()},
		Services:     []service{},
		Targets:      []targetView{},
	}
	v.Labels = maps.Clone(lb.Labels)
	v.PrivateNet = []schema.LoadBalancerPrivateNet{}
	for _, m := range p.memberships(lb.resource.ActionResourceReference) {
		if m.status != attaching {
			v.PrivateNet = append(v.PrivateNet, schema.LoadBalancerPrivateNet{Network: m.network.ID, IP: m.ip.String()})
		}
	}
	for _, s := range lb.services {
		v.Services = append(v.Services, s.clone())
	}
	for _, t := range lb.targets {
		v.Targets = append(v.Targets, p.targetView(lb, t))
	}
	return v
}

var loadBalancerList = collection[*loadBalancer]{
	key:     "load_balancers",
	id:      func(lb *loadBalancer) int64 { return lb.ID },
	labels:  func(lb *loadBalancer) map[string]string { return lb.Labels },
	filters: map[string]func(*loadBalancer) string{"name": func(lb *loadBalancer) string { return lb.Name }},
	sorts: map[string]func(a, b *loadBalancer) int{
		"id":      by(func(lb *loadBalancer) int64 { return lb.ID }),
		"name":    by(func(lb *loadBalancer) string { return lb.Name }),
		"created": by(func(lb *loadBalancer) int64 { return lb.Created.Unix() }),
	},
}

var loadBalancerRoutes = merge(routes{
	"GET /load_balancers":                                        {http.StatusOK, listLoadBalancers},
	"POST /load_balancers":                                       {http.StatusCreated, createLoadBalancer},
	"GET /load_balancers/{id}":                                   {http.StatusOK, getLoadBalancer},
	"PUT /load_balancers/{id}":                                   {http.StatusOK, updateLoadBalancer},
	"DELETE /load_balancers/{id}":                                {http.StatusCreated, deleteLoadBalancer},
	"POST /load_balancers/{id}/actions/add_service":              {http.StatusCreated, addService},
	"POST /load_balancers/{id}/actions/update_service":           {http.StatusCreated, updateService},
	"POST /load_balancers/{id}/actions/delete_service":           {http.StatusCreated, deleteService},
	"POST /load_balancers/{id}/actions/add_target":               {http.StatusCreated, addTarget},
	"POST /load_balancers/{id}/actions/remove_target":            {http.StatusCreated, removeTarget},
	"POST /load_balancers/{id}/actions/attach_to_network":        {http.StatusCreated, attachLoadBalancer},
	"POST /load_balancers/{id}/actions/detach_from_network":      {http.StatusCreated, detachLoadBalancer},
	"POST /load_balancers/{id}/actions/enable_public_interface":  {http.StatusCreated, enablePublicInterface},
	"POST /load_balancers/{id}/actions/disable_public_interface": {http.StatusCreated, disablePublicInterface},
	"POST /load_balancers/{id}/actions/change_algorithm":         {http.StatusCreated, changeAlgorithm},
	"POST /load_balancers/{id}/actions/change_type":              {http.StatusCreated, changeLoadBalancerType},
	"POST /load_balancers/{id}/actions/change_dns_ptr":           {http.StatusCreated, changeLoadBalancerPtr},
	"POST /load_balancers/{id}/actions/change_protection":        {http.StatusCreated, changeLoadBalancerProtection},
}, actionRoutesOf("/load_balancers", "load_balancer", func(r *request) error {
	_, err := r.loadBalancer()
	return err
}))

func (r *request) loadBalancer() (*loadBalancer, error) {
	if lb, ok := r.project.loadBalancers[r.id]; ok {
		return lb, nil
	}
	return nil, notFound("load balancer", r.id)
}

// idleLoadBalancer is the load balancer of a request that changes it. Users see
// this very conflict when changes overlap; that every action causes it is a
// guess.
func (r *request) idleLoadBalancer() (*loadBalancer, error) {
	lb, err := r.loadBalancer()
	if err != nil {
		return nil, err
	}
	if lb.resource.busy() {
		return nil, failure(http.StatusConflict, "conflict", "load balancer has changed during request") // seen live
	}
	return lb, nil
}

func listLoadBalancers(r *request) (any, error) {
	page, err := loadBalancerList.list(r, byID(r.project.loadBalancers))
	if err != nil {
		return nil, err
	}
	answer := page.(object)
	views := []loadBalancerView{}
	for _, lb := range answer["load_balancers"].([]*loadBalancer) {
		views = append(views, lb.view(r.project))
	}
	answer["load_balancers"] = views
	return answer, nil
}

func getLoadBalancer(r *request) (any, error) {
	lb, err := r.loadBalancer()
	if err != nil {
		return nil, err
	}
	return object{"load_balancer": lb.view(r.project)}, nil
}

// createLoadBalancer applies API reference, create a load balancer. That the
// answer already shows services, targets, and addresses, while the network
// appears when the action ends, is a guess.
func createLoadBalancer(r *request) (any, error) {
	var in struct {
		Name             string            `json:"name"`
		LoadBalancerType schema.IDOrName   `json:"load_balancer_type"`
		Algorithm        *algorithm        `json:"algorithm"`
		Labels           map[string]string `json:"labels"`
		Location         schema.IDOrName   `json:"location"`
		NetworkZone      string            `json:"network_zone"`
		Network          int64             `json:"network"`
		PublicInterface  *bool             `json:"public_interface"`
		PublicNet        struct {
			IPv4 int64 `json:"ipv4"`
			IPv6 int64 `json:"ipv6"`
		} `json:"public_net"`
		Services []service       `json:"services"`
		Targets  []targetRequest `json:"targets"`
	}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if err := r.checkLoadBalancer(0, in.Name, in.Labels); err != nil {
		return nil, err
	}
	if len(r.project.loadBalancers) >= r.project.settings.Limits.LoadBalancers {
		return nil, limitExceeded("load_balancers", "load balancer limit reached") // guess: worded as for servers
	}
	lb := &loadBalancer{ips: publicIPs{}}
	lb.Name = in.Name
	lb.Labels = orEmpty(in.Labels)
	lb.Created = now()
	lb.PublicNet.Enabled = in.PublicInterface == nil || *in.PublicInterface
	var err error
	if lb.LoadBalancerType, err = pickLoadBalancerType(in.LoadBalancerType); err != nil {
		return nil, err
	}
	lb.IncludedTraffic = lb.LoadBalancerType.Prices[0].IncludedTraffic
	if lb.Location, err = locationOrZone(in.Location, in.NetworkZone); err != nil {
		return nil, err
	}
	lb.Algorithm.Type = "round_robin"
	if in.Algorithm != nil {
		if err := in.Algorithm.check("algorithm.type"); err != nil {
			return nil, err
		}
		lb.Algorithm.Type = in.Algorithm.Type
	}
	claimed, err := r.claim(in.PublicNet.IPv4, in.PublicNet.IPv6, lb.Location)
	switch {
	case err != nil:
		return nil, err
	case len(claimed) > 0 && !lb.PublicNet.Enabled: // API reference
		return nil, invalid("public_net", "requires the public interface")
	}

	lb.ID = r.cloud.nextID("load_balancer")
	lb.resource.ActionResourceReference = schema.ActionResourceReference{ID: lb.ID, Type: "load_balancer"}
	var m membership
	if in.Network != 0 {
		if m, err = r.joinLoadBalancer(lb, in.Network, seat{}); err != nil {
			return nil, err
		}
	}
	if err := r.furnish(lb, in.Services, in.Targets); err != nil {
		r.project.removeLoadBalancer(lb) // out of the network again
		return nil, err
	}
	for _, ip := range claimed {
		lb.ips.assign(ip, lb.resource.ActionResourceReference)
	}
	for _, typ := range []string{ipv4, ipv6} {
		if lb.ips[typ] == nil {
			lb.ips[typ] = r.cloud.newAddress(typ, lb.Location)
		}
	}
	r.project.loadBalancers[lb.ID] = lb

	// That the load balancer vanishes again when its creation fails is a guess.
	a := &action{
		done: func() {
			if m.member != nil {
				m.status = attached
			}
			r.checkLater(lb)
		},
		undo: func() { r.project.removeLoadBalancer(lb) },
	}
	a.Command = "create_load_balancer"
	r.start(a, &lb.resource)
	return object{"load_balancer": lb.view(r.project), "action": a.Action}, nil
}

// furnish gives a new load balancer its services and targets.
func (r *request) furnish(lb *loadBalancer, services []service, targets []targetRequest) error {
	for i := range services {
		s := &services[i]
		if err := r.checkService(lb, s, nil, http.StatusPreconditionFailed); err != nil {
			return err
		}
		lb.services = append(lb.services, s)
	}
	for _, in := range targets {
		t, err := r.newTarget(lb, in)
		if err != nil {
			return err
		}
		lb.targets = append(lb.targets, t)
	}
	return nil
}

func (r *request) checkLoadBalancer(id int64, name string, labels map[string]string) error {
	if err := checkName(name); err != nil {
		return err
	}
	for _, lb := range r.project.loadBalancers {
		if lb.Name == name && lb.ID != id {
			return notUnique("name", "name is already used") // seen live
		}
	}
	return checkLabels(labels)
}

func pickLoadBalancerType(ref schema.IDOrName) (t schema.LoadBalancerType, err error) {
	if ref == (schema.IDOrName{}) {
		return t, required("load_balancer_type")
	}
	t, ok := pick(loadBalancerTypes, ref, loadBalancerTypeID, loadBalancerTypeName)
	if !ok {
		return t, rejected("load_balancer_type", "load balancer type not found")
	}
	return t, nil
}

// locationOrZone is where a load balancer goes, which official clients require
// to be said in one of two ways. Which location of a zone it gets is a guess.
func locationOrZone(ref schema.IDOrName, zone string) (schema.Location, error) {
	none := ref == (schema.IDOrName{})
	switch {
	case none && zone == "":
		return schema.Location{}, invalid("location", "either location or network_zone is required")
	case !none && zone != "":
		return schema.Location{}, invalid("network_zone", "cannot be set together with location")
	case none:
		for _, l := range locations {
			if l.NetworkZone == zone {
				return l, nil
			}
		}
		return schema.Location{}, invalid("network_zone", "does not exist")
	}
	l, ok := pick(locations, ref, locationID, locationName)
	if !ok {
		return l, rejected("location", "location not found")
	}
	return l, nil
}

// algorithm is in the API reference, create a load balancer.
type algorithm schema.LoadBalancerAlgorithm

func (a algorithm) check(field string) error {
	switch a.Type {
	case "round_robin", "least_connections":
		return nil
	case "":
		return required(field)
	}
	return invalid(field, "must be one of round_robin, least_connections")
}

// updateLoadBalancer works on a protected one, too, which is a guess.
func updateLoadBalancer(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	in := update{Name: lb.Name}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.Labels == nil {
		in.Labels = lb.Labels
	}
	if err := r.checkLoadBalancer(lb.ID, in.Name, in.Labels); err != nil {
		return nil, err
	}
	lb.Name, lb.Labels = in.Name, in.Labels
	return object{"load_balancer": lb.view(r.project)}, nil
}

// balance starts an action on a load balancer. API reference, actions: the
// names of the commands, except delete_load_balancer, which is a guess.
func (r *request) balance(lb *loadBalancer, command string, a *action, on ...*resource) (any, error) {
	a.Command = command
	r.start(a, append([]*resource{&lb.resource}, on...)...)
	return object{"action": a.Action}, nil
}

// deleteLoadBalancer answers with an action since 2026-10-05. Changelog, load
// balancers. That it is gone at once, and while another action runs cannot be
// deleted, are guesses.
func deleteLoadBalancer(r *request) (any, error) {
	lb, err := r.loadBalancer()
	if err != nil {
		return nil, err
	}
	if lb.Protection.Delete {
		return nil, protected("load balancer")
	}
	if lb, err = r.idleLoadBalancer(); err != nil {
		return nil, err
	}
	return r.balance(lb, "delete_load_balancer", &action{begin: func() { r.project.removeLoadBalancer(lb) }})
}

func (p *project) removeLoadBalancer(lb *loadBalancer) {
	delete(p.loadBalancers, lb.ID)
	for _, m := range p.memberships(lb.resource.ActionResourceReference) {
		m.network.leave(m.member)
	}
	p.release(lb.ips)
}

// joinLoadBalancer reserves a load balancer's place in a network. API
// reference, attach a load balancer to a network: in one network at most.
func (r *request) joinLoadBalancer(lb *loadBalancer, id int64, want seat) (membership, error) {
	n, ok := r.project.networks[id]
	switch {
	case id == 0:
		return membership{}, required("network")
	case !ok:
		return membership{}, noSuch("network", "network", id)
	case len(r.project.memberships(lb.resource.ActionResourceReference)) > 0:
		return membership{}, unprocessable("load_balancer_already_attached", "load balancer is already attached to a network")
	}
	want.zone = lb.Location.NetworkZone
	m, err := r.join(n, lb.resource.ActionResourceReference, want)
	return membership{n, m}, err
}

func attachLoadBalancer(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	var in struct {
		Network int64  `json:"network"`
		IP      string `json:"ip"`
		IPRange string `json:"ip_range"`
	}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	m, err := r.joinLoadBalancer(lb, in.Network, seat{ip: in.IP, ipRange: in.IPRange})
	if err != nil {
		return nil, err
	}
	return r.balance(lb, "attach_to_network", &action{
		done: func() { m.status = attached },
		undo: func() { m.network.leave(m.member) },
	}, &m.network.resource)
}

// detachLoadBalancer drops the targets that were reached through the network,
// as a comment in Terraform's provider says. That it works without a public
// interface, too, is a guess.
func detachLoadBalancer(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	var in schema.LoadBalancerActionDetachFromNetworkRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.Network == 0 {
		return nil, required("network")
	}
	for _, m := range r.project.memberships(lb.resource.ActionResourceReference) {
		if m.network.ID != in.Network {
			continue
		}
		if err := m.network.idle(); err != nil {
			return nil, err
		}
		return r.balance(lb, "detach_from_network", &action{
			begin: func() { m.status = detaching },
			done: func() {
				m.network.leave(m.member)
				r.project.dropUnreachable()
			},
		}, &m.network.resource)
	}
	return nil, failure(http.StatusNotFound, "not_found", "load balancer is not attached to network with ID %d", in.Network) // guess, as for servers
}

func enablePublicInterface(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	return r.balance(lb, "enable_public_interface", &action{done: func() { lb.PublicNet.Enabled = true }})
}

func disablePublicInterface(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	if len(r.project.memberships(lb.resource.ActionResourceReference)) == 0 {
		return nil, notAttached()
	}
	for _, t := range lb.targets {
		if !t.private() {
			return nil, unprocessable("targets_without_use_private_ip", "load balancer has targets that use the public IP")
		}
	}
	return r.balance(lb, "disable_public_interface", &action{done: func() { lb.PublicNet.Enabled = false }})
}

func changeAlgorithm(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	var in algorithm
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if err := in.check("type"); err != nil {
		return nil, err
	}
	return r.balance(lb, "change_algorithm", &action{done: func() { lb.Algorithm.Type = in.Type }})
}

// changeLoadBalancerType refuses a type that is too small. API reference,
// change the type of a load balancer. That the same type is refused is a guess.
func changeLoadBalancerType(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	var in schema.LoadBalancerActionChangeTypeRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	t, err := pickLoadBalancerType(in.LoadBalancerType)
	if err != nil {
		return nil, err
	}
	if t.ID == lb.LoadBalancerType.ID || len(lb.services) > t.MaxServices || len(lb.targets) > t.MaxTargets || len(lb.certificates()) > t.MaxAssignedCertificates {
		return nil, unprocessable("invalid_load_balancer_type", "load balancer type does not fit for the given load balancer")
	}
	return r.balance(lb, "change_load_balancer_type", &action{done: func() { lb.LoadBalancerType = t }})
}

func changeLoadBalancerPtr(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	change, err := r.readPtr(lb.ips[ipv4], lb.ips[ipv6])
	if err != nil {
		return nil, err
	}
	return r.balance(lb, "change_dns_ptr", &action{done: change})
}

func changeLoadBalancerProtection(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	in := lb.Protection
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	return r.balance(lb, "change_protection", &action{quick: true, done: func() { lb.Protection = in }})
}
