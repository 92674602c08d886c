package loadbalancer

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/ccm-from-scratch/final/events"
)

// emptyProject returns a Reconciler for a project that has nothing, and may list
// certificates or not. Nothing may be changed in it.
func emptyProject(t *testing.T, certificates bool) *Reconciler {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := `{"load_balancers": [], "certificates": []}`
		switch {
		case r.Method != http.MethodGet:
			t.Errorf("%s %s", r.Method, r.URL.Path)
			fallthrough
		case r.URL.Path == "/certificates" && !certificates:
			w.WriteHeader(http.StatusForbidden)
			body = `{"error": {"code": "forbidden", "message": "no"}}`
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(api.Close)
	return New(Options{
		Client:      hcloud.NewClient(hcloud.WithEndpoint(api.URL), hcloud.WithToken("token")),
		Defaults:    Defaults{Location: "fsn1"},
		Events:      events.NewRecorder(nil),
		Cluster:     func(context.Context) (string, error) { return "here", nil },
		Owner:       func(types.UID) (string, bool) { return "", false },
		Current:     func(s *corev1.Service, n []*corev1.Node) (*corev1.Service, []*corev1.Node) { return s, n },
		SameProject: func(context.Context) error { return nil },
	})
}

func web80() *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "11111111-2222-3333-4444-555555555555"}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: corev1.ProtocolTCP}}
	return s
}

// TestRepairAfterDelete has a repair that waited while the load balancer was
// deleted, completely or not. It makes no new one.
func TestRepairAfterDelete(t *testing.T) {
	for name, certificates := range map[string]bool{"deleted": true, "certificates are left": false} {
		t.Run(name, func(t *testing.T) {
			r := emptyProject(t, certificates)
			if err := r.Delete(t.Context(), web80()); (err == nil) != certificates {
				t.Fatalf("Delete = %v", err)
			}
			if status, err := r.Repair(t.Context(), web80(), nil); status != nil || err != nil {
				t.Errorf("Repair = %v, %v, want nothing", status, err)
			}
		})
	}
}

// TestDoubt has no load balancer where one ought to be, and perhaps the wrong
// project. Nothing is made, and a Service does not go.
func TestDoubt(t *testing.T) {
	r, doubt := emptyProject(t, true), errors.New("doubt")
	r.SameProject = func(context.Context) error { return doubt }
	if _, err := r.Ensure(t.Context(), web80(), nil); !errors.Is(err, doubt) {
		t.Errorf("Ensure = %v, want doubt", err)
	}
	if err := r.Delete(t.Context(), web80()); !errors.Is(err, doubt) {
		t.Errorf("Delete = %v, want doubt", err)
	}
}
