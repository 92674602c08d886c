package ccm

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reply is what the API answers to one kind of request.
type reply struct {
	status int
	body   string
}

func TestLifecycle(t *testing.T) {
	const head, tail = `{"servers":[`, `],"meta":{"pagination":{"page":1,"per_page":50,"last_page":1,"total_entries":2}}}`
	var (
		running  = reply{200, head + `{"id":42,"status":"running"},{"id":44}` + tail}
		off      = reply{200, head + `{"id":42,"status":"off"},{"id":44}` + tail}
		stopping = reply{200, head + `{"id":42,"status":"stopping"},{"id":44}` + tail}
		without  = reply{200, head + `{"id":43,"name":"worker-1"},{"id":44}` + tail}
		strange  = reply{200, head + `{"id":43,"name":"worker-1"},{"id":45}` + tail}
		empty    = reply{200, head + tail}
		alive    = reply{200, `{"server":{"id":42,"status":"off"}}`}
		witness  = reply{200, `{"server":{"id":44}}`}
		notFound = reply{404, `{"error":{"code":"not_found","message":"server with ID '42' not found"}}`}
		noRoute  = reply{404, `{"error":{"code":"not_found","message":"api route not found"}}`}
		failing  = reply{500, `{"error":{"code":"server_error","message":"try again"}}`}
		refused  = reply{401, `{"error":{"code":"unauthorized","message":"the token you have provided is invalid"}}`}
		cut      = reply{200, `{"server":{"id":42,`}
		noAnswer = reply{} // must not be asked
	)

	type answer struct{ is, isErr bool }
	yes, no, doubt := answer{is: true}, answer{}, answer{isErr: true}

	// The cluster has a second Node, on server 44.
	tests := []struct {
		name             string
		providerID       string
		list, get, get44 reply
		exists           answer
		shutdown         answer
		wrongProject     bool // there is an event
	}{
		{"running", "hcloud://42", running, noAnswer, noAnswer, yes, no, false},
		{"L10 off", "hcloud://42", off, noAnswer, noAnswer, yes, yes, false},
		{"L10 stopping", "hcloud://42", stopping, noAnswer, noAnswer, yes, no, false},
		{"L04 gone", "hcloud://42", without, notFound, witness, no, doubt, false},
		{"not in the list", "hcloud://42", without, alive, noAnswer, yes, yes, false},
		{"L12 gone, and another server has its name", "hcloud://42", without, notFound, witness, no, doubt, false},
		{"L01 another project", "hcloud://42", strange, noAnswer, noAnswer, doubt, doubt, true},
		{"L01 an empty project", "hcloud://42", empty, noAnswer, noAnswer, doubt, doubt, true},
		{"L01 another project since the list was read", "hcloud://42", without, notFound, notFound, doubt, doubt, true},
		{"wrong URL", "hcloud://42", noRoute, noAnswer, noAnswer, doubt, doubt, false},
		{"L02 gone, but the API fails", "hcloud://42", without, notFound, failing, doubt, doubt, false},
		{"L02 API fails", "hcloud://42", failing, noAnswer, noAnswer, doubt, doubt, false},
		{"L02 token refused", "hcloud://42", refused, noAnswer, noAnswer, doubt, doubt, false},
		{"L02 answer cut short", "hcloud://42", cut, noAnswer, noAnswer, doubt, doubt, false},
		{"L08 no provider ID", "", noAnswer, noAnswer, noAnswer, yes, no, false},
		{"L06 another cloud's", "k3s://worker-1", noAnswer, noAnswer, noAnswer, yes, no, false},
		{"L06 malformed", "hcloud://worker-1", noAnswer, noAnswer, noAnswer, yes, no, false},
		{"L09 dedicated", "hrobot://7", noAnswer, noAnswer, noAnswer, yes, no, false},
		{"L09 dedicated, older form", "hcloud://bm-7", noAnswer, noAnswer, noAnswer, yes, no, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			answer := func(reply reply) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					if reply == noAnswer {
						t.Errorf("unexpected request: %s %s", r.Method, r.URL)
					}
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(reply.status)
					_, _ = w.Write([]byte(reply.body))
				}
			}
			mux := http.NewServeMux()
			mux.HandleFunc("GET /servers/42", answer(test.get))
			mux.HandleFunc("GET /servers/44", answer(test.get44))
			mux.HandleFunc("GET /servers", answer(test.list))
			api := httptest.NewServer(mux)
			defer api.Close()

			node := newNode("worker-1", test.providerID)
			client := hcloud.NewClient(hcloud.WithEndpoint(api.URL), hcloud.WithToken("token"))
			instances, recorder := newInstances(t, client, node, newNode("worker-2", "hcloud://44"), newNode("stranger", "k3s://stranger"))

			exists, err := instances.InstanceExists(t.Context(), node)
			if exists != test.exists.is || (err != nil) != test.exists.isErr {
				t.Errorf("InstanceExists = %t, %v; want %t, error: %t", exists, err, test.exists.is, test.exists.isErr)
			}
			shutdown, err := instances.InstanceShutdown(t.Context(), node)
			if shutdown != test.shutdown.is || (err != nil) != test.shutdown.isErr {
				t.Errorf("InstanceShutdown = %t, %v; want %t, error: %t", shutdown, err, test.shutdown.is, test.shutdown.isErr)
			}
			if events := recorded(recorder); strings.Contains(events, "WrongProject") != test.wrongProject {
				t.Errorf("events = %q, want WrongProject: %t", events, test.wrongProject)
			}
		})
	}
}

func TestUnready(t *testing.T) {
	node := newNode("worker-1", "hcloud://42")
	if got := unready(node); got != 0 {
		t.Errorf("unready = %s for a Node without the condition", got)
	}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))},
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute))},
	}
	if got := unready(node).Round(time.Second); got != time.Minute {
		t.Errorf("unready = %s, want 1m", got)
	}
}
