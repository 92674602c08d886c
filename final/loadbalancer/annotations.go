// Package loadbalancer keeps one load balancer for each Service that asks for
// one. Data flow in one direction:
//
//	annotations + Service + Nodes + configuration → Desired    (pure)
//	Desired + the load balancer as the API shows it → []Step   (pure)
//	[]Step → requests                                          (Reconciler)
//
// Nothing else changes a load balancer that exists, so a plan can be printed
// instead. What is no step: that load balancers are created and deleted, and
// certificates, which listeners need before.
package loadbalancer

import (
	"net/netip"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/apimachinery/pkg/labels"
)

// Prefix is that of the names of all annotations, which are those of the
// official CCM as far as it has them.
const Prefix = "load-balancer.hetzner.cloud/"

// Settings is what the annotations of a Service say, and the configuration where
// they say nothing.
type Settings struct {
	Name                  string
	Location, NetworkZone string
	Type                  string
	Algorithm             hcloud.LoadBalancerAlgorithmType
	DisablePublicNetwork  bool
	PublicIPv4            int64 // ID of a Primary IP
	PublicIPv6            int64
	IPv4RDNS, IPv6RDNS    string
	IPv6Disabled          bool
	DisablePrivateIngress bool
	Hostname              string
	UsePrivateIP          bool
	PrivateIPv4           netip.Addr
	PrivateSubnet         netip.Prefix
	NodeSelector          labels.Selector

	Protocol      PerPort[hcloud.LoadBalancerServiceProtocol]
	ProxyProtocol PerPort[bool]

	CookieName     string
	CookieLifetime time.Duration
	TimeoutIdle    time.Duration
	RedirectHTTP   bool
	StickySessions bool

	CertificateType  hcloud.CertificateType
	Certificates     []string // IDs or names
	Domains          []string // of the managed certificate
	CertificateName  string   // of the managed certificate
	ACMEStaging      bool
	TLSSecret        string // name of a Secret in the Service's namespace
	HealthProtocol   hcloud.LoadBalancerServiceProtocol
	HealthPort       int
	HealthInterval   time.Duration
	HealthTimeout    time.Duration
	HealthRetries    int
	HealthDomain     string
	HealthPath       string
	HealthTLS        bool
	HealthStatusCode []string

	TakeOver bool
	Release  bool
	NoRepair bool

	RefuseSourceRanges bool

	healthConfigured bool // the configuration says something about health checks

	given map[string]bool // names, without Prefix, of the annotations that are there
}

// has tells whether the Service has one of the annotations.
func (s *Settings) has(names ...string) bool {
	for _, name := range names {
		if s.given[name] {
			return true
		}
	}
	return false
}

// Scope says when an annotation takes effect.
type Scope string

// Scopes.
const (
	AtCreation Scope = "creation" // later changes are not applied, and a Warning says so
	Always     Scope = "always"   // changes are applied, and removal brings back the default
	InStatus   Scope = "status"   // concerns what the Service shows, not the load balancer
	Never      Scope = "never"    // known, so that it is no typing error, but not read
)

// Annotation is a row of the table that the parser, the reference page, and the
// admission policy are made from.
type Annotation struct {
	Name     string // without Prefix
	Values   string // what it may be, for people
	Default  string // what holds without it, for people; empty if nothing does
	Variable string // environment variable with a default for all Services, if there is one
	Scope    Scope
	Doc      string

	cel string // the rule for values as a CEL expression about the string v
	set func(*Settings, string) error
}

// row makes an Annotation whose value is of a kind and goes into a field.
func row[T any](name string, k kind[T], field func(*Settings) *T, a Annotation) Annotation {
	a.Name, a.Values, a.cel = name, k.values, k.cel
	a.set = func(s *Settings, value string) (err error) {
		v, err := k.parse(value)
		if err == nil {
			*field(s) = v
		}
		return err
	}
	return a
}

// Annotations is the table.
var Annotations = []Annotation{
	row("name", name, func(s *Settings) *string { return &s.Name },
		Annotation{Scope: Always, Default: "a and the Service's UID", Doc: "Name of the load balancer. If there is one of that name that belongs to nobody, it is adopted: its other listeners and targets stay, and what no annotation asks for, such as its type or its network, stays as it is; its name in any case. So does the load balancer when the Service goes."}),
	row("location", place, func(s *Settings) *string { return &s.Location },
		Annotation{Scope: AtCreation, Variable: "HCLOUD_LOAD_BALANCERS_LOCATION", Doc: "Location of the load balancer. Wins over the network zone. Empty means that the variable does not count."}),
	row("network-zone", place, func(s *Settings) *string { return &s.NetworkZone },
		Annotation{Scope: AtCreation, Variable: "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", Doc: "Network zone of the load balancer, as an alternative to the location."}),
	row("type", typeName, func(s *Settings) *string { return &s.Type },
		Annotation{Scope: Always, Default: "lb11", Variable: "HCLOUD_LOAD_BALANCERS_TYPE", Doc: "Type of the load balancer. Without the annotation a load balancer keeps its type: a smaller one might not have room for what is there."}),
	row("algorithm-type", enum(hcloud.LoadBalancerAlgorithmTypeRoundRobin, hcloud.LoadBalancerAlgorithmTypeLeastConnections), func(s *Settings) *hcloud.LoadBalancerAlgorithmType { return &s.Algorithm },
		Annotation{Scope: Always, Default: "round_robin", Variable: "HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE", Doc: "How the load balancer chooses a target."}),
	row("disable-public-network", boolean, func(s *Settings) *bool { return &s.DisablePublicNetwork },
		Annotation{Scope: Always, Default: "false", Variable: "HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK", Doc: "Turn the public interface off. Needs a network, and use-private-ip."}),
	row("public-net-ipv4", id, func(s *Settings) *int64 { return &s.PublicIPv4 },
		Annotation{Scope: AtCreation, Doc: "ID of a Primary IP that becomes the load balancer's public IPv4 address, and survives it."}),
	row("public-net-ipv6", id, func(s *Settings) *int64 { return &s.PublicIPv6 },
		Annotation{Scope: AtCreation, Doc: "ID of a Primary IP that becomes the load balancer's public IPv6 address, and survives it."}),
	row("ipv4-rdns", domain, func(s *Settings) *string { return &s.IPv4RDNS },
		Annotation{Scope: Always, Default: "that of the API", Doc: "Reverse DNS entry of the public IPv4 address."}),
	row("ipv6-rdns", domain, func(s *Settings) *string { return &s.IPv6RDNS },
		Annotation{Scope: Always, Default: "that of the API", Doc: "Reverse DNS entry of the public IPv6 address."}),
	row("ipv6-disabled", boolean, func(s *Settings) *bool { return &s.IPv6Disabled },
		Annotation{Scope: InStatus, Default: "false", Variable: "HCLOUD_LOAD_BALANCERS_DISABLE_IPV6", Doc: "Leave the public IPv6 address out of the status."}),
	row("disable-private-ingress", boolean, func(s *Settings) *bool { return &s.DisablePrivateIngress },
		Annotation{Scope: InStatus, Default: "false", Variable: "HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS", Doc: "Leave the private IP out of the status."}),
	row("hostname", hostname, func(s *Settings) *string { return &s.Hostname },
		Annotation{Scope: InStatus, Doc: "Show this host name, and no IPs, in the status. Traffic within the cluster then goes through the load balancer."}),
	row("use-private-ip", boolean, func(s *Settings) *bool { return &s.UsePrivateIP },
		Annotation{Scope: Always, Default: "false", Variable: "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP", Doc: "Reach the targets through the network. A change moves a part of the targets at a time, and waits until they are healthy."}),
	row("private-ipv4", ipv4, func(s *Settings) *netip.Addr { return &s.PrivateIPv4 },
		Annotation{Scope: Always, Default: "a free one", Doc: "Address of the load balancer in the network. A change takes it out of the network for a moment."}),
	row("private-subnet-ip-range", cidr, func(s *Settings) *netip.Prefix { return &s.PrivateSubnet },
		Annotation{Scope: Always, Default: "any subnet", Variable: "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE", Doc: "Subnet in which the load balancer gets its private address. A change takes it out of the network for a moment."}),
	row("node-selector", selector, func(s *Settings) *labels.Selector { return &s.NodeSelector },
		Annotation{Scope: Always, Default: "all Nodes", Doc: "Labels of the Nodes that become targets. Follows changes of the Nodes' labels."}),
	row("protocol", perPort(enum(hcloud.LoadBalancerServiceProtocolTCP, hcloud.LoadBalancerServiceProtocolHTTP, hcloud.LoadBalancerServiceProtocolHTTPS)), func(s *Settings) *PerPort[hcloud.LoadBalancerServiceProtocol] { return &s.Protocol },
		Annotation{Scope: Always, Default: "tcp", Doc: "Protocol of the listeners."}),
	row("uses-proxyprotocol", perPort(boolean), func(s *Settings) *PerPort[bool] { return &s.ProxyProtocol },
		Annotation{Scope: Always, Default: "false", Variable: "HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL", Doc: "Talk the PROXY protocol to the targets. The status then has ipMode Proxy: traffic within the cluster goes through the load balancer."}),
	row("http-cookie-name", cookie, func(s *Settings) *string { return &s.CookieName },
		Annotation{Scope: Always, Default: "HCLBSTICKY", Doc: "Name of the cookie for sticky sessions."}),
	row("http-cookie-lifetime", seconds(30, 86400), func(s *Settings) *time.Duration { return &s.CookieLifetime },
		Annotation{Scope: Always, Default: "300s", Doc: "Lifetime of the cookie for sticky sessions."}),
	row("http-timeout-idle", seconds(30, 300), func(s *Settings) *time.Duration { return &s.TimeoutIdle },
		Annotation{Scope: Always, Default: "50s", Doc: "When an idle connection is closed."}),
	row("http-redirect-http", boolean, func(s *Settings) *bool { return &s.RedirectHTTP },
		Annotation{Scope: Always, Default: "false", Doc: "Redirect port 80 to the https listener, to that of port 443 if there are several. A port 80 of the Service then has no listener of its own."}),
	row("http-sticky-sessions", boolean, func(s *Settings) *bool { return &s.StickySessions },
		Annotation{Scope: Always, Default: "false", Doc: "Send a client to the same target each time, by a cookie."}),
	row("certificate-type", enum(hcloud.CertificateTypeUploaded, hcloud.CertificateTypeManaged), func(s *Settings) *hcloud.CertificateType { return &s.CertificateType },
		Annotation{Scope: Always, Default: "uploaded", Doc: "uploaded: the certificates are those of http-certificates. managed: Hetzner has one issued for http-managed-certificate-domains."}),
	row("http-certificates", list(word), func(s *Settings) *[]string { return &s.Certificates },
		Annotation{Scope: Always, Doc: "Certificates of https listeners."}),
	row("http-managed-certificate-domains", list(wildcard), func(s *Settings) *[]string { return &s.Domains },
		Annotation{Scope: Always, Doc: "Domains of the managed certificate. When they change, the old one serves until the new one has been issued."}),
	row("http-managed-certificate-name", name, func(s *Settings) *string { return &s.CertificateName },
		Annotation{Scope: Always, Default: "ccm-managed-certificate- and the Service's UID", Doc: "Name of the managed certificate. If there is one of that name with the same domains, it is used."}),
	row("http-managed-certificate-acme-staging", boolean, func(s *Settings) *bool { return &s.ACMEStaging },
		Annotation{Scope: AtCreation, Default: "false", Doc: "Have the managed certificate issued by the staging CA."}),
	row("http-tls-secret", secretName, func(s *Settings) *string { return &s.TLSSecret },
		Annotation{Scope: Always, Doc: "Secret of type kubernetes.io/tls, in the Service's namespace, that is uploaded as certificate of https listeners, and again when it changes."}),
	row("health-check-protocol", enum(hcloud.LoadBalancerServiceProtocolTCP, hcloud.LoadBalancerServiceProtocolHTTP, hcloud.LoadBalancerServiceProtocolHTTPS), func(s *Settings) *hcloud.LoadBalancerServiceProtocol { return &s.HealthProtocol },
		Annotation{Scope: Always, Default: "tcp; the listener's if there is any other health check annotation or variable", Doc: "Protocol of the health check."}),
	row("health-check-port", number(1, 65535), func(s *Settings) *int { return &s.HealthPort },
		Annotation{Scope: Always, Default: "the node port; with externalTrafficPolicy Local healthCheckNodePort", Doc: "Port of the health check. With externalTrafficPolicy Local kube-proxy is asked, which knows the Nodes that have a pod, unless this annotation or health-check-protocol is there."}),
	row("health-check-interval", seconds(3, 60), func(s *Settings) *time.Duration { return &s.HealthInterval },
		Annotation{Scope: Always, Default: "15s", Variable: "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL", Doc: "Time between two health checks."}),
	row("health-check-timeout", seconds(1, 60), func(s *Settings) *time.Duration { return &s.HealthTimeout },
		Annotation{Scope: Always, Default: "10s", Variable: "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT", Doc: "When a health check has failed."}),
	row("health-check-retries", number(1, 5), func(s *Settings) *int { return &s.HealthRetries },
		Annotation{Scope: Always, Default: "3", Variable: "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", Doc: "Failures in a row that make a target unhealthy."}),
	row("health-check-http-domain", domain, func(s *Settings) *string { return &s.HealthDomain },
		Annotation{Scope: Always, Doc: "Host name that the health check asks for. Not for kube-proxy, see health-check-port."}),
	row("health-check-http-path", path, func(s *Settings) *string { return &s.HealthPath },
		Annotation{Scope: Always, Default: "/", Doc: "Path that the health check asks for. Not for kube-proxy, see health-check-port."}),
	row("health-check-http-validate-certificate", boolean, func(s *Settings) *bool { return &s.HealthTLS },
		Annotation{Scope: Always, Default: "false", Doc: "Use TLS for the health check, and check the target's certificate. Not for kube-proxy, see health-check-port."}),
	row("http-status-codes", list(statusCode), func(s *Settings) *[]string { return &s.HealthStatusCode },
		Annotation{Scope: Always, Default: "2??,3??", Doc: "Status codes that mean healthy. Not for kube-proxy, see health-check-port."}),
	row("takeover", boolean, func(s *Settings) *bool { return &s.TakeOver },
		Annotation{Scope: Always, Default: "false", Doc: "Take the load balancer that the annotation name names, whatever its labels and listeners, unless a Service of this cluster has it. It then is the Service's own: what else is on it goes, and so does it with the Service."}),
	row("release", boolean, func(s *Settings) *bool { return &s.Release },
		Annotation{Scope: Always, Default: "false", Doc: "Let go of the load balancer: it keeps working as it is, loses the labels of Service and cluster, and stays when the Service goes. Without the annotation it is taken back; one whose name is that of an annotation, and that the Service has made, by takeover."}),
	row("repair-disabled", boolean, func(s *Settings) *bool { return &s.NoRepair },
		Annotation{Scope: Always, Default: "false", Doc: "Do not look for changes that somebody else has made to the load balancer. Changes of the Service and of Nodes are still applied, and undo them."}),
	row("refuse-source-ranges", boolean, func(s *Settings) *bool { return &s.RefuseSourceRanges },
		Annotation{Scope: Always, Default: "false", Doc: "Refuse the Service if it has spec.loadBalancerSourceRanges, which no load balancer of this cloud can obey. Without the annotation everybody is served, and an event says so. A load balancer that is there already stays as it is."}),
	unread("id"),
	unread("ipv4"),
	unread("ipv6"),
}

// unread is an annotation that the official documentation mentions, and nothing reads.
func unread(name string) Annotation {
	return Annotation{
		Name: name, Values: "anything", Scope: Never, cel: "true",
		Doc: "Not read. The status of the Service has the addresses.",
		set: func(*Settings, string) error { return nil },
	}
}
