package ccm

import (
	stdcmp "cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/metrics"
	"example.com/ccm-from-scratch/final/routes"
	"example.com/ccm-from-scratch/final/servers"
)

// networkAPI is an API with one network, ID 7, and servers of which number n has
// the name server-n, and the IP 10.0.0.n and the alias IP 10.0.1.n there. Its
// changes are done at once.
type networkAPI struct {
	servers  []int64
	unlisted []int64          // exist, too
	renamed  map[int64]string // to something else than server-n

	mu       sync.Mutex
	routes   []schema.NetworkRoute
	requests []string
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
		return schema.Server{ID: id, Name: stdcmp.Or(a.renamed[id], fmt.Sprintf("server-%d", id)), PrivateNet: []schema.ServerPrivateNet{{
			Network: 7, IP: fmt.Sprintf("10.0.0.%d", id), AliasIPs: []string{fmt.Sprintf("10.0.1.%d", id)},
		}}}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /servers/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if !slices.Contains(a.servers, id) && !slices.Contains(a.unlisted, id) {
			answer(w, 404, schema.ErrorResponse{Error: schema.Error{Code: "not_found", Message: "not found"}})
			return
		}
		answer(w, 200, schema.ServerGetResponse{Server: server(id)})
	})
	mux.HandleFunc("GET /servers", func(w http.ResponseWriter, _ *http.Request) {
		var list schema.ServerListResponse
		for _, id := range a.servers {
			list.Servers = append(list.Servers, server(id))
		}
		answer(w, 200, list)
	})
	mux.HandleFunc("GET /networks/7", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, schema.NetworkGetResponse{Network: schema.Network{ID: 7, IPRange: "10.0.0.0/8", Routes: a.routes}})
	})
	mux.HandleFunc("POST /networks/7/actions/{verb}", func(w http.ResponseWriter, r *http.Request) {
		var route schema.NetworkRoute
		if err := json.NewDecoder(r.Body).Decode(&route); err != nil {
			t.Errorf("decode request: %v", err)
		}
		if r.PathValue("verb") == "add_route" {
			a.routes = append(a.routes, route)
		} else {
			a.routes = slices.DeleteFunc(a.routes, func(present schema.NetworkRoute) bool { return present == route })
		}
		a.requests = append(a.requests, fmt.Sprintf("%s %s via %s", r.PathValue("verb"), route.Destination, route.Gateway))
		answer(w, 201, map[string]any{"action": schema.Action{ID: 1, Status: "success"}})
	})
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if r.Method == http.MethodGet {
			a.requests = append(a.requests, "GET "+r.URL.Path)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		response := w.Result()
		response.Request = r
		return response, nil
	})
	return hcloud.NewClient(hcloud.WithEndpoint("http://api.invalid"), hcloud.WithToken("token"), hcloud.WithHTTPClient(&http.Client{Transport: transport}))
}

// roundTripper answers requests without a connection, so that a test may have a
// clock of its own.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// writes returns the changes of the network so far.
func (a *networkAPI) writes() []string {
	return slices.DeleteFunc(slices.Clone(a.requests), func(s string) bool { return strings.HasPrefix(s, "GET ") })
}

// newTestRoutes returns the routes of a cluster in which node-1 to node-3 run on
// servers 1 to 3, beside other Nodes.
func newTestRoutes(t *testing.T, api *networkAPI, others ...*corev1.Node) (*Routes, *record.FakeRecorder) {
	t.Helper()
	for n := range 3 {
		others = append(others, newNode(fmt.Sprintf("node-%d", n+1), fmt.Sprintf("hcloud://%d", n+1)))
	}
	client, network, recorder := api.start(t), &hcloud.Network{ID: 7}, record.NewFakeRecorder(100)
	cidrs, err := parseCIDRs("10.244.0.0/16,fd00::/56")
	if err != nil {
		t.Fatal(err)
	}
	return &Routes{
		table:        routes.NewTable(client, network),
		servers:      servers.New(client, servers.Options{Mode: servers.All, MaxAge: 10 * time.Second}),
		network:      network,
		clusterCIDRs: cidrs,
		nodes:        newLister(t, others...),
		nodesSynced:  func() bool { return true },
		events:       events.NewRecorder(recorder),
		metrics:      metrics.New(prometheus.NewRegistry()),
	}, recorder
}

// pass does what the controller does in one pass with the routes that are
// listed, but for the comparison with pod CIDRs: it deletes dead ends.
func pass(t *testing.T, r *Routes) []*cloudprovider.Route {
	t.Helper()
	listed, err := r.ListRoutes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range listed {
		if route.Blackhole {
			if err := r.DeleteRoute(t.Context(), "", route); err != nil {
				t.Error(err)
			}
		}
	}
	return listed
}

func TestListRoutes(t *testing.T) {
	api := &networkAPI{servers: []int64{1, 3, 50}, unlisted: []int64{2}, routes: []schema.NetworkRoute{
		{Destination: "10.244.1.0/24", Gateway: "10.0.0.1"},
		{Destination: "10.244.2.0/24", Gateway: "10.0.0.2"},  // the list lacks this server
		{Destination: "10.244.3.0/24", Gateway: "10.0.1.3"},  // an alias IP
		{Destination: "10.244.9.0/24", Gateway: "10.0.0.99"}, // no server has this IP
		{Destination: "10.244.5.0/24", Gateway: "10.0.0.50"}, // everything below is others'
		{Destination: "10.244.6.0/24", Gateway: "10.0.1.50"},
		{Destination: "0.0.0.0/0", Gateway: "10.0.0.1"},
		{Destination: "10.244.0.0/15", Gateway: "10.0.0.1"},
		{Destination: "192.168.0.0/24", Gateway: "10.0.0.99"},
	}}
	r, _ := newTestRoutes(t, api)
	got, err := r.ListRoutes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	want := []*cloudprovider.Route{
		{Name: "10.0.0.1", TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"},
		{Name: "10.0.0.2", TargetNode: "node-2", DestinationCIDR: "10.244.2.0/24"},
		{Name: "10.0.1.3", TargetNode: "node-3", DestinationCIDR: "10.244.3.0/24"},
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
	all := []int64{1, 2, 3, 50, 60, 61, 62, 63}
	one := func(gateway string) []schema.NetworkRoute {
		return []schema.NetworkRoute{{Destination: "10.244.1.0/24", Gateway: gateway}}
	}
	tests := []struct {
		name      string
		routes    []schema.NetworkRoute
		node      string
		cidr      string
		want      []string // changes of the network
		wantErr   string
		wantEvent string
	}{
		{name: "new", node: "node-1", cidr: "10.244.1.0/24", want: []string{"add_route 10.244.1.0/24 via 10.0.0.1"}},
		{name: "there already", routes: one("10.0.0.1"), node: "node-1", cidr: "10.244.1.0/24"},
		{
			name: "R08 leads to a server that is gone", routes: one("10.0.0.99"), node: "node-1", cidr: "10.244.1.0/24",
			want: []string{"delete_route 10.244.1.0/24 via 10.0.0.99", "add_route 10.244.1.0/24 via 10.0.0.1"},
		},
		{
			name: "R08 leads to another Node", routes: one("10.0.0.2"), node: "node-1", cidr: "10.244.1.0/24",
			want: []string{"delete_route 10.244.1.0/24 via 10.0.0.2", "add_route 10.244.1.0/24 via 10.0.0.1"},
		},
		{
			name: "R02 leads to another cluster's server", routes: one("10.0.0.60"), node: "node-1", cidr: "10.244.1.0/24",
			wantErr: "none of this cluster's", wantEvent: "RouteConflict pod CIDR 10.244.1.0/24 is routed to 10.0.0.60",
		},
		{
			name: "leads to a Node that knows of no cloud, and has another range now", routes: one("10.0.0.50"), node: "node-1", cidr: "10.244.1.0/24",
			want: []string{"delete_route 10.244.1.0/24 via 10.0.0.50", "add_route 10.244.1.0/24 via 10.0.0.1"},
		},
		{
			name: "leads to such a Node that has this range, too", routes: one("10.0.0.61"), node: "node-1", cidr: "10.244.1.0/24",
			wantErr: "none of this cluster's", wantEvent: "RouteConflict pod CIDR 10.244.1.0/24 is routed to 10.0.0.61",
		},
		{
			name: "leads to a server with the name of a Node that is not initialized", routes: one("10.0.0.62"), node: "node-1", cidr: "10.244.1.0/24",
			wantErr: "none of this cluster's", wantEvent: "RouteConflict pod CIDR 10.244.1.0/24 is routed to 10.0.0.62",
		},
		{
			name: "leads to a server with the name of a Node of another cloud", routes: one("10.0.0.63"), node: "node-1", cidr: "10.244.1.0/24",
			wantErr: "none of this cluster's", wantEvent: "RouteConflict pod CIDR 10.244.1.0/24 is routed to 10.0.0.63",
		},
		{
			name: "R05 outside of the cluster's range", node: "node-1", cidr: "10.99.1.0/24",
			want: []string{"add_route 10.99.1.0/24 via 10.0.0.1"}, wantEvent: "ClusterCIDRMisconfigured pod CIDR 10.99.1.0/24",
		},
		{name: "W26 IPv6", node: "node-1", cidr: "fd00:0:0:1::/64"},
		{name: "R09 a Node of another cloud", node: "stranger", cidr: "10.244.2.0/24"},
		{name: "R09 a dedicated server", node: "dedicated", cidr: "10.244.2.0/24"},
		{name: "R09 a Node that has nothing to do with us", node: "onprem", cidr: "10.244.2.0/24"},
		{name: "a Node that knows of no cloud", node: "server-50", cidr: "10.244.2.0/24", want: []string{"add_route 10.244.2.0/24 via 10.0.0.50"}},
		{name: "a Node that knows of no cloud has its route", routes: one("10.0.0.50"), node: "server-50", cidr: "10.244.1.0/24"},
		{
			name: "a Node that knows of no cloud, and another cluster has its range", routes: one("10.0.1.60"), node: "server-50", cidr: "10.244.1.0/24",
			wantErr: "none of this cluster's", wantEvent: "RouteConflict pod CIDR 10.244.1.0/24 is routed to 10.0.1.60",
		},
		{name: "a Node that is not initialized", node: "fresh", cidr: "10.244.2.0/24", wantErr: "not initialized"},
		{name: "no Node", node: "ghost", cidr: "10.244.2.0/24", wantErr: "not found"},
		{name: "a Node whose server is gone", node: "lost", cidr: "10.244.2.0/24", wantErr: "instance not found"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			api := &networkAPI{servers: all, routes: test.routes}
			twin := newNode("server-61", "")
			twin.Spec.PodCIDRs = []string{"10.244.1.0/24"}
			r, recorder := newTestRoutes(t, api, newNode("stranger", "k3s://stranger"), newNode("dedicated", "hrobot://7"),
				newNode("onprem", ""), newNode("server-50", ""), uninitialized(newNode("fresh", "")), newNode("lost", "hcloud://77"),
				twin, uninitialized(newNode("server-62", "")), newNode("server-63", "k3s://server-63"))
			if _, err := r.ListRoutes(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			reads := len(api.requests)
			err := r.CreateRoute(t.Context(), "", "", &cloudprovider.Route{TargetNode: types.NodeName(test.node), DestinationCIDR: test.cidr})
			if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Errorf("error = %v, want one with %q", err, test.wantErr)
			}
			if diff := cmp.Diff(test.want, api.writes()); diff != "" && len(test.want)+len(api.writes()) > 0 {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if strings.HasPrefix(test.name, "R09") && len(api.requests) > reads {
				t.Errorf("requests for a Node that is not ours: %v", api.requests[reads:])
			}
			got := recorded(recorder)
			if (got == "") != (test.wantEvent == "") || !strings.Contains(got, test.wantEvent) {
				t.Errorf("events = %q, want one with %q", got, test.wantEvent)
			}
		})
	}
}

// TestR01 leaves routes alone that are not the cluster's, in five passes.
func TestR01(t *testing.T) {
	others := []schema.NetworkRoute{{Destination: "0.0.0.0/0", Gateway: "10.0.0.254"}, {Destination: "192.168.50.0/24", Gateway: "10.0.0.5"}}
	api := &networkAPI{servers: []int64{1, 2, 3}, routes: slices.Clone(others)}
	for range 2 { // a restart
		r, _ := newTestRoutes(t, api)
		for range 5 {
			pass(t, r)
		}
	}
	if diff := cmp.Diff(others, api.routes); diff != "" || len(api.writes()) > 0 {
		t.Errorf("routes (-want +got):\n%s\n%v", diff, api.writes())
	}
}

// TestR02 leaves a route of another cluster alone whose server is newer than the
// list of servers.
func TestR02(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &networkAPI{servers: []int64{1, 2, 3}}
		r, recorder := newTestRoutes(t, api)
		pass(t, r)
		time.Sleep(2 * servers.JustNow) // of the bubble's clock
		api.servers = append(api.servers, 50)
		api.routes = append(api.routes, schema.NetworkRoute{Destination: "10.244.1.0/24", Gateway: "10.0.0.50"})
		if _, err := r.table.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := r.CreateRoute(t.Context(), "", "", &cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"})
		if err == nil || !strings.Contains(err.Error(), "none of this cluster's") {
			t.Errorf("error = %v", err)
		}
		if got := recorded(recorder); !strings.Contains(got, "RouteConflict") || len(api.writes()) > 0 {
			t.Errorf("events = %q, changes = %v", got, api.writes())
		}

		time.Sleep(2 * servers.JustNow)
		api.servers = append(api.servers, 51)
		api.routes[0].Gateway = "10.0.0.51"
		if listed := pass(t, r); len(listed)+len(api.writes()) > 0 {
			t.Errorf("listed = %v, changes = %v", listed, api.writes())
		}
	})
}

// TestNamed has a Node that knows of no cloud, and is as new as its server.
func TestNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &networkAPI{servers: []int64{1, 2, 3}}
		node := newNode("server-4", "")
		r, _ := newTestRoutes(t, api, node)
		pass(t, r)
		time.Sleep(2 * servers.JustNow) // of the bubble's clock
		api.servers = append(api.servers, 4)
		node.CreationTimestamp = metav1.Now()
		for range 10 {
			pass(t, r)
			if err := r.CreateRoute(t.Context(), "", "", &cloudprovider.Route{TargetNode: "server-4", DestinationCIDR: "10.244.4.0/24"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
		}
		if diff := cmp.Diff([]string{"add_route 10.244.4.0/24 via 10.0.0.4"}, api.writes()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if got := len(api.requests); got > 24 { // one of each in a pass, and two for what is new
			t.Errorf("%d requests in ten passes, want 24 at most", got)
		}
	})
}

// TestRenamed leaves a route alone whose server had the name of a Node, and lost
// it after the list of servers was read.
func TestRenamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &networkAPI{servers: []int64{1, 2, 3, 50}, routes: []schema.NetworkRoute{{Destination: "10.244.1.0/24", Gateway: "10.0.0.50"}}}
		r, recorder := newTestRoutes(t, api, newNode("server-50", ""))
		pass(t, r)
		time.Sleep(2 * servers.JustNow) // of the bubble's clock
		api.renamed = map[int64]string{50: "other"}
		err := r.CreateRoute(t.Context(), "", "", &cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"})
		if err == nil || !strings.Contains(err.Error(), "none of this cluster's") {
			t.Errorf("error = %v", err)
		}
		if got := recorded(recorder); !strings.Contains(got, "RouteConflict") || len(api.writes()) > 0 {
			t.Errorf("events = %q, changes = %v", got, api.writes())
		}
	})
}

// TestBlocked asks again and again for a route that cannot be made, and counts.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &networkAPI{servers: []int64{1, 2, 3, 50}, routes: []schema.NetworkRoute{{Destination: "10.244.1.0/24", Gateway: "10.0.0.50"}}}
		r, _ := newTestRoutes(t, api)
		for range 120 {
			pass(t, r)
			if err := r.CreateRoute(t.Context(), "", "", &cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"}); err == nil {
				t.Fatal("the other cluster's route was replaced")
			}
			time.Sleep(30 * time.Second) // of the bubble's clock
		}
		// With so few servers a pass may have a list of its own.
		if got := len(api.requests); got > 240 {
			t.Errorf("%d requests in an hour, want 240 at most", got)
		}
	})
}

// TestR05 removes the route of a Node that is gone although its server is not.
func TestR05(t *testing.T) {
	api := &networkAPI{servers: []int64{1, 2, 3}, routes: []schema.NetworkRoute{{Destination: "10.244.3.0/24", Gateway: "10.0.0.3"}}}
	r, _ := newTestRoutes(t, api)
	pass(t, r)
	r.nodes = newLister(t, newNode("node-1", "hcloud://1"), newNode("node-2", "hcloud://2"))
	pass(t, r)
	pass(t, r)
	want := []string{"delete_route 10.244.3.0/24 via 10.0.0.3"}
	if diff := cmp.Diff(want, api.writes()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestR11 makes many passes over many dead ends, and counts.
func TestR11(t *testing.T) {
	api := &networkAPI{servers: []int64{1, 2, 3}}
	for n := range 60 {
		api.routes = append(api.routes, schema.NetworkRoute{Destination: fmt.Sprintf("10.244.%d.0/24", 100+n), Gateway: fmt.Sprintf("10.0.0.%d", 100+n)})
	}
	r, _ := newTestRoutes(t, api)
	for range 20 {
		if _, err := r.ListRoutes(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]int{}
	for _, request := range api.requests {
		got[request]++
	}
	want := map[string]int{"GET /networks/7": 20, "GET /servers": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestParseCIDRs(t *testing.T) {
	for cidr, valid := range map[string]bool{
		"10.244.0.0/16":            true,
		"10.244.0.0/16,fd00::/56":  true,
		"10.244.0.0/16, fd00::/56": true,
		"":                         false,
		"10.244.0.0":               false,
	} {
		if _, err := parseCIDRs(cidr); (err == nil) != valid {
			t.Errorf("parseCIDRs of %q: %v", cidr, err)
		}
	}
}
