package loadbalancers

import (
	"bytes"
	"context"
	"errors"
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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"example.com/ccm-from-scratch/lab/cloud"
	"example.com/ccm-from-scratch/lab/stack"
)

// fixture is a lab of a test's own.
type fixture struct {
	*stack.Stack
	t          *testing.T
	kubernetes kubernetes.Interface
	binary     string
	log        string
	kubeconfig string // of the CCM
	ccm        *stack.CCM
}

// start starts a lab with some servers, and nothing that asks the cloud for
// anything too often.
func start(t *testing.T, servers int) *fixture {
	t.Helper()
	f := &fixture{t: t, log: filepath.Join(t.TempDir(), "ccm.log")}
	var err error
	if f.binary, err = stack.BuildCCM(t.Context(), root(t), stage, t.Output()); err != nil {
		t.Fatal(err)
	}
	f.Stack, err = stack.Start(t.Context(), stack.Options{Log: t.Output(), RealPeriods: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.stop()
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			text, _ := os.ReadFile(f.log)
			t.Logf("the CCM's log ends with:\n%s", text[max(0, len(text)-6000):])
		}
	})
	if f.kubernetes, err = kubernetes.NewForConfig(f.Cluster.Config()); err != nil {
		t.Fatal(err)
	}
	f.kubeconfig = f.Cluster.Kubeconfig()
	f.addServers(servers)
	return f
}

func (f *fixture) addServers(n int) {
	f.t.Helper()
	if n == 0 {
		return
	}
	if err := f.AddServers(f.t.Context(), n, stack.Network); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) startCCM(env ...string) {
	f.t.Helper()
	env = append([]string{"HCLOUD_LOAD_BALANCERS_LOCATION=fsn1", "HCLOUD_METRICS_ENABLED=false", "HCLOUD_NETWORK_ROUTES_ENABLED=false"}, env...)
	var err error
	if f.ccm, err = f.StartCCM(f.binary, f.log, f.kubeconfig, env, nil); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) stop() {
	if f.ccm == nil {
		return
	}
	if _, err := f.ccm.Stop(); err != nil {
		f.t.Error(err)
	}
	f.ccm = nil
}

// run runs the binary under test to its end, and returns what it prints.
func (f *fixture) run(args ...string) string {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), f.binary, args...)
	cmd.Env = f.CCMEnviron("HCLOUD_LOAD_BALANCERS_LOCATION=fsn1")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, errOut.String())
	}
	return string(out)
}

func (f *fixture) kubectl(args ...string) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), f.Cluster.Binaries().Kubectl, args...)
	cmd.Env = append(os.Environ(), f.Environ()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (f *fixture) cloud(args ...string) string {
	f.t.Helper()
	var out bytes.Buffer
	if err := f.CloudCommand(f.t.Context(), &out, args...); err != nil {
		f.t.Fatal(err)
	}
	return out.String()
}

// service creates a Service of type LoadBalancer with ports 8000 and up.
func (f *fixture) service(name string, ports int, annotations map[string]string) *corev1.Service {
	f.t.Helper()
	s := newService(name, ports, annotations)
	s, err := f.kubernetes.CoreV1().Services("default").Create(f.t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func newService(name string, ports int, annotations map[string]string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name}},
	}
	for key, value := range annotations {
		s.Annotations["load-balancer.hetzner.cloud/"+key] = value
	}
	for i := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(8000 + i)})
	}
	return s
}

// eventually waits until a condition holds.
func (f *fixture) eventually(what string, within time.Duration, holds func() (bool, string)) {
	f.t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(f.t.Context(), 20*time.Millisecond, within, true, func(context.Context) (ok bool, _ error) {
		ok, last = holds()
		return ok, nil
	})
	if err != nil {
		f.t.Fatalf("%s: not within %s; last: %s", what, within, last)
	}
}

// ready waits until every Service has an address, and every load balancer that
// many targets.
func (f *fixture) ready(services, targets int) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d Services with %d targets each", services, targets), time.Minute, func() (bool, string) {
		list, err := f.kubernetes.CoreV1().Services("").List(f.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		addresses := 0
		for _, s := range list.Items {
			if len(s.Status.LoadBalancer.Ingress) > 0 {
				addresses++
			}
		}
		lbs, err := f.Client().LoadBalancer.All(f.t.Context())
		if err != nil {
			return false, err.Error()
		}
		full := 0
		for _, lb := range lbs {
			if len(lb.Targets) == targets {
				full++
			}
		}
		return addresses == services && full == services, fmt.Sprintf("%d with an address, %d with all targets", addresses, full)
	})
}

// initialized waits until that many Nodes have a provider ID.
func (f *fixture) initialized(n int) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d Nodes with an ID", n), time.Minute, func() (bool, string) {
		list, err := f.kubernetes.CoreV1().Nodes().List(f.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		found := 0
		for _, node := range list.Items {
			if node.Spec.ProviderID != "" {
				found++
			}
		}
		return found == n, fmt.Sprint(found)
	})
}

// logged waits until the log, since a position, has a text that many times.
func (f *fixture) logged(text string, times int, since int64) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d times %q in the log", times, text), time.Minute, func() (bool, string) {
		found := strings.Count(f.logSince(since), text)
		return found >= times, fmt.Sprint(found)
	})
}

func (f *fixture) logSince(since int64) string {
	file, err := os.Open(f.log)
	if err != nil {
		return ""
	}
	defer file.Close()
	if _, err := file.Seek(since, io.SeekStart); err != nil {
		return ""
	}
	text, err := io.ReadAll(file)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return string(text)
}

// count returns how many reads and writes there were since the journal was
// cleared, polls of actions left out. paths limits them to some resources.
func (f *fixture) count(paths ...string) (reads, writes int, all string) {
	var lines []string
	for _, r := range f.Cloud.Requests(stack.Project) {
		if r.Kind == "poll" || len(paths) > 0 && !hasAnyPrefix(r, paths) {
			continue
		}
		if r.Kind == "write" {
			writes++
		} else {
			reads++
		}
		lines = append(lines, fmt.Sprintf("%s %s %d", r.Method, r.Path, r.Status))
	}
	return reads, writes, strings.Join(lines, "\n")
}

func hasAnyPrefix(r cloud.Request, paths []string) bool {
	for _, path := range paths {
		if strings.HasPrefix(r.Path, path) {
			return true
		}
	}
	return false
}
