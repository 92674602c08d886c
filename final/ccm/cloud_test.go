package ccm

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/cloud-provider/app/config"
)

// testConfig returns what the library would hand to NewCloudProvider.
func testConfig(clusterCIDR string) *config.CompletedConfig {
	c := &config.Config{SharedInformers: informers.NewSharedInformerFactory(nil, 0)}
	c.ComponentConfig.KubeCloudShared.ClusterCIDR = clusterCIDR
	return c.Complete()
}

func TestNewCloudProvider(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /networks/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":{"code":"not_found","message":"network not found"}}`))
	})
	mux.HandleFunc("GET /networks", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"code":"unauthorized","message":"the token you have provided is invalid"}}`))
			return
		}
		if r.URL.Query().Get("name") == "lab" {
			_, _ = w.Write([]byte(`{"networks":[{"id":7,"name":"lab","ip_range":"10.0.0.0/8"}]}`))
			return
		}
		_, _ = w.Write([]byte(`{"networks":[]}`))
	})
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)

	tests := []struct {
		name    string
		token   string
		network string
		wantErr string
		wantID  int64
	}{
		{name: "no token", wantErr: "HCLOUD_TOKEN is not set"},
		{name: "blank token", token: " \n", wantErr: "HCLOUD_TOKEN is not set"},
		{name: "no network", token: "secret"},
		{name: "network by name", token: "secret", network: "lab", wantID: 7},
		{name: "white space is trimmed", token: " secret\n", network: "lab\n", wantID: 7},
		{name: "unknown network", token: "secret", network: "lap", wantErr: `HCLOUD_NETWORK "lap" is neither`},
		{name: "unknown network ID", token: "secret", network: "8", wantErr: `HCLOUD_NETWORK "8" is neither`},
		{name: "wrong token", token: "guess", network: "lab", wantErr: "the token you have provided is invalid"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("HCLOUD_TOKEN", test.token)
			t.Setenv("HCLOUD_NETWORK", test.network)
			t.Setenv("HCLOUD_ENDPOINT", api.URL)

			cloud, err := newCloudProvider(t.Context(), testConfig("10.244.0.0/16"))
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error = %v, want one with %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var gotID int64
			if network := cloud.instances.network; network != nil {
				gotID = network.ID
			}
			if gotID != test.wantID {
				t.Errorf("network ID = %d, want %d", gotID, test.wantID)
			}
			if _, supported := cloud.Routes(); supported != (test.wantID != 0) {
				t.Errorf("routes are supported: %t, with network ID %d", supported, gotID)
			}
		})
	}
}
