package loadbalancers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestBudgets holds operations to the requests that they may cost. Polls of
// actions are counted apart.
func TestBudgets(t *testing.T) {
	const services = 20
	f := start(t, 10)
	f.startCCM()
	f.initialized(10)

	// The official CCM needs more than 20 requests for this.
	f.cloud("requests", "clear")
	f.service("web-0", 3, nil)
	f.ready(1, 10)
	if reads, writes, all := f.count("/load_balancer", "/certificates"); reads+writes > 3 || writes != 1 {
		t.Errorf("creation with 3 ports and 10 Nodes: %d reads and %d writes, want 3 requests at most, and one write:\n%s", reads, writes, all)
	}

	f.cloud("requests", "clear")
	since := f.size()
	patch := []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`)
	if _, err := f.kubernetes.CoreV1().Services("default").Patch(t.Context(), "web-0", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.logged(`reason="EnsuredLoadBalancer"`, 1, since)
	if reads, writes, all := f.count("/load_balancer", "/certificates"); reads > 1 || writes > 0 {
		t.Errorf("a pass with nothing to do: %d reads and %d writes, want 1 read at most:\n%s", reads, writes, all)
	}

	for i := 1; i < services; i++ {
		f.service(fmt.Sprint("web-", i), 2, nil)
	}
	f.ready(services, 10)

	// The official CCM needs about 140 requests for this.
	f.cloud("requests", "clear")
	began := time.Now()
	f.addServers(1)
	f.ready(services, 11)
	t.Logf("scale-up: the last of %d targets was there after %s", services, time.Since(began).Round(time.Millisecond))
	if reads, writes, all := f.count(); reads+writes > 30 {
		t.Errorf("scale-up by one Node with %d Services: %d reads and %d writes, want 30 requests at most:\n%s", services, reads, writes, all)
	}

	since = f.size()
	f.stop()
	f.cloud("requests", "clear")
	f.startCCM()
	f.logged(`reason="EnsuredLoadBalancer"`, services, since)
	if reads, writes, all := f.count(); reads > 10 || writes > 0 {
		t.Errorf("restart with %d settled Services: %d reads and %d writes, want 10 reads at most:\n%s", services, reads, writes, all)
	}
}

// size is how long the log is now.
func (f *fixture) size() int64 {
	info, err := os.Stat(f.log)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return info.Size()
}
