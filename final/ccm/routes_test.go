package ccm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
)

// networkAPI is an API with one network, ID 7, and servers 1 to 60, of which
// server n has the IP 10.0.0.n there. As the real one, it does one change of the
// network at a time: until the action of a change has been seen to end, another
// change is refused.
type networkAPI struct {
	listed  int64 // the list of servers has this many of them
	mu      sync.Mutex
	routes  []schema.NetworkRoute
	running bool
	locked  int // so many changes are refused although none is running
	changes []string
}

func (a *networkAPI) start(t *testing.T) *hcloud.Client {
	t.Helper()
	answer := func(w http.ResponseWriter, status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Errorf("encode response: %v", err)
		}
	}
	server := func(id int64) schema.Server {
		return schema.Server{ID: id, PrivateNet: []schema.ServerPrivateNet{{Network: 7, IP: fmt.Sprintf("10.0.0.%d", id)}}}
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /servers/{id}", func(w http.ResponseWriter, r *http.Request) {
		var id int64
		_, _ = fmt.Sscan(r.PathValue("id"), &id)
		answer(w, 200, schema.ServerGetResponse{Server: server(id)})
	})
	mux.HandleFunc("GET /servers", func(w http.ResponseWriter, _ *http.Request) {
		var list schema.ServerListResponse
		for id := range a.listed {
			list.Servers = append(list.Servers, server(id+1))
		}
		answer(w, 200, list)
	})
	mux.HandleFunc("GET /networks/7", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		answer(w, 200, schema.NetworkGetResponse{Network: schema.Network{ID: 7, IPRange: "10.0.0.0/8", Routes: a.routes}})
	})
	mux.HandleFunc("GET /actions", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running = false
		answer(w, 200, map[string]any{"actions": []schema.Action{{ID: 1, Status: "success"}}})
	})
	mux.HandleFunc("POST /networks/7/actions/{verb}", func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		var route schema.NetworkRoute
		if err := json.NewDecoder(r.Body).Decode(&route); err != nil {
			t.Errorf("decode request: %v", err)
		}
		refuse := func(status int, code string) {
			a.changes = append(a.changes, code)
			answer(w, status, schema.ErrorResponse{Error: schema.Error{Code: code, Message: code}})
		}
		if a.running || a.locked > 0 {
			a.locked--
			refuse(423, "locked")
			return
		}
		add := r.PathValue("verb") == "add_route"
		i := slices.IndexFunc(a.routes, func(present schema.NetworkRoute) bool {
			return present.Destination == route.Destination && (add || present.Gateway == route.Gateway)
		})
		switch {
		case add && i >= 0:
			refuse(422, "invalid_input")
			return
		case add:
			a.routes = append(a.routes, route)
		case i < 0:
			refuse(404, "not_found")
			return
		default:
			a.routes = slices.Delete(a.routes, i, i+1)
		}
		a.changes = append(a.changes, r.PathValue("verb")+" "+route.Gateway)
		a.running = true
		answer(w, 201, map[string]any{"action": schema.Action{ID: 1, Status: "running"}})
	})

	httpServer := httptest.NewServer(mux)
	t.Cleanup(httpServer.Close)
	return hcloud.NewClient(
		hcloud.WithEndpoint(httpServer.URL),
		hcloud.WithToken("token"),
		hcloud.WithPollOpts(hcloud.PollOpts{BackoffFunc: hcloud.ConstantBackoff(time.Millisecond)}),
	)
}

// newTestRoutes returns routes for Nodes node-1 to node-60, of which node-n runs
// on server n, and for the Nodes given.
func newTestRoutes(t *testing.T, api *networkAPI, nodes ...*corev1.Node) *Routes {
	t.Helper()
	r, err := newRoutes(api.start(t), &hcloud.Network{ID: 7}, "10.244.0.0/16", testConfig("").SharedInformers.Core().V1().Nodes())
	if err != nil {
		t.Fatal(err)
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for n := range 60 {
		nodes = append(nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", n+1)},
			Spec:       corev1.NodeSpec{ProviderID: providerID(int64(n + 1))},
		})
	}
	for _, node := range nodes {
		if err := indexer.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	r.nodes = corelisters.NewNodeLister(indexer)
	r.nodesSynced = func() bool { return true }
	return r
}

func TestListRoutes(t *testing.T) {
	api := &networkAPI{listed: 50, routes: []schema.NetworkRoute{
		{Destination: "10.244.1.0/24", Gateway: "10.0.0.1"},
		{Destination: "10.244.2.0/24", Gateway: "10.0.0.60"}, // the list lacks this server
		{Destination: "10.244.9.0/24", Gateway: "10.0.0.99"}, // no server has this IP
		{Destination: "0.0.0.0/0", Gateway: "10.0.0.1"},      // everything below is others'
		{Destination: "10.244.0.0/15", Gateway: "10.0.0.1"},
		{Destination: "192.168.0.0/24", Gateway: "10.0.0.99"},
	}}
	r := newTestRoutes(t, api)

	got, err := r.ListRoutes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	want := []*cloudprovider.Route{
		{Name: "10.0.0.1", TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"},
		{Name: "10.0.0.60", TargetNode: "node-60", DestinationCIDR: "10.244.2.0/24"},
		{Name: "10.0.0.99", DestinationCIDR: "10.244.9.0/24", Blackhole: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ListRoutes (-want +got):\n%s", diff)
	}

	r.nodesSynced = func() bool { return false }
	if got, err := r.ListRoutes(t.Context(), ""); err == nil {
		t.Errorf("ListRoutes = %v before all Nodes are known, want an error", got)
	}
}

func TestCreateRoute(t *testing.T) {
	foreign := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Spec: corev1.NodeSpec{ProviderID: "k3s://foreign"}}
	fresh := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}}

	tests := []struct {
		name    string
		routes  []schema.NetworkRoute
		locked  int
		route   cloudprovider.Route
		want    []string // changes of the network, tried or made
		wantErr string
	}{
		{
			name:  "new",
			route: cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"},
			want:  []string{"add_route 10.0.0.1"},
		},
		{
			name:   "there already",
			routes: []schema.NetworkRoute{{Destination: "10.244.1.0/24", Gateway: "10.0.0.1"}},
			route:  cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"},
			want:   []string{"invalid_input"},
		},
		{
			name:   "leads to another server",
			routes: []schema.NetworkRoute{{Destination: "10.244.1.0/24", Gateway: "10.0.0.99"}},
			route:  cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"},
			want:   []string{"invalid_input", "delete_route 10.0.0.99", "add_route 10.0.0.1"},
		},
		{
			name:   "the network is locked for a moment",
			locked: 1,
			route:  cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"},
			want:   []string{"locked", "add_route 10.0.0.1"},
		},
		{
			name:  "IPv6",
			route: cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "fd00:1::/64"},
		},
		{
			name:  "a Node of another cloud",
			route: cloudprovider.Route{TargetNode: "foreign", DestinationCIDR: "10.244.2.0/24"},
		},
		{
			name:    "a Node that is not initialized",
			route:   cloudprovider.Route{TargetNode: "fresh", DestinationCIDR: "10.244.2.0/24"},
			wantErr: "not initialized",
		},
		{
			name:    "no Node",
			route:   cloudprovider.Route{TargetNode: "ghost", DestinationCIDR: "10.244.2.0/24"},
			wantErr: "not found",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			api := &networkAPI{routes: test.routes, locked: test.locked}
			r := newTestRoutes(t, api, foreign, fresh)
			err := r.CreateRoute(t.Context(), "", "", &test.route)
			if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Errorf("error = %v, want one with %q", err, test.wantErr)
			}
			if diff := cmp.Diff(test.want, api.changes); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeleteRoute(t *testing.T) {
	api := &networkAPI{routes: []schema.NetworkRoute{{Destination: "10.244.1.0/24", Gateway: "10.0.0.1"}}}
	r := newTestRoutes(t, api)
	listed, err := r.ListRoutes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is gone
		if err := r.DeleteRoute(t.Context(), "", listed[0]); err != nil {
			t.Errorf("DeleteRoute: %v", err)
		}
	}
	want := []string{"delete_route 10.0.0.1", "not_found"}
	if diff := cmp.Diff(want, api.changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestConcurrency calls as the controller does: everything at once. Run it with
// the race detector.
func TestConcurrency(t *testing.T) {
	api := &networkAPI{}
	for n := range 20 { // the new owners of these pod CIDRs run on other servers
		api.routes = append(api.routes, schema.NetworkRoute{Destination: fmt.Sprintf("10.244.%d.0/24", n+1), Gateway: fmt.Sprintf("10.0.0.%d", 100+n)})
	}
	r := newTestRoutes(t, api)
	listed, err := r.ListRoutes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	for _, route := range listed {
		wg.Go(func() {
			if err := r.DeleteRoute(t.Context(), "", route); err != nil {
				t.Errorf("DeleteRoute: %v", err)
			}
		})
	}
	for n := range 60 {
		wg.Go(func() {
			route := &cloudprovider.Route{TargetNode: types.NodeName(fmt.Sprintf("node-%d", n+1)), DestinationCIDR: fmt.Sprintf("10.244.%d.0/24", n+1)}
			if err := r.CreateRoute(t.Context(), "", "", route); err != nil {
				t.Errorf("CreateRoute: %v", err)
			}
		})
	}
	wg.Wait()

	if slices.Contains(api.changes, "locked") {
		t.Error("two changes of the network ran at the same time")
	}
	got := map[string]string{}
	for _, route := range api.routes {
		got[route.Destination] = route.Gateway
	}
	want := map[string]string{}
	for n := range 60 {
		want[fmt.Sprintf("10.244.%d.0/24", n+1)] = fmt.Sprintf("10.0.0.%d", n+1)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

func TestNewRoutes(t *testing.T) {
	nodes := testConfig("").SharedInformers.Core().V1().Nodes()
	for cidr, valid := range map[string]bool{
		"10.244.0.0/16":           true,
		"10.244.0.0/16,fd00::/56": true,
		"":                        false,
		"10.244.0.0":              false,
	} {
		if _, err := newRoutes(nil, nil, cidr, nodes); (err == nil) != valid {
			t.Errorf("newRoutes with %q: %v", cidr, err)
		}
	}
}
