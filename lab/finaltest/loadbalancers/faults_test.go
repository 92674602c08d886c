package loadbalancers

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/ccm-from-scratch/lab/stack"
)

func (f *fixture) annotate(name, annotation, value string) {
	f.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"load-balancer.hetzner.cloud/%s":%q}}}`, annotation, value)
	if _, err := f.kubernetes.CoreV1().Services("default").Patch(f.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// TestL8 moves targets to the private side and back, and counts all the time
// how many are healthy. Only the move of one at a time is necessary.
func TestL8(t *testing.T) {
	t.Parallel()
	f := start(t, 4)
	f.startCCM()
	f.initialized(4)
	f.service("web", 1, nil)
	f.ready(1, 4)
	count := func() (healthy, private int) {
		lbs, err := f.Client().LoadBalancer.All(t.Context())
		if err != nil || len(lbs) != 1 {
			t.Fatalf("%d load balancers, %v", len(lbs), err)
		}
		for _, target := range lbs[0].Targets {
			if target.UsePrivateIP {
				private++
			}
			for _, status := range target.HealthStatus {
				if status.Status == hcloud.LoadBalancerTargetHealthStatusStatusHealthy {
					healthy++
				}
			}
		}
		return healthy, private
	}
	f.eventually("all are healthy", 20*time.Second, func() (bool, string) {
		healthy, _ := count()
		return healthy == 4, fmt.Sprint(healthy)
	})
	least := 4
	for _, test := range []struct {
		value string
		want  int
	}{{"true", 4}, {"false", 0}} {
		f.annotate("web", "use-private-ip", test.value)
		f.eventually("all have moved", time.Minute, func() (bool, string) {
			healthy, private := count()
			least = min(least, healthy)
			return private == test.want && healthy == 4, fmt.Sprintf("%d healthy, %d private", healthy, private)
		})
	}
	if least != 3 {
		t.Errorf("at worst %d targets were healthy, want 3", least)
	}
}

// TestPendingCertificate lets the issuance of a certificate last. Nothing else
// waits for it.
func TestPendingCertificate(t *testing.T) {
	t.Parallel()
	f := start(t, 1)
	f.startCCM()
	f.initialized(1)
	f.cloud("fault", "add", "POST", "/certificates", "--stuck")
	f.service("web", 2, map[string]string{
		"protocol": "8000=tcp,8001=https", "certificate-type": "managed", "http-managed-certificate-domains": "example.org",
	})
	f.ready(1, 1)
	const format = "format={{range .Services}}{{.ListenPort}} {{.Protocol}};{{end}}"
	if got := f.cloud("load-balancer", "list", "-o", format); got != "8000 tcp;\n" {
		t.Errorf("listeners while the certificate is pending: %q", got)
	}
	s, err := f.kubernetes.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ports := s.Status.LoadBalancer.Ingress[0].Ports; len(ports) != 2 || ports[0].Error != nil || ports[1].Error == nil || *ports[1].Error != "load-balancer.hetzner.cloud/CertificateMissing" {
		t.Errorf("status of the ports: %+v", ports)
	}
	f.service("other", 1, nil)
	f.ready(2, 1)
	f.cloud("fault", "clear")
	f.eventually("the https listener is there", 30*time.Second, func() (bool, string) {
		out := f.cloud("load-balancer", "list", "-o", format)
		return strings.Contains(out, "8000 tcp;8001 https;"), out
	})
	f.eventually("the status has no fault", 20*time.Second, func() (bool, string) {
		s, err := f.kubernetes.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && len(s.Status.LoadBalancer.Ingress[0].Ports) == 0, fmt.Sprint(s.Status, err)
	})
}

// TestFailedCertificate has certificates that are refused: one always, one once.
func TestFailedCertificate(t *testing.T) {
	t.Parallel()
	f := start(t, 1)
	f.startCCM("HCLOUD_LOAD_BALANCERS_REPAIR_PERIOD=1s")
	f.initialized(1)
	managed := func(domain string) map[string]string {
		return map[string]string{"protocol": "https", "certificate-type": "managed", "http-managed-certificate-domains": domain}
	}
	refused := []string{"--fail", "--code", "ca_dns_validation_failed", "--message", "DNS says otherwise"}
	f.cloud(append([]string{"fault", "add", "POST", "/certificates"}, refused...)...)
	f.cloud(append([]string{"fault", "add", "POST", "/certificates/*/actions/retry"}, refused...)...)
	always := f.service("always", 1, managed("a.example.org"))
	f.told(always, "CertificateFailed", "for a.example.org could not be issued: DNS says otherwise (ca_dns_validation_failed)")

	// Ten passes later it has been tried again once, and told once.
	f.cloud("fault", "clear")
	lists := f.number("GET", "/load_balancers")
	f.eventually("ten more passes", time.Minute, func() (bool, string) {
		n := f.number("GET", "/load_balancers") - lists
		return n >= 10, fmt.Sprint(n)
	})
	if n := f.number("POST", "/certificates/*/actions/retry"); n != 1 {
		t.Errorf("%d retries, want 1", n)
	}
	if n := f.number("POST", "/certificates"); n != 1 {
		t.Errorf("%d certificates were asked for, want 1", n)
	}
	if events := f.events(always, "CertificateFailed"); len(events) != 1 || events[0].Count > 1 {
		t.Errorf("events: %v", events)
	}

	f.cloud(append([]string{"fault", "add", "POST", "/certificates"}, refused...)...)
	f.service("once", 1, managed("b.example.org"))
	f.eventually("the second attempt succeeds", time.Minute, func() (bool, string) {
		out := f.cloud("load-balancer", "list", "-o", "format={{range .Services}}{{.Protocol}}{{end}}")
		return strings.Contains(out, "https"), out
	})
	if n := f.number("POST", "/certificates/*/actions/retry"); n != 2 {
		t.Errorf("%d retries, want 2", n)
	}
}

// told waits for an event of a Service with a text.
func (f *fixture) told(s *corev1.Service, reason, text string) {
	f.t.Helper()
	f.eventually("event "+reason, time.Minute, func() (bool, string) {
		var messages []string
		for _, e := range f.events(s, reason) {
			messages = append(messages, e.Message)
		}
		all := strings.Join(messages, "\n")
		return strings.Contains(all, text), all
	})
}

func (f *fixture) events(s *corev1.Service, reason string) []corev1.Event {
	f.t.Helper()
	list, err := f.kubernetes.CoreV1().Events(s.Namespace).List(f.t.Context(), metav1.ListOptions{
		FieldSelector: fmt.Sprintf("reason=%s,involvedObject.uid=%s", reason, s.UID),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

// number counts requests of a method and path since the journal was cleared.
func (f *fixture) number(method, path string) int {
	f.t.Helper()
	out := f.cloud("requests", "--method", method, "--path", path, "--count")
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// TestFaults disturbs each kind of request in each way once. In the end there is
// what the Service asks for, once, and nothing when it is gone.
func TestFaults(t *testing.T) {
	t.Parallel()
	f := start(t, 1)
	f.startCCM()
	f.initialized(1)
	for _, effect := range []string{"--status 500", "--drop", "--reset", "--truncate", "--fail", "--html"} {
		for _, path := range []string{"POST /load_balancers", "POST /load_balancers/*/actions/*", "DELETE /load_balancers/*", "PUT /load_balancers/*"} {
			f.cloud(append(append([]string{"fault", "add"}, strings.Fields(path)...), append(strings.Fields(effect), "--count", "1")...)...)
		}
		f.service("web", 1, map[string]string{"name": "web"})
		f.ready(1, 1)
		f.annotate("web", "algorithm-type", "least_connections")
		f.annotate("web", "name", "edge")
		f.annotate("web", "use-private-ip", "true")
		f.eventually(effect+": the changes are made", time.Minute, func() (bool, string) {
			out := f.cloud("load-balancer", "list", "-o", "format={{.Name}} {{.Algorithm.Type}} {{range .Targets}}{{.UsePrivateIP}}{{end}}")
			return out == "edge least_connections true\n", out
		})
		if err := f.kubernetes.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		f.eventually(effect+": the Service is gone", time.Minute, func() (bool, string) {
			_, err := f.kubernetes.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
			return err != nil, "it is there"
		})
		if out := f.cloud("load-balancer", "list", "-o", "format={{.Name}}"); strings.TrimSpace(out) != "" {
			t.Errorf("%s: left behind: %s", effect, out)
		}
		f.cloud("fault", "clear")
	}
	hit := 0
	for _, r := range f.Cloud.Requests(stack.Project) {
		if r.Fault != "" {
			hit++
		}
	}
	if hit < 18 {
		t.Errorf("only %d requests were disturbed", hit)
	}
}
