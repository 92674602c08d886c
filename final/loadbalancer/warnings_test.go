package loadbalancer

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/ccm-from-scratch/final/events"
)

// TestDeprecatedType has a load balancer of a type that goes.
func TestDeprecatedType(t *testing.T) {
	service := web(nil, 80)
	lb := schema.LoadBalancer{ID: 1, Name: "web", Labels: map[string]string{ServiceLabel: string(service.UID)}}
	lb.LoadBalancerType.Name = "lb11"
	lb.LoadBalancerType.Deprecation = &schema.DeprecationInfo{UnavailableAfter: time.Unix(0, 0).UTC()}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(schema.LoadBalancerListResponse{LoadBalancers: []schema.LoadBalancer{lb}}); err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	r := New(Options{
		Client:   hcloud.NewClient(hcloud.WithEndpoint(api.URL), hcloud.WithToken("token")),
		Defaults: small,
		Events:   events.NewRecorder(nil),
		Cluster:  func(context.Context) (string, error) { return "here", nil },
		Owner:    func(types.UID) (string, bool) { return "", false },
		Current:  func(s *corev1.Service, n []*corev1.Node) (*corev1.Service, []*corev1.Node) { return s, n },
	})
	lines, err := r.Plan(t.Context(), service, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "warning: type lb11 is deprecated, and cannot be had any more from 1970-01-01 on: set annotation " + Prefix + "type to another one"; !slices.Contains(lines, want) {
		t.Errorf("lines = %q, want %q among them", lines, want)
	}
}
