package ccm

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// newTestClient returns a client for an API with one server, ID 42, worker-1.
// Requests for ID 500 or the name broken fail.
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
		switch r.URL.Query().Get("name") {
		case "worker-1":
			answer(w, http.StatusOK, schema.ServerListResponse{Servers: []schema.Server{server}})
		case "broken":
			answer(w, http.StatusInternalServerError, apiError("server_error"))
		default:
			answer(w, http.StatusOK, schema.ServerListResponse{})
		}
	})
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	return hcloud.NewClient(hcloud.WithEndpoint(api.URL), hcloud.WithToken("token"))
}

func TestInstanceMetadata(t *testing.T) {
	instances := &InstancesV2{client: newTestClient(t)}
	worker1 := &cloudprovider.InstanceMetadata{
		ProviderID:   "hcloud://42",
		InstanceType: "cx23",
		Region:       "fsn1",
		Zone:         "fsn1",
		NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "worker-1"},
			{Type: corev1.NodeExternalIP, Address: "203.0.113.7"},
		},
	}

	tests := []struct {
		name       string
		nodeName   string
		providerID string
		want       *cloudprovider.InstanceMetadata
		wantErr    string
		notFound   bool
	}{
		{name: "by name", nodeName: "worker-1", want: worker1},
		{name: "by provider ID", nodeName: "another-name", providerID: "hcloud://42", want: worker1},
		{name: "unknown name", nodeName: "worker-2", wantErr: `"worker-2"`, notFound: true},
		{name: "unknown ID is not looked up by name", nodeName: "worker-1", providerID: "hcloud://43", wantErr: "43", notFound: true},
		{name: "foreign provider ID", nodeName: "worker-1", providerID: "k3s://worker-1", wantErr: "hcloud://<server ID>"},
		{name: "API error by name", nodeName: "broken", wantErr: "server_error"},
		{name: "API error by ID", nodeName: "worker-1", providerID: "hcloud://500", wantErr: "server_error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: test.nodeName},
				Spec:       corev1.NodeSpec{ProviderID: test.providerID},
			}
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
		})
	}
}
