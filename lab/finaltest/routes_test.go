package finaltest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/ccm-from-scratch/lab/kubelet"
	"example.com/ccm-from-scratch/lab/stack"
)

// TestR02 runs two clusters in one network: neither touches the other's routes.
// Where both want the same range, one has it, the other is told, and they do not
// fight.
func TestR02(t *testing.T) {
	t.Parallel()
	a := newLab(t, stack.Options{})
	if err := a.AddServers(t.Context(), 2, stack.Network); err != nil {
		t.Fatal(err)
	}
	b := newLab(t, stack.Options{Beside: a.Stack})
	const often = "--route-reconciliation-period=500ms"
	a.start(nil, often)
	ccmB := b.start(nil, often, "--cluster-cidr=10.245.0.0/16")
	b.addNode("b-1", "10.245.0.0/24")
	b.addNode("b-2", "10.245.1.0/24")
	a.eventually(30*time.Second, a.routed("worker-1", "worker-2"))
	b.eventually(60*time.Second, b.routed("b-1", "b-2"))

	// Three minutes are six passes of each at the period by default.
	own := []string{"10.244.0.0/24", "10.244.1.0/24", "10.245.0.0/24", "10.245.1.0/24"}
	a.quiet(12)
	a.hasRoutes(own...)
	ccmB.Kill()
	ccmB = b.start(nil, often, "--cluster-cidr=10.245.0.0/16")
	a.quiet(12)
	a.hasRoutes(own...)

	// The second cluster has the first one's range by mistake. One Node has a range
	// that is taken, and two have the same one at the same time.
	ccmB.Kill()
	b.start(nil, often)
	b.addNode("b-3", "10.244.0.0/24")
	b.eventually(30*time.Second, b.conflict("b-3"))
	a.addNode("a-4", "10.244.40.0/24")
	b.addNode("b-4", "10.244.40.0/24")
	a.eventually(60*time.Second, func() string {
		both := a.routed("a-4")() == "" && b.conflict("b-4")() == ""
		either := b.routed("b-4")() == "" && a.conflict("a-4")() == ""
		if both == either {
			return "neither has the route, and the other an event"
		}
		return ""
	})
	a.quiet(12)
	a.hasRoutes(append(own, "10.244.40.0/24")...)
}

// addNode creates a server in the network, and a Node for it in this cluster.
func (l *lab) addNode(name, podCIDR string) {
	l.Helper()
	l.cloud(fmt.Sprintf("server create --name %s --type cx23 --image ubuntu-24.04 --location fsn1 --network lab --label %s=false", name, kubelet.StayOutLabel))
	node := kubelet.NewNode(name, "")
	node.Spec.PodCIDR, node.Spec.PodCIDRs = podCIDR, []string{podCIDR}
	if _, err := l.client.CoreV1().Nodes().Create(l.Context(), node, metav1.CreateOptions{}); err != nil {
		l.Fatal(err)
	}
	if err := kubelet.SetReady(l.Context(), l.client, name, corev1.ConditionTrue); err != nil {
		l.Fatal(err)
	}
}

// quiet waits until all CCMs together have made so many passes over the routes,
// in which nothing may be changed.
func (l *lab) quiet(passes int) {
	l.Helper()
	l.cloud("requests clear")
	l.eventually(60*time.Second, func() string {
		if n := strings.Count(l.cloud("requests"), "GET /networks/"); n < passes {
			return fmt.Sprintf("%d passes", n)
		}
		return ""
	})
	if writes := l.cloud("requests --kind write"); writes != "" {
		l.Errorf("changes although all is as it should be:\n%s", writes)
	}
}

// hasRoutes compares the destinations of the network's routes.
func (l *lab) hasRoutes(want ...string) {
	l.Helper()
	got := l.cloud("network describe lab -o format={{range.Routes}}{{.Destination}};{{end}}")
	for _, destination := range want {
		if !strings.Contains(got, destination+";") {
			l.Errorf("routes are %s, want %v", got, want)
		}
	}
	if strings.Count(got, ";") != len(want) {
		l.Errorf("routes are %s, want %v", got, want)
	}
}

// conflict returns a function for eventually: a Node's range is somebody else's.
func (l *lab) conflict(node string) func() string {
	return func() string {
		for _, event := range l.events("RouteConflict") {
			if event.InvolvedObject.Name == node {
				return ""
			}
		}
		return "nobody has told " + node
	}
}
