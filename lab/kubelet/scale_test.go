package kubelet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"example.com/ccm-from-scratch/lab/stack"
)

// TestScale lets many kubelets join at once, and many die at once.
func TestScale(t *testing.T) {
	const servers = 300
	// A Node and its status, a lease and perhaps its first renewal, the taint
	// not-ready, and one change that met another one.
	const writesPerNode = 6

	audit := filepath.Join(t.TempDir(), "audit.log")
	s, err := stack.Start(t.Context(), stack.Options{Log: t.Output(), Audit: audit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(s.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes().Lister()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	// until waits for the Nodes to be as wanted: how many there are of each kind.
	until := func(want map[string]int) {
		t.Helper()
		deadline := time.After(2 * time.Minute)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			list, err := nodes.List(labels.Everything())
			if err != nil {
				t.Fatal(err)
			}
			got, cidrs := map[string]int{}, map[string]bool{}
			for _, node := range list {
				got[kind(node)]++
				cidrs[node.Spec.PodCIDR] = true
			}
			got["pod CIDRs"] = len(cidrs)
			diff := cmp.Diff(want, got)
			if diff == "" {
				return
			}
			select {
			case <-deadline:
				t.Fatalf("Nodes (-want +got):\n%s", diff)
			case <-tick.C:
			}
		}
	}

	begin := time.Now()
	if err := s.AddServers(t.Context(), servers); err != nil {
		t.Fatal(err)
	}
	until(map[string]int{"True, uninitialized": servers, "pod CIDRs": servers})
	t.Logf("%d Nodes are Ready %.1f s after the first server was asked for", servers, time.Since(begin).Seconds())

	log, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	writes := len(regexp.MustCompile(`(?m)"verb":"(create|update|patch)".*"resource":"(nodes|leases)"`).FindAll(log, -1))
	t.Logf("%d writes", writes)
	if writes < 4*servers || writes > writesPerNode*servers {
		t.Errorf("%d writes, want at least 4 and at most %d for each of %d Nodes", writes, writesPerNode, servers)
	}

	const lost = servers / 3
	for n := range lost {
		if err := s.CloudCommand(t.Context(), t.Output(), "server", "delete", fmt.Sprintf("worker-%d", n+1)); err != nil {
			t.Fatal(err)
		}
	}
	until(map[string]int{"True, uninitialized": servers - lost, "Unknown, uninitialized, unreachable": lost, "pod CIDRs": servers})
}

// kind is a Node's Ready condition and its taints.
func kind(node *corev1.Node) (kind string) {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			kind = string(condition.Status)
		}
	}
	for _, taint := range node.Spec.Taints {
		switch taint.Key {
		case cloudproviderapi.TaintExternalCloudProvider:
			kind += ", uninitialized"
		case corev1.TaintNodeUnreachable:
			kind += ", unreachable"
		default:
			kind += ", " + taint.Key
		}
	}
	return kind
}
