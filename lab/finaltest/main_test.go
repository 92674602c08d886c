package finaltest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"example.com/ccm-from-scratch/lab/stack"
)

// serviceAccount is whom all CCMs of these tests act as, with the rights that the
// manifests of the last stage give it.
const serviceAccount = "cloud-controller-manager"

// lab is a lab of a test's own, with the last stage as its CCM.
type lab struct {
	*testing.T
	*stack.Stack
	client     kubernetes.Interface
	binary     string
	kubeconfig string // of the CCMs
	log        string // path of their log
	audit      string // path of the API server's
}

func newLab(t *testing.T, o stack.Options) *lab {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := stack.BuildCCM(t.Context(), root, "final", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o.Log, o.Audit = t.Output(), filepath.Join(dir, "audit.log")
	s, err := stack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := rest.CopyConfig(s.Cluster.Config())
	config.QPS, config.Burst = 500, 1000 // of the test, not of the CCM
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, Stack: s, client: client, binary: binary, log: filepath.Join(dir, "ccm.log"), audit: o.Audit}
	l.apply(filepath.Join(root, "final", "deploy", "rbac.yaml"))
	if l.kubeconfig, err = s.Cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", serviceAccount); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.nothingForbidden)
	return l
}

// apply applies a manifest.
func (l *lab) apply(path string) {
	l.Helper()
	kubectl := exec.CommandContext(l.Context(), l.Cluster.Binaries().Kubectl, "apply", "-f", path)
	kubectl.Env = append(os.Environ(), l.Environ()...)
	if out, err := kubectl.CombinedOutput(); err != nil {
		l.Fatalf("%v\n%s", err, out)
	}
}

// start starts a CCM that ends with the test.
func (l *lab) start(env []string, flags ...string) *stack.CCM {
	l.Helper()
	env = append([]string{"HCLOUD_METRICS_ENABLED=false", "HCLOUD_LOAD_BALANCERS_LOCATION=fsn1"}, env...)
	// In a pod these come from the pod's ServiceAccount, too.
	flags = append([]string{"--authentication-kubeconfig=" + l.kubeconfig, "--authorization-kubeconfig=" + l.kubeconfig}, flags...)
	ccm, err := l.StartCCM(l.binary, l.log, l.kubeconfig, env, flags)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(ccm.Kill)
	return ccm
}

// cloud runs a command of the hcloud CLI's grammar and returns what it prints.
func (l *lab) cloud(command string) string {
	l.Helper()
	var out strings.Builder
	if err := l.CloudCommand(l.Context(), &out, strings.Fields(command)...); err != nil {
		l.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

func (l *lab) nodes() []corev1.Node {
	l.Helper()
	list, err := l.client.CoreV1().Nodes().List(l.Context(), metav1.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return list.Items
}

// events returns the events with a reason.
func (l *lab) events(reason string) []corev1.Event {
	l.Helper()
	list, err := l.client.CoreV1().Events("").List(l.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err != nil {
		l.Fatal(err)
	}
	return list.Items
}

// logText returns the log of the CCMs so far.
func (l *lab) logText() string {
	l.Helper()
	text, err := os.ReadFile(l.log)
	if err != nil {
		l.Fatal(err)
	}
	return string(text)
}

// asked returns how often the controllers have called a method of ours.
func (l *lab) asked(ccm *stack.CCM, method string) int {
	l.Helper()
	metrics, err := ccm.Get(l.Context(), "/metrics")
	if err != nil {
		l.Fatal(err)
	}
	var n int
	_, rest, called := strings.Cut(metrics, fmt.Sprintf("\ncloud_controller_manager_operations_total{op=%q} ", method))
	if _, err := fmt.Sscan(rest, &n); called && err != nil {
		l.Fatal(err)
	}
	return n
}

// eventually waits until missing returns nothing.
func (l *lab) eventually(within time.Duration, missing func() string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), within)
	defer cancel()
	for what := missing(); what != ""; what = missing() {
		if !tick(ctx) {
			log := l.logText()
			l.Fatalf("not within %s: %s\n%s", within, what, log[max(0, len(log)-4000):])
		}
	}
}

// always fails the test if wrong returns anything in the time given.
func (l *lab) always(lasting time.Duration, wrong func() string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), lasting)
	defer cancel()
	for tick(ctx) {
		if what := wrong(); what != "" {
			l.Fatalf("it did happen: %s", what)
		}
	}
}

// tick waits for a moment. It returns false when ctx has ended.
func tick(ctx context.Context) bool {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// initialized returns a function for eventually: n Nodes have addresses.
func (l *lab) initialized(n int) func() string {
	return func() string {
		done := 0
		for _, node := range l.nodes() {
			if !tainted(node, cloudproviderapi.TaintExternalCloudProvider) && hasExternalIP(node) {
				done++
			}
		}
		if done != n {
			return fmt.Sprintf("%d of %d Nodes are initialized", done, n)
		}
		return ""
	}
}

// notReady returns a function for eventually: n Nodes are not Ready.
func (l *lab) notReady(n int) func() string {
	return func() string {
		lost := 0
		for _, node := range l.nodes() {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
					lost++
				}
			}
		}
		if lost != n {
			return fmt.Sprintf("%d of %d Nodes are not Ready", lost, n)
		}
		return ""
	}
}

func tainted(node corev1.Node, key string) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
}

func hasExternalIP(node corev1.Node) bool {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeExternalIP {
			return true
		}
	}
	return false
}

// tokenFile writes a file with a token, and returns its path.
func (l *lab) tokenFile(token string) string {
	l.Helper()
	path := filepath.Join(l.TempDir(), "token")
	l.writeToken(path, token)
	return path
}

// writeToken replaces a token at once, as a kubelet does with Secrets.
func (l *lab) writeToken(path, token string) {
	l.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(token+"\n"), 0o600); err != nil {
		l.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		l.Fatal(err)
	}
}

// stopKubelets silences the kubelets of servers that go on running.
func (l *lab) stopKubelets(servers ...string) {
	l.Helper()
	for _, server := range servers {
		if err := l.CloudCommand(l.Context(), io.Discard, "server", "add-label", server, "lab/node=false"); err != nil {
			l.Fatal(err)
		}
	}
}

// memory returns the most resident memory that a process ever had.
func memory(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown" // not on Linux
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
