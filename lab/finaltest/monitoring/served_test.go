package monitoring

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"example.com/ccm-from-scratch/lab/stack"
)

// lab is an emulated cloud and a real API server, with final to run on them.
type lab struct {
	*stack.Stack
	t      *testing.T
	client kubernetes.Interface
	binary string
	log    string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	directory, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, log: filepath.Join(t.TempDir(), "ccm.log")}
	if l.binary, err = stack.BuildCCM(t.Context(), directory, "final", t.Output()); err != nil {
		t.Fatal(err)
	}
	if l.Stack, err = stack.Start(t.Context(), stack.Options{Log: t.Output()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
	})
	if l.client, err = kubernetes.NewForConfig(l.Cluster.Config()); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) cloud(command string) {
	l.t.Helper()
	if err := l.CloudCommand(l.t.Context(), io.Discard, strings.Fields(command)...); err != nil {
		l.t.Fatal(err)
	}
}

// service creates a Service that wants a load balancer.
func (l *lab) service(name string, annotations map[string]string) {
	l.t.Helper()
	_, err := l.client.CoreV1().Services("default").Create(l.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
}

// eventually waits until missing returns nothing.
func (l *lab) eventually(missing func() string) {
	l.t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(l.t.Context(), 200*time.Millisecond, 45*time.Second, true, func(context.Context) (bool, error) {
		last = missing()
		return last == "", nil
	})
	if err != nil {
		log, _ := os.ReadFile(l.log)
		l.t.Fatalf("%s\n%s", last, log[max(0, len(log)-4000):])
	}
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// get requests metrics, with a token if there is one.
func get(ctx context.Context, url, token string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// TestServed lets final work, and have some bad luck. Then every expression has to
// choose series that it serves, and the page has to list them.
func TestServed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if err := l.AddServers(t.Context(), 2, stack.Network); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	ccm, err := l.StartCCM(l.binary, l.log, l.Cluster.Kubeconfig(), []string{
		"HCLOUD_METRICS_ADDRESS=" + address, "HCLOUD_LOAD_BALANCERS_LOCATION=fsn1",
	}, []string{"--leader-elect=true"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ccm.Kill)
	l.service("web", nil)
	l.service("wrong", map[string]string{"load-balancer.hetzner.cloud/algorithm-type": "by_chance"})
	l.eventually(func() string {
		nodes, err := l.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, node := range nodes.Items {
			if node.Spec.ProviderID == "" {
				return node.Name + " is not initialized"
			}
		}
		return ""
	})
	l.cloud("fault add GET /networks/* --status 503 --count 2")
	l.cloud("fault add POST /networks/*/actions/add_route --status 403 --count 2")
	l.cloud("server poweroff worker-2")
	if err := l.AddServers(t.Context(), 1, stack.Network); err != nil {
		t.Fatal(err)
	}

	where, needs := expressions(t)
	labels := []string{
		`cloud_controller_manager_operations_total{op="EnsureLoadBalancer"}`,
		`cloud_controller_manager_server_cache_requests_total{subsystem="instances", mode="all"}`,
		`cloud_controller_manager_server_cache_requests_total{subsystem="routes", mode="all"}`,
		`cloud_controller_manager_load_balancer_type_cache_requests_total{subsystem="load_balancer", result="miss"}`,
	}
	where, needs = append(where, labels...), append(needs, analyse(t, labels)...)
	var plain served
	l.eventually(func() string {
		_, text, err := get(t.Context(), "http://"+address+"/metrics", "")
		if err != nil {
			return err.Error()
		}
		plain = parse(t, text)
		var faults []string
		for i, need := range needs {
			for _, fault := range plain.faults(need) {
				faults = append(faults, where[i]+": "+fault)
			}
		}
		return strings.Join(faults, "\n")
	})

	secure, err := ccm.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ours(plain), ours(parse(t, secure))); diff != "" {
		t.Errorf("both ports have the same metrics (-plain +secure):\n%s", diff)
	}
	if diff := cmp.Diff(ours(plain), listed(t)); diff != "" {
		t.Errorf("the table of the page (-served +page):\n%s", diff)
	}
}

// about are the metrics that the page is about. The others are those that every
// program has that is written in Go for Kubernetes.
var about = regexp.MustCompile(`^(cloud_|hcloud_|node_|service_|route_|leader_election_master|running_|workqueue_)`)

// ours returns kind and labels of the metrics that the page is about.
func ours(s served) map[string]string {
	metrics := map[string]string{}
	for name, kind := range s.kinds {
		if about.MatchString(name) {
			metrics[name] = kind + " " + s.labels(name)
		}
	}
	return metrics
}

var row = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| ?(.*?) ?\\|")

// listed returns what the tables of the page say.
func listed(t *testing.T) map[string]string {
	t.Helper()
	metrics := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(read(t, page)), -1) {
		metrics[m[1]] = m[2] + " " + strings.ReplaceAll(m[3], "`", "")
	}
	return metrics
}

// fence returns the only code block of the page that contains a text.
func fence(t *testing.T, text string) string {
	t.Helper()
	var found []string
	for i, part := range strings.Split(string(read(t, page)), "\n```") {
		if _, body, ok := strings.Cut(part, "\n"); ok && i%2 == 1 && strings.Contains(body, text) {
			found = append(found, body+"\n")
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d code blocks contain %q, want one", len(found), text)
	}
	return found[0]
}

func (l *lab) kubectl(input string, args ...string) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), l.Cluster.Binaries().Kubectl, append([]string{"--kubeconfig=" + l.Cluster.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (l *lab) token(namespace, name string) string {
	l.t.Helper()
	request, err := l.client.CoreV1().ServiceAccounts(namespace).CreateToken(l.t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return request.Status.Token
}

// TestSecurePort runs final with the flags and the rights that its Deployment has,
// and reads metrics with the rights that the page gives to Prometheus.
func TestSecurePort(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.kubectl("", "apply", "-f", root+"/final/deploy/rbac.yaml")
	l.kubectl("", "create", "namespace", "monitoring")
	l.kubectl("", "create", "serviceaccount", "prometheus", "--namespace=monitoring")
	l.kubectl("", "create", "serviceaccount", "somebody", "--namespace=monitoring")
	l.kubectl(fence(t, "nonResourceURLs"), "apply", "-f", "-")

	kubeconfig, err := l.Cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", "cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	log, err := os.Create(l.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ccm := exec.CommandContext(t.Context(), l.binary, "--leader-elect=false", "--secure-port="+port,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig) // in a pod all three are found
	ccm.Env = append(append(os.Environ(), l.Environ()...), "HCLOUD_NETWORK=", "HCLOUD_METRICS_ENABLED=false")
	ccm.Stdout, ccm.Stderr = log, log
	if err := ccm.Start(); err != nil {
		t.Fatal(err)
	}
	l.Cluster.Guard(ccm.Process)
	t.Cleanup(func() {
		_ = ccm.Process.Kill()
		_ = ccm.Wait()
		l.Cluster.Unguard(ccm.Process)
	})

	url := "https://" + address + "/metrics"
	l.eventually(func() string {
		status, body, err := get(t.Context(), url, l.token("monitoring", "prometheus"))
		if err != nil || status != http.StatusOK {
			return fmt.Sprintf("with the right: %d %s %v", status, body, err)
		}
		return ""
	})
	for who, token := range map[string]string{"nobody": "", "somebody without the right": l.token("monitoring", "somebody")} {
		status, body, err := get(t.Context(), url, token)
		if err != nil || status != http.StatusForbidden && status != http.StatusUnauthorized {
			t.Errorf("%s gets %d %v\n%s", who, status, err, body)
		}
	}
}

// TestPrometheusRule runs the page's command with something in the place of kubectl.
func TestPrometheusRule(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\ncat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", fence(t, "PrometheusRule"))
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		APIVersion, Kind string
		Metadata         struct{ Namespace, Name string }
		Spec             any
	}
	if err := yaml.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	want := got
	want.APIVersion, want.Kind, want.Metadata.Name = "monitoring.coreos.com/v1", "PrometheusRule", job
	if err := yaml.Unmarshal(read(t, alerts), &want.Spec); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("PrometheusRule (-want +got):\n%s", diff)
	}
}

// TestScrape reads the page's configuration as Prometheus would.
func TestScrape(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prometheus.yaml")
	config := fence(t, "scrape_configs:")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "", "promtool", "check", "config", "--syntax-only", file); err != nil {
		t.Errorf("%v\n%s", err, config)
	}
	if !strings.Contains(config, "job_name: "+job+"\n") {
		t.Errorf("it does not name the job %s, which the alerts are about", job)
	}
}
