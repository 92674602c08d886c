package metrics

import (
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
