package loadbalancer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
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
	secret := func(version string) *corev1.Secret {
		return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-tls", ResourceVersion: version}}
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var body any = secret("1")
		if r.FormValue("watch") != "" {
			if watches.Add(1) == 1 {
				w.WriteHeader(http.StatusForbidden)
				body = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
			} else {
				body = metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Object: secret("2")}}
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
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{Prefix + "http-tls-secret": "web-tls"}}}
	web.Spec.Type = corev1.ServiceTypeLoadBalancer
	if err := services.Add(web); err != nil {
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
