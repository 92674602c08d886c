package ccm

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"example.com/ccm-from-scratch/final/config"
	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/metrics"
	"example.com/ccm-from-scratch/final/nodes"
	"example.com/ccm-from-scratch/final/servers"
)

// newInstances returns InstancesV2 of an API, and the events that it records.
func newInstances(t *testing.T, api *hcloud.Client, all ...*corev1.Node) (*InstancesV2, *record.FakeRecorder) {
	t.Helper()
	recorder := record.NewFakeRecorder(100)
	return &InstancesV2{
		servers: servers.New(api, servers.Options{Mode: servers.All, MaxAge: 10 * time.Second}),
		policy:  nodes.Policy{Family: config.DualStack, ZoneLabel: true},
		nodes:   newLister(t, all...),
		events:  events.NewRecorder(recorder),
		metrics: metrics.New(prometheus.NewRegistry()),
	}, recorder
}

func newLister(t *testing.T, all ...*corev1.Node) corelisters.NodeLister {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, node := range all {
		if err := indexer.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	return corelisters.NewNodeLister(indexer)
}

func newNode(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

func uninitialized(node *corev1.Node) *corev1.Node {
	node.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}}
	return node
}

// recorded returns the events so far, one a line.
func recorded(recorder *record.FakeRecorder) string {
	var all []string
	for {
		select {
		case event := <-recorder.Events:
			all = append(all, event)
		default:
			return strings.Join(all, "\n")
		}
	}
}

// newTestClient returns a client for an API with one server, ID 42, worker-1.
// Requests for ID 500 fail, and nobody may ask for a name.
func newTestClient(t *testing.T) *hcloud.Client {
	t.Helper()

	server := schema.Server{
		ID:         42,
		Name:       "worker-1",
		ServerType: schema.ServerType{Name: "cx23"},
		Location:   schema.Location{Name: "fsn1", NetworkZone: "eu-central"},
		PublicNet:  schema.ServerPublicNet{IPv4: schema.ServerPublicNetIPv4{IP: "203.0.113.7"}},
	}
	answer := func(w http.ResponseWriter, status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Errorf("encode response: %v", err)
		}
	}
	apiError := func(code string) schema.ErrorResponse {
		return schema.ErrorResponse{Error: schema.Error{Code: code, Message: code}}
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /servers/{id}", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("id") {
		case "42":
			answer(w, http.StatusOK, schema.ServerGetResponse{Server: server})
		case "500":
			answer(w, http.StatusInternalServerError, apiError("server_error"))
		default:
			answer(w, http.StatusNotFound, apiError("not_found"))
		}
	})
	mux.HandleFunc("GET /servers", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("name") != "" {
			t.Errorf("look-up by name: %s", r.URL)
		}
		answer(w, http.StatusOK, schema.ServerListResponse{Servers: []schema.Server{server}})
	})
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	return hcloud.NewClient(hcloud.WithEndpoint(api.URL), hcloud.WithToken("token"))
}

func TestInstanceMetadata(t *testing.T) {
	worker1 := &cloudprovider.InstanceMetadata{
		ProviderID:   "hcloud://42",
		InstanceType: "cx23",
		Region:       "fsn1",
		Zone:         "fsn1-dc14",
		NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "worker-1"},
			{Type: corev1.NodeExternalIP, Address: "203.0.113.7"},
		},
		AdditionalLabels: map[string]string{"instance.hetzner.cloud/provided-by": "cloud"},
	}

	tests := []struct {
		name       string
		nodeName   string
		providerID string
		nodeIP     string
		want       *cloudprovider.InstanceMetadata
		wantErr    string
		wantEvent  string
		notFound   bool
	}{
		{name: "by name", nodeName: "worker-1", want: worker1},
		{name: "N07 by provider ID", nodeName: "another-name", providerID: "hcloud://42", want: worker1},
		{name: "N07 a full name", nodeName: "worker-1.example.org", wantErr: "instance not found", wantEvent: `ServerNotFound there is no server with the name "worker-1.example.org" in this project, but there is "worker-1"`, notFound: true},
		{name: "N07 another case", nodeName: "Worker-1", wantErr: "instance not found", wantEvent: `but there is "worker-1"`, notFound: true},
		{name: "L08 unknown name", nodeName: "onprem-1", wantErr: `"onprem-1"`, wantEvent: `no server with the name "onprem-1" in this project: the Node waits`, notFound: true},
		{name: "L12 the ID of another server than the name's", nodeName: "worker-1", providerID: "hcloud://43", wantErr: "43", wantEvent: `ServerReplaced server 43 not found, a server with the name "worker-1" has ID 42`, notFound: true},
		{name: "N01 unknown IP", nodeName: "worker-1", nodeIP: "10.0.0.6", want: worker1, wantEvent: "NodeIPUnknown the kubelet's --node-ip 10.0.0.6 is not"},
		{name: "L06 foreign provider ID", nodeName: "worker-1", providerID: "k3s://worker-1", wantErr: "hcloud://<server ID>", wantEvent: "UnknownProviderIDPrefix"},
		{name: "L09 dedicated server", nodeName: "db-1", providerID: "hrobot://4711", wantErr: "Robot is not supported", wantEvent: "UnknownProviderIDPrefix"},
		{name: "API error by ID", nodeName: "worker-1", providerID: "hcloud://500", wantErr: "server_error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := uninitialized(newNode(test.nodeName, test.providerID))
			node.Annotations = map[string]string{"alpha.kubernetes.io/provided-node-ip": test.nodeIP}
			instances, recorder := newInstances(t, newTestClient(t), node)
			for range 3 { // a repeated question is no repeated event
				got, err := instances.InstanceMetadata(t.Context(), node)
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("InstanceMetadata (-want +got):\n%s", diff)
				}
				if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
					t.Errorf("error = %v, want one with %q", err, test.wantErr)
				}
				if got := errors.Is(err, cloudprovider.InstanceNotFound); got != test.notFound {
					t.Errorf("error is InstanceNotFound: %t, want %t (%v)", got, test.notFound, err)
				}
			}
			got := recorded(recorder)
			if (got == "") != (test.wantEvent == "") || !strings.Contains(got, test.wantEvent) || strings.Contains(got, "\n") {
				t.Errorf("events = %q, want one with %q", got, test.wantEvent)
			}
		})
	}
}
