package metrics

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New(registry)
	m.Operation("InstanceExists")
	m.Operation("InstanceExists")
	m.Outcome("CreateRoute", errors.New("refused"))
	m.Outcome("CreateRoute", nil)
	observe := m.ServerLookup("all")
	observe(t.Context(), true)
	observe(Routing.In(t.Context()), false)
	observe(Routing.In(t.Context()), false)
	m.TypeLookup(true)
	m.TypeLookup(false)

	want := map[string]float64{
		"failing_load_balancers":                                         0,
		"operation_errors_total CreateRoute":                             1,
		"operations_total InstanceExists":                                2,
		"load_balancer_type_cache_requests_total all hit load_balancer":  1,
		"load_balancer_type_cache_requests_total all miss load_balancer": 1,
		"server_cache_requests_total all hit none":                       1,
		"server_cache_requests_total all miss routes":                    2,
	}
	if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// TestLoadBalancer: a Service fails from its first error to its next success.
func TestLoadBalancer(t *testing.T) {
	refused := errors.New("refused")
	type pass struct {
		service types.UID
		err     error
	}
	for name, test := range map[string]struct {
		passes []pass
		want   float64
	}{
		"none":      {nil, 0},
		"success":   {[]pass{{"a", nil}}, 0},
		"twice":     {[]pass{{"a", refused}, {"a", refused}}, 1},
		"recovered": {[]pass{{"a", refused}, {"a", nil}}, 0},
		"others":    {[]pass{{"a", refused}, {"b", refused}, {"c", nil}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			m := New(registry)
			want := map[string]float64{
				"failing_load_balancers": test.want,
				"load_balancer_type_cache_requests_total all hit load_balancer":  0,
				"load_balancer_type_cache_requests_total all miss load_balancer": 0,
			}
			for _, p := range test.passes {
				m.LoadBalancer(p.service, p.err)
				result := "success"
				if p.err != nil {
					result = "error"
				}
				want["load_balancer_passes_total "+result]++
			}
			if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodes(t *testing.T) {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for name, taint := range map[string]string{"new": cloudproviderapi.TaintExternalCloudProvider, "off": cloudproviderapi.TaintNodeShutdown} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: taint}}}}
		if err := store.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewRegistry()
	Nodes(registry, corelisters.NewNodeLister(store))
	if diff := cmp.Diff(map[string]float64{"uninitialized_nodes": 1}, gather(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// gather returns all values, by the name without what all have in common, and the
// values of the labels.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			got[strings.TrimPrefix(name, "cloud_controller_manager_")] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return got
}

// TestServe serves metrics once, and lives without them where somebody else listens.
func TestServe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time the port is taken
		Serve(t.Context(), address)
	}
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), "go_goroutines") {
		t.Errorf("GET /metrics = %s, %v", response.Status, err)
	}
}
