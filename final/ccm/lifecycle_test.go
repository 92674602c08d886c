package ccm

import (
	"net/http"
	"net/http/httptest"
	"testing"

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
	var (
		running  = reply{200, `{"server":{"id":42,"status":"running"}}`}
		off      = reply{200, `{"server":{"id":42,"status":"off"}}`}
		stopping = reply{200, `{"server":{"id":42,"status":"stopping"}}`}
		empty    = reply{200, `{"servers":[],"meta":{"pagination":{"page":1,"per_page":50,"last_page":1,"total_entries":0}}}`}
		another  = reply{200, `{"servers":[{"id":43,"name":"worker-1"}]}`}
		notFound = reply{404, `{"error":{"code":"not_found","message":"server with ID '42' not found"}}`}
		noRoute  = reply{404, `{"error":{"code":"not_found","message":"api route not found"}}`}
		failing  = reply{500, `{"error":{"code":"server_error","message":"try again"}}`}
		refused  = reply{401, `{"error":{"code":"unauthorized","message":"the token you have provided is invalid"}}`}
		cut      = reply{200, `{"server":{"id":42,`}
		noAnswer = reply{} // must not be asked
	)

	type answer struct{ is, isErr bool }
	yes, no, doubt := answer{is: true}, answer{}, answer{isErr: true}

	tests := []struct {
		name       string
		providerID string
		get, list  reply
		exists     answer
		shutdown   answer
	}{
		{"running", "hcloud://42", running, noAnswer, yes, no},
		{"off", "hcloud://42", off, noAnswer, yes, yes},
		{"stopping", "hcloud://42", stopping, noAnswer, yes, no},
		{"gone", "hcloud://42", notFound, empty, no, doubt},
		{"gone, and another server has its name", "hcloud://42", notFound, another, no, doubt},
		{"wrong URL", "hcloud://42", noRoute, noRoute, doubt, doubt},
		{"gone, but the API fails", "hcloud://42", notFound, failing, doubt, doubt},
		{"API fails", "hcloud://42", failing, noAnswer, doubt, doubt},
		{"token refused", "hcloud://42", refused, noAnswer, doubt, doubt},
		{"answer cut short", "hcloud://42", cut, noAnswer, doubt, doubt},
		{"no provider ID", "", noAnswer, noAnswer, yes, no},
		{"another cloud's", "k3s://worker-1", noAnswer, noAnswer, yes, no},
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
			mux.HandleFunc("GET /servers", answer(test.list))
			api := httptest.NewServer(mux)
			defer api.Close()

			instances := &InstancesV2{client: hcloud.NewClient(hcloud.WithEndpoint(api.URL), hcloud.WithToken("token"))}
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "worker-1"},
				Spec:       corev1.NodeSpec{ProviderID: test.providerID},
			}
			exists, err := instances.InstanceExists(t.Context(), node)
			if exists != test.exists.is || (err != nil) != test.exists.isErr {
				t.Errorf("InstanceExists = %t, %v; want %t, error: %t", exists, err, test.exists.is, test.exists.isErr)
			}
			shutdown, err := instances.InstanceShutdown(t.Context(), node)
			if shutdown != test.shutdown.is || (err != nil) != test.shutdown.isErr {
				t.Errorf("InstanceShutdown = %t, %v; want %t, error: %t", shutdown, err, test.shutdown.is, test.shutdown.isErr)
			}
		})
	}
}
