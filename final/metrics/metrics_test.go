package metrics

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New(registry)
	m.Operation("InstanceExists")
	m.Operation("InstanceExists")
	observe := m.ServerLookup("all")
	observe(true)
	observe(false)
	observe(false)

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
			got[strings.TrimPrefix(name, "cloud_controller_manager_")] = metric.GetCounter().GetValue()
		}
	}
	want := map[string]float64{
		"operations_total InstanceExists":      2,
		"server_cache_requests_total all hit":  1,
		"server_cache_requests_total all miss": 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
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
