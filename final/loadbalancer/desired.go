package loadbalancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudprovider "k8s.io/cloud-provider"

	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/providerid"
)

// Desired is what a Service and its Nodes ask for.
type Desired struct {
	Name   string
	Labels map[string]string

	Type      string
	TypeGiven bool // by an annotation; otherwise an existing load balancer keeps its own

	Location, NetworkZone  string // where to create it; at most one
	PublicIPv4, PublicIPv6 int64  // Primary IPs to create it with; 0 if none
	Algorithm              hcloud.LoadBalancerAlgorithmType
	Public                 bool
	Network                int64        // to attach it to; 0 if none
	PrivateIP              netip.Addr   // in Network; zero if any
	Subnet                 netip.Prefix // of Network; zero if any
	IPv4RDNS, IPv6RDNS     string       // empty for the API's

	Listeners    []Listener // by port
	Targets      []Target   // by server
	UsePrivateIP bool

	// Failed are ports without a listener, and why, in a word.
	Failed map[corev1.ServicePort]string
	ports  []corev1.ServicePort // of the Service
	keep   []int64              // certificates that are needed, or will be
}

// Listener takes connections at Port, and passes them on to NodePort of the targets.
type Listener struct {
	Port, NodePort int
	Protocol       hcloud.LoadBalancerServiceProtocol
	ProxyProtocol  bool
	HTTP           *HTTP // nil for tcp
	Health         Health
}

// HTTP is what listeners have for http and https only.
type HTTP struct {
	CookieName     string
	CookieLifetime time.Duration
	TimeoutIdle    time.Duration
	StickySessions bool
	Redirect       bool    // also listen on port 80, and redirect from there
	Certificates   []int64 // IDs, in ascending order
}

// Health is how a load balancer finds out whether a target works.
type Health struct {
	Protocol hcloud.LoadBalancerServiceProtocol // tcp or http
	Port     int
	Interval time.Duration
	Timeout  time.Duration
	Retries  int
	HTTP     *HealthHTTP // nil for tcp
}

// HealthHTTP is what the check asks for, and the answer that it wants.
type HealthHTTP struct {
	Domain, Path string
	StatusCodes  []string
	TLS          bool
}

// Target is a server, and the Node that it is.
type Target struct {
	Server int64
	Node   string
}

// Want returns what a Service asks for, and what it asks for in vain. An error
// says all that is wrong with the Service; nothing has been changed by then, so
// the last good state goes on working. Certificates are yet to be filled in.
func Want(service *corev1.Service, nodes []*corev1.Node, s *Settings, network *hcloud.Network) (*Desired, []Warning, error) {
	d := &Desired{
		Name:         cmp.Or(s.Name, cloudprovider.DefaultLoadBalancerName(service)),
		Labels:       map[string]string{ServiceLabel: string(service.UID)},
		Type:         s.Type,
		TypeGiven:    s.has("type"),
		Location:     s.Location,
		PublicIPv4:   s.PublicIPv4,
		PublicIPv6:   s.PublicIPv6,
		Algorithm:    s.Algorithm,
		Public:       !s.DisablePublicNetwork,
		UsePrivateIP: s.UsePrivateIP,
		IPv4RDNS:     s.IPv4RDNS,
		IPv6RDNS:     s.IPv6RDNS,
	}
	if d.Location == "" {
		d.NetworkZone = s.NetworkZone
	}
	if network != nil {
		d.Network, d.PrivateIP, d.Subnet = network.ID, s.PrivateIPv4, s.PrivateSubnet
	}
	err := joinErrors(checkNetwork(s, network), checkCertificates(s, service), checkSourceRanges(s, service))
	listeners, refused := wantListeners(service, s)
	d.Listeners = listeners
	if len(listeners) == 0 {
		for _, r := range refused {
			err = joinErrors(err, r)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	targets, warnings := wantTargets(nodes, s.NodeSelector)
	d.Targets = targets
	d.Failed, d.ports = map[corev1.ServicePort]string{}, service.Spec.Ports
	for _, r := range refused {
		d.Failed[r.port] = r.reason
		warnings = append(warnings, Warning{events.PortNotServed, r.Error()})
	}
	return d, append(warnings, warn(service, s)...), nil
}

// checkNetwork refuses what no load balancer can be. One without its public
// interface has to be in a network, and all its targets too. API reference,
// disable the public interface.
func checkNetwork(s *Settings, network *hcloud.Network) error {
	var errs []error
	switch {
	case network == nil && s.UsePrivateIP:
		errs = append(errs, fmt.Errorf("annotation %suse-private-ip or variable HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP needs a network: set HCLOUD_NETWORK", Prefix))
	case s.DisablePublicNetwork && !s.UsePrivateIP:
		errs = append(errs, fmt.Errorf("annotation %sdisable-public-network leaves no way to the targets: set %[1]suse-private-ip to true", Prefix))
	}
	if network == nil && s.DisablePublicNetwork {
		errs = append(errs, fmt.Errorf("annotation %sdisable-public-network needs a network: set HCLOUD_NETWORK", Prefix))
	}
	for _, name := range []string{"private-ipv4", "private-subnet-ip-range"} {
		if network == nil && s.has(name) {
			errs = append(errs, fmt.Errorf("annotation %s%s needs a network: set HCLOUD_NETWORK", Prefix, name))
		}
	}
	if s.PrivateIPv4.IsValid() && s.PrivateSubnet.IsValid() && !s.PrivateSubnet.Contains(s.PrivateIPv4) {
		errs = append(errs, fmt.Errorf("annotation %sprivate-ipv4: %s is not in the subnet %s", Prefix, s.PrivateIPv4, s.PrivateSubnet))
	}
	if s.DisablePublicNetwork && s.has("public-net-ipv4", "public-net-ipv6") {
		errs = append(errs, fmt.Errorf("annotations %spublic-net-ipv4 and -ipv6 need the public network: remove them, or %[1]sdisable-public-network", Prefix))
	}
	return joinErrors(errs...)
}

// checkCertificates refuses an https listener without a certificate.
func checkCertificates(s *Settings, service *corev1.Service) error {
	https := slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return s.Protocol.At(int(p.Port)) == hcloud.LoadBalancerServiceProtocolHTTPS
	})
	switch {
	case !https:
		return nil
	case s.CertificateType == hcloud.CertificateTypeManaged && len(s.Domains) == 0:
		return fmt.Errorf("annotation %scertificate-type: a managed certificate needs domains: set %[1]shttp-managed-certificate-domains", Prefix)
	case s.CertificateType == hcloud.CertificateTypeUploaded && len(s.Certificates) == 0 && s.TLSSecret == "":
		return fmt.Errorf("annotation %sprotocol: https needs a certificate: set %[1]shttp-certificates, %[1]shttp-tls-secret, or %[1]scertificate-type to managed", Prefix)
	}
	return nil
}

// checkSourceRanges refuses what would be open to everybody, if people want that.
func checkSourceRanges(s *Settings, service *corev1.Service) error {
	if ranges := service.Spec.LoadBalancerSourceRanges; s.RefuseSourceRanges && len(ranges) > 0 {
		return fmt.Errorf("annotation %srefuse-source-ranges: load balancers cannot restrict traffic to spec.loadBalancerSourceRanges %v: remove one of the two", Prefix, ranges)
	}
	return nil
}

// portError says why a port of a Service has no listener.
type portError struct {
	port   corev1.ServicePort
	reason string // for the port's status
	text   string
}

func (e *portError) Error() string { return e.text }

// wantListeners returns a listener for each port that can have one.
func wantListeners(service *corev1.Service, s *Settings) (listeners []Listener, refused []*portError) {
	redirect := redirectPort(service, s)
	for _, port := range service.Spec.Ports {
		n := int(port.Port)
		switch {
		case port.Protocol != corev1.ProtocolTCP:
			refused = append(refused, &portError{port, "UnsupportedProtocol", fmt.Sprintf("port %d/%s: load balancers serve TCP only", n, port.Protocol)})
		case port.NodePort == 0:
			refused = append(refused, &portError{port, "NoNodePort", fmt.Sprintf("port %d has no node port: set allocateLoadBalancerNodePorts to true", n)})
		case n == 80 && redirect != 0:
			// The redirect answers there.
		default:
			listeners = append(listeners, wantListener(service, port, s, n == redirect))
		}
	}
	slices.SortFunc(listeners, func(a, b Listener) int { return a.Port - b.Port })
	return listeners, refused
}

// redirectPort is the port of the one listener that redirects port 80 to itself:
// 443, or the lowest other one; 0 if there is none.
func redirectPort(service *corev1.Service, s *Settings) int {
	if !s.RedirectHTTP {
		return 0
	}
	var ports []int
	for _, port := range service.Spec.Ports {
		n := int(port.Port)
		if port.Protocol == corev1.ProtocolTCP && n != 80 && s.Protocol.At(n) == hcloud.LoadBalancerServiceProtocolHTTPS {
			ports = append(ports, n)
		}
	}
	switch {
	case len(ports) == 0:
		return 0
	case slices.Contains(ports, 443):
		return 443
	}
	return slices.Min(ports)
}

func wantListener(service *corev1.Service, port corev1.ServicePort, s *Settings, redirect bool) Listener {
	l := Listener{
		Port:          int(port.Port),
		NodePort:      int(port.NodePort),
		Protocol:      s.Protocol.At(int(port.Port)),
		ProxyProtocol: s.ProxyProtocol.At(int(port.Port)),
	}
	if l.Protocol != hcloud.LoadBalancerServiceProtocolTCP {
		l.HTTP = &HTTP{
			CookieName:     s.CookieName,
			CookieLifetime: s.CookieLifetime,
			TimeoutIdle:    s.TimeoutIdle,
			StickySessions: s.StickySessions,
			Redirect:       redirect,
		}
	}
	l.Health = wantHealth(service, s, l)
	return l
}

// asksKubeProxy tells whether the health check is for kube-proxy, which knows the
// Nodes that have a pod, and not for the pods.
func asksKubeProxy(service *corev1.Service, s *Settings) bool {
	return service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && service.Spec.HealthCheckNodePort != 0 &&
		!s.has("health-check-protocol", "health-check-port")
}

// aboutPods are annotations that say how pods answer a health check.
var aboutPods = []string{"health-check-http-domain", "health-check-http-path", "health-check-http-validate-certificate", "http-status-codes"}

// wantHealth follows the node port, so that a new one is never checked at the
// old place. kube-proxy answers in plain HTTP, and not in the words of pods.
func wantHealth(service *corev1.Service, s *Settings, l Listener) Health {
	h := Health{
		Protocol: hcloud.LoadBalancerServiceProtocolTCP,
		Port:     l.NodePort,
		Interval: s.HealthInterval,
		Timeout:  s.HealthTimeout,
		Retries:  s.HealthRetries,
	}
	http := HealthHTTP{Domain: s.HealthDomain, Path: s.HealthPath, StatusCodes: s.HealthStatusCode, TLS: s.HealthTLS}
	onHTTP := s.has(aboutPods...)
	onAny := s.healthConfigured || s.has("health-check-port", "health-check-interval", "health-check-timeout", "health-check-retries")
	switch {
	case s.HealthProtocol != "":
		h.Protocol = s.HealthProtocol
	case asksKubeProxy(service, s):
		h.Protocol, h.Port = hcloud.LoadBalancerServiceProtocolHTTP, int(service.Spec.HealthCheckNodePort)
		http = HealthHTTP{Path: "/healthz", StatusCodes: []string{"2??", "3??"}}
	case onHTTP:
		h.Protocol = hcloud.LoadBalancerServiceProtocolHTTP
	case onAny:
		h.Protocol = l.Protocol
	}
	if h.Protocol == hcloud.LoadBalancerServiceProtocolHTTPS { // which the API calls http with TLS
		h.Protocol, http.TLS = hcloud.LoadBalancerServiceProtocolHTTP, true
	}
	if s.HealthPort != 0 {
		h.Port = s.HealthPort
	}
	if h.Protocol == hcloud.LoadBalancerServiceProtocolHTTP {
		h.HTTP = &http
	}
	return h
}

// wantTargets returns the servers of the Nodes that are selected. A Node may be
// new, or of another cloud: the others must not wait for it.
func wantTargets(nodes []*corev1.Node, selector labels.Selector) (targets []Target, warnings []Warning) {
	var pending, foreign []string
	for _, node := range nodes {
		if !selector.Matches(labels.Set(node.Labels)) {
			continue
		}
		server, err := providerid.Parse(node.Spec.ProviderID)
		switch {
		case node.Spec.ProviderID == "":
			pending = append(pending, node.Name)
		case err != nil:
			foreign = append(foreign, node.Name)
		default:
			targets = append(targets, Target{server, node.Name})
		}
	}
	slices.SortFunc(targets, func(a, b Target) int { return cmp.Compare(a.Server, b.Server) })
	targets = slices.CompactFunc(targets, func(a, b Target) bool { return a.Server == b.Server })
	if len(pending) > 0 {
		warnings = append(warnings, Warning{events.NodeNotInitialized, "no target yet, not initialized: Node " + join(pending)})
	}
	if len(foreign) > 0 {
		warnings = append(warnings, Warning{events.NodeOfOtherProvider, "no target, of another provider: Node " + join(foreign)})
	}
	if len(targets) == 0 && len(nodes) > 0 && !selector.Empty() {
		warnings = append(warnings, Warning{events.NoTargets, fmt.Sprintf("annotation %snode-selector: no Node matches %q", Prefix, selector)})
	}
	return targets, warnings
}

// join lists names, a few of many.
func join(names []string) string {
	slices.Sort(names)
	if n := len(names) - 5; n > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:5], ", "), n)
	}
	return strings.Join(names, ", ")
}
