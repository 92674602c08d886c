package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"example.com/ccm-from-scratch/lab/cloud"
)

// fault orders a fault with the lab's verb and returns its ID.
func (l *lab) fault(t testing.TB, body string) int64 {
	t.Helper()
	a := l.do(t, "POST", "/_lab/faults", body)
	if a.status != 201 {
		t.Fatalf("fault: status %d: %s", a.status, a.text)
	}
	return a.Fault.ID
}

// TestFaultAnswers is about effects that answer in the server's place.
func TestFaultAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		fault       string
		status      int
		contentType string
		body        string
	}{
		"status": {`{"effect":"status","status":503}`, 503, "application/json", `{"error":{"code":"unavailable","details":null,"message":"Service Unavailable"}}`},
		"status with code and message": {
			`{"effect":"status","status":422,"code":"service_error","message":"no"}`, 422, "application/json",
			`{"error":{"code":"service_error","details":null,"message":"no"}}`,
		},
		"status with body":  {`{"effect":"status","status":200,"body":"{\"servers\":[{}]}"}`, 200, "application/json", `{"servers":[{}]}`},
		"status of no code": {`{"effect":"status","status":599}`, 599, "application/json", `{"error":{"code":"unknown_error","details":null,"message":"unknown_error"}}`},
		"html": {
			`{"effect":"html"}`, 502, "text/html",
			"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n",
		},
		"html with status and body": {`{"effect":"html","status":504,"body":"<p>"}`, 504, "text/html", "<p>"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, cloud.Config{})
			l.fault(t, test.fault)
			got := l.do(t, "POST", "/v1/networks", `{"name":"n","ip_range":"10.0.0.0/16"}`)
			text := got.text
			if test.contentType == "application/json" && test.status != 200 {
				text = sortKeys(t, text)
			}
			if got.status != test.status || got.header.Get("Content-Type") != test.contentType || text != test.body {
				t.Errorf("got %d %s %s, want %d %s %s", got.status, got.header.Get("Content-Type"), text, test.status, test.contentType, test.body)
			}
			if got := l.ok(t, "GET", "/_lab/v1/networks", "").Networks; len(got) != 0 {
				t.Errorf("the request took effect: %v", got)
			}
			if got := l.Requests("p")[0]; got.Fault != strings.Fields(name)[0] || got.Status != test.status {
				t.Errorf("journal says %+v", got)
			}
		})
	}
}

func TestFaultReset(t *testing.T) {
	l := newLab(t, cloud.Config{})
	l.fault(t, `{"effect":"reset"}`)
	_, err := l.try(t.Context(), token, "POST", "/v1/networks", `{"name":"n","ip_range":"10.0.0.0/16"}`)
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("error %v, want a reset", err)
	}
	if got := l.ok(t, "GET", "/_lab/v1/networks", "").Networks; len(got) != 0 {
		t.Errorf("the request took effect: %v", got)
	}
}

func TestFaultDrop(t *testing.T) {
	l := newLab(t, cloud.Config{})
	l.fault(t, `{"effect":"drop","method":"POST"}`)
	_, err := l.try(t.Context(), token, "POST", "/v1/networks", `{"name":"n","ip_range":"10.0.0.0/16"}`)
	if !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want EOF", err)
	}
	if got := l.ok(t, "GET", "/_lab/v1/networks", "").Networks; len(got) != 1 {
		t.Errorf("the request took no effect")
	}
	if got := l.Requests("p")[0]; got.Fault != "drop" || got.Status != 0 {
		t.Errorf("journal says %+v", got)
	}
}

func TestFaultTruncate(t *testing.T) {
	l := newLab(t, cloud.Config{})
	l.fault(t, `{"effect":"truncate"}`)
	_, err := l.try(t.Context(), token, "GET", "/v1/locations", "")
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v, want an unexpected EOF", err)
	}
}

// TestFaultHang: a hanging request ends with the client, the fault, or the
// cloud; all but the first are then served.
func TestFaultHang(t *testing.T) {
	const request = `{"name":"n","ip_range":"10.0.0.0/16"}`
	hang := func(t *testing.T, ctx context.Context, l *lab, fault string) (id int64, answered chan error) {
		id = l.fault(t, fault)
		answered = make(chan error, 1)
		go func() {
			a, err := l.try(ctx, token, "POST", "/v1/networks", request)
			if err == nil && a.status != 201 {
				err = fmt.Errorf("status %d: %s", a.status, a.text)
			}
			answered <- err
		}()
		l.await(t, "the request to hang", func() bool { return len(l.Requests("p")) == 1 && l.Requests("p")[0].Fault == "hang" })
		select {
		case err := <-answered:
			t.Fatalf("answered at once: %v", err)
		default:
		}
		return id, answered
	}
	networks := func(t *testing.T, l *lab) int {
		return len(l.ok(t, "GET", "/_lab/v1/networks", "").Networks)
	}

	t.Run("client goes", func(t *testing.T) {
		l := newLab(t, cloud.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		_, answered := hang(t, ctx, l, `{"effect":"hang"}`)
		cancel()
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
		if got := networks(t, l); got != 0 {
			t.Errorf("%d networks, want none", got)
		}
	})
	t.Run("fault removed", func(t *testing.T) {
		l := newLab(t, cloud.Config{})
		id, answered := hang(t, t.Context(), l, `{"effect":"hang"}`)
		if got := networks(t, l); got != 0 {
			t.Errorf("%d networks before the release, want none", got)
		}
		l.ok(t, "DELETE", fmt.Sprintf("/_lab/faults/%d", id), "")
		if err := <-answered; err != nil {
			t.Error(err)
		}
		if got := networks(t, l); got != 1 {
			t.Errorf("%d networks after the release, want 1", got)
		}
	})
	t.Run("duration ends", func(t *testing.T) {
		l := newLab(t, cloud.Config{})
		_, answered := hang(t, t.Context(), l, `{"effect":"hang","duration":"200ms"}`)
		if err := <-answered; err != nil {
			t.Error(err)
		}
	})
	t.Run("cloud closes", func(t *testing.T) {
		l := newLab(t, cloud.Config{})
		_, answered := hang(t, t.Context(), l, `{"effect":"hang"}`)
		l.Close()
		if err := <-answered; err != nil {
			t.Error(err)
		}
	})
}

// TestFaultLate runs on synthetic time.
func TestFaultLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cloud.New(cloud.Config{})
		defer c.Close()
		c.AddToken(token, "p", cloud.ReadWrite)
		if _, err := c.AddFault("p", cloud.Fault{Effect: cloud.EffectLate, Delay: "7s"}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		rec := serve(t, c, "GET", "/v1/locations", "")
		if rec.Code != 200 || time.Since(begin) != 7*time.Second {
			t.Errorf("status %d after %s, want 200 after 7s", rec.Code, time.Since(begin))
		}
	})
}

// serve sends a request past the network, for tests with synthetic time.
func serve(t *testing.T, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+token)
	rec := httptest.NewRecorder()
	checked(t, h).ServeHTTP(rec, req)
	return rec
}

func TestFaultLists(t *testing.T) {
	l := newLab(t, cloud.Config{})
	a, b := l.server(t, "a"), l.server(t, "b")
	names := func() []string {
		names := []string{}
		for _, s := range l.ok(t, "GET", "/v1/servers", "").Servers {
			names = append(names, s.Name)
		}
		return names
	}
	expect := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(append([]string{}, want...), names()); diff != "" {
			t.Errorf("servers differ (-want +got):\n%s", diff)
		}
	}
	expect("a", "b")
	id := l.fault(t, `{"effect":"empty","path":"/servers/**"}`)
	expect()
	l.ok(t, "GET", fmt.Sprintf("/v1/servers/%d", a.ID), "") // is not a list
	l.ok(t, "DELETE", fmt.Sprintf("/_lab/faults/%d", id), "")
	l.fault(t, fmt.Sprintf(`{"effect":"hide","resource_id":%d}`, b.ID))
	expect("a")
	if got := l.ok(t, "GET", "/v1/servers?name=b", "").Servers; len(got) != 0 {
		t.Errorf("hidden server is found by name")
	}
	l.ok(t, "GET", fmt.Sprintf("/v1/servers/%d", b.ID), "")
	l.ok(t, "DELETE", "/_lab/faults", "")
	expect("a", "b")
}

// TestFaultActions: actions that stay running or end in an error.
func TestFaultActions(t *testing.T) {
	l := newLab(t, cloud.Config{})
	n := l.network(t)
	s := l.server(t, "one", n.ID)
	server, network := fmt.Sprintf("/v1/servers/%d", s.ID), fmt.Sprintf("/v1/networks/%d", n.ID)
	create := fmt.Sprintf(`{"name":"two","server_type":"cx23","image":"debian-12","networks":[%d]}`, n.ID)
	const route = `{"destination":"10.1.0.0/24","gateway":"10.0.0.5"}`

	look := func() any {
		servers := l.Servers("p")
		networks := l.ok(t, "GET", "/_lab/v1/networks", "").Networks
		members := l.ok(t, "GET", strings.Replace(network, "/v1", "/_lab/v1", 1)+"/members", "").Members
		return []any{servers, networks, members}
	}
	before := look()

	requests := []struct{ method, path, body string }{
		{"POST", "/v1/servers", create},
		{"POST", server + "/actions/poweroff", ``},
		{"POST", server + "/actions/shutdown", ``},
		{"POST", server + "/actions/reboot", ``},
		{"POST", server + "/actions/reset", ``},
		{"POST", server + "/actions/detach_from_network", fmt.Sprintf(`{"network":%d}`, n.ID)},
		{"POST", server + "/actions/change_alias_ips", fmt.Sprintf(`{"network":%d,"alias_ips":["10.0.0.50"]}`, n.ID)},
		{"POST", server + "/actions/change_protection", `{"delete":true,"rebuild":true}`},
		{"POST", network + "/actions/add_route", route},
		{"POST", network + "/actions/add_subnet", `{"type":"cloud","network_zone":"eu-central"}`},
		{"POST", network + "/actions/change_ip_range", `{"ip_range":"10.0.0.0/8"}`},
		{"POST", network + "/actions/change_protection", `{"delete":true}`},
		{"DELETE", server, ``},
	}
	l.fault(t, `{"effect":"fail","code":"oops","message":"it broke"}`)
	for _, r := range requests {
		t.Run("fail "+r.method+" "+r.path, func(t *testing.T) {
			a := l.ok(t, r.method, r.path, r.body)
			if a.Action.Status != "running" {
				t.Errorf("status %s at first, want running", a.Action.Status)
			}
			got := l.finish(t, a)
			if got.Status != "error" || got.Error == nil || got.Error.Code != "oops" || got.Error.Message != "it broke" {
				t.Errorf("action ended as %+v", got)
			}
			if diff := cmp.Diff(before, look()); diff != "" {
				t.Errorf("it had an effect (-before +after):\n%s", diff)
			}
		})
	}
	l.ok(t, "DELETE", "/_lab/faults", "")

	t.Run("stuck", func(t *testing.T) {
		l.fault(t, `{"effect":"stuck","path":"/networks/*/actions/*"}`)
		a := l.ok(t, "POST", network+"/actions/add_route", route)
		// Others run and end meanwhile.
		l.finish(t, l.ok(t, "POST", server+"/actions/reboot", ""))
		if got := l.ok(t, "GET", fmt.Sprintf("/v1/actions/%d", a.Action.ID), "").Action.Status; got != "running" {
			t.Errorf("status %s, want running", got)
		}
		refused{409, "conflict", "", ""}.check(t, l.do(t, "POST", network+"/actions/add_route", route))
		l.ok(t, "DELETE", "/_lab/faults", "")
		if got := l.finish(t, a); got.Status != "success" {
			t.Errorf("status %s after the fault, want success", got.Status)
		}
		if got := l.ok(t, "GET", network, "").Network.Routes; len(got) != 1 {
			t.Errorf("routes %v, want 1", got)
		}
	})
}

// TestFaultSelection: what a fault hits, how often, and how long.
func TestFaultSelection(t *testing.T) {
	for name, test := range map[string]struct {
		fault string
		hits  []string
	}{
		"everything":       {`{}`, []string{"GET /servers", "GET /servers/1", "POST /servers", "GET /servers/1/actions", "GET /networks"}},
		"any method":       {`{"method":"*","path":"/servers"}`, []string{"GET /servers", "POST /servers"}},
		"one method":       {`{"method":"POST"}`, []string{"POST /servers"}},
		"one segment":      {`{"path":"/servers/*"}`, []string{"GET /servers/1"}},
		"segment between":  {`{"path":"/*/1/actions"}`, []string{"GET /servers/1/actions"}},
		"rest":             {`{"path":"/servers/**"}`, []string{"GET /servers", "GET /servers/1", "POST /servers", "GET /servers/1/actions"}},
		"everything by **": {`{"path":"/**"}`, []string{"GET /servers", "GET /servers/1", "POST /servers", "GET /servers/1/actions", "GET /networks"}},
		"twice":            {`{"count":2}`, []string{"GET /servers", "GET /servers/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, cloud.Config{})
			l.fault(t, strings.Replace(strings.Replace(test.fault, "{", `{"effect":"status","status":418,`, 1), ",}", "}", 1))
			hits := []string{}
			for _, request := range []string{"GET /servers", "GET /servers/1", "POST /servers", "GET /servers/1/actions", "GET /networks"} {
				method, path, _ := strings.Cut(request, " ")
				if l.do(t, method, "/v1"+path, "{}").status == 418 {
					hits = append(hits, request)
				}
				if l.do(t, method, "/_lab/v1"+path, "{}").status == 418 {
					t.Errorf("%s is hit below /_lab", request)
				}
			}
			if diff := cmp.Diff(test.hits, hits); diff != "" {
				t.Errorf("hits differ (-want +got):\n%s", diff)
			}
			if got := l.ok(t, "GET", "/_lab/faults", "").Faults[0].Hits; got != len(test.hits) {
				t.Errorf("hits %d, want %d", got, len(test.hits))
			}
		})
	}

	t.Run("first wins", func(t *testing.T) {
		l := newLab(t, cloud.Config{})
		l.fault(t, `{"effect":"status","status":418,"count":1}`)
		l.fault(t, `{"effect":"status","status":419}`)
		got := []int{l.do(t, "GET", "/v1/servers", "").status, l.do(t, "GET", "/v1/servers", "").status}
		if diff := cmp.Diff([]int{418, 419}, got); diff != "" {
			t.Errorf("statuses differ (-want +got):\n%s", diff)
		}
		l.ClearFaults("p")
		l.ok(t, "GET", "/v1/servers", "")
	})
	t.Run("until its end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := cloud.New(cloud.Config{})
			defer c.Close()
			c.AddToken(token, "p", cloud.ReadWrite)
			if _, err := c.AddFault("p", cloud.Fault{Effect: cloud.EffectStatus, Status: 418, Duration: "30s"}); err != nil {
				t.Fatal(err)
			}
			for _, want := range []int{418, 200} {
				if got := serve(t, c, "GET", "/v1/servers", "").Code; got != want {
					t.Errorf("status %d, want %d", got, want)
				}
				<-time.After(30*time.Second + 1)
			}
		})
	})
	t.Run("retried by the client", func(t *testing.T) {
		l := newLab(t, cloud.Config{})
		l.fault(t, `{"effect":"status","status":409,"code":"conflict","count":5}`)
		if _, err := l.client().Location.All(t.Context()); err != nil {
			t.Errorf("5 conflicts are more than hcloud-go bears: %v", err)
		}
		l.fault(t, `{"effect":"status","status":409,"code":"conflict","count":6}`)
		if _, err := l.client().Location.All(t.Context()); !hcloud.IsError(err, hcloud.ErrorCodeConflict) {
			t.Errorf("error %v after 6 conflicts, want one", err)
		}
	})
}

func TestJournal(t *testing.T) {
	l := newLab(t, cloud.Config{})
	l.do(t, "GET", "/v1/servers?name=x", "")
	l.do(t, "POST", "/v1/servers/1/actions/poweron", "")
	l.do(t, "GET", "/v1/actions?id=1", "")
	l.do(t, "GET", "/v1/servers/1/actions/2", "")
	l.do(t, "GET", "/v1/nonsense", "")
	all := l.ok(t, "GET", "/_lab/requests", "").Requests
	type entry struct {
		Method, Path, Query string
		Status              int
		Kind                string
	}
	entries := func(requests []cloud.Request) []entry {
		entries := []entry{}
		for _, r := range requests {
			if len(r.Token) != 8 || strings.Contains(token, r.Token) || r.UserAgent == "" || r.Time.IsZero() {
				t.Errorf("entry %+v", r)
			}
			entries = append(entries, entry{r.Method, r.Path, r.Query, r.Status, r.Kind})
		}
		return entries
	}
	want := []entry{
		{"GET", "/servers", "name=x", 200, cloud.Read},
		{"POST", "/servers/1/actions/poweron", "", 404, cloud.Write},
		{"GET", "/actions", "id=1", 200, cloud.Poll},
		{"GET", "/servers/1/actions/2", "", 404, cloud.Poll},
		{"GET", "/nonsense", "", 404, cloud.Read},
	}
	if diff := cmp.Diff(want, entries(all)); diff != "" {
		t.Errorf("journal differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all, l.Requests("p")); diff != "" {
		t.Errorf("Requests differs from the verb (-verb +method):\n%s", diff)
	}
	for query, want := range map[string][]entry{
		"kind=poll":                     {want[2], want[3]},
		"method=POST":                   {want[1]},
		"path=/servers/**":              {want[0], want[1], want[3]},
		"path=/servers/**&kind=read":    {want[0]},
		"path=/*/*/actions/*&kind=poll": {want[3]},
	} {
		t.Run(query, func(t *testing.T) {
			if diff := cmp.Diff(want, entries(l.ok(t, "GET", "/_lab/requests?"+query, "").Requests)); diff != "" {
				t.Errorf("journal differs (-want +got):\n%s", diff)
			}
		})
	}
	if got := l.do(t, "DELETE", "/_lab/requests", "").status; got != 204 || len(l.Requests("p")) != 0 {
		t.Errorf("journal is not emptied: %d", got)
	}
}
