package routes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// networkAPI is an API with one network, ID 7. As the real one, it does one change
// of the network at a time: until the action of a change has been seen to end,
// another change is refused.
type networkAPI struct {
	mu      sync.Mutex
	routes  []schema.NetworkRoute
	running bool
	locked  int // so many changes are refused although none is running
	limit   int // of routes; 0 for none
	reads   int
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
	mux := http.NewServeMux()
	mux.HandleFunc("GET /networks/7", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.reads++
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
		case add && a.limit > 0 && len(a.routes) >= a.limit:
			refuse(403, "resource_limit_exceeded")
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

func route(destination, gateway string) Route {
	return Route{netip.MustParsePrefix(destination), netip.MustParseAddr(gateway)}
}

func newTable(t *testing.T, api *networkAPI) *Table {
	t.Helper()
	table := NewTable(api.start(t), &hcloud.Network{ID: 7})
	if _, err := table.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	return table
}

func TestList(t *testing.T) {
	api := &networkAPI{routes: []schema.NetworkRoute{{Destination: "10.244.1.0/24", Gateway: "10.0.0.1"}, {Destination: "0.0.0.0/0", Gateway: "10.0.0.9"}}}
	got, err := newTable(t, api).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Route{route("10.244.1.0/24", "10.0.0.1"), route("0.0.0.0/0", "10.0.0.9")}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

func TestAdd(t *testing.T) {
	there := []schema.NetworkRoute{{Destination: "10.244.1.0/24", Gateway: "10.0.0.1"}}
	tests := []struct {
		name   string
		routes []schema.NetworkRoute
		late   []schema.NetworkRoute // made by others after the routes were read
		locked int
		route  Route
		want   []string // changes of the network, tried or made
		via    string   // gateway of the route that is there in the end
	}{
		{name: "new", route: route("10.244.1.0/24", "10.0.0.1"), want: []string{"add_route 10.0.0.1"}, via: "10.0.0.1"},
		{name: "there already", routes: there, route: route("10.244.1.0/24", "10.0.0.1"), via: "10.0.0.1"},
		{name: "leads elsewhere", routes: there, route: route("10.244.1.0/24", "10.0.0.2"), via: "10.0.0.1"},
		{name: "somebody else was faster", late: there, route: route("10.244.1.0/24", "10.0.0.2"), want: []string{"invalid_input"}, via: "10.0.0.1"},
		{name: "R07 the network is locked for a moment", locked: 1, route: route("10.244.1.0/24", "10.0.0.1"), want: []string{"locked", "add_route 10.0.0.1"}, via: "10.0.0.1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			api := &networkAPI{routes: test.routes, locked: test.locked}
			table := newTable(t, api)
			api.routes = append(api.routes, test.late...)
			via, err := table.Add(t.Context(), test.route)
			if err != nil || via.String() != test.via {
				t.Errorf("Add = %s, %v; want %s", via, err, test.via)
			}
			if diff := cmp.Diff(test.want, api.changes); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFull asks a full network once, and again when it has room.
func TestFull(t *testing.T) {
	api := &networkAPI{limit: 2}
	table := newTable(t, api)
	for n := range 10 {
		_, err := table.Add(t.Context(), route(fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("10.0.0.%d", n+1)))
		if errors.Is(err, ErrFull) != (n >= 2) || n < 2 && err != nil {
			t.Errorf("route %d: %v", n, err)
		}
	}
	if err := table.Remove(t.Context(), route("10.244.0.0/24", "10.0.0.1")); err != nil {
		t.Error(err)
	}
	if _, err := table.Add(t.Context(), route("10.244.9.0/24", "10.0.0.9")); err != nil {
		t.Error(err)
	}
	want := []string{"add_route 10.0.0.1", "add_route 10.0.0.2", "resource_limit_exceeded", "delete_route 10.0.0.1", "add_route 10.0.0.9"}
	if diff := cmp.Diff(want, api.changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestRemove(t *testing.T) {
	api := &networkAPI{routes: []schema.NetworkRoute{{Destination: "10.244.1.0/24", Gateway: "10.0.0.1"}}}
	table := newTable(t, api)
	for range 2 { // the second time it is known to be gone
		if err := table.Remove(t.Context(), route("10.244.1.0/24", "10.0.0.1")); err != nil {
			t.Errorf("Remove: %v", err)
		}
	}
	want := []string{"delete_route 10.0.0.1"}
	if diff := cmp.Diff(want, api.changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestR05 removes a route that somebody else has removed since the routes were read.
func TestR05(t *testing.T) {
	api := &networkAPI{routes: []schema.NetworkRoute{{Destination: "10.244.1.0/24", Gateway: "10.0.0.1"}}}
	table := newTable(t, api)
	api.routes = nil
	if err := table.Remove(t.Context(), route("10.244.1.0/24", "10.0.0.1")); err != nil {
		t.Errorf("Remove: %v", err)
	}
	want := []string{"not_found"}
	if diff := cmp.Diff(want, api.changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestConcurrency calls as the controller does: everything at once. Run it with
// the race detector.
func TestConcurrency(t *testing.T) {
	api := &networkAPI{}
	for n := range 20 { // the new owners of these ranges are other servers
		api.routes = append(api.routes, schema.NetworkRoute{Destination: fmt.Sprintf("10.244.%d.0/24", n), Gateway: fmt.Sprintf("10.0.0.%d", 100+n)})
	}
	table := newTable(t, api)
	var wg sync.WaitGroup
	for n := range 60 {
		wanted := route(fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("10.0.0.%d", n+1))
		old := route(fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("10.0.0.%d", 100+n))
		wg.Go(func() {
			if err := table.Remove(t.Context(), old); err != nil {
				t.Errorf("Remove: %v", err)
			}
		})
		wg.Go(func() {
			via, err := table.Add(t.Context(), wanted)
			if err == nil && via != wanted.Gateway {
				err = table.Replace(t.Context(), Route{wanted.Destination, via}, wanted)
			}
			if err != nil {
				t.Errorf("Add: %v", err)
			}
		})
	}
	wg.Wait()

	if slices.Contains(api.changes, "locked") {
		t.Error("two changes of the network ran at the same time")
	}
	if api.reads != 1 {
		t.Errorf("the network was read %d times, want 1", api.reads)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, route := range api.routes {
		got[route.Destination] = route.Gateway
	}
	for n := range 60 {
		want[fmt.Sprintf("10.244.%d.0/24", n)] = fmt.Sprintf("10.0.0.%d", n+1)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}
