package loadbalancer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// TestGrantedLater refuses the watch of a Secret at first. Once it is granted, a
// change of the Secret makes a pass, without a restart.
func TestGrantedLater(t *testing.T) {
	t.Parallel()
	var watches atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var body any = webTLS("1")
		if r.FormValue("watch") != "" {
			if watches.Add(1) == 1 {
				w.WriteHeader(http.StatusForbidden)
				body = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
			} else {
				body = metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Object: webTLS("2")}}
			}
		}
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	client, err := coreclient.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := services.Add(serviceWithSecret()); err != nil {
		t.Fatal(err)
	}
	r := NewRepair(&Reconciler{}, corelisters.NewServiceLister(services), nil, 10*time.Millisecond)
	r.Client = client
	defer time.AfterFunc(30*time.Second, r.queue.ShutDown).Stop()
	if _, err := r.Secret(t.Context(), "default", "web-tls"); err != nil {
		t.Fatal(err)
	}
	if key, shutdown := r.queue.Get(); shutdown || key.Name != "web" {
		t.Errorf("a pass for %q, want web", key.Name)
	}
}

// TestUnwatched has a Service that names a Secret, and goes. The API server ends
// a watch when it was asked to, or after half an hour.
func TestUnwatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, open atomic.Int32
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
			if r.FormValue("watch") == "" {
				secret, err := json.Marshal(webTLS("1"))
				response.Body = io.NopCloser(bytes.NewReader(secret))
				return response, err
			}
			seconds, err := strconv.Atoi(cmp.Or(r.FormValue("timeoutSeconds"), "1800"))
			body, events := io.Pipe()
			begun.Add(1)
			open.Add(1)
			time.AfterFunc(time.Duration(seconds)*time.Second, func() {
				open.Add(-1)
				_ = events.Close()
			})
			response.Body = body
			return response, err
		})
		client, err := coreclient.NewForConfig(&rest.Config{Host: "http://api.invalid", Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		if err := services.Add(serviceWithSecret()); err != nil {
			t.Fatal(err)
		}
		r := NewRepair(&Reconciler{}, corelisters.NewServiceLister(services), nil, time.Minute)
		r.Client = client
		defer r.queue.ShutDown()
		if _, err := r.Secret(t.Context(), "default", "web-tls"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Minute) // of the bubble's clock
		if open.Load() != 1 || begun.Load() > 10 {
			t.Errorf("%d of %d watches are open after 40 minutes, want one of 10 at most", open.Load(), begun.Load())
		}
		if err := services.Delete(serviceWithSecret()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if got := open.Load(); got != 0 {
			t.Errorf("%d watches are open for a Secret that no Service names", got)
		}
	})
}

// roundTripper answers requests without a connection, so that a test may have a
// clock of its own.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func serviceWithSecret() *corev1.Service {
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{Prefix + "http-tls-secret": "web-tls"}}}
	web.Spec.Type = corev1.ServiceTypeLoadBalancer
	return web
}

func webTLS(version string) *corev1.Secret {
	return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-tls", ResourceVersion: version}}
}
