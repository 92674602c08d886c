package chart

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"example.com/ccm-from-scratch/lab/stack"
)

// TestCluster is about releases on a real API server, one for all tests.
func TestCluster(t *testing.T) {
	t.Parallel()
	s, err := stack.Start(t.Context(), stack.Options{Log: t.Output()})
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
	c := &cluster{T: t, Stack: s, client: client}
	c.kubectl("", "apply", "--filename=testdata/podmonitor-crd.yaml")
	c.kubectl("", "wait", "--for=condition=Established", "--timeout=30s", "crd/podmonitors.monitoring.coreos.com")

	for _, test := range []struct {
		name string
		run  func(*cluster)
	}{
		{"the API server takes everything", (*cluster).takes},
		{"pod security", (*cluster).podSecurity},
		{"a release comes, changes, and leaves nothing", (*cluster).release},
		{"an official release, installed by Helm 3", func(c *cluster) { c.official("--server-side=false") }},
		// The strategy that it has by default can then be changed in no other way.
		{"an official release, installed by Helm 4", func(c *cluster) { c.official("--server-side=true", "--server-side=false") }},
		{"the rights are enough for replicas that elect a leader", (*cluster).leader},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := *c
			c.T = t
			test.run(&c)
		})
	}
}

// cluster is a lab, and the test that uses it now.
type cluster struct {
	*testing.T
	*stack.Stack
	client kubernetes.Interface
}

// kubectl returns what kubectl prints.
func (c *cluster) kubectl(input string, args ...string) string {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), c.Cluster.Binaries().Kubectl, append(args, "--kubeconfig="+c.Cluster.Kubeconfig())...)
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// helm runs Helm on this cluster, in kube-system.
func (c *cluster) helm(values string, args ...string) {
	c.Helper()
	if out, err := helm(c.T, values, append(args, "--namespace=kube-system", "--kubeconfig="+c.Cluster.Kubeconfig())...); err != nil {
		c.Fatalf("%v\n%s", err, out)
	}
}

// upgrade upgrades a release to this chart.
func (c *cluster) upgrade(release, values string, args ...string) {
	c.Helper()
	c.helm(values, append([]string{"upgrade", release, chartDir, "--values=-", "--set=image.repository=" + image}, args...)...)
}

// takes applies what each set of values makes, and changes nothing.
func (c *cluster) takes() {
	for _, set := range sets {
		c.Run(set.name, func(t *testing.T) {
			t.Parallel()
			c := *c
			c.T = t
			c.kubectl(render(t, read(t, set.values)), "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-")
		})
	}
}

// podSecurity asks for each pod in a namespace where the standard "restricted" is
// enforced. https://kubernetes.io/docs/concepts/security/pod-security-standards
func (c *cluster) podSecurity() {
	const namespace = "restricted"
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": namespace},
	}})
	for _, tt := range []struct{ name, values, want string }{
		{"a pod network", "hostNetwork: false", ""},
		{"everything", "everything.yaml", ""},
		{"a token file", read(c.T, "token-file.yaml") + "hostNetwork: false", ""},
		{
			// Nothing beside it: the ports are the node's own because of it.
			"the network of the node", "",
			`host namespaces (hostNetwork=true), hostPort (container "` + name + `" uses hostPorts 10258, 8233)`,
		},
		{"no more than the standard allows", "{hostNetwork: false, securityContext: null}", `allowPrivilegeEscalation != false (container "` + name + `" must set securityContext.allowPrivilegeEscalation=false), ` +
			`unrestricted capabilities (container "` + name + `" must set securityContext.capabilities.drop=["ALL"])`},
	} {
		c.Run(tt.name, func(t *testing.T) {
			pod := template(t, objects(t, render(t, read(t, tt.values))))
			pod.Spec.ServiceAccountName = "default"
			_, err := c.client.CoreV1().Pods(namespace).Create(t.Context(),
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "ccm"}, Spec: pod.Spec},
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			var got string
			if err != nil {
				_, got, _ = strings.Cut(err.Error(), `violates PodSecurity "restricted:latest": `)
				if got == "" {
					t.Fatal(err)
				}
			}
			if got != tt.want {
				t.Errorf("violations %q, want %q", got, tt.want)
			}
		})
	}
}

// create makes a namespace with the account that a controller manager would add.
func (c *cluster) create(namespace *corev1.Namespace) {
	c.Helper()
	if _, err := c.client.CoreV1().Namespaces().Create(c.Context(), namespace, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.client.CoreV1().ServiceAccounts(namespace.Name).Create(c.Context(), account, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// release installs the chart, upgrades it to other values and back, and uninstalls it.
func (c *cluster) release() {
	before := c.inventory()
	for _, values := range []string{"", "replicaCount: 3", "everything.yaml", "kind: DaemonSet", "nameOverride: ccm", "hccm.yaml", ""} {
		values := read(c.T, values)
		c.upgrade("ccm", values, "--install")
		var want []string
		for _, object := range objects(c.T, render(c.T, values)) {
			want = append(want, identity(c.T, object))
		}
		slices.Sort(want)
		got := c.since(before)
		got = slices.DeleteFunc(got, func(id string) bool { return strings.HasPrefix(id, "Secret kube-system/sh.helm.release.v1.ccm.") })
		if diff := cmp.Diff(want, got); diff != "" {
			c.Errorf("with the values %q (-want +got):\n%s", values, diff)
		}
	}
	c.helm("", "uninstall", "ccm", "--cascade=background")
	if left := c.since(before); len(left) > 0 {
		c.Errorf("a release leaves %v", left)
	}
}

// inventory returns all objects of the cluster but events.
func (c *cluster) inventory() map[string]bool {
	c.Helper()
	config := c.Cluster.Config()
	config.WarningHandler = rest.NoWarnings{} // of old kinds
	found, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	if err != nil {
		c.Fatal(err)
	}
	client := metadata.NewForConfigOrDie(config)
	all := map[string]bool{}
	for _, list := range found {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			c.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" {
				continue
			}
			objects, err := client.Resource(group.WithResource(resource.Name)).List(c.Context(), metav1.ListOptions{})
			if err != nil {
				c.Fatalf("list %s: %v", resource.Name, err)
			}
			for _, object := range objects.Items {
				id := resource.Kind + " "
				if object.Namespace != "" {
					id += object.Namespace + "/"
				}
				all[id+object.Name] = true
			}
		}
	}
	return all
}

// since returns what is in the cluster and was not before.
func (c *cluster) since(before map[string]bool) []string {
	c.Helper()
	now := c.inventory()
	maps.DeleteFunc(now, func(id string, _ bool) bool { return before[id] })
	return slices.Sorted(maps.Keys(now))
}

// official upgrades a release of the official chart to this one, and rolls it back.
func (c *cluster) official(install string, upgrade ...string) {
	before := c.inventory()
	c.helm("", "install", "hccm", "testdata/official", install)
	theirs, installed := c.since(before), c.deployment()

	if len(upgrade) > 0 {
		_, err := helm(c.T, "", "upgrade", "hccm", chartDir, "--set=image.repository="+image, "--namespace=kube-system", "--kubeconfig="+c.Cluster.Kubeconfig())
		const want = "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"
		if err == nil || !strings.Contains(err.Error(), want) {
			c.Errorf("without %q: %v, want %s", upgrade, err, want)
		}
		if diff := cmp.Diff(installed.Spec, c.deployment().Spec); diff != "" {
			c.Errorf("the refused upgrade changed the Deployment (-before +after):\n%s", diff)
		}
	}
	c.upgrade("hccm", read(c.T, "hccm.yaml"), upgrade...)
	upgraded := c.deployment()
	if upgraded.UID != installed.UID {
		c.Error("the Deployment is another one")
	}
	var env []string
	for _, variable := range upgraded.Spec.Template.Spec.Containers[0].Env {
		env = append(env, variable.Name)
	}
	type facts struct {
		Strategy   appsv1.DeploymentStrategy
		Containers int
		Args, Env  []string
	}
	rendered := template(c.T, objects(c.T, render(c.T, read(c.T, "hccm.yaml")))).Spec.Containers[0]
	want := facts{Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, Containers: 1, Args: rendered.Args}
	for _, variable := range rendered.Env {
		want.Env = append(want.Env, variable.Name)
	}
	got := facts{upgraded.Spec.Strategy, len(upgraded.Spec.Template.Spec.Containers), upgraded.Spec.Template.Spec.Containers[0].Args, env}
	slices.Sort(got.Env)
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("upgraded (-want +got):\n%s", diff)
	}

	c.helm("", "rollback", "hccm", "1")
	back := c.deployment()
	if diff := cmp.Diff(installed.Spec.Template.Spec, back.Spec.Template.Spec); diff != "" {
		c.Errorf("rolled back (-want +got):\n%s", diff)
	}
	left := slices.DeleteFunc(c.since(before), func(id string) bool { return strings.HasPrefix(id, "Secret ") })
	theirs = slices.DeleteFunc(theirs, func(id string) bool { return strings.HasPrefix(id, "Secret ") })
	if diff := cmp.Diff(theirs, left); diff != "" {
		c.Errorf("objects after the rollback (-want +got):\n%s", diff)
	}
	c.helm("", "uninstall", "hccm", "--cascade=background")
}

func (c *cluster) deployment() *appsv1.Deployment {
	c.Helper()
	d, err := c.client.AppsV1().Deployments("kube-system").Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return d
}

// leader runs the program as the pods of a release would.
func (c *cluster) leader() {
	binary, err := program()
	if err != nil {
		c.Fatal(err)
	}
	const values = "{replicaCount: 2, networking: {enabled: true, network: {value: " + stack.Network + "}}}"
	c.upgrade("ccm", values, "--install")
	kubeconfig, err := c.Cluster.ServiceAccountKubeconfig(c.Context(), "kube-system", name)
	if err != nil {
		c.Fatal(err)
	}
	log := filepath.Join(c.TempDir(), "ccm.log")
	container := c.deployment().Spec.Template.Spec.Containers[0]
	ccm, err := c.StartCCM(binary, log, kubeconfig, []string{"HCLOUD_METRICS_ENABLED=false"}, container.Args)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(ccm.Kill)
	if err := c.AddServers(c.Context(), 1, stack.Network); err != nil {
		c.Fatal(err)
	}
	c.eventually(30*time.Second, log, func() string {
		node, err := c.client.CoreV1().Nodes().Get(c.Context(), "worker-1", metav1.GetOptions{})
		if err != nil || node.Spec.ProviderID == "" {
			return fmt.Sprintf("the Node is not initialized (%v)", err)
		}
		return ""
	})
	lease, err := c.client.CoordinationV1().Leases("kube-system").Get(c.Context(), "hcloud-ccm", metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	acquired := lease.Spec.RenewTime
	c.eventually(30*time.Second, log, func() string {
		lease, err = c.client.CoordinationV1().Leases("kube-system").Get(c.Context(), "hcloud-ccm", metav1.GetOptions{})
		if err != nil || !renewed(lease, acquired) {
			return fmt.Sprintf("the lease is not renewed (%v)", err)
		}
		return ""
	})
	text, err := os.ReadFile(log)
	if err != nil {
		c.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "forbidden") {
			c.Errorf("the rights are not enough: %s", line)
		}
	}

	// The grace period is enough, or the kubelet would kill it.
	grace := time.Duration(*c.deployment().Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	begin := time.Now()
	if _, err := ccm.Stop(); err != nil {
		c.Error(err)
	}
	if took := time.Since(begin); took > grace {
		c.Errorf("it took %s to stop, and has %s", took, grace)
	}
	c.helm("", "uninstall", "ccm", "--cascade=background")
}

func renewed(lease *coordinationv1.Lease, since *metav1.MicroTime) bool {
	return lease.Spec.RenewTime != nil && since != nil && lease.Spec.RenewTime.After(since.Time)
}

// eventually waits until missing returns nothing.
func (c *cluster) eventually(within time.Duration, log string, missing func() string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), within)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for what := missing(); what != ""; what = missing() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(log)
			c.Fatalf("not within %s: %s\n%s", within, what, text[max(0, len(text)-4000):])
		}
	}
}
