package chart

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kruntime "k8s.io/apimachinery/pkg/runtime"
)

// sets are values, and what is in the cluster because of them. Objects that every
// release has are in common.
var sets = []struct {
	name    string
	values  string // YAML, or a file in testdata
	objects []string
	args    []string
	env     []string
	// strategy is that of a Deployment.
	strategy string
}{
	{
		name: "defaults", objects: []string{deployment}, strategy: "Recreate",
		args: []string{watch, "--leader-elect=false"},
		env:  []string{"HCLOUD_TOKEN"},
	},
	{
		name: "three replicas", values: "replicaCount: 3", strategy: "RollingUpdate 0 1",
		objects: []string{deployment, disruptionBudget, leaseRole, leaseBinding},
		args:    []string{watch, "--leader-elect=true"},
		env:     []string{"HCLOUD_TOKEN"},
	},
	{
		name: "no replica, to stop for a while", values: "replicaCount: 0", objects: []string{deployment}, strategy: "Recreate",
		args: []string{watch, "--leader-elect=false"},
		env:  []string{"HCLOUD_TOKEN"},
	},
	{
		name: "one replica with elections", values: "args: {leader-elect: true}", strategy: "Recreate",
		objects: []string{deployment, leaseRole, leaseBinding},
		args:    []string{watch, "--leader-elect=true"},
		env:     []string{"HCLOUD_TOKEN"},
	},
	{
		name: "another lease", values: "args: {leader-elect: true, leader-elect-resource-name: ours, leader-elect-resource-namespace: default}",
		objects:  []string{deployment, "Role default/" + name + ":leader-election", "RoleBinding default/" + name + ":leader-election"},
		args:     []string{watch, "--leader-elect=true", "--leader-elect-resource-name=ours", "--leader-elect-resource-namespace=default"},
		env:      []string{"HCLOUD_TOKEN"},
		strategy: "Recreate",
	},
	{
		name: "one replica, and a strategy that runs two for a while", values: "strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}",
		objects: []string{deployment, leaseRole, leaseBinding}, strategy: "RollingUpdate 1 0",
		args: []string{watch, "--leader-elect=true"},
		env:  []string{"HCLOUD_TOKEN"},
	},
	{
		name: "a DaemonSet", values: "{kind: DaemonSet, nodeSelector: {node-role.kubernetes.io/control-plane: ''}}",
		objects: []string{"DaemonSet kube-system/" + name, leaseRole, leaseBinding},
		args:    []string{watch, "--leader-elect=true"},
		env:     []string{"HCLOUD_TOKEN"},
	},
	{
		name: "a network", values: "networking: {enabled: true, network: {value: lab}}", strategy: "Recreate",
		objects: []string{deployment},
		args:    []string{"--cluster-cidr=10.244.0.0/16", watch, "--leader-elect=false"},
		env:     []string{"HCLOUD_NETWORK", "HCLOUD_TOKEN"},
	},
	{
		name: "no flags of the chart's choice, no metrics", values: "{args: {feature-gates: null}, monitoring: {enabled: false, podMonitor: {enabled: true}}}",
		objects: []string{deployment}, strategy: "Recreate",
		args: []string{"--leader-elect=false"},
		env:  []string{"HCLOUD_METRICS_ENABLED", "HCLOUD_TOKEN"},
	},
	{
		name: "a token file", values: "token-file.yaml", objects: []string{deployment}, strategy: "Recreate",
		args: []string{watch, "--leader-elect=false"},
		env:  []string{"HCLOUD_TOKEN_FILE"},
	},
	{
		name: "the values of the page", values: "install.yaml", strategy: "RollingUpdate 0 1",
		objects: []string{deployment, disruptionBudget, leaseRole, leaseBinding},
		args:    []string{"--cluster-cidr=10.42.0.0/16", watch, "--leader-elect=true"},
		env:     []string{"HCLOUD_LOAD_BALANCERS_LOCATION", "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP", "HCLOUD_NETWORK", "HCLOUD_TOKEN"},
	},
	{
		name: "another name", values: "nameOverride: ccm", strategy: "Recreate",
		objects: []string{"Deployment kube-system/ccm"},
		args:    []string{watch, "--leader-elect=false"},
		env:     []string{"HCLOUD_TOKEN"},
	},
	{
		name: "values for the official chart", values: "hccm.yaml", strategy: "Recreate",
		objects: []string{deployment, podMonitor},
		args: []string{
			"--allow-untagged-cloud", "--cloud-provider=hcloud", "--cluster-cidr=10.42.0.0/16", watch,
			"--leader-elect=false", "--route-reconciliation-period=1m", "--webhook-secure-port=0",
		},
		env: []string{
			"HCLOUD_INSTANCES_ADDRESS_FAMILY", "HCLOUD_LOAD_BALANCERS_LOCATION", "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP",
			"HCLOUD_NETWORK", "HCLOUD_TOKEN", "ROBOT_PASSWORD", "ROBOT_USER",
		},
	},
	{
		name: "everything", values: "everything.yaml", strategy: "RollingUpdate 1 0",
		objects: []string{
			"ClusterRole " + name + ":tls-secrets", "ClusterRoleBinding " + name + ":tls-secrets",
			deployment, "NetworkPolicy kube-system/" + name, disruptionBudget, podMonitor, leaseRole, leaseBinding,
			"ValidatingAdmissionPolicy load-balancer.hetzner.cloud", "ValidatingAdmissionPolicyBinding load-balancer.hetzner.cloud",
		},
		args: []string{
			"--cluster-cidr=10.42.0.0/16,fd00::/56", "--contention-profiling=false", watch,
			"--kube-api-burst=1000000", "--leader-elect=true", "--v=4",
		},
		env: []string{"HCLOUD_NETWORK", "HCLOUD_TOKEN"},
	},
}

// What the table above is made of.
const (
	name             = "hcloud-cloud-controller-manager"
	watch            = "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true"
	deployment       = "Deployment kube-system/" + name
	disruptionBudget = "PodDisruptionBudget kube-system/" + name
	podMonitor       = "PodMonitor kube-system/" + name
	leaseRole        = "Role kube-system/" + name + ":leader-election"
	leaseBinding     = "RoleBinding kube-system/" + name + ":leader-election"
)

// common returns what every release has in which objects have that name.
func common(name string) []string {
	return []string{
		"ServiceAccount kube-system/" + name,
		"ClusterRole " + name,
		"ClusterRoleBinding " + name,
		"ClusterRoleBinding " + name + ":auth-delegator",
		"RoleBinding kube-system/" + name + ":authentication-reader",
	}
}

// read returns values that are YAML, or in a file.
func read(t *testing.T, values string) string {
	t.Helper()
	if !strings.HasSuffix(values, ".yaml") {
		return values
	}
	text, err := os.ReadFile(filepath.Join("testdata", values))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// identity returns kind, namespace and name.
func identity(t *testing.T, object kruntime.Object) string {
	t.Helper()
	o, err := meta.Accessor(object)
	if err != nil {
		t.Fatal(err)
	}
	id := object.GetObjectKind().GroupVersionKind().Kind + " "
	if o.GetNamespace() != "" {
		id += o.GetNamespace() + "/"
	}
	return id + o.GetName()
}

// TestRender: values make these objects and this command line, and the program
// takes all of it.
func TestRender(t *testing.T) {
	t.Parallel()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	variables, err := exec.CommandContext(t.Context(), binary, "reference", "configuration").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets {
		t.Run(set.name, func(t *testing.T) {
			t.Parallel()
			all := objects(t, render(t, read(t, set.values)))
			pod := template(t, all)
			container := pod.Spec.Containers[0]

			var got []string
			for _, object := range all {
				got = append(got, identity(t, object))
			}
			want := append(common(pod.Spec.ServiceAccountName), set.objects...)
			slices.Sort(got)
			slices.Sort(want)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(set.args, container.Args); diff != "" {
				t.Errorf("args (-want +got):\n%s", diff)
			}
			var env []string
			for _, variable := range container.Env {
				env = append(env, variable.Name)
				if !strings.Contains(string(variables), "`"+variable.Name+"`") {
					t.Errorf("the program does not know the variable %s", variable.Name)
				}
			}
			if diff := gocmp.Diff(set.env, env); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
			if got := strategy(all); got != set.strategy {
				t.Errorf("strategy %q, want %q", got, set.strategy)
			}
			// With --help, flags are parsed, and nothing else happens.
			if out, err := exec.CommandContext(t.Context(), binary, append(container.Args, "--help")...).CombinedOutput(); err != nil {
				t.Errorf("the program does not take %q: %v\n%s", container.Args, err, out[:min(len(out), 500)])
			}
		})
	}
}

func strategy(all []kruntime.Object) string {
	for _, object := range all {
		if d, ok := object.(*appsv1.Deployment); ok {
			s := d.Spec.Strategy
			if s.RollingUpdate == nil {
				return string(s.Type)
			}
			return fmt.Sprintf("%s %s %s", s.Type, s.RollingUpdate.MaxSurge, s.RollingUpdate.MaxUnavailable)
		}
	}
	return ""
}

// TestValues: what is in a values file arrives in the pod.
func TestValues(t *testing.T) {
	t.Parallel()
	t.Run("official", func(t *testing.T) {
		t.Parallel()
		pod := template(t, objects(t, render(t, read(t, "hccm.yaml"))))
		type facts struct {
			Image, PullSecret, Network, Toleration, Node, Label, Annotation, Memory string
		}
		spec := pod.Spec
		got := facts{
			spec.Containers[0].Image, spec.ImagePullSecrets[0].Name, spec.Containers[0].Env[3].ValueFrom.SecretKeyRef.Key,
			spec.Tolerations[len(spec.Tolerations)-1].Key, fmt.Sprint(spec.NodeSelector), pod.Labels["team"],
			pod.Annotations["example.com/note"], spec.Containers[0].Resources.Requests.Memory().String(),
		}
		want := facts{
			image + ":v0.1.0", "registry", "network", "example.com/control",
			"map[node-role.kubernetes.io/control-plane:]", "platform", "ccm", "50Mi",
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("everything", func(t *testing.T) {
		t.Parallel()
		pod := template(t, objects(t, render(t, read(t, "everything.yaml"))))
		got := []any{pod.Spec.HostNetwork, pod.Spec.Containers[0].Env[0].Value, pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels, pod.Spec.DNSConfig.Nameservers}
		want := []any{false, "ccm-network", pod.Labels, []string{"185.12.64.1"}}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestRefusals: what cannot be meant is refused, with a sentence that helps.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, values, want string }{
		{"an unknown value", "replicas: 2", "at '': additional properties 'replicas' not allowed"},
		{"a value in the wrong place", "{networking: {enable: true}}", "at '/networking': additional properties 'enable' not allowed"},
		{"a text for a number", "replicaCount: two", "at '/replicaCount': got string, want integer"},
		{"an unknown kind", "kind: StatefulSet", "at '/kind': value must be one of 'Deployment', 'DaemonSet'"},
		{"a variable without value", "env: {HCLOUD_DEBUG: 'true'}", "at '/env/HCLOUD_DEBUG': got string, want "},
		{"a variable that is no text", "env: {HCLOUD_DEBUG: {value: true}}", "at '/env/HCLOUD_DEBUG/value': got boolean, want string"},
		{"a variable with another source", "env: {HCLOUD_DEBUG: {secret: hcloud}}", "at '/env/HCLOUD_DEBUG': additional properties 'secret' not allowed"},
		{"a flag with dashes", "args: {--v: 4}", "propertyName '--v'"},
		{"a list of flags", "args: [--v=4]", "at '/args': got array, want object"},
		{"a selector of the PodMonitor", "monitoring: {podMonitor: {spec: {selector: {}}}}", "at '/monitoring/podMonitor/spec'"},
		{"dedicated servers", "robot: {enabled: true}", "robot.enabled: dedicated servers are not supported"},
		{"no image", "image: {repository: ''}", "image.repository is not set"},
		{"the official image", "image: {repository: hetznercloud/hcloud-cloud-controller-manager}", "is the official image"},
		{"a NetworkPolicy without effect", "networkPolicy: {enabled: true}", "no NetworkPolicy applies to pods in the network of the node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"template", "ccm", chartDir, "--values=-"}
			if !strings.Contains(tt.values, "image:") {
				args = append(args, "--set=image.repository="+image)
			}
			out, err := helm(t, tt.values, args...)
			if err == nil {
				t.Fatalf("it is taken:\n%s", out)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant: %s", err, tt.want)
			}
		})
	}
}

// TestLint: Helm has nothing against the chart.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", "everything.yaml", "hccm.yaml"} {
		if out, err := helm(t, read(t, values), "lint", "--strict", chartDir, "--values=-", "--set=image.repository="+image); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestSubchart: what a parent chart says to all of its charts is no unknown value.
func TestSubchart(t *testing.T) {
	t.Parallel()
	render(t, "global: {storageClass: fast}")
}

// TestManifests: the chart gives the same rights, and the same pod, as the manifests
// that skaffold applies.
func TestManifests(t *testing.T) {
	t.Parallel()
	chart := objects(t, render(t, "{networking: {enabled: true}, rbac: {tlsSecrets: true}}"))
	var manifests []kruntime.Object
	for _, file := range []string{"rbac.yaml", "deployment.yaml", "optional/tls-secrets.yaml"} {
		text, err := os.ReadFile(filepath.Join(deploy, file))
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, objects(t, string(text))...)
	}
	if diff := gocmp.Diff(rights(manifests), rights(chart)); diff != "" {
		t.Errorf("rights (-manifests +chart):\n%s", diff)
	}

	// What differs on purpose.
	want := template(t, manifests).DeepCopy()
	got := template(t, chart).DeepCopy()
	want.Spec.Containers[0].Name, want.Spec.Containers[0].Image = name, image+":0.1.0"
	want.Spec.ServiceAccountName = name
	want.Spec.Containers[0].Args = got.Spec.Containers[0].Args
	want.Spec.Containers[0].Ports = got.Spec.Containers[0].Ports
	want.Spec.TerminationGracePeriodSeconds = got.Spec.TerminationGracePeriodSeconds
	want.Spec.Tolerations = append(want.Spec.Tolerations, corev1.Toleration{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists})
	want.Labels = got.Labels
	for _, pod := range []*corev1.PodTemplateSpec{want, got} {
		c := &pod.Spec.Containers[0]
		slices.SortFunc(c.Env, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
		if p := pod.Spec.SecurityContext; p != nil { // for all containers, of which there is one
			c.SecurityContext.RunAsNonRoot, c.SecurityContext.RunAsUser, c.SecurityContext.SeccompProfile = p.RunAsNonRoot, p.RunAsUser, p.SeccompProfile
			pod.Spec.SecurityContext = nil
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("pod (-manifests +chart):\n%s", diff)
	}
}

// rights returns all rules of ClusterRoles, and the names of roles of the cluster's
// own that are given, whatever the names of their bindings.
func rights(all []kruntime.Object) (rules []string) {
	for _, object := range all {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			for _, rule := range o.Rules {
				rules = append(rules, rule.String())
			}
		case *rbacv1.ClusterRoleBinding:
			rules = append(rules, builtin(o.RoleRef)...)
		case *rbacv1.RoleBinding:
			rules = append(rules, builtin(o.RoleRef)...)
		}
	}
	slices.Sort(rules)
	return rules
}

func builtin(ref rbacv1.RoleRef) []string {
	if ref.Name == "system:auth-delegator" || ref.Name == "extension-apiserver-authentication-reader" {
		return []string{ref.Kind + " " + ref.Name}
	}
	return nil
}

// TestAdmissionPolicy: the chart's copy is what the program prints.
func TestAdmissionPolicy(t *testing.T) {
	t.Parallel()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	want, err := exec.CommandContext(t.Context(), binary, "reference", "policy").Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(chartDir, "files/admission.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("files/admission.yaml differs, run make generate (-want +got):\n%s", diff)
	}
}

// TestLeaseName: the Role is about the lease that the program uses.
func TestLeaseName(t *testing.T) {
	t.Parallel()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	help, err := exec.CommandContext(t.Context(), binary, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	lease := regexp.MustCompile(`(?s)--leader-elect-resource-name string.*?\(default "([^"]+)"\)`).FindSubmatch(help)
	if lease == nil {
		t.Fatal("--help does not tell the name of the lease")
	}
	for values, want := range map[string]string{
		"replicaCount: 2": string(lease[1]),
		"{replicaCount: 2, args: {leader-elect-resource-name: ours}}": "ours",
	} {
		role := get[*rbacv1.Role](t, objects(t, render(t, values)))
		if diff := gocmp.Diff([]string{want}, role.Rules[1].ResourceNames); diff != "" {
			t.Errorf("names with %s (-want +got):\n%s", values, diff)
		}
	}
}
