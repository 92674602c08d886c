package loadbalancer

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var network = &hcloud.Network{ID: 7}

// web is a Service with these TCP ports.
func web(annotations map[string]string, ports ...int32) *corev1.Service {
	s := annotated(annotations)
	s.ObjectMeta = metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "11111111-2222-3333-4444-555555555555", Annotations: s.Annotations}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	for _, port := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint(port), Port: port, NodePort: 30000 + port%1000, Protocol: corev1.ProtocolTCP})
	}
	return s
}

func nodes(ids ...int64) []*corev1.Node {
	var all []*corev1.Node
	for _, id := range ids {
		all = append(all, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", id), Labels: map[string]string{"pool": []string{"edge", "core"}[id%2]}},
			Spec:       corev1.NodeSpec{ProviderID: fmt.Sprint("hcloud://", id)},
		})
	}
	return all
}

// small are the defaults of the tests.
var small = Defaults{Location: "fsn1", Type: "small"}

// want is Want with certificates, as the Reconciler fills them in.
func want(t *testing.T, service *corev1.Service, nodes []*corev1.Node, defaults Defaults) *Desired {
	t.Helper()
	s, err := Parse(service, defaults)
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := Want(service, nodes, s, network)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range d.Listeners {
		if l.Protocol == hcloud.LoadBalancerServiceProtocolHTTPS {
			l.HTTP.Certificates = []int64{int64(1 + len(s.Certificates))}
		}
	}
	return d
}

// kinds are the steps of a plan, without their numbers.
func kinds(steps []Step) []string {
	var all []string
	for _, s := range steps {
		all = append(all, s.What())
	}
	return all
}

func TestPlanOrder(t *testing.T) {
	health := func(status hcloud.LoadBalancerTargetHealthStatusStatus) func(m *model) {
		return func(m *model) {
			for i := range m.lb.Targets {
				m.lb.Targets[i].HealthStatus = []hcloud.LoadBalancerTargetHealthStatus{{ListenPort: 80, Status: status}}
			}
		}
	}
	tests := []struct {
		name        string
		before      *corev1.Service
		nodesBefore []int64
		change      func(*model)
		after       *corev1.Service
		nodesAfter  []int64
		want        []string
		wantWaiting bool
	}{
		{
			name: "S35 nothing", before: web(nil, 80), after: web(nil, 80), nodesBefore: []int64{1, 2}, nodesAfter: []int64{1, 2},
		},
		{
			name: "S18 new targets come before old ones go", before: web(nil, 80), after: web(nil, 80),
			nodesBefore: []int64{1, 2}, nodesAfter: []int64{3, 4},
			want: []string{"add target server 3 (Node node-3)", "add target server 4 (Node node-4)", "remove target server 1", "remove target server 2"},
		},
		{
			name: "S15 without room an old target makes some", before: web(nil, 80), after: web(nil, 80),
			nodesBefore: []int64{1, 2, 3, 4}, nodesAfter: []int64{5, 6, 3, 4},
			want: []string{"remove target server 1", "add target server 5 (Node node-5)", "remove target server 2", "add target server 6 (Node node-6)"},
		},
		{
			name: "a new port comes before an old one goes", before: web(nil, 81, 82), after: web(nil, 83, 84),
			want: []string{"add listener 83", "delete listener 81", "add listener 84", "delete listener 82"},
		},
		{
			name: "ports at the limit are replaced", before: web(nil, 80, 81, 82), after: web(nil, 83, 84, 82),
			want: []string{"delete listener 80", "add listener 83", "delete listener 81", "add listener 84"},
		},
		{
			name: "S27 a redirect waits for port 80", before: web(nil, 80),
			after: web(map[string]string{"protocol": "https", "http-redirect-http": "true", "http-certificates": "1"}, 443),
			want:  []string{"delete listener 80", "add listener 443"},
		},
		{
			name:   "S27 a redirect moves to another port",
			before: web(map[string]string{"protocol": "https", "http-redirect-http": "true", "http-certificates": "1"}, 443),
			after:  web(map[string]string{"protocol": "https", "http-redirect-http": "true", "http-certificates": "1"}, 8443),
			want:   []string{"delete listener 443", "add listener 8443"},
		},
		{
			name: "S25 the health check follows the node port", before: web(nil, 80),
			after: func() *corev1.Service { s := web(nil, 80); s.Spec.Ports[0].NodePort = 31000; return s }(),
			want:  []string{"update listener 80"},
		},
		{
			name: "L8 healthy targets are moved by the quarter", before: web(nil, 80), nodesBefore: []int64{1, 2, 3, 4},
			change: health(hcloud.LoadBalancerTargetHealthStatusStatusHealthy),
			after:  web(map[string]string{"use-private-ip": "true"}, 80), nodesAfter: []int64{1, 2, 3, 4},
			want: []string{"move target server 1 (Node node-1)"}, wantWaiting: true,
		},
		{
			name: "L8 nothing moves while something settles", before: web(nil, 80), nodesBefore: []int64{1, 2},
			change: func(m *model) {
				health(hcloud.LoadBalancerTargetHealthStatusStatusHealthy)(m)
				m.lb.Targets[1].UsePrivateIP = true
				m.lb.Targets[1].HealthStatus[0].Status = hcloud.LoadBalancerTargetHealthStatusStatusUnknown
			},
			after: web(map[string]string{"use-private-ip": "true"}, 80), nodesAfter: []int64{1, 2},
			wantWaiting: true,
		},
		{
			name: "L8 unhealthy targets are no loss", before: web(nil, 80), nodesBefore: []int64{1, 2},
			change: health(hcloud.LoadBalancerTargetHealthStatusStatusUnhealthy),
			after:  web(map[string]string{"use-private-ip": "true"}, 80), nodesAfter: []int64{1, 2},
			want: []string{"move target server 1 (Node node-1)", "move target server 2 (Node node-2)"},
		},
		{
			name: "L8 what moves is there before what is old goes", before: web(nil, 80), nodesBefore: []int64{1, 2},
			after: web(map[string]string{"use-private-ip": "true"}, 80), nodesAfter: []int64{1},
			want: []string{"move target server 1 (Node node-1)", "remove target server 2"},
		},
		{
			name: "S27 protocols change without a listener going", before: web(map[string]string{"protocol": "https", "http-certificates": "1"}, 443),
			after: web(map[string]string{"protocol": "tcp", "http-sticky-sessions": "true"}, 443),
			want:  []string{"update listener 443"},
		},
		{
			name: "a redirect gives up port 80 before a listener takes it", before: web(map[string]string{"protocol": "443=https", "http-certificates": "1", "http-redirect-http": "true"}, 80, 443),
			after: web(map[string]string{"protocol": "443=https", "http-certificates": "1"}, 80, 443),
			want:  []string{"update listener 443", "add listener 80"},
		},
		{
			name: "S32 a larger type comes first, a smaller one last", before: web(nil, 80), after: web(map[string]string{"type": "large"}, 80), nodesAfter: []int64{1},
			want: []string{"change type to large", "add target server 1 (Node node-1)"},
		},
		{
			name: "S32 no annotation, no smaller type", before: web(map[string]string{"type": "large"}, 80), after: web(nil, 80),
		},
		{
			name: "S32 a smaller type comes last", before: web(map[string]string{"type": "large"}, 80, 81, 82, 83), after: web(map[string]string{"type": "small"}, 80), nodesAfter: []int64{1},
			want: []string{"add target server 1 (Node node-1)", "delete listener 81", "delete listener 82", "delete listener 83", "change type to small"},
		},
		{
			name: "S32 a type without room for all targets costs none", before: web(map[string]string{"type": "large"}, 80), after: web(map[string]string{"type": "small"}, 80),
			nodesBefore: []int64{1, 2, 3, 4, 5}, nodesAfter: []int64{1, 2, 3, 4, 5},
		},
		{
			name: "S32 a type without room for all ports costs none", before: web(map[string]string{"type": "large"}, 80, 81, 82, 83), after: web(map[string]string{"type": "small"}, 80, 81, 82, 83),
		},
		{
			name: "S02 a rename is one request", before: web(nil, 80), after: web(map[string]string{"name": "edge"}, 80),
			want: []string{"set name and labels of edge"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := create(t, want(t, test.before, nodes(test.nodesBefore...), small))
			if test.change != nil {
				test.change(m)
			}
			d := want(t, test.after, nodes(test.nodesAfter...), small)
			steps, waiting := m.pass(d, types3[d.Type])
			if diff := cmp.Diff(test.want, kinds(steps)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if waiting != test.wantWaiting {
				t.Errorf("waiting = %t, want %t", waiting, test.wantWaiting)
			}
		})
	}
}

// TestRemovalIsDeclarative sets each annotation, and takes it away again.
func TestRemovalIsDeclarative(t *testing.T) {
	base := map[string]string{"protocol": "443=https", "http-certificates": "1", "use-private-ip": "true"}
	for _, a := range Annotations {
		if a.Name == "type" { // keeps its value: a smaller type might not fit
			continue
		}
		effects, certificate := 0, []int64{2}
		if strings.Contains(a.Name, "certificate") || a.Name == "http-tls-secret" {
			certificate = []int64{9} // another one, as the Reconciler would find
		}
		for _, value := range values(t)[a.Name].Valid {
			t.Run(a.Name+"="+value, func(t *testing.T) {
				never := create(t, want(t, web(base, 80, 443), nodes(1, 2, 3), small))
				changed := create(t, want(t, web(base, 80, 443), nodes(1, 2, 3), small))
				with := maps.Clone(base)
				with[a.Name] = value
				service := web(with, 80, 443)
				s, err := Parse(service, small)
				if err != nil {
					t.Fatal(err)
				}
				if d, _, err := Want(service, nodes(1, 2, 3), s, network); err == nil { // not all go together
					for _, l := range d.Listeners {
						if l.HTTP != nil {
							l.HTTP.Certificates = certificate
						}
					}
					steps, _ := changed.pass(d, types3[d.Type])
					effects += len(steps)
				}
				changed.pass(want(t, web(base, 80, 443), nodes(1, 2, 3), small), types3["small"])
				want, got := never.shape(), changed.shape()
				if a.Name == "private-ipv4" || a.Name == "private-subnet-ip-range" {
					want.PrivateNet, got.PrivateNet = nil, nil // any address will do
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("set and removed is not the same as never set (-never +removed):\n%s", diff)
				}
			})
		}
		if a.Scope == Always && effects == 0 && !slices.Contains([]string{"takeover", "release", "repair-disabled", "refuse-source-ranges"}, a.Name) {
			t.Errorf("%s has no effect, whatever its value", a.Name)
		}
	}
}

// random is a Service with some ports and annotations that go together.
func random(r *rand.Rand) (*corev1.Service, []*corev1.Node) {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	annotations := map[string]string{"http-certificates": pick("1", "1,2"), "type": pick("small", "large")}
	for name, values := range map[string][]string{
		"name": {"a", "b"}, "algorithm-type": {"round_robin", "least_connections"}, "use-private-ip": {"true", "false"},
		"protocol": {"tcp", "http", "443=https", "80=http,443=https"}, "uses-proxyprotocol": {"true", "80=true"},
		"http-redirect-http": {"true"}, "http-sticky-sessions": {"true"}, "ipv4-rdns": {"a.example.org"}, "ipv6-rdns": {"b.example.org"},
		"private-ipv4": {"10.0.0.5", "10.0.1.6"}, "node-selector": {"pool=edge"}, "health-check-interval": {"20"}, "health-check-http-path": {"/x"},
	} {
		if r.IntN(2) == 0 {
			annotations[name] = pick(values...)
		}
	}
	if annotations["use-private-ip"] == "true" && r.IntN(2) == 0 {
		annotations["disable-public-network"] = "true"
	}
	ports := []int32{80, 443, 8080, 8081, 25}
	r.Shuffle(len(ports), func(i, j int) { ports[i], ports[j] = ports[j], ports[i] })
	ids := r.Perm(12)[:r.IntN(12)]
	var servers []int64
	for _, id := range ids {
		servers = append(servers, int64(id+1))
	}
	service := web(annotations, ports[:1+r.IntN(3)]...)
	if r.IntN(4) == 0 {
		service.Spec.ExternalTrafficPolicy, service.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 31999
	}
	return service, nodes(servers...)
}

// TestOnePass takes load balancers from one random state to another, our own and
// adopted ones. One pass is enough, a second one finds nothing to do, and what
// is others' is untouched; the model refuses everything else.
func TestOnePass(t *testing.T) {
	for seed := range uint64(3000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			adopted := seed%2 == 1
			desire := func() (*Desired, *Settings) {
				service, nodes := random(r)
				s, err := Parse(service, small)
				if err != nil {
					t.Fatal(err)
				}
				return want(t, service, nodes, small), s
			}
			start, _ := desire()
			if adopted {
				start.Targets, start.Listeners, start.Labels = nil, nil, map[string]string{"team": "edge"}
				start.Type = "large"
			}
			Fit(start, nil, types3[start.Type])
			m := create(t, start)
			if adopted {
				m.lb.Services = append(m.lb.Services, hcloud.LoadBalancerService{Protocol: "tcp", ListenPort: foreignPort, DestinationPort: foreignPort})
				m.lb.Targets = append(m.lb.Targets, hcloud.LoadBalancerTarget{Type: "ip", IP: &hcloud.LoadBalancerTargetIP{IP: "10.0.2.1"}})
				if m.lb.PublicNet.Enabled {
					m.lb.Targets = append(m.lb.Targets,
						hcloud.LoadBalancerTarget{Type: "label_selector", LabelSelector: &hcloud.LoadBalancerTargetLabelSelector{Selector: "x"}},
						hcloud.LoadBalancerTarget{
							Type: "server", Server: &hcloud.LoadBalancerTargetServer{Server: &hcloud.Server{ID: 1}},
							HealthStatus: []hcloud.LoadBalancerTargetHealthStatus{{ListenPort: foreignPort, Status: "unhealthy"}},
						})
				}
			}
			foreign := foreignShape(m)
			for range 3 {
				d, s := desire()
				if adopted {
					d.adopt(s, m.lb)
					d.Public = d.Public || !d.UsePrivateIP // as an annotation has to say
				}
				m.lb.Targets = slices.Clone(m.lb.Targets)
				typ := types3[d.Type]
				if _, waiting := m.pass(d, typ); waiting {
					t.Fatal("waits although no target is known to be healthy")
				}
				if again, _ := Plan(d, m.lb, typ); len(again) > 0 {
					t.Fatalf("a second pass still has steps: %v", again)
				}
				if diff := cmp.Diff(foreign, foreignShape(m)); diff != "" {
					t.Fatalf("others' things have changed (-before +after):\n%s", diff)
				}
			}
		})
	}
}

// TestInterrupted stops a pass after a random number of steps. The next one still
// knows what is ours: nothing that was ours stays, nothing that is others' goes.
func TestInterrupted(t *testing.T) {
	for seed := range uint64(1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 6))
			desire := func() *Desired {
				service, nodes := random(r)
				d := want(t, service, nodes, small)
				d.Labels[AdoptedLabel], d.Type, d.Public = "true", "large", true
				return d
			}
			start := desire()
			start.Targets, start.Listeners, start.Labels = nil, nil, nil
			m := create(t, start)
			m.lb.Services = []hcloud.LoadBalancerService{{Protocol: "tcp", ListenPort: foreignPort, DestinationPort: foreignPort}}
			for range 3 {
				d := desire()
				Fit(d, m.lb, types3["large"])
				steps, _ := Plan(d, m.lb, types3["large"])
				for _, s := range steps[:r.IntN(len(steps)+1)] {
					m.apply(s)
				}
				m.lb.Targets = slices.Clone(m.lb.Targets)
			}
			d := desire()
			m.pass(d, types3["large"])
			if got, want := len(m.lb.Targets), len(d.Targets); got != want {
				t.Errorf("%d targets, want %d", got, want)
			}
			if got, want := len(m.lb.Services), len(d.Listeners)+1; got != want {
				t.Errorf("%d listeners, want %d", got, want)
			}
		})
	}
}

// TestAdopt has load balancers that others have made. Apart from a listener and a
// target, only what an annotation asks for is changed.
func TestAdopt(t *testing.T) {
	inNetwork := func(id int64) []hcloud.LoadBalancerPrivateNet {
		return []hcloud.LoadBalancerPrivateNet{{Network: &hcloud.Network{ID: id}, IP: net.ParseIP("10.0.0.9")}}
	}
	ours := []string{"set name and labels of edge", "add target server 1 (Node node-1)", "add listener 80"}
	tests := []struct {
		name         string
		defaults     Defaults
		annotations  map[string]string
		change       func(*hcloud.LoadBalancer)
		want         []string
		wantWarning  string
		wantConflict bool
	}{
		{name: "an algorithm stays", change: func(lb *hcloud.LoadBalancer) { lb.Algorithm.Type = "least_connections" }, want: ours},
		{
			name: "an annotation asks for an algorithm", annotations: map[string]string{"algorithm-type": "least_connections"},
			want: []string{ours[0], "change algorithm to least_connections", ours[1], ours[2]},
		},
		{
			name: "a type stays, and a variable does not count", defaults: Defaults{Type: "large"},
			change: func(lb *hcloud.LoadBalancer) { lb.LoadBalancerType = types3["small"] }, want: ours,
		},
		{
			name: "an annotation asks for a larger type", annotations: map[string]string{"type": "large"},
			change: func(lb *hcloud.LoadBalancer) { lb.LoadBalancerType = types3["small"] },
			want:   []string{ours[0], "change type to large", ours[1], ours[2]},
		},
		{
			name: "nothing asks for a smaller type in vain", annotations: map[string]string{"type": "small"}, want: ours,
			wantWarning: "annotation load-balancer.hetzner.cloud/type: small is not applied, the load balancer stays large: others may need the room",
		},
		{
			name: "a public interface stays disabled", annotations: map[string]string{"use-private-ip": "true"},
			change: func(lb *hcloud.LoadBalancer) { lb.PublicNet.Enabled = false }, want: ours,
		},
		{
			name: "an annotation asks for the public interface", annotations: map[string]string{"disable-public-network": "false"},
			change: func(lb *hcloud.LoadBalancer) { lb.PublicNet.Enabled = false },
			want:   []string{ours[0], "enable the public interface", ours[1], ours[2]},
		},
		{name: "another network is not our business", change: func(lb *hcloud.LoadBalancer) { lb.PrivateNet = inNetwork(9) }, want: ours},
		{name: "nor is none", change: func(lb *hcloud.LoadBalancer) { lb.PrivateNet = nil }, want: ours},
		{
			name: "private targets need the network", annotations: map[string]string{"use-private-ip": "true"},
			change: func(lb *hcloud.LoadBalancer) { lb.PrivateNet = nil },
			want:   []string{ours[0], "attach to network 7", ours[1], ours[2]},
		},
		{
			name: "private targets do not need another network so much", annotations: map[string]string{"use-private-ip": "true"},
			change: func(lb *hcloud.LoadBalancer) { lb.PrivateNet = inNetwork(9) }, want: ours, wantConflict: true,
		},
		{name: "an address of its own is refused", annotations: map[string]string{"private-ipv4": "10.0.0.5"}, want: ours, wantConflict: true},
		{
			name: "a name stays", annotations: map[string]string{"name": "other"}, want: ours,
			wantWarning: "annotation load-balancer.hetzner.cloud/name: other is not applied, somebody else has named the load balancer edge; to get another one, delete the Service",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			made := want(t, web(map[string]string{"name": "edge", "type": "large"}), nil, small)
			made.Labels = nil
			m := create(t, made)
			if test.change != nil {
				test.change(m.lb)
			}
			service := web(test.annotations, 80)
			s, err := Parse(service, test.defaults)
			if err != nil {
				t.Fatal(err)
			}
			d := want(t, service, nodes(1), test.defaults)
			warnings := d.adopt(s, m.lb)
			var conflict *ConflictError
			if err := (&Reconciler{}).checkMove(t.Context(), d, m.lb); errors.As(err, &conflict) != test.wantConflict {
				t.Errorf("conflict: %v, want one: %t", err, test.wantConflict)
			}
			_, more := Fit(d, m.lb, types3[d.Type])
			texts := ""
			for _, w := range append(warnings, more...) {
				texts += w.Text
			}
			if diff := cmp.Diff(test.wantWarning, texts); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			steps, _ := m.pass(d, types3[d.Type])
			if diff := cmp.Diff(test.want, kinds(steps)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestForeignListener asks for a port that others have.
func TestForeignListener(t *testing.T) {
	m := create(t, want(t, web(nil, 80), nil, small))
	m.lb.Services = append(m.lb.Services, hcloud.LoadBalancerService{Protocol: "tcp", ListenPort: foreignPort, DestinationPort: 1})
	m.lb.Labels[portsLabel] = "80"
	d := want(t, web(nil, 80, foreignPort), nil, small)
	if err := checkListeners(d, m.lb); err != nil {
		t.Errorf("on our own load balancer: %v", err)
	}
	d.Labels[AdoptedLabel] = "true"
	var conflict *ConflictError
	if err := checkListeners(d, m.lb); !errors.As(err, &conflict) {
		t.Errorf("error = %v, want a conflict", err)
	}
	steps, _ := Plan(d, m.lb, types3["small"])
	for _, s := range steps {
		m.apply(s)
	}
}

// foreignShape is what of a load balancer is others'.
func foreignShape(m *model) (all []string) {
	for _, s := range m.lb.Services {
		if s.ListenPort == foreignPort {
			all = append(all, fmt.Sprintf("listener %+v", s))
		}
	}
	for _, t := range m.lb.Targets {
		if t.Server == nil || len(t.HealthStatus) > 0 {
			all = append(all, "target "+targetKey(t))
		}
	}
	return append(all, "team="+m.lb.Labels["team"])
}
