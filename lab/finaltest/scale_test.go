package finaltest

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/ccm-from-scratch/lab/stack"
)

var (
	scale = flag.Int("nodes", 300, "how many Nodes join at once")
	idle  = flag.Duration("idle", 0, "how long to watch an idle cluster of that size")
	lost  = flag.Int("lost", 10, "how many of its Nodes are not Ready then")
)

// TestScale lets many Nodes join at once, and counts requests and time.
func TestScale(t *testing.T) {
	l := newLab(t, stack.Options{RealPeriods: true})
	if err := l.AddServers(t.Context(), *scale); err != nil {
		t.Fatal(err)
	}
	l.eventually(5*time.Minute, func() string {
		if n := len(l.nodes()); n != *scale {
			return fmt.Sprintf("%d Nodes", n)
		}
		return ""
	})

	start := time.Now()
	ccm := l.start([]string{"HCLOUD_NETWORK="})
	l.eventually(5*time.Minute, l.initialized(*scale))
	took := time.Since(start)
	requests := l.cloud("requests")
	lists, single := strings.Count(requests, "GET /servers?"), strings.Count(requests, "GET /servers/")
	t.Logf("%d Nodes in %s, with %d pages of the list and %d single servers; most memory %s", *scale, took.Round(100*time.Millisecond), lists, single, memory(t, ccm.PID()))
	pages := (*scale + 49) / 50
	if most := 2 * pages * (1 + int(took/(10*time.Second))); lists > most || single > 0 {
		t.Errorf("%d pages and %d single servers were read, want %d and 0 at most", lists, single, most)
	}

	if *idle == 0 {
		return
	}
	for n := range *lost {
		l.stopKubelets(fmt.Sprintf("worker-%d", n+1))
	}
	l.eventually(time.Minute, l.notReady(*lost))
	for n := range *lost {
		l.sinceAnHour(fmt.Sprintf("worker-%d", n+1))
	}
	l.cloud("requests clear")
	l.always(*idle, func() string { return "" })
	got := strings.Count(l.cloud("requests"), "\n")
	hour := float64(got) * float64(time.Hour) / float64(*idle)
	t.Logf("%d requests in %s idle with %d Nodes not Ready: %.0f an hour; most memory %s", got, *idle, *lost, hour, memory(t, ccm.PID()))
	if hour > 400 {
		t.Errorf("%.0f requests an hour, want 400 at most", hour)
	}
}

// sinceAnHour makes a Node that is not Ready one that has not been for an hour:
// what is measured is idleness, and not the first minutes of an accident.
func (l *lab) sinceAnHour(node string) {
	l.Helper()
	patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "lastTransitionTime": %q}]}}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	_, err := l.client.CoreV1().Nodes().Patch(l.Context(), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		l.Fatal(err)
	}
}
