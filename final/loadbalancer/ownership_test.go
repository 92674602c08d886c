package loadbalancer

import (
	"errors"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestS03S05Identify(t *testing.T) {
	const uid, cluster, neighbour = "11111111-2222-3333-4444-555555555555", "here", "99999999-2222-3333-4444-555555555555"
	defaultName := "a1111111122223333444455555555555" // cut to 32 characters
	lb := func(id int64, name string, labels map[string]string) *hcloud.LoadBalancer {
		return &hcloud.LoadBalancer{ID: id, Name: name, Labels: labels}
	}
	tests := []struct {
		name        string
		annotations map[string]string
		status      string // an address in the Service's status
		lbs         []*hcloud.LoadBalancer
		want        int64 // ID; 0 for none
		wantAdopted bool
		wantOwner   string // of a conflict
		wantErr     bool
	}{
		{name: "none", lbs: []*hcloud.LoadBalancer{lb(1, "edge", nil)}},
		{name: "by label", lbs: []*hcloud.LoadBalancer{lb(1, "x", map[string]string{ServiceLabel: uid})}, want: 1},
		{name: "two with the label", lbs: []*hcloud.LoadBalancer{lb(1, "x", map[string]string{ServiceLabel: uid}), lb(2, "y", map[string]string{ServiceLabel: uid})}, wantErr: true},
		{name: "adopted earlier", lbs: []*hcloud.LoadBalancer{lb(1, "x", map[string]string{AdoptedLabel: uid})}, want: 1, wantAdopted: true},
		{name: "adopted by a neighbour", annotations: map[string]string{"name": "edge"}, lbs: []*hcloud.LoadBalancer{lb(1, "edge", map[string]string{AdoptedLabel: neighbour, ClusterLabel: cluster})}, wantOwner: "Service default/neighbour"},
		{name: "adopted by a Service that is gone", annotations: map[string]string{"name": "edge"}, lbs: []*hcloud.LoadBalancer{lb(1, "edge", map[string]string{AdoptedLabel: "gone", ClusterLabel: cluster})}, want: 1, wantAdopted: true},
		{
			name: "taken over", annotations: map[string]string{"takeover": "true"},
			lbs: []*hcloud.LoadBalancer{lb(1, "x", map[string]string{AdoptedLabel: uid})}, want: 1,
		},
		{name: "a copy of the cluster", lbs: []*hcloud.LoadBalancer{lb(1, "x", map[string]string{ServiceLabel: uid, ClusterLabel: "there"})}, wantOwner: "cluster there"},
		{name: "the label is lost, the name has the UID", lbs: []*hcloud.LoadBalancer{lb(1, defaultName, nil)}, want: 1},
		{name: "the label is lost, the status has the address", status: "203.0.113.5", lbs: []*hcloud.LoadBalancer{lb(1, "x", nil)}, want: 1, wantAdopted: true},
		{
			name: "S05 an adopted one has lost its labels", annotations: map[string]string{"name": "edge"}, status: "203.0.113.5",
			lbs: []*hcloud.LoadBalancer{lb(1, "edge", map[string]string{"team": "edge"})}, want: 1, wantAdopted: true,
		},
		{
			name: "S05 an adopted one has lost its labels, and is taken over", annotations: map[string]string{"name": "edge", "takeover": "true"}, status: "203.0.113.5",
			lbs: []*hcloud.LoadBalancer{lb(1, "edge", nil)}, want: 1,
		},
		{
			name: "only the label of the Service is lost", annotations: map[string]string{"name": "edge"},
			lbs: []*hcloud.LoadBalancer{lb(1, "edge", map[string]string{ClusterLabel: cluster})}, want: 1, wantAdopted: true,
		},
		{
			name: "the labels are lost, and two may be it", status: "203.0.113.5",
			lbs: []*hcloud.LoadBalancer{lb(1, defaultName, nil), lb(2, "x", nil)}, wantErr: true,
		},
		{name: "the label is lost, and another address is no proof", status: "203.0.113.6", lbs: []*hcloud.LoadBalancer{lb(1, "x", nil)}},
		{name: "by name, of nobody", annotations: map[string]string{"name": "edge"}, lbs: []*hcloud.LoadBalancer{lb(1, "edge", nil)}, want: 1, wantAdopted: true},
		{name: "S03 by name, of a neighbour", annotations: map[string]string{"name": "edge"}, lbs: []*hcloud.LoadBalancer{lb(1, "edge", map[string]string{ServiceLabel: neighbour})}, wantOwner: "Service default/neighbour"},
		{
			name: "S03 by name, of a neighbour, not even by force", annotations: map[string]string{"name": "edge", "takeover": "true"},
			lbs: []*hcloud.LoadBalancer{lb(1, "edge", map[string]string{ServiceLabel: neighbour, ClusterLabel: cluster})}, wantOwner: "Service default/neighbour",
		},
		{
			name: "S06 by name, of a Service that is gone", annotations: map[string]string{"name": "edge"},
			lbs: []*hcloud.LoadBalancer{lb(1, "edge", map[string]string{ServiceLabel: "gone", ClusterLabel: cluster})}, want: 1,
		},
		{
			name: "by name, of nobody knows whom", annotations: map[string]string{"name": "edge"},
			lbs: []*hcloud.LoadBalancer{lb(1, "edge", map[string]string{ServiceLabel: "gone"})}, wantOwner: "Service gone of cluster unknown",
		},
		{
			name: "by name and force, of another cluster", annotations: map[string]string{"name": "edge", "takeover": "true"},
			lbs: []*hcloud.LoadBalancer{lb(1, "edge", map[string]string{ServiceLabel: "gone", ClusterLabel: "there"})}, want: 1,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			service := web(test.annotations, 80)
			if test.status != "" {
				service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: test.status}}
			}
			for _, lb := range test.lbs {
				lb.PublicNet.IPv4.IP = net.ParseIP("203.0.113.5")
			}
			s, err := Parse(service, Defaults{})
			if err != nil {
				t.Fatal(err)
			}
			owner := func(uid types.UID) (string, bool) { return "default/neighbour", uid == neighbour }
			got, adopted, err := identify(service, s, identity{cluster, owner}, test.lbs)
			var conflict *ConflictError
			if errors.As(err, &conflict) != (test.wantOwner != "") || (err != nil) != (test.wantErr || test.wantOwner != "") {
				t.Fatalf("error = %v, want a conflict with %q", err, test.wantOwner)
			}
			if conflict != nil && conflict.Owner[:len(test.wantOwner)] != test.wantOwner {
				t.Errorf("owner = %q, want %q", conflict.Owner, test.wantOwner)
			}
			if got == nil {
				got = &hcloud.LoadBalancer{}
			}
			if diff := cmp.Diff([]any{test.want, test.wantAdopted}, []any{got.ID, adopted}); diff != "" {
				t.Errorf("ID and whether it is adopted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriteDown(t *testing.T) {
	want := map[int64]bool{}
	for id := range int64(30) {
		want[31000000+id] = true
	}
	labels := map[string]string{}
	writeDown(labels, serversLabel, want)
	for key, value := range labels {
		if len(value) > maxLabelValue || !managed(key) {
			t.Errorf("label %s=%s", key, value)
		}
	}
	if diff := cmp.Diff(want, recorded[int64](labels, serversLabel)); diff != "" {
		t.Errorf("what is read (-written +read):\n%s", diff)
	}
}
