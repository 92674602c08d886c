package servers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// fakeAPI has servers 1 to n, named server-1 and so on.
type fakeAPI struct {
	mu       sync.Mutex
	n        int64
	gone     map[int64]bool
	unlisted map[int64]bool
	status   int // of all answers, unless 0

	pages, gets, names int
}

func (a *fakeAPI) start(t *testing.T) *hcloud.Client {
	t.Helper()
	answer := func(w http.ResponseWriter, status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}
	failed := func(w http.ResponseWriter) bool {
		if a.status != 0 {
			answer(w, a.status, schema.ErrorResponse{Error: schema.Error{Code: "server_error", Message: "broken"}})
		}
		return a.status != 0
	}
	server := func(id int64) schema.Server { return schema.Server{ID: id, Name: fmt.Sprintf("server-%d", id)} }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /servers/{id}", func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.gets++
		id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
		switch {
		case failed(w):
		case id > a.n || a.gone[id]:
			answer(w, 404, schema.ErrorResponse{Error: schema.Error{Code: "not_found", Message: "server not found"}})
		default:
			answer(w, 200, schema.ServerGetResponse{Server: server(id)})
		}
	})
	mux.HandleFunc("GET /servers", func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		name := r.URL.Query().Get("name")
		if name == "" {
			a.pages++
		} else {
			a.names++
		}
		if failed(w) {
			return
		}
		var all []schema.Server
		for id := int64(1); id <= a.n; id++ {
			if s := server(id); !a.gone[id] && !a.unlisted[id] && (name == "" || name == s.Name) {
				all = append(all, s)
			}
		}
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		page = max(page, 1)
		size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
		if size == 0 {
			size = 25
		}
		var meta schema.MetaPagination
		meta.Page, meta.PerPage, meta.TotalEntries = page, size, len(all)
		meta.LastPage = max(1, (len(all)+size-1)/size)
		if page < meta.LastPage {
			meta.NextPage = page + 1
		}
		all = all[min(len(all), (page-1)*size):min(len(all), page*size)]
		answer(w, 200, map[string]any{"servers": all, "meta": schema.Meta{Pagination: &meta}})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return hcloud.NewClient(hcloud.WithEndpoint(srv.URL), hcloud.WithToken("token"))
}

// want compares what has been asked of the API since the last time.
func (a *fakeAPI) want(t *testing.T, pages, gets, names int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	got, want := [3]int{a.pages, a.gets, a.names}, [3]int{pages, gets, names}
	if got != want {
		t.Errorf("pages, single servers, names = %v, want %v", got, want)
	}
	a.pages, a.gets, a.names = 0, 0, 0
}

// change applies f and makes everything that s knows older by age.
func (a *fakeAPI) change(s *Servers, age time.Duration, f func()) {
	a.mu.Lock()
	f()
	a.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed, s.failedAt = s.listed.Add(-age), s.failedAt.Add(-age)
	for id, r := range s.known {
		s.known[id] = record{server: r.server, at: r.at.Add(-age)}
	}
	for name, n := range s.names {
		s.names[name] = absence{at: n.at.Add(-age), wait: n.wait}
	}
}

const maxAge = 10 * time.Second

func newTest(t *testing.T, n int64, mode Mode) (*fakeAPI, *Servers) {
	api := &fakeAPI{n: n, gone: map[int64]bool{}, unlisted: map[int64]bool{}}
	return api, New(api.start(t), Options{Mode: mode, MaxAge: maxAge})
}

// TestJoin lets a thousand Nodes ask at once, by name and by ID.
func TestJoin(t *testing.T) {
	api, s := newTest(t, 1000, All)
	ask := func(f func(id int64) (*hcloud.Server, error)) {
		var wg sync.WaitGroup
		for id := int64(1); id <= 1000; id++ {
			wg.Go(func() {
				if server, err := f(id); err != nil || server.ID != id {
					t.Errorf("server %d: %v, %v", id, server, err)
				}
			})
		}
		wg.Wait()
	}
	ask(func(id int64) (*hcloud.Server, error) { return s.ByName(t.Context(), fmt.Sprintf("server-%d", id)) })
	api.want(t, 20, 0, 0)
	ask(func(id int64) (*hcloud.Server, error) { return s.ByID(t.Context(), id, 0) })
	api.want(t, 0, 0, 0)
	api.change(s, 2*maxAge, func() {})
	ask(func(id int64) (*hcloud.Server, error) { return s.ByID(t.Context(), id, 0) })
	api.want(t, 20, 0, 0)
}

func TestByID(t *testing.T) {
	ctx := t.Context()
	api, s := newTest(t, 3, All)
	if _, err := s.ByID(ctx, 1, 0); err != nil {
		t.Error(err)
	}
	api.want(t, 1, 0, 0)

	// A server that the list lacks is looked up, and remembered.
	api.change(s, 2*maxAge, func() { api.unlisted[2] = true })
	for range 3 {
		if server, err := s.ByID(ctx, 2, 0); err != nil || server.ID != 2 {
			t.Errorf("ByID = %v, %v", server, err)
		}
	}
	api.want(t, 1, 1, 0)

	// So is one that is gone.
	api.change(s, 2*maxAge, func() { api.gone[3] = true })
	for range 3 {
		if _, err := s.ByID(ctx, 3, 0); !errors.Is(err, ErrNotFound) {
			t.Errorf("error = %v, want ErrNotFound", err)
		}
	}
	api.want(t, 1, 1, 0)

	// Older answers serve those who accept them.
	api.change(s, time.Minute, func() {})
	if _, err := s.ByID(ctx, 1, 5*time.Minute); err != nil {
		t.Error(err)
	}
	api.want(t, 0, 0, 0)
}

// TestGlance asks about few servers of many, about many, and too often.
func TestGlance(t *testing.T) {
	ctx := t.Context()
	api, s := newTest(t, 300, All)
	ask := func() {
		t.Helper()
		for id := int64(100); id < 300; id++ {
			if _, err := s.Glance(ctx, id, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.List(ctx, 0); err != nil {
		t.Fatal(err)
	}
	api.want(t, 6, 0, 0)
	api.change(s, 2*maxAge, func() { api.gone[7] = true })
	if _, err := s.Glance(ctx, 7, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("error = %v, want ErrNotFound", err)
	}
	api.want(t, 0, 1, 0)
	ask()
	api.want(t, 6, 4, 0)

	// 300 servers leave 100 requests an hour. Half of them can be spent at once.
	for range 10 {
		api.change(s, 2*maxAge, func() {})
		ask()
	}
	api.want(t, 18, 20, 0)
	api.change(s, maxCalm, func() {}) // no answer is older
	ask()
	api.want(t, 6, 0, 0)
	api.change(s, 2*maxAge, func() { s.spentAt = s.spentAt.Add(-time.Hour) })
	ask()
	api.want(t, 6, 5, 0)
}

func TestByName(t *testing.T) {
	ctx := t.Context()
	api, s := newTest(t, 1000, All)
	ask := func(times int) {
		t.Helper()
		for range times {
			if _, err := s.ByName(ctx, "onprem"); !errors.Is(err, ErrNotFound) {
				t.Errorf("error = %v, want ErrNotFound", err)
			}
		}
	}
	ask(10)
	api.want(t, 20, 0, 0)

	// The question is repeated, less and less often, and costs one request.
	api.change(s, minNameWait+time.Second, func() {})
	ask(10)
	api.want(t, 0, 0, 1)
	api.change(s, 0, func() { s.listed = time.Now() })
	api.change(s, minNameWait+time.Second, func() {})
	ask(10)
	api.want(t, 0, 0, 0)

	// The server appears.
	api.change(s, maxAge+time.Second, func() { api.n++ })
	if server, err := s.ByName(ctx, "server-1001"); err != nil || server.ID != 1001 {
		t.Errorf("ByName = %v, %v", server, err)
	}
	api.want(t, 21, 0, 0)
}

// TestNewServer asks for a server that is newer than the list.
func TestNewServer(t *testing.T) {
	ctx := t.Context()
	for _, by := range []string{"name", "ID"} {
		t.Run(by, func(t *testing.T) {
			api, s := newTest(t, 3, All)
			if _, err := s.List(ctx, 0); err != nil {
				t.Fatal(err)
			}
			api.change(s, 2*time.Second, func() { api.n = 4 })
			var server *hcloud.Server
			var err error
			if by == "name" {
				server, err = s.ByName(ctx, "server-4")
			} else {
				server, err = s.ByID(ctx, 4, 0)
			}
			if err != nil || server.ID != 4 {
				t.Errorf("got %v, %v", server, err)
			}
			api.want(t, 2, 0, 0)
		})
	}
}

func TestModes(t *testing.T) {
	ctx := t.Context()
	tests := []struct {
		mode               Mode
		pages, gets, names int
	}{
		{All, 1, 0, 0},
		{One, 0, 1, 2},
		{Off, 0, 2, 2},
	}
	for _, test := range tests {
		t.Run(string(test.mode), func(t *testing.T) {
			api, s := newTest(t, 3, test.mode)
			for range 2 {
				if server, err := s.ByID(ctx, 1, 0); err != nil || server.ID != 1 {
					t.Errorf("ByID = %v, %v", server, err)
				}
				if server, err := s.ByName(ctx, "server-2"); err != nil || server.ID != 2 {
					t.Errorf("ByName = %v, %v", server, err)
				}
			}
			api.want(t, test.pages, test.gets, test.names)
		})
	}
}

// TestL01 asks whether servers are gone, of the right project and of a wrong one.
func TestL01(t *testing.T) {
	ids := []int64{1, 2, 3}
	tests := []struct {
		name  string
		mode  Mode
		other []int64 // the cluster's servers
		do    func(*fakeAPI)
		want  bool
		doubt bool
		gets  int
	}{
		{name: "it exists", mode: All, other: ids, gets: 1},
		{name: "it exists, and no list has it", mode: All, other: ids, do: func(a *fakeAPI) { a.unlisted[1] = true }, gets: 1},
		{name: "it is gone", mode: All, other: ids, do: func(a *fakeAPI) { a.gone[1] = true }, want: true, gets: 2},
		{name: "it is gone, without a list", mode: One, other: ids, do: func(a *fakeAPI) { a.gone[1] = true }, want: true, gets: 2},
		{name: "another project", mode: All, other: []int64{1, 100, 101}, do: func(a *fakeAPI) { a.gone[1] = true }, doubt: true},
		{name: "another project, without a list", mode: One, other: []int64{1, 100, 101}, do: func(a *fakeAPI) { a.gone[1] = true }, doubt: true, gets: 3},
		{name: "an empty project", mode: All, other: ids, do: func(a *fakeAPI) { a.n = 0 }, doubt: true},
		{name: "the only server", mode: All, other: []int64{1}, do: func(a *fakeAPI) { a.gone[1] = true }, doubt: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			api, s := newTest(t, 3, test.mode)
			if test.do != nil {
				test.do(api)
			}
			got, err := s.Gone(t.Context(), 1, test.other, 0)
			if got != test.want || errors.Is(err, ErrDoubt) != test.doubt || !test.doubt && err != nil {
				t.Errorf("Gone = %t, %v; want %t, doubt: %t", got, err, test.want, test.doubt)
			}
			api.want(t, map[Mode]int{All: 1}[test.mode], test.gets, 0)
		})
	}

	// The token changes between the list and the question. From then on the list
	// says so, and no question has a request of its own.
	api, s := newTest(t, 3, All)
	if _, err := s.List(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	api.change(s, 2*maxAge, func() { api.n = 0 })
	for range 3 {
		if gone, err := s.Gone(t.Context(), 1, ids, time.Minute); gone || !errors.Is(err, ErrDoubt) {
			t.Errorf("Gone = %t, %v after the token changed, want doubt", gone, err)
		}
	}
	api.want(t, 2, 3, 0)
}

// TestWitness asks whether the project is the one with some servers.
func TestWitness(t *testing.T) {
	ids := []int64{1, 2, 3}
	tests := []struct {
		name        string
		mode        Mode
		ids         []int64
		do          func(*fakeAPI)
		doubt       bool
		lists, gets int
	}{
		{name: "the right project", mode: All, ids: ids, lists: 1, gets: 1},
		{name: "the right project, without a list", mode: One, ids: ids, gets: 1},
		{name: "nothing is remembered", mode: Off, ids: ids, gets: 1},
		{name: "some are gone", mode: One, ids: ids, do: func(a *fakeAPI) { a.gone[1], a.gone[2] = true, true }, gets: 3},
		{name: "the cluster has none", mode: All},
		{name: "another project", mode: All, ids: []int64{100, 101}, doubt: true, lists: 1},
		{name: "another project, without a list", mode: One, ids: []int64{100, 101, 102, 103}, doubt: true, gets: 3},
		{name: "an empty project", mode: All, ids: ids, do: func(a *fakeAPI) { a.n = 0 }, doubt: true, lists: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			api, s := newTest(t, 3, test.mode)
			if test.do != nil {
				test.do(api)
			}
			if err := s.Witness(t.Context(), test.ids); errors.Is(err, ErrDoubt) != test.doubt || !test.doubt && err != nil {
				t.Errorf("error = %v, want doubt: %t", err, test.doubt)
			}
			api.want(t, test.lists, test.gets, 0)
		})
	}

	// Lists are not asked for again while one remembers a server that exists.
	api, s := newTest(t, 3, All)
	for range 2 {
		if err := s.Witness(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
	}
	api.want(t, 1, 2, 0)
	api.change(s, 0, func() { api.n = 0 })
	if err := s.Witness(t.Context(), ids); !errors.Is(err, ErrDoubt) {
		t.Errorf("error = %v after the token changed, want doubt", err)
	}
	api.change(s, 2*JustNow, func() { api.n = 3 })
	if err := s.Witness(t.Context(), ids); err != nil {
		t.Errorf("error = %v after the token changed back", err)
	}
}

// TestManyGone deletes more servers at once than are asked for as witnesses.
func TestManyGone(t *testing.T) {
	api, s := newTest(t, 6, All)
	if _, err := s.List(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	api.change(s, 2*maxAge, func() {
		for id := int64(1); id <= 5; id++ {
			api.gone[id] = true
		}
	})
	for id := int64(1); id <= 5; id++ {
		if gone, err := s.Gone(t.Context(), id, []int64{1, 2, 3, 4, 5, 6}, time.Minute); !gone || err != nil {
			t.Errorf("Gone(%d) = %t, %v", id, gone, err)
		}
	}
}

func TestFailures(t *testing.T) {
	ctx := t.Context()
	api, s := newTest(t, 3, All)
	api.status = 500
	for range 50 {
		if _, err := s.ByID(ctx, 1, 0); !hcloud.IsError(err, hcloud.ErrorCode("server_error")) {
			t.Fatalf("error = %v, want the API's", err)
		}
		if gone, err := s.Gone(ctx, 1, []int64{1, 2}, 0); gone || err == nil {
			t.Fatalf("Gone = %t, %v", gone, err)
		}
	}
	api.want(t, 1, 0, 0)
	api.change(s, minFailureWait+time.Second, func() { api.status = 0 })
	if _, err := s.ByID(ctx, 1, 0); err != nil {
		t.Error(err)
	}
	api.want(t, 1, 0, 0)
}

func TestCalm(t *testing.T) {
	for n, want := range map[int64]time.Duration{0: 20 * time.Second, 50: 20 * time.Second, 51: 40 * time.Second, 1000: 6 * time.Minute} {
		_, s := newTest(t, n, All)
		if _, err := s.List(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got := s.Calm(); got != want {
			t.Errorf("Calm = %s with %d servers, want %s", got, n, want)
		}
	}
}

func TestPatience(t *testing.T) {
	tests := []struct {
		servers     int64
		since, want time.Duration
	}{
		{50, -time.Minute, 0}, // another clock
		{50, 20 * time.Second, 5 * time.Second},
		{50, 24 * time.Hour, 6 * time.Minute},
		{100, 20 * time.Second, 10 * time.Second},
		{1000, 20 * time.Second, 20 * time.Second},
		{1000, 24 * time.Hour, 6 * time.Minute},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.servers, test.since), func(t *testing.T) {
			_, s := newTest(t, test.servers, All)
			if _, err := s.List(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if got := s.Patience(test.since); got != test.want {
				t.Errorf("Patience = %s, want %s", got, test.want)
			}
		})
	}
}

func TestSimilar(t *testing.T) {
	_, s := newTest(t, 0, All)
	for i, name := range []string{"cp-1.example.org", "CP-1", "cp-10", "cp-1"} {
		id := int64(i + 1)
		s.known[id] = record{server: &hcloud.Server{ID: id, Name: name}}
	}
	want := []string{"CP-1", "cp-1.example.org"}
	if diff := cmp.Diff(want, s.Similar("cp-1")); diff != "" {
		t.Errorf("Similar (-want +got):\n%s", diff)
	}
}

func TestList(t *testing.T) {
	api, s := newTest(t, 120, All)
	got, err := s.List(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, server := range got {
		ids = append(ids, server.ID)
	}
	if len(ids) != 120 || !slices.IsSorted(ids) {
		t.Errorf("IDs = %v", ids)
	}
	api.want(t, 3, 0, 0)
}
