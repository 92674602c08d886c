package ccm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/metrics"
	"example.com/ccm-from-scratch/final/routes"
)

// countingAPI is an API with n servers and network 7, without a connection, so
// that hours pass at once. It notes when it was asked.
type countingAPI struct {
	n     int
	first int // ID

	mu    sync.Mutex
	asked []time.Time
}

func (a *countingAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.asked = append(a.asked, time.Now())
	a.mu.Unlock()
	server := func(id int) schema.Server { return schema.Server{ID: int64(id), Name: fmt.Sprintf("node-%d", id)} }
	var body any
	status := http.StatusOK
	switch path := r.URL.Path; {
	case path == "/servers":
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
		page = max(page, 1)
		var list []schema.Server
		for n := (page - 1) * size; n < min(a.n, page*size); n++ {
			list = append(list, server(a.first+n))
		}
		pagination := schema.MetaPagination{Page: page, PerPage: size, LastPage: (a.n + size - 1) / size, TotalEntries: a.n}
		if page < pagination.LastPage {
			pagination.NextPage = page + 1
		}
		body = map[string]any{"servers": list, "meta": schema.Meta{Pagination: &pagination}}
	case strings.HasPrefix(path, "/servers/"):
		id, err := strconv.Atoi(strings.TrimPrefix(path, "/servers/"))
		if err != nil {
			return nil, err
		}
		if id < a.first || id >= a.first+a.n {
			status, body = http.StatusNotFound, schema.ErrorResponse{Error: schema.Error{Code: "not_found", Message: "not found"}}
			break
		}
		body = schema.ServerGetResponse{Server: server(id)}
	case path == "/networks/7":
		body = schema.NetworkGetResponse{Network: schema.Network{ID: 7, IPRange: "10.0.0.0/8"}}
	default:
		return nil, fmt.Errorf("unexpected request: %s %s", r.Method, r.URL)
	}
	text, err := json.Marshal(body)
	return &http.Response{
		StatusCode: status,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(text)),
		Request:    r,
	}, err
}

// busiestHour returns the most requests within an hour.
func (a *countingAPI) busiestHour() int {
	most, first := 0, 0
	for last := range a.asked {
		for a.asked[last].Sub(a.asked[first]) >= time.Hour {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// TestBudget asks what the controllers ask, as often as they do, in the hours
// after Nodes have become NotReady, and counts.
func TestBudget(t *testing.T) {
	const most = 400 // requests in any hour, of the 3,600 that a project has
	tests := []struct {
		name        string
		nodes, lost int
		each        time.Duration // between two Nodes that are lost
		strange     bool          // the servers are those of another project
	}{
		{"10 Nodes, all are lost at once", 10, 10, 0, false},
		{"200 Nodes, all are lost within ten minutes", 200, 200, 3 * time.Second, false},
		{"1,000 Nodes, 10 are lost at once", 1000, 10, 0, false},
		{"1,000 Nodes, all are lost within 20 seconds", 1000, 1000, 20 * time.Millisecond, false},
		{"1,000 Nodes, one is lost in each minute", 1000, 120, time.Minute, false},
		{"1,000 Nodes, one is lost, and so is the right token", 1000, 1, 0, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := &countingAPI{n: test.nodes, first: 1}
				if test.strange {
					api.first = 1_000_000
				}
				runControllers(t, api, test.lost, test.each, test.strange)
				got := api.busiestHour()
				t.Logf("%d requests in the busiest hour", got)
				if got > most {
					t.Errorf("%d requests in an hour, want %d at most", got, most)
				}
			})
		})
	}
}

// runControllers plays the library's controllers, with the periods that they have
// by default, for 75 minutes in which Nodes are lost.
func runControllers(t *testing.T, api *countingAPI, lost int, each time.Duration, strange bool) {
	client := hcloud.NewClient(hcloud.WithEndpoint("http://api.invalid"), hcloud.WithToken("token"), hcloud.WithHTTPClient(&http.Client{Transport: api}))
	var nodes []*corev1.Node
	for n := range api.n {
		node := newNode(fmt.Sprintf("node-%d", n+1), fmt.Sprintf("hcloud://%d", n+1))
		if n < lost {
			since := metav1.NewTime(time.Now().Add(time.Minute + time.Duration(n)*each))
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: since}}
		}
		nodes = append(nodes, node)
	}
	instances, _ := newInstances(t, client, nodes...)
	cidrs, err := parseCIDRs("10.244.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	network := &hcloud.Network{ID: 7}
	r := &Routes{
		table:        routes.NewTable(client, network),
		servers:      instances.servers,
		network:      network,
		clusterCIDRs: cidrs,
		nodes:        instances.nodes,
		nodesSynced:  func() bool { return true },
		events:       events.NewRecorder(nil),
		metrics:      metrics.New(prometheus.NewRegistry()),
	}

	ctx := t.Context()
	start := time.Now()
	var controllers sync.WaitGroup
	every := func(period time.Duration, pass func() error) {
		controllers.Go(func() {
			for time.Since(start) < 75*time.Minute {
				if err := pass(); err != nil {
					t.Error(err)
				}
				time.Sleep(period) // the bubble's time, which costs nothing
			}
		})
	}
	every(5*time.Second, func() error {
		for _, node := range nodes[:lost] {
			if unready(node) < 0 {
				continue
			}
			if exists, err := instances.InstanceExists(ctx, node); exists == strange || (err != nil) != strange {
				return fmt.Errorf("%s exists: %t, %w", node.Name, exists, err)
			}
			if strange {
				continue // after an error there is no second question
			}
			if _, err := instances.InstanceShutdown(ctx, node); err != nil {
				return err
			}
		}
		return nil
	})
	every(5*time.Minute, func() error {
		for _, node := range nodes {
			if _, err := instances.InstanceMetadata(ctx, node); (err != nil) != strange {
				return fmt.Errorf("%s: %w", node.Name, err)
			}
		}
		return nil
	})
	every(30*time.Second, func() error {
		if strange {
			return nil // there is no such network
		}
		_, err := r.ListRoutes(ctx, "")
		return err
	})
	controllers.Wait()
}
