package loadbalancer

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"k8s.io/apimachinery/pkg/types"
)

// leaky is an API with one load balancer and one certificate.
type leaky struct {
	lb          schema.LoadBalancer
	certificate schema.Certificate
	requests    []string
}

func (l *leaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.requests = append(l.requests, r.Method+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	var body any
	switch r.URL.Path {
	case "/load_balancers":
		body = schema.LoadBalancerListResponse{LoadBalancers: []schema.LoadBalancer{l.lb}}
	case "/load_balancers/1":
		body = schema.LoadBalancerGetResponse{LoadBalancer: l.lb}
	case "/certificates":
		body = schema.CertificateListResponse{Certificates: []schema.Certificate{l.certificate}}
	case "/certificates/2":
		body = schema.CertificateGetResponse{Certificate: l.certificate}
	}
	if r.Method == http.MethodDelete {
		body = schema.ActionGetResponse{Action: schema.Action{ID: 4, Status: string(hcloud.ActionStatusSuccess)}}
	}
	_ = json.NewEncoder(w).Encode(body)
}

// TestLeaks lists what is left of a Service, and removes it after something has
// happened. The cluster is asked last, and again for each of the two.
func TestLeaks(t *testing.T) {
	const lb, certificate = "DELETE /load_balancers/1", "DELETE /certificates/2"
	tests := []struct {
		name     string
		before   func(*leaky)
		then     func(api *leaky, services map[types.UID]bool)
		want     []string // that are deleted
		wantErrs int
	}{
		{name: "nothing happens", want: []string{lb, certificate}},
		{name: "a Service comes that the list lacked", then: func(_ *leaky, services map[types.UID]bool) { services["gone"] = true }, wantErrs: 2},
		{name: "the load balancer gets other labels", then: func(api *leaky, _ map[types.UID]bool) {
			api.lb.Labels = map[string]string{ServiceLabel: "other", ClusterLabel: "here"}
		}, want: []string{certificate}, wantErrs: 1},
		{name: "the load balancer is protected", then: func(api *leaky, _ map[types.UID]bool) { api.lb.Protection.Delete = true }, want: []string{certificate}, wantErrs: 1},
		{name: "the certificate is used", then: func(api *leaky, _ map[types.UID]bool) {
			api.certificate.UsedBy = []schema.CertificateUsedByRef{{ID: 3, Type: "load_balancer"}}
		}, want: []string{lb}, wantErrs: 1},
		{name: "the certificate gets other labels", then: func(api *leaky, _ map[types.UID]bool) { api.certificate.Labels = nil }, want: []string{lb}, wantErrs: 1},
		{name: "others have made the load balancer", before: func(api *leaky) { api.lb.Labels = map[string]string{AdoptedLabel: "gone", ClusterLabel: "here"} }, want: []string{certificate}},
		{name: "the cluster is unknown", before: func(api *leaky) { delete(api.lb.Labels, ClusterLabel) }, want: []string{certificate}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			labels := func() map[string]string { return map[string]string{ServiceLabel: "gone", ClusterLabel: "here"} }
			api := &leaky{
				lb:          schema.LoadBalancer{ID: 1, Name: "web", Labels: labels()},
				certificate: schema.Certificate{ID: 2, Name: "web", Labels: labels()},
			}
			if test.before != nil {
				test.before(api)
			}
			server := httptest.NewServer(api)
			defer server.Close()
			services := map[types.UID]bool{}
			asked := 0
			live := func(context.Context) (map[types.UID]bool, error) {
				if asked++; asked == 1 && len(api.requests) != 2 {
					t.Errorf("the cluster is asked after %v, want it after the cloud", api.requests)
				}
				return services, nil
			}
			r := New(Options{
				Client:  hcloud.NewClient(hcloud.WithEndpoint(server.URL), hcloud.WithToken("token")),
				Cluster: func(context.Context) (string, error) { return "here", nil },
			})
			leaks, err := r.Leaks(t.Context(), netip.MustParsePrefix("10.244.0.0/16"), live)
			if err != nil {
				t.Fatal(err)
			}
			if test.then != nil {
				test.then(api, services)
			}
			if len(leaks) != 2 {
				t.Errorf("%d leaks, want 2", len(leaks))
			}
			errs, removable := 0, 0
			for _, l := range leaks {
				if l.Remove == nil {
					continue
				}
				removable++
				if err := l.Remove(t.Context()); err != nil {
					errs++
				}
			}
			if errs != test.wantErrs || asked != 1+removable {
				t.Errorf("%d errors, want %d; the cluster was asked %d times, want %d", errs, test.wantErrs, asked, 1+removable)
			}
			deleted := slices.DeleteFunc(api.requests, func(request string) bool { return !strings.HasPrefix(request, http.MethodDelete) })
			if diff := cmp.Diff(test.want, deleted, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}
