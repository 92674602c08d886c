package loadbalancer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"

	"example.com/ccm-from-scratch/final/events"
)

func TestWantListeners(t *testing.T) {
	tcp := func(port, nodePort int) Listener {
		return Listener{Port: port, NodePort: nodePort, Protocol: "tcp", Health: Health{Protocol: "tcp", Port: nodePort, Interval: 15 * time.Second, Timeout: 10 * time.Second, Retries: 3}}
	}
	with := func(l Listener, change func(*Listener)) Listener {
		change(&l)
		return l
	}
	http := func(redirect bool) *HTTP {
		return &HTTP{CookieName: "HCLBSTICKY", CookieLifetime: 300 * time.Second, TimeoutIdle: 50 * time.Second, Redirect: redirect}
	}
	check := func(path string) *HealthHTTP { return &HealthHTTP{Path: path, StatusCodes: []string{"2??", "3??"}} }
	local := func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 31999
	}
	tests := []struct {
		name        string
		annotations map[string]string
		ports       []int32
		change      func(*corev1.Service)
		want        []Listener
	}{
		{name: "in order", ports: []int32{443, 80}, want: []Listener{tcp(80, 30080), tcp(443, 30443)}},
		{
			name: "S25 Local asks kube-proxy", ports: []int32{80}, change: local,
			want: []Listener{with(tcp(80, 30080), func(l *Listener) {
				l.Health.Protocol, l.Health.Port, l.Health.HTTP = "http", 31999, check("/healthz")
			})},
		},
		{
			name: "S25 kube-proxy answers as kube-proxy does", ports: []int32{443}, change: local,
			annotations: map[string]string{
				"protocol": "https", "http-certificates": "web", "health-check-http-domain": "example.org", "health-check-http-path": "/up",
				"health-check-http-validate-certificate": "true", "http-status-codes": "418", "health-check-interval": "20",
			},
			want: []Listener{with(tcp(443, 30443), func(l *Listener) {
				l.Protocol, l.HTTP = "https", http(false)
				l.Health.Protocol, l.Health.Port, l.Health.Interval, l.Health.HTTP = "http", 31999, 20*time.Second, check("/healthz")
			})},
		},
		{
			name: "S25 an annotation says what to ask", ports: []int32{80}, change: local,
			annotations: map[string]string{"health-check-protocol": "tcp", "health-check-port": "9000"},
			want:        []Listener{with(tcp(80, 30080), func(l *Listener) { l.Health.Port = 9000 })},
		},
		{
			name: "S25 the interval leaves the port", ports: []int32{80}, annotations: map[string]string{"health-check-interval": "20"},
			want: []Listener{with(tcp(80, 30080), func(l *Listener) { l.Health.Interval = 20 * time.Second })},
		},
		{
			name: "a path makes the check one by http", ports: []int32{80}, annotations: map[string]string{"health-check-http-path": "/up"},
			want: []Listener{with(tcp(80, 30080), func(l *Listener) { l.Health.Protocol, l.Health.HTTP = "http", check("/up") })},
		},
		{
			name: "https is http with TLS", ports: []int32{80}, annotations: map[string]string{"health-check-protocol": "https"},
			want: []Listener{with(tcp(80, 30080), func(l *Listener) {
				l.Health.Protocol, l.Health.HTTP = "http", check("/")
				l.Health.HTTP.TLS = true
			})},
		},
		{
			name: "a protocol and PROXY for some ports", ports: []int32{80, 443}, annotations: map[string]string{"protocol": "80=http", "uses-proxyprotocol": "443=true"},
			want: []Listener{
				with(tcp(80, 30080), func(l *Listener) { l.Protocol, l.HTTP = "http", http(false) }),
				with(tcp(443, 30443), func(l *Listener) { l.ProxyProtocol = true }),
			},
		},
		{
			name: "S27 a redirect takes port 80, at one listener only", ports: []int32{80, 443, 8443},
			annotations: map[string]string{"protocol": "https", "http-redirect-http": "true", "http-certificates": "web"},
			want: []Listener{
				with(tcp(443, 30443), func(l *Listener) { l.Protocol, l.HTTP = "https", http(true) }),
				with(tcp(8443, 30443), func(l *Listener) { l.Protocol, l.HTTP = "https", http(false) }),
			},
		},
		{
			name: "S27 a redirect without https is none", ports: []int32{80}, annotations: map[string]string{"http-redirect-http": "true"},
			want: []Listener{tcp(80, 30080)},
		},
		{
			name: "S13 UDP on the same port", ports: []int32{443, 443}, change: func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP },
			want: []Listener{tcp(443, 30443)},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			service := web(test.annotations, test.ports...)
			if test.change != nil {
				test.change(service)
			}
			s, err := Parse(service, small)
			if err != nil {
				t.Fatal(err)
			}
			d, _, err := Want(service, nil, s, network)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, d.Listeners); diff != "" {
				t.Errorf("listeners (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHealthVariable makes the check that of the listener's protocol, as any
// annotation about it does.
func TestHealthVariable(t *testing.T) {
	service := web(map[string]string{"protocol": "80=http"}, 80, 443)
	defaults := small
	defaults.HealthTimeout = 5 * time.Second
	d := want(t, service, nil, defaults)
	got := map[int]Health{}
	for _, l := range d.Listeners {
		got[l.Port] = l.Health
	}
	want := map[int]Health{
		80: {
			Protocol: "http", Port: 30080, Interval: 15 * time.Second, Timeout: 5 * time.Second, Retries: 3,
			HTTP: &HealthHTTP{Path: "/", StatusCodes: []string{"2??", "3??"}},
		},
		443: {Protocol: "tcp", Port: 30443, Interval: 15 * time.Second, Timeout: 5 * time.Second, Retries: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("health checks (-want +got):\n%s", diff)
	}
}

// TestWarnings are about what has no effect, or none for ever.
func TestWarnings(t *testing.T) {
	service := web(map[string]string{"health-check-http-path": "/up", "http-cookie-name": "a"}, 80)
	service.Spec.ExternalTrafficPolicy, service.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 31999
	s, err := Parse(service, small)
	if err != nil {
		t.Fatal(err)
	}
	deprecated := hcloud.LoadBalancerType{Name: "lb11", DeprecatableResource: hcloud.DeprecatableResource{
		Deprecation: &hcloud.DeprecationInfo{UnavailableAfter: time.Unix(0, 0).UTC()},
	}}
	got := append(append(warn(service, s), warnType(&deprecated)...), warnType(&hcloud.LoadBalancerType{Name: "lb21"})...)
	want := []Warning{
		{events.AnnotationWithoutEffect, "annotation " + Prefix + "http-cookie-name has no effect: all ports have the protocol tcp"},
		{events.AnnotationWithoutEffect, "annotation " + Prefix + "health-check-http-path has no effect: with spec.externalTrafficPolicy Local kube-proxy is asked, unless " + Prefix + "health-check-port or " + Prefix + "health-check-protocol says what to ask"},
		{events.LoadBalancerTypeDeprecated, "type lb11 is deprecated, and cannot be had any more from 1970-01-01 on: set annotation " + Prefix + "type to another one"},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(events.Reason{})); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestWantErrors(t *testing.T) {
	tests := []struct {
		name        string
		annotations map[string]string
		network     *hcloud.Network
		change      func(*corev1.Service)
		want        []string
	}{
		{name: "S12 UDP only", network: network, change: func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }, want: []string{"port 80/UDP: load balancers serve TCP only"}},
		{name: "L15 no node port", network: network, change: func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 }, want: []string{"port 80 has no node port: set allocateLoadBalancerNodePorts to true"}},
		{name: "S30 no network", annotations: map[string]string{"use-private-ip": "true", "private-ipv4": "10.0.0.5"}, want: []string{"use-private-ip or variable HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP needs a network: set HCLOUD_NETWORK", "private-ipv4 needs a network: set HCLOUD_NETWORK"}},
		{name: "no way to the targets", network: network, annotations: map[string]string{"disable-public-network": "true"}, want: []string{"disable-public-network leaves no way to the targets"}},
		{
			name: "S23 nobody is to be served who should not be", network: network, annotations: map[string]string{"refuse-source-ranges": "true"},
			change: func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24"} },
			want:   []string{"refuse-source-ranges: load balancers cannot restrict traffic to spec.loadBalancerSourceRanges [203.0.113.0/24]"},
		},
		{name: "https without a certificate", network: network, annotations: map[string]string{"protocol": "https"}, want: []string{"https needs a certificate"}},
		{name: "a managed certificate without domains", network: network, annotations: map[string]string{"protocol": "https", "certificate-type": "managed"}, want: []string{"needs domains"}},
		{name: "an address outside of the subnet", network: network, annotations: map[string]string{"private-ipv4": "10.0.0.5", "private-subnet-ip-range": "10.1.0.0/24"}, want: []string{"10.0.0.5 is not in the subnet 10.1.0.0/24"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			service := web(test.annotations, 80)
			if test.change != nil {
				test.change(service)
			}
			s, err := Parse(service, small)
			if err != nil {
				t.Fatal(err)
			}
			d, _, err := Want(service, nil, s, test.network)
			if err == nil || d != nil {
				t.Fatalf("Want = %+v, %v; want an error", d, err)
			}
			for _, text := range test.want {
				if !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error = %q, want one line with %q", err, text)
				}
			}
		})
	}
}

func TestS17Targets(t *testing.T) {
	all := nodes(3, 1)
	pending, foreign := nodes(4)[0], nodes(5)[0]
	pending.Spec.ProviderID, foreign.Spec.ProviderID = "", "k3s://x"
	targets, warnings := wantTargets(append(all, pending, foreign), Defaults{}.settings().NodeSelector)
	if diff := cmp.Diff([]Target{{1, "node-1"}, {3, "node-3"}}, targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	want := []Warning{
		{events.NodeNotInitialized, "no target yet, not initialized: Node node-4"},
		{events.NodeOfOtherProvider, "no target, of another provider: Node node-5"},
	}
	if diff := cmp.Diff(want, warnings, cmpopts.EquateComparable(events.Reason{})); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
