package loadbalancers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestL14 lets an action of one load balancer never end, while Nodes come one
// after the other. The load balancers of all other Services get them, and the
// stuck one is still stuck by then.
func TestL14(t *testing.T) {
	t.Parallel()
	f := start(t, 1)
	f.startCCM("HCLOUD_SERVER_CACHE_MAX_AGE=0s") // so that new Nodes are known at once
	f.initialized(1)
	for i := range 3 {
		f.service(fmt.Sprint("web-", i), 1, map[string]string{"name": fmt.Sprint("web-", i)})
	}
	f.ready(3, 1)
	stuck, _, err := f.Client().LoadBalancer.GetByName(t.Context(), "web-1")
	if err != nil {
		t.Fatal(err)
	}
	added := fmt.Sprintf("/load_balancers/%d/actions/add_target", stuck.ID)
	f.cloud("fault", "add", "POST", added, "--stuck")
	f.cloud("requests", "clear")
	for n := 2; n <= 4; n++ {
		f.addServers(1)
		f.eventually(fmt.Sprintf("the others have %d targets", n), 20*time.Second, func() (bool, string) {
			out := f.cloud("load-balancer", "list", "-o", "format={{.Name}} {{len .Targets}};")
			return strings.Contains(out, fmt.Sprintf("web-0 %d;", n)) && strings.Contains(out, fmt.Sprintf("web-2 %d;", n)), out
		})
	}
	if out := f.cloud("load-balancer", "list", "-o", "format={{.Name}} {{len .Targets}};"); !strings.Contains(out, "web-1 1;") {
		t.Errorf("the action is not stuck: %s", out)
	}
	if n := f.number("POST", added); n != 1 {
		t.Errorf("the stuck load balancer was asked %d times, want once: a pass for it has ended, and proves nothing", n)
	}
	f.cloud("fault", "clear")
	f.ready(3, 4)
}

// TestTLSSecret uploads a Secret, and rotates it, with different rights. Where it
// may be watched, nothing else makes the CCM look within the time that the test
// waits.
func TestTLSSecret(t *testing.T) {
	t.Parallel()
	f := start(t, 1)
	f.kubectl("apply", "-f", filepath.Join(root(t), stage, "deploy", "rbac.yaml"))
	account, err := f.Cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", "cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	f.kubeconfig = account
	secrets := f.kubernetes.CoreV1().Secrets("default")
	if _, err := secrets.Create(t.Context(), tlsSecret(t, "first.example.org"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.service("web", 1, map[string]string{"protocol": "https", "http-tls-secret": "web-tls"})
	served := func(domain string) func() (bool, string) {
		return func() (bool, string) {
			all, err := f.Client().Certificate.All(t.Context())
			if err != nil || len(all) != 1 {
				return false, fmt.Sprint(len(all), " certificates, ", err)
			}
			return len(all[0].UsedBy) == 1 && all[0].DomainNames[0] == domain, fmt.Sprint(all[0].DomainNames, all[0].UsedBy)
		}
	}
	const late = "Changes of a Secret are noticed late"
	role := []string{"create", "role", "web-tls", "--resource=secrets", "--resource-name=web-tls"}
	before := "first.example.org"
	for _, test := range []struct {
		name   string
		rights [][]string
		env    []string
		late   int
	}{
		{name: "all", rights: [][]string{{"apply", "-f", filepath.Join(root(t), stage, "deploy", "optional", "tls-secrets.yaml")}}},
		{name: "this", rights: [][]string{
			{"delete", "clusterrolebinding", "system:cloud-controller-manager:tls-secrets"},
			append(role, "--verb=get,watch"),
			{"create", "rolebinding", "web-tls", "--role=web-tls", "--serviceaccount=kube-system:cloud-controller-manager"},
		}},
		{name: "read", rights: [][]string{
			{"delete", "role", "web-tls"}, append(role, "--verb=get"),
		}, env: []string{"HCLOUD_LOAD_BALANCERS_REPAIR_PERIOD=1s"}, late: 1},
	} {
		for _, right := range test.rights {
			f.kubectl(right...)
		}
		since := f.size()
		f.startCCM(test.env...)
		f.eventually(test.name+": the certificate is used", 20*time.Second, served(before))
		f.logged(`reason="EnsuredLoadBalancer"`, 1, since)
		f.cloud("requests", "clear")
		domain := test.name + ".example.org"
		if _, err := secrets.Update(t.Context(), tlsSecret(t, domain), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		f.eventually(test.name+": the new certificate is used, and the old one gone", 20*time.Second, served(domain))
		_, _, all := f.count("/certificates", "/load_balancers")
		if !regexp.MustCompile(`(?s)POST /certificates 201.*/actions/update_service 201.*DELETE /certificates/`).MatchString(all) {
			t.Errorf("%s: the new certificate was not there before the old one went:\n%s", test.name, all)
		}
		if got := strings.Count(f.logSince(since), late); got != test.late {
			t.Errorf("%s: %d times %q in the log, want %d", test.name, got, late, test.late)
		}
		f.stop()
		before = domain
	}

	f.startCCM()
	if err := f.kubernetes.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("no certificate is left", 20*time.Second, func() (bool, string) {
		all, err := f.Client().Certificate.All(t.Context())
		return err == nil && len(all) == 0, fmt.Sprint(len(all), err)
	})
}

// TestLateSecret names a Secret before there is one.
func TestLateSecret(t *testing.T) {
	t.Parallel()
	f := start(t, 1)
	f.startCCM()
	f.initialized(1)
	web := f.service("web", 1, map[string]string{"protocol": "https", "http-tls-secret": "web-tls"})
	f.told(web, "LoadBalancerIncomplete", `annotation load-balancer.hetzner.cloud/http-tls-secret: secrets "web-tls" not found`)
	if _, err := f.kubernetes.CoreV1().Secrets("default").Create(t.Context(), tlsSecret(t, "late.example.org"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the listener is there", 20*time.Second, func() (bool, string) {
		out := f.cloud("load-balancer", "list", "-o", "format={{range .Services}}{{.Protocol}}{{end}}")
		return out == "https\n", out
	})
}

func tlsSecret(t *testing.T, domain string) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{domain}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	chain, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "web-tls"},
		Type:       corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		},
	}
}

// TestRelease lets go of a load balancer, and takes it back.
func TestRelease(t *testing.T) {
	t.Parallel()
	f := start(t, 1)
	f.startCCM()
	f.initialized(1)
	f.service("web", 1, nil)
	f.ready(1, 1)
	annotate := func(value string) {
		s, err := f.kubernetes.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		delete(s.Annotations, "load-balancer.hetzner.cloud/release")
		if value != "" {
			s.Annotations = map[string]string{"load-balancer.hetzner.cloud/release": value}
		}
		if _, err := f.kubernetes.CoreV1().Services("default").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	labels := func(n int) {
		f.eventually(fmt.Sprintf("the load balancer has %d labels", n), 20*time.Second, func() (bool, string) {
			lbs, err := f.Client().LoadBalancer.All(t.Context())
			return err == nil && len(lbs) == 1 && len(lbs[0].Labels) == n && len(lbs[0].Services) == 1, fmt.Sprint(lbs, err)
		})
	}
	labels(2)
	annotate("true")
	labels(0)
	annotate("")
	labels(2)
	annotate("true")
	labels(0)
	if err := f.kubernetes.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the Service is gone", 20*time.Second, func() (bool, string) {
		_, err := f.kubernetes.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err != nil, fmt.Sprint(err)
	})
	labels(0)
}

// TestDryRun looks at a cluster without a running CCM.
func TestDryRun(t *testing.T) {
	t.Parallel()
	f := start(t, 2)
	f.startCCM()
	f.initialized(2)
	f.service("web", 1, map[string]string{"name": "web"})
	f.service("settled", 1, map[string]string{"name": "settled", "location": "hel1"})
	f.ready(2, 2)
	f.stop()
	f.annotate("settled", "location", "fsn1")

	f.cloud("load-balancer", "remove-target", "web", "--server", "worker-1")
	f.service("new", 2, map[string]string{"name": "new"})
	secure := f.service("secure", 1, map[string]string{"name": "secure", "protocol": "https", "certificate-type": "managed", "http-managed-certificate-domains": "example.org"})

	f.cloud("requests", "clear")
	plan := f.run("--dry-run")
	for _, line := range []string{
		"default/new: create load balancer new of type lb11 with 2 listeners and 2 targets: there is none\n",
		"default/web: add target server 3000001 (Node worker-1): it is not there\n",
		"default/settled: nothing to do\n", "default/settled: warning: annotation load-balancer.hetzner.cloud/location: fsn1 is not applied",
		"default/secure: warning: managed certificate ccm-managed-certificate-" + string(secure.UID) + " for example.org: there is no such certificate, so it is created\n",
	} {
		if !strings.Contains(plan, line) {
			t.Errorf("--dry-run lacks %q:\n%s", line, plan)
		}
	}
	if _, writes, all := f.count(); writes > 0 {
		t.Errorf("looking has changed something:\n%s", all)
	}
}

// TestLeaks has something of each kind that is certainly this cluster's and that
// nothing needs, between others that look like it.
func TestLeaks(t *testing.T) {
	t.Parallel()
	f := start(t, 2)
	f.startCCM()
	f.initialized(2)
	web := f.service("web", 1, map[string]string{"name": "web"})
	f.ready(1, 2)
	f.stop()
	system, err := f.kubernetes.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labels := func(uid, cluster any) []string {
		return []string{"--label", fmt.Sprint("hcloud-ccm/service-uid=", uid), "--label", fmt.Sprint("hcloud-ccm/cluster=", cluster)}
	}
	for name, labels := range map[string][]string{
		"orphan": labels("gone", system.UID), "kept": labels("gone", system.UID), "elsewhere": labels("gone", "other"),
		"perhaps": labels("gone", "")[:2], "terraform": nil,
	} {
		f.cloud(append([]string{"load-balancer", "create", "--name", name}, labels...)...)
		f.cloud(append([]string{"certificate", "create", "--name", name, "--type", "managed", "--domain", "example.org"}, labels...)...)
	}
	f.cloud("load-balancer", "create", "--name", "adopted", "--label", "hcloud-ccm/adopted=gone", "--label", fmt.Sprint("hcloud-ccm/cluster=", system.UID))
	f.cloud("load-balancer", "enable-protection", "kept", "delete")
	f.cloud("load-balancer", "add-service", "terraform", "--protocol", "https", "--http-certificates", "kept")
	f.cloud(append([]string{"certificate", "create", "--name", "web", "--type", "managed", "--domain", "example.org"}, labels(web.UID, system.UID)...)...)
	servers, err := f.Client().Server.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for destination, gateway := range map[string]string{
		"10.244.0.0/24": servers[0].PrivateNet[0].IP.String(), "10.244.9.0/24": "10.0.0.99", "10.99.0.0/24": "10.0.0.99",
	} {
		f.cloud("network", "add-route", "lab", "--destination", destination, "--gateway", gateway)
	}
	state := func() string {
		return f.cloud("load-balancer", "list", "-o", "format=load balancer {{.Name}}") +
			f.cloud("certificate", "list", "-o", "format=certificate {{.Name}}") +
			f.cloud("network", "describe", "lab", "-o", "format={{range .Routes}}route {{.Destination}}\n{{end}}")
	}
	before := state()

	f.cloud("requests", "clear")
	want := []string{
		"load balancer N (adopted): Service gone is gone, made by others (lb11: 5.39 a month, without VAT)",
		"load balancer N (kept): Service gone is gone, protected against deletion (lb11: 5.39 a month, without VAT)",
		"load balancer N (orphan): Service gone is gone (lb11: 5.39 a month, without VAT)",
		"load balancer N (perhaps): Service gone is gone, or another cluster's: the label hcloud-ccm/cluster is missing (lb11: 5.39 a month, without VAT)",
		"certificate N (orphan): Service gone is gone (free)",
		"certificate N (perhaps): Service gone is gone, or another cluster's: the label hcloud-ccm/cluster is missing (free)",
		"route to 10.244.9.0/24 by 10.0.0.99 in network lab: no server has the gateway's address (free, but there is room for 100)",
	}
	if diff := cmp.Diff(want, leakLines(f.run("leaks")), sorted); diff != "" {
		t.Errorf("leaks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("looking has changed something (-before +after):\n%s", diff)
	}
	if _, writes, all := f.count(); writes > 0 {
		t.Errorf("looking has written something:\n%s", all)
	}

	want = append(want, "load balancer N (orphan): deleted", "certificate N (orphan): deleted", "route to 10.244.9.0/24 by 10.0.0.99 in network lab: deleted")
	if diff := cmp.Diff(want, leakLines(f.run("leaks", "--delete")), sorted); diff != "" {
		t.Errorf("leaks --delete (-want +got):\n%s", diff)
	}
	expected := strings.NewReplacer("load balancer orphan\n", "", "certificate orphan\n", "", "route 10.244.9.0/24\n", "").Replace(before)
	if diff := cmp.Diff(expected, state()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if _, writes, all := f.count(); writes != 3 {
		t.Errorf("%d writes, want 3:\n%s", writes, all)
	}
}

// sorted compares lines in any order.
var sorted = cmpopts.SortSlices(strings.Compare)

// leakLines returns the lines of a report, without IDs.
func leakLines(report string) []string {
	return strings.Split(strings.TrimSpace(regexp.MustCompile(`(balancer|certificate) \d+ `).ReplaceAllString(report, "$1 N ")), "\n")
}

// TestPolicy applies the admission policy to a real API server, and tries every
// value that the parser is tested with.
func TestPolicy(t *testing.T) {
	t.Parallel()
	f := start(t, 0)
	f.kubectl("apply", "-f", filepath.Join(root(t), stage, "deploy", "optional", "admission.yaml"))
	text, err := os.ReadFile(filepath.Join(root(t), stage, "loadbalancer", "testdata", "values.json"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]struct{ Valid, Invalid []string }{}
	if err := json.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	try := func(annotation, value string) error {
		s := newService("web", 1, map[string]string{annotation: value})
		_, err := f.kubernetes.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	f.eventually("the policy is in force", 30*time.Second, func() (bool, string) {
		err := try("use-private-ip", "maybe")
		return err != nil, fmt.Sprint(err)
	})
	for name, v := range values {
		for _, value := range v.Valid {
			if err := try(name, value); err != nil {
				t.Errorf("%s=%q is refused: %v", name, value, err)
			}
		}
		for _, value := range v.Invalid {
			if err := try(name, value); err == nil || !strings.Contains(err.Error(), "annotation load-balancer.hetzner.cloud/"+name+" must be ") {
				t.Errorf("%s=%q: error = %v, want one that names the annotation", name, value, err)
			}
		}
	}
}
