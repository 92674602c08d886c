package cloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// service is a listener of a load balancer. API reference, load balancers.
type service struct {
	schema.LoadBalancerService
	HealthCheck healthCheck `json:"health_check"`
	since       time.Time   // of its existence; the zero time while it is new
}

// healthCheck lacks http where hcloud-go's schema would say null.
type healthCheck struct {
	schema.LoadBalancerServiceHealthCheck
	HTTP *schema.LoadBalancerServiceHealthCheckHTTP `json:"http,omitempty"`
}

// UnmarshalJSON reads what a request says about a service, and leaves or fills
// in the rest. Clients may omit nearly everything, whatever the API reference
// marks as required. The defaults of ports are asserted by Terraform's
// acceptance tests, those of http come from the API reference, those of the
// health check are guesses.
func (s *service) UnmarshalJSON(text []byte) error {
	if s.HealthCheck.Protocol == "" {
		s.HealthCheck.LoadBalancerServiceHealthCheck = schema.LoadBalancerServiceHealthCheck{Protocol: "tcp", Interval: 15, Timeout: 10, Retries: 3}
	}
	s.addHTTP()
	type fields service // has no UnmarshalJSON
	if err := json.Unmarshal(text, (*fields)(s)); err != nil {
		return err
	}
	s.addHTTP() // where the request says null
	web := s.Protocol == "http" || s.Protocol == "https"
	if s.DestinationPort == 0 && web {
		s.DestinationPort = 80
	}
	switch {
	case s.ListenPort != 0:
	case s.Protocol == "http":
		s.ListenPort = 80
	case s.Protocol == "https":
		s.ListenPort = 443
	}
	if s.HealthCheck.Port == 0 {
		s.HealthCheck.Port = s.DestinationPort
	}
	if !web {
		s.HTTP = nil
	}
	if s.HealthCheck.Protocol != "http" {
		s.HealthCheck.HTTP = nil
	}
	return nil
}

// addHTTP gives a service what it needs for http, if it lacks that.
func (s *service) addHTTP() {
	if s.HTTP == nil {
		s.HTTP = &schema.LoadBalancerServiceHTTP{CookieName: "HCLBSTICKY", CookieLifetime: 300, TimeoutIdle: 50}
	}
	if s.HealthCheck.HTTP == nil {
		s.HealthCheck.HTTP = &schema.LoadBalancerServiceHealthCheckHTTP{Path: "/", StatusCodes: []string{"2??", "3??"}}
	}
}

// clone shares no memory with s.
func (s *service) clone() service {
	c := *s
	if s.HTTP != nil {
		http := *s.HTTP
		http.Certificates = append([]int64{}, http.Certificates...)
		c.HTTP = &http
	}
	if s.HealthCheck.HTTP != nil {
		http := *s.HealthCheck.HTTP
		http.StatusCodes = append([]string{}, http.StatusCodes...)
		c.HealthCheck.HTTP = &http
	}
	return c
}

// ports are those that a service listens on. That a redirect takes port 80 is a
// guess.
func (s *service) ports() []int {
	if s.HTTP != nil && s.HTTP.RedirectHTTP {
		return []int{s.ListenPort, 80}
	}
	return []int{s.ListenPort}
}

// certificates are those of all services, each once.
func (lb *loadBalancer) certificates() []int64 {
	ids := []int64{}
	for _, s := range lb.services {
		if s.HTTP != nil {
			ids = append(ids, s.HTTP.Certificates...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// checkService refuses a service that a load balancer cannot have, in addition
// to or in place of another one. API reference, load balancers; the status of a
// port in use differs between its operations.
func (r *request) checkService(lb *loadBalancer, s, replaced *service, portInUse int) error {
	if err := s.check(); err != nil {
		return err
	}
	after := loadBalancer{services: []*service{s}}
	used := s.ports()
	for _, other := range lb.services {
		if other != replaced {
			after.services = append(after.services, other)
			used = append(used, other.ports()...)
		}
	}
	slices.Sort(used)
	if len(slices.Compact(slices.Clone(used))) < len(used) {
		return failure(portInUse, "source_port_already_used", "source port is already used")
	}
	if len(after.services) > lb.LoadBalancerType.MaxServices {
		return limitExceeded("load_balancer_services", "load balancer service limit reached") // guess
	}
	if s.Protocol != "https" {
		return nil
	}
	// Passthrough, for which the API reference has an empty list, is the
	// protocol tcp for all known clients. That it is refused is a guess.
	if len(s.HTTP.Certificates) == 0 {
		return invalid("http.certificates", "is required for https")
	}
	for _, id := range s.HTTP.Certificates {
		if r.project.certificates[id] == nil {
			return noSuch("http.certificates", "certificate", id)
		}
	}
	if len(after.certificates()) > lb.LoadBalancerType.MaxAssignedCertificates {
		return limitExceeded("load_balancer_certificates", "load balancer certificate limit reached") // guess
	}
	return nil
}

// check applies the bounds of the API reference.
func (s *service) check() error {
	if s.Protocol == "" {
		return required("protocol")
	}
	if err := oneOf("protocol", s.Protocol, "tcp", "http", "https"); err != nil {
		return err
	}
	for _, number := range []struct {
		name              string
		value, least, top int
	}{
		{"listen_port", s.ListenPort, 1, 65535},
		{"destination_port", s.DestinationPort, 1, 65535},
		{"health_check.port", s.HealthCheck.Port, 1, 65535},
		{"health_check.interval", s.HealthCheck.Interval, 3, 60},
		{"health_check.timeout", s.HealthCheck.Timeout, 1, 60},
		{"health_check.retries", s.HealthCheck.Retries, 1, 5},
	} {
		if err := inBounds(number.name, number.value, number.least, number.top); err != nil {
			return err
		}
	}
	if err := oneOf("health_check.protocol", s.HealthCheck.Protocol, "tcp", "http"); err != nil {
		return err
	}
	if http := s.HTTP; http != nil {
		switch {
		case http.CookieName == "" || len(http.CookieName) > 100:
			return invalid("http.cookie_name", "must have 1 to 100 characters")
		case http.RedirectHTTP && s.Protocol != "https":
			return invalid("http.redirect_http", "is only available for https")
		}
		if err := inBounds("http.cookie_lifetime", http.CookieLifetime, 30, 86400); err != nil {
			return err
		}
		if err := inBounds("http.timeout_idle", http.TimeoutIdle, 30, 300); err != nil {
			return err
		}
	}
	if http := s.HealthCheck.HTTP; http != nil {
		switch {
		case http.Path == "" || len(http.Path) > 256 || strings.Contains(http.Path, " "):
			return invalid("health_check.http.path", "must have 1 to 256 characters and no spaces")
		case len(http.Domain) > 128 || strings.ContainsAny(http.Domain, ` %\`):
			return invalid("health_check.http.domain", `must have at most 128 characters and no space, percent, or backslash`)
		case len(http.Response) > 256:
			return invalid("health_check.http.response", "must have at most 256 characters")
		case len(http.StatusCodes) > 20:
			return invalid("health_check.http.status_codes", "must be at most 20")
		}
	}
	return nil
}

func inBounds(name string, value, least, top int) error {
	if value < least || value > top {
		return invalid(name, "must be from %d to %d", least, top)
	}
	return nil
}

func oneOf(name, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return invalid(name, "must be one of %s", strings.Join(allowed, ", "))
	}
	return nil
}

func addService(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	s := &service{}
	if err := r.decode(s); err != nil {
		return nil, err
	}
	check := func() error { return r.checkService(lb, s, nil, http.StatusPreconditionFailed) }
	if err := check(); err != nil {
		return nil, err
	}
	return r.balance(lb, "add_service", &action{done: func() {
		if check() == nil { // its certificate may be gone
			lb.services = append(lb.services, s)
			r.checkLater(lb)
		}
	}})
}

// service is the one of a listen port. The message was seen live.
func (lb *loadBalancer) service(port int) (*service, error) {
	i := slices.IndexFunc(lb.services, func(s *service) bool { return s.ListenPort == port })
	switch {
	case port == 0:
		return nil, required("listen_port")
	case i < 0:
		return nil, failure(http.StatusNotFound, "not_found", "service with listen port %d for load balancer with ID %d not found", port, lb.ID)
	}
	return lb.services[i], nil
}

// updateService changes what the body names. API reference, update a service.
func updateService(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	var in schema.LoadBalancerDeleteServiceRequest // which is the listen port
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	old, err := lb.service(in.ListenPort)
	if err != nil {
		return nil, err
	}
	s := old.clone()
	if err := r.decode(&s); err != nil {
		return nil, err
	}
	check := func() error { return r.checkService(lb, &s, old, http.StatusUnprocessableEntity) }
	if err := check(); err != nil {
		return nil, err
	}
	return r.balance(lb, "update_service", &action{done: func() {
		if check() == nil {
			*old = s
		}
	}})
}

func deleteService(r *request) (any, error) {
	lb, err := r.idleLoadBalancer()
	if err != nil {
		return nil, err
	}
	var in schema.LoadBalancerDeleteServiceRequest
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	s, err := lb.service(in.ListenPort)
	if err != nil {
		return nil, err
	}
	return r.balance(lb, "delete_service", &action{done: func() {
		lb.services = slices.DeleteFunc(lb.services, func(other *service) bool { return other == s })
	}})
}

// Labels by which a server says how it answers to health checks, which only
// the lab knows: on all ports, and on one.
const (
	healthLabel     = "lab/health"
	healthPortLabel = healthLabel + "-%d"
)

// health is the result of a service's checks on a target: on a server, or on an
// address of which nothing is known if that is nil. Until the first check it is
// unknown. A running server answers, unless a label says otherwise; that its
// status follows at once, and the details, are guesses.
func (s *service) health(p *project, since time.Time, on *server) healthStatus {
	status := healthStatus{ListenPort: s.ListenPort, Status: "unknown"}
	if since.Before(s.since) {
		since = s.since
	}
	if since.IsZero() || time.Since(since) < p.checkDelay(s) {
		return status
	}
	status.Status = "healthy"
	if on == nil {
		return status
	}
	wanted, ok := on.Labels[fmt.Sprintf(healthPortLabel, s.HealthCheck.Port)]
	if !ok {
		wanted = on.Labels[healthLabel]
	}
	switch {
	case on.Status != "running":
		status.Status, status.Detail = "unhealthy", "layer4_timeout"
	case wanted == "unknown":
		status.Status = "unknown"
	case wanted == "unhealthy" && s.HealthCheck.Protocol == "http":
		status.Status, status.Detail, status.HTTPStatusCode = "unhealthy", "unexpected_http_status", http.StatusServiceUnavailable
	case wanted == "unhealthy":
		status.Status, status.Detail = "unhealthy", "layer4_no_connection"
	}
	return status
}

// healthStatus omits what is only there for unhealthy targets.
// API reference, load balancers.
type healthStatus struct {
	ListenPort     int    `json:"listen_port"`
	Status         string `json:"status"`
	Detail         string `json:"detail,omitempty"`
	HTTPStatusCode int    `json:"http_status_code,omitempty"`
}

// checkDelay is how long a new target or service is unknown.
func (p *project) checkDelay(s *service) time.Duration {
	if p.settings.Profile == Instant {
		return p.duration("health_check")
	}
	return time.Duration(s.HealthCheck.Interval) * time.Second
}

// checkLater starts the health checks of what is new in a load balancer, and
// tells subscribers when their results are there.
func (r *request) checkLater(lb *loadBalancer) {
	t := time.Now()
	var longest time.Duration
	for _, s := range lb.services {
		if s.since.IsZero() {
			s.since = t
		}
		longest = max(longest, r.project.checkDelay(s))
	}
	for _, target := range lb.targets {
		if target.since.IsZero() {
			target.since = t
		}
	}
	if longest > 0 {
		r.cloud.after(longest, func() {})
	}
}
