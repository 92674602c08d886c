package loadbalancer

import (
	"fmt"
	"slices"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"

	"example.com/ccm-from-scratch/final/events"
)

// Warning is an event about something that works otherwise than one may think.
type Warning struct {
	Reason events.Reason
	Text   string
}

// warn returns what a Service asks of its load balancer that no load balancer
// of this cloud can do, and what has no effect the way it is said.
func warn(service *corev1.Service, s *Settings) []Warning {
	var w []Warning
	ignored := func(format string, args ...any) {
		w = append(w, Warning{events.SpecNotSupported, fmt.Sprintf(format, args...)})
	}
	spec := service.Spec
	if len(spec.LoadBalancerSourceRanges) > 0 {
		ignored("spec.loadBalancerSourceRanges %v has no effect: traffic is NOT restricted, everybody can connect; annotation %srefuse-source-ranges refuses that", spec.LoadBalancerSourceRanges, Prefix)
	}
	if spec.LoadBalancerIP != "" {
		ignored("spec.loadBalancerIP %s has no effect: use the annotation %spublic-net-ipv4 or %[2]sprivate-ipv4", spec.LoadBalancerIP, Prefix)
	}
	if spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		ignored("spec.sessionAffinity ClientIP has no effect: targets see the address of the load balancer; with http or https use the annotation %shttp-sticky-sessions", Prefix)
	}
	if len(spec.IPFamilies) == 1 && spec.IPFamilies[0] == corev1.IPv6Protocol && !s.UsePrivateIP {
		ignored("spec.ipFamilies [IPv6] has no effect: targets are reached by IPv4")
	}
	return append(w, warnAnnotations(service, s)...)
}

// warnType tells of a type that will not be there for ever.
func warnType(t *hcloud.LoadBalancerType) []Warning {
	if !t.IsDeprecated() {
		return nil
	}
	return []Warning{{events.LoadBalancerTypeDeprecated, fmt.Sprintf("type %s is deprecated, and cannot be had any more from %s on: set annotation %stype to another one", t.Name, t.UnavailableAfter().Format(time.DateOnly), Prefix)}}
}

// httpOnly are annotations that have no effect on tcp listeners.
var httpOnly = []string{
	"http-cookie-name", "http-cookie-lifetime", "http-timeout-idle", "http-redirect-http", "http-sticky-sessions",
	"http-certificates", "http-managed-certificate-domains", "http-tls-secret",
}

func warnAnnotations(service *corev1.Service, s *Settings) []Warning {
	var w []Warning
	noEffect := func(format string, args ...any) {
		w = append(w, Warning{events.AnnotationWithoutEffect, fmt.Sprintf(format, args...)})
	}
	for _, key := range unknownAnnotations(service) {
		noEffect("annotation %s is not known", key)
	}
	web := slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return s.Protocol.At(int(p.Port)) != hcloud.LoadBalancerServiceProtocolTCP
	})
	for _, name := range httpOnly {
		if !web && s.has(name) {
			noEffect("annotation %s%s has no effect: all ports have the protocol tcp", Prefix, name)
		}
	}
	for _, name := range aboutPods {
		if asksKubeProxy(service, s) && s.has(name) {
			noEffect("annotation %s%s has no effect: with spec.externalTrafficPolicy Local kube-proxy is asked, unless %[1]shealth-check-port or %[1]shealth-check-protocol says what to ask", Prefix, name)
		}
	}
	if s.has("location") && s.Location != "" && s.has("network-zone") {
		noEffect("annotation %snetwork-zone has no effect: %[1]slocation wins", Prefix)
	}
	for name, ports := range map[string][]int{"protocol": keys(s.Protocol), "uses-proxyprotocol": keys(s.ProxyProtocol)} {
		for _, n := range ports {
			if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == n }) {
				noEffect("annotation %s%s: the Service has no port %d", Prefix, name, n)
			}
		}
	}
	if s.DisablePublicNetwork && s.DisablePrivateIngress && s.Hostname == "" {
		noEffect("annotations %sdisable-public-network and %[1]sdisable-private-ingress together leave no address for the status: remove one, or set %[1]shostname", Prefix)
	}
	return w
}

func keys[T any](p PerPort[T]) []int {
	var ports []int
	for port := range p.Ports {
		ports = append(ports, port)
	}
	slices.Sort(ports)
	return ports
}
