package ccm

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/cloud-provider/app/config"

	environment "example.com/ccm-from-scratch/final/config"
	"example.com/ccm-from-scratch/final/loadbalancer"
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
	mux.HandleFunc("GET /locations", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.Header.Get("Authorization") {
		case "Bearer guess":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"code":"unauthorized","message":"the token you have provided is invalid"}}`))
		case "Bearer unlucky":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":{"code":"unavailable","message":"try again"}}`))
		default:
			_, _ = w.Write([]byte(`{"locations":[]}`))
		}
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
		name        string
		token       string
		network     string
		env         map[string]string
		controllers []string
		wantErr     string
		wantID      int64
		wantRoutes  bool
	}{
		{name: "no token", wantErr: "HCLOUD_TOKEN is not set"},
		{name: "no network", token: "secret"},
		{name: "network by name", token: "secret", network: "lab", wantID: 7, wantRoutes: true},
		{name: "white space is trimmed", token: " secret\n", network: "lab\n", wantID: 7, wantRoutes: true},
		{name: "no routes", token: "secret", network: "lab", env: map[string]string{"HCLOUD_NETWORK_ROUTES_ENABLED": "false"}, wantID: 7},
		{name: "unknown network", token: "secret", network: "lap", wantErr: `HCLOUD_NETWORK "lap" is neither`},
		{name: "unknown network ID", token: "secret", network: "8", wantErr: `HCLOUD_NETWORK "8" is neither`},
		{name: "C03 wrong token", token: "guess", network: "lab", wantErr: "HCLOUD_TOKEN is refused by http://127.0.0.1"},
		{name: "C03 wrong token without a network", token: "guess", wantErr: "HCLOUD_TOKEN is refused by http://127.0.0.1"},
		{name: "C03 failing API without a network", token: "unlucky"},
		{name: "routes are asked for by name", token: "secret", controllers: []string{"*", "node-route-controller"}, wantErr: "it needs HCLOUD_NETWORK"},
		{
			name: "load balancers are asked for by name", token: "secret", controllers: []string{"service-lb-controller"},
			env: map[string]string{"HCLOUD_LOAD_BALANCERS_ENABLED": "false"}, wantErr: "HCLOUD_LOAD_BALANCERS_ENABLED must not be false",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("HCLOUD_TOKEN", test.token)
			t.Setenv("HCLOUD_NETWORK", test.network)
			t.Setenv("HCLOUD_ENDPOINT", api.URL)
			t.Setenv("HCLOUD_METRICS_ENABLED", "false")
			t.Setenv("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "true")
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			config := testConfig("10.244.0.0/16")
			config.ComponentConfig.Generic.Controllers = test.controllers

			cloud, err := newCloudProvider(t.Context(), config, prometheus.NewRegistry())
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
			if network := cloud.instances.policy.Network; network != nil {
				gotID = network.ID
			}
			if gotID != test.wantID {
				t.Errorf("network ID = %d, want %d", gotID, test.wantID)
			}
			if _, supported := cloud.Routes(); supported != test.wantRoutes {
				t.Errorf("routes are supported: %t, want %t", supported, test.wantRoutes)
			}
		})
	}
}

// TestDefaults: a variable takes the values that the annotation of the same
// meaning takes, and no others.
func TestDefaults(t *testing.T) {
	text, err := os.ReadFile("../loadbalancer/testdata/values.json")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]struct{ Valid, Invalid []string }{}
	if err := json.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	for _, a := range loadbalancer.Annotations {
		if a.Variable == "" {
			continue
		}
		t.Run(a.Variable, func(t *testing.T) {
			load := func(value string) (loadbalancer.Defaults, error) {
				c, err := environment.Load(func(name string) (string, bool) {
					value, ok := map[string]string{"HCLOUD_TOKEN": "token", "HCLOUD_NETWORK": "lab", a.Variable: value}[name]
					return value, ok
				})
				if err != nil {
					return loadbalancer.Defaults{}, err
				}
				return loadBalancerDefaults(c.LoadBalancers), nil
			}
			same := func(value string) bool { // empty is unset, spaces do not count, and 0 is that of the API
				return value != "" && value != "0" && strings.TrimSpace(value) == value && !strings.Contains(value, "=")
			}
			for _, value := range values[a.Name].Valid {
				defaults, err := load(value)
				if !same(value) {
					continue
				}
				if err != nil {
					t.Errorf("%q is refused: %v", value, err)
				}
				service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{loadbalancer.Prefix + a.Name: value}}}
				byAnnotation, _ := loadbalancer.Parse(service, loadbalancer.Defaults{})
				byVariable, _ := loadbalancer.Parse(&corev1.Service{}, defaults)
				options := cmp.Options{
					cmpopts.IgnoreUnexported(loadbalancer.Settings{}), cmpopts.IgnoreFields(loadbalancer.Settings{}, "NodeSelector"),
					cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}),
				}
				if diff := cmp.Diff(byAnnotation, byVariable, options); diff != "" {
					t.Errorf("%q (-annotation +variable):\n%s", value, diff)
				}
			}
			for _, value := range values[a.Name].Invalid {
				if _, err := load(value); same(value) && err == nil {
					t.Errorf("%q is taken", value)
				}
			}
		})
	}
}
