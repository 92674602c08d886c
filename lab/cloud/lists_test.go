package cloud_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/ccm-from-scratch/lab/cloud"
)

func TestLists(t *testing.T) {
	l := newLab(t, cloud.Config{})
	for name, labels := range map[string]string{
		"c": `{"env":"prod"}`,
		"a": `{"env":"prod","type":"database"}`,
		"b": `{}`,
	} {
		l.ok(t, "POST", "/v1/networks", fmt.Sprintf(`{"name":%q,"ip_range":"10.0.0.0/16","labels":%s}`, name, labels))
	}
	for name, test := range map[string]struct {
		query string
		want  []string
	}{
		"by name":              {"sort=name", []string{"a", "b", "c"}},
		"by name up":           {"sort=name:asc", []string{"a", "b", "c"}},
		"by name down":         {"sort=name:desc", []string{"c", "b", "a"}},
		"name":                 {"name=b", []string{"b"}},
		"name is exact":        {"name=B", []string{}},
		"unknown parameter":    {"colour=red&sort=name", []string{"a", "b", "c"}},
		"label present":        {"sort=name&label_selector=env", []string{"a", "c"}},
		"label absent":         {"sort=name&label_selector=!env", []string{"b"}},
		"label equal":          {"sort=name&label_selector=env=prod", []string{"a", "c"}},
		"label equal twice":    {"sort=name&label_selector=env==prod", []string{"a", "c"}},
		"label other":          {"sort=name&label_selector=type!=database", []string{"b", "c"}},
		"label in":             {"sort=name&label_selector=type in (database,queue)", []string{"a"}},
		"label not in":         {"sort=name&label_selector=type notin (database,queue)", []string{"b", "c"}},
		"all of two selectors": {"sort=name&label_selector=env=prod,!type", []string{"c"}},
		"second page":          {"sort=name&per_page=2&page=2", []string{"c"}},
		"page after the last":  {"sort=name&per_page=2&page=9", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			query, err := url.ParseQuery(test.query)
			if err != nil {
				t.Fatal(err)
			}
			names := []string{}
			for _, n := range l.ok(t, "GET", "/v1/networks?"+query.Encode(), "").Networks {
				names = append(names, n.Name)
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("networks differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPagination(t *testing.T) {
	l := newLab(t, cloud.Config{})
	for i := range 5 {
		l.ok(t, "POST", "/v1/networks", fmt.Sprintf(`{"name":"n%d","ip_range":"10.0.0.0/16"}`, i))
	}
	link := func(rel, query string) string {
		return fmt.Sprintf("<%s/v1/networks?%s>; rel=%s", l.url, query, rel)
	}
	for query, test := range map[string]struct {
		want string
		link string
	}{
		"": {
			`{"page":1,"per_page":25,"previous_page":null,"next_page":null,"last_page":1,"total_entries":5}`,
			link("last", "page=1"),
		},
		"per_page=2": {
			`{"page":1,"per_page":2,"previous_page":null,"next_page":2,"last_page":3,"total_entries":5}`,
			link("next", "page=2&per_page=2") + ", " + link("last", "page=3&per_page=2"),
		},
		"per_page=2&page=2": {
			`{"page":2,"per_page":2,"previous_page":1,"next_page":3,"last_page":3,"total_entries":5}`,
			link("prev", "page=1&per_page=2") + ", " + link("next", "page=3&per_page=2") + ", " + link("last", "page=3&per_page=2"),
		},
		"per_page=2&page=3": {
			`{"page":3,"per_page":2,"previous_page":2,"next_page":null,"last_page":3,"total_entries":5}`,
			link("prev", "page=2&per_page=2") + ", " + link("last", "page=3&per_page=2"),
		},
		"per_page=99": {
			`{"page":1,"per_page":50,"previous_page":null,"next_page":null,"last_page":1,"total_entries":5}`,
			link("last", "page=1&per_page=50"),
		},
		"name=none": {
			`{"page":1,"per_page":25,"previous_page":null,"next_page":null,"last_page":1,"total_entries":0}`,
			link("last", "name=none&page=1"),
		},
	} {
		t.Run(query, func(t *testing.T) {
			got := l.ok(t, "GET", "/v1/networks?"+query, "")
			var body struct {
				Meta struct{ Pagination map[string]*int }
			}
			var want map[string]*int
			if err := json.Unmarshal([]byte(got.text), &body); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, body.Meta.Pagination); diff != "" {
				t.Errorf("pagination differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.link, got.header.Get("Link")); diff != "" {
				t.Errorf("Link differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAllPages lists more servers than fit on a page, through hcloud-go.
func TestAllPages(t *testing.T) {
	l := newLab(t, cloud.Config{})
	const n = 60
	for i := range n {
		l.ok(t, "POST", "/_lab/v1/servers", fmt.Sprintf(`{"name":"s%d","server_type":"cx23","image":"debian-12"}`, i))
	}
	servers, err := l.client().Server.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := map[int64]bool{}
	for _, s := range servers {
		ids[s.ID] = true
	}
	if len(ids) != n {
		t.Errorf("%d servers, want %d", len(ids), n)
	}
	if got := len(l.Requests("p")); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
}

// TestActionsByID asks as hcloud-go does, which fails unless each ID has
// exactly one entry.
func TestActionsByID(t *testing.T) {
	l := newLab(t, cloud.Config{})
	s := l.server(t, "one")
	deletion := l.ok(t, "DELETE", fmt.Sprintf("/v1/servers/%d", s.ID), "")
	deleted := l.finish(t, deletion)
	started := l.ok(t, "GET", "/v1/servers/actions?sort=id", "").Actions[0]

	query := fmt.Sprintf("id=%d&id=%d&id=%d&id=1&sort=status&sort=id&page=1&per_page=50", deleted.ID, started.ID, started.ID)
	ids := []int64{}
	for _, a := range l.ok(t, "GET", "/v1/actions?"+query, "").Actions {
		ids = append(ids, a.ID)
	}
	if diff := cmp.Diff([]int64{started.ID, deleted.ID}, ids); diff != "" {
		t.Errorf("actions differ (-want +got):\n%s", diff)
	}
}
