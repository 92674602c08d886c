package finaltest

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"

	"example.com/ccm-from-scratch/lab/stack"
)

// TestRBAC lets a CCM do all that it can do, with the rights of the manifests,
// and compares what it asked of the API server with what it may ask: nothing was
// refused, and no right is idle.
func TestRBAC(t *testing.T) {
	t.Parallel()
	l := newLab(t, stack.Options{})
	l.apply("../../final/deploy/optional/tls-secrets.yaml")
	if err := l.AddServers(t.Context(), 2, stack.Network); err != nil {
		t.Fatal(err)
	}
	// As in the Deployment, one replica needs no election.
	ccm := l.start([]string{fresh}, "--leader-elect=false")
	l.eventually(30*time.Second, l.initialized(2))

	// Routes, and an event that is told more than once.
	l.cloud("fault add POST /networks/*/actions/add_route --status 503 --code unavailable")
	if err := l.AddServers(t.Context(), 1, stack.Network); err != nil {
		t.Fatal(err)
	}
	l.eventually(30*time.Second, func() string {
		for _, event := range l.events("FailedToCreateRoute") {
			if event.Count > 1 {
				return ""
			}
		}
		return "no event was repeated"
	})
	l.cloud("fault clear")
	l.eventually(30*time.Second, l.routed("worker-1", "worker-2", "worker-3"))

	// A Service with a certificate from a Secret, from its creation to its end.
	cert, key, err := certutil.GenerateSelfSignedCertKey("web.example.org", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "web-tls"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": cert, "tls.key": key}}
	if _, err := l.client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.service("web", map[string]string{"load-balancer.hetzner.cloud/protocol": "https", "load-balancer.hetzner.cloud/http-tls-secret": "web-tls"})
	l.eventually(30*time.Second, l.served("web"))
	l.patchService("web", `{"spec": {"ports": [{"name": "http", "port": 8443}]}}`)
	l.eventually(30*time.Second, func() string {
		if out := l.cloud("load-balancer list -o json"); !strings.Contains(out, `"listen_port": 8443`) {
			return out
		}
		return ""
	})
	if err := l.client.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually(30*time.Second, func() string { return l.cloud("load-balancer list -o noheader") })

	// A server changes its type while it is off, and one is deleted.
	l.cloud("server poweroff worker-2")
	l.eventually(30*time.Second, l.node("worker-2", func(node corev1.Node) bool {
		return tainted(node, "node.cloudprovider.kubernetes.io/shutdown")
	}))
	l.cloud("server change-type worker-2 cpx22")
	l.cloud("server poweron worker-2")
	l.eventually(60*time.Second, l.node("worker-2", func(node corev1.Node) bool {
		return !tainted(node, "node.cloudprovider.kubernetes.io/shutdown") && node.Labels[corev1.LabelInstanceTypeStable] == "cpx22"
	}))
	l.cloud("server delete worker-3")
	l.eventually(30*time.Second, l.initialized(2))

	// Who asks for metrics, or more, is reviewed by the API server.
	l.scrape(ccm)

	// With several replicas, one is elected. This one lists before it watches, as is
	// necessary where the API server does not stream lists.
	if _, err := ccm.Stop(); err != nil {
		t.Fatal(err)
	}
	l.apply("testdata/leader-election.yaml")
	l.start([]string{fresh, "KUBE_FEATURE_WatchListClient=false"}, "--leader-elect=true")
	if err := l.AddServers(t.Context(), 1, stack.Network); err != nil {
		t.Fatal(err)
	}
	l.eventually(60*time.Second, l.initialized(3))
	l.eventually(30*time.Second, func() string {
		var idle []string
		used := l.requests()
		for _, right := range l.rights() {
			if !slices.ContainsFunc(used, right.allows) {
				idle = append(idle, right.String())
			}
		}
		return strings.Join(idle, "\n")
	})
}

// scrape asks for pages of a CCM as Prometheus would.
func (l *lab) scrape(ccm *stack.CCM) {
	l.Helper()
	token, err := l.client.CoreV1().ServiceAccounts("default").CreateToken(l.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		l.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/configz": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(l.Context(), http.MethodGet, ccm.URL+path, nil)
		if err != nil {
			l.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token.Status.Token)
		response, err := client.Do(request)
		if err != nil {
			l.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			l.Fatal(err)
		}
		if response.StatusCode != want {
			l.Errorf("GET %s: %s, want %d", path, response.Status, want)
		}
	}
}

// access is a request of the CCM, or a right to make such requests. An empty name
// means a request for several objects, and a right to all.
type access struct{ group, resource, verb, name string }

func (a access) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", a.verb, strings.TrimPrefix(a.group+"/"+a.resource, "/"), a.name))
}

func (a access) allows(request access) bool {
	return a == request || a.name == "" && a == access{request.group, request.resource, request.verb, ""}
}

// auditEvent is what we read of a line of the audit log.
type auditEvent struct {
	Verb       string
	RequestURI string
	User       struct{ Username string }
	ObjectRef  struct{ APIGroup, Resource, Subresource, Name string }

	ResponseStatus struct{ Code int }
}

// auditLog returns what the CCMs have asked of the API server.
func (l *lab) auditLog() []auditEvent {
	l.Helper()
	file, err := os.Open(l.audit)
	if err != nil {
		l.Fatal(err)
	}
	defer file.Close()
	var all []auditEvent
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return all // without a line that is not complete yet
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			l.Fatal(err)
		}
		if event.User.Username == "system:serviceaccount:kube-system:"+serviceAccount {
			all = append(all, event)
		}
	}
}

// requests returns what the CCMs have been allowed.
func (l *lab) requests() []access {
	l.Helper()
	var all []access
	for _, event := range l.auditLog() {
		ref := event.ObjectRef
		if ref.Subresource != "" {
			ref.Resource += "/" + ref.Subresource
		}
		all = append(all, access{ref.APIGroup, ref.Resource, event.Verb, ref.Name})
	}
	return all
}

// nothingForbidden fails the test if a CCM asked for what it may not.
func (l *lab) nothingForbidden() {
	l.Helper()
	for _, event := range l.auditLog() {
		if event.ResponseStatus.Code == http.StatusForbidden {
			l.Errorf("the CCM is not allowed to %s %s", event.Verb, event.RequestURI)
		}
	}
}

// rights returns what the roles of the ServiceAccount allow, one by one.
func (l *lab) rights() []access {
	l.Helper()
	ctx := l.Context()
	roles := map[string][]rbacv1.PolicyRule{}
	clusterBindings, err := l.client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	for _, binding := range clusterBindings.Items {
		if bound(binding.Subjects) {
			role, err := l.client.RbacV1().ClusterRoles().Get(ctx, binding.RoleRef.Name, metav1.GetOptions{})
			if err != nil {
				l.Fatal(err)
			}
			roles[role.Name] = role.Rules
		}
	}
	bindings, err := l.client.RbacV1().RoleBindings("").List(ctx, metav1.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	for _, binding := range bindings.Items {
		if bound(binding.Subjects) {
			role, err := l.client.RbacV1().Roles(binding.Namespace).Get(ctx, binding.RoleRef.Name, metav1.GetOptions{})
			if err != nil {
				l.Fatal(err)
			}
			roles[role.Name] = role.Rules
		}
	}

	var all []access
	for _, rules := range roles {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						if len(rule.ResourceNames) == 0 {
							all = append(all, access{group, resource, verb, ""})
						}
						for _, name := range rule.ResourceNames {
							all = append(all, access{group, resource, verb, name})
						}
					}
				}
			}
		}
	}
	if len(all) == 0 {
		l.Fatal("the ServiceAccount has no rights")
	}
	slices.SortFunc(all, func(a, b access) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

func bound(subjects []rbacv1.Subject) bool {
	return slices.Contains(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: serviceAccount})
}

// service creates a Service of type LoadBalancer.
func (l *lab) service(name string, annotations map[string]string) {
	l.Helper()
	_, err := l.client.CoreV1().Services("default").Create(l.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) patchService(name, patch string) {
	l.Helper()
	if _, err := l.client.CoreV1().Services("default").Patch(l.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		l.Fatal(err)
	}
}

// served returns a function for eventually: Services have IPs.
func (l *lab) served(names ...string) func() string {
	return func() string {
		for _, name := range names {
			service, err := l.client.CoreV1().Services("default").Get(l.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if ingress := service.Status.LoadBalancer.Ingress; len(ingress) == 0 || ingress[0].IP == "" {
				return name + " has no IP"
			}
		}
		return ""
	}
}

// node returns a function for eventually: a Node is as it should be.
func (l *lab) node(name string, as func(corev1.Node) bool) func() string {
	return func() string {
		node, err := l.client.CoreV1().Nodes().Get(l.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !as(*node) {
			return fmt.Sprintf("%s has %v, %v, %v", name, node.Labels, node.Spec.Taints, node.Status.Addresses)
		}
		return ""
	}
}

// routed returns a function for eventually: Nodes have routes.
func (l *lab) routed(names ...string) func() string {
	return func() string {
		for _, name := range names {
			what := l.node(name, func(node corev1.Node) bool {
				return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
					return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
				})
			})()
			if what != "" {
				return what
			}
		}
		return ""
	}
}
