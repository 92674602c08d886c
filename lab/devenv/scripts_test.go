package devenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"example.com/ccm-from-scratch/lab/cloud"
	"example.com/ccm-from-scratch/lab/stack"
)

// environment is a copy of the folder, with what a user adds to it.
type environment struct {
	dir string
	bin string // in front of the PATH
	log string // of the recorders in bin
	env []string
}

func newEnvironment(t *testing.T, name, endpoint string) *environment {
	t.Helper()
	bin := t.TempDir()
	e := &environment{dir: t.TempDir(), bin: bin, log: filepath.Join(bin, "log")}
	if err := os.CopyFS(e.dir, os.DirFS(devEnv)); err != nil {
		t.Fatal(err)
	}
	e.write(t, "credentials.auto.tfvars", fmt.Sprintf("name         = %q\nhcloud_token = %q\n", name, stack.Token))
	home := t.TempDir()
	e.env = append(cleanEnv(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HOME="+home, "XDG_CONFIG_HOME="+home, // no settings of hcloud's
		"GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOCACHE="+goEnv(t, "GOCACHE"),
		"HCLOUD_ENDPOINT="+endpoint,
	)
	return e
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (e *environment) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tofu puts a program into bin that answers as after an apply.
func (e *environment) tofu(t *testing.T, outputs map[string]string) {
	t.Helper()
	var cases strings.Builder
	for name, value := range outputs {
		fmt.Fprintf(&cases, "  *\"output -raw %s\") printf '%%s' '%s' ;;\n", name, value)
	}
	program(t, e.bin, "tofu", fmt.Sprintf("case \"$*\" in\n%s  *) echo \"tofu $*\" >> '%s' ;;\nesac\n", cases.String(), e.log))
}

// try runs a script of the folder, in the folder cwd.
func (e *environment) try(t *testing.T, cwd, script string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(e.dir, script)}, args...)...)
	cmd.Dir = cwd
	cmd.Env = e.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (e *environment) run(t *testing.T, cwd, script string, args ...string) string {
	t.Helper()
	out, err := e.try(t, cwd, script, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// recorded returns what the recorders have written, without the folder's path.
func (e *environment) recorded(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(e.log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), e.dir, "DIR")
}

// needHCloud: these tests drive the cloud with a program that nobody here wrote.
func needHCloud(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("hcloud"); err != nil {
		const why = "hcloud is not installed; on Debian: apt-get install hcloud-cli"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
}

const twoNodes = "control 203.0.113.1\nworker-1 203.0.113.2\n"

func TestUp(t *testing.T) {
	t.Parallel()
	needHCloud(t)
	endpoint := newCloud(t)
	e := newEnvironment(t, "alice", endpoint)
	e.tofu(t, map[string]string{"nodes": twoNodes, "server_type": "cx23", "location": "fsn1"})
	recorder(t, e.bin, "k3sup", e.log)

	out := e.run(t, t.TempDir(), "up.sh")
	for _, want := range []string{"The environment alice is up", "worker-1 203.0.113.2", "It costs 0.0200 an hour", "make dev-down"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	want := "tofu -chdir=DIR init -input=false\ntofu -chdir=DIR apply -input=false -auto-approve\n"
	if diff := cmp.Diff(want, e.recorded(t)); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an empty name":  "name = \"\"\nhcloud_token = \"secret\"\n",
		"no name":        "hcloud_token = \"secret\"\n",
		"no token":       "name = \"alice\"\n",
		"an empty token": "name = \"alice\"\nhcloud_token = \"\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t, "alice", "http://127.0.0.1:1/v1")
			e.write(t, "credentials.auto.tfvars", text)
			recorder(t, e.bin, "hcloud", e.log)
			out, err := e.try(t, e.dir, "down.sh")
			if err == nil || !strings.Contains(out, "lacks name or hcloud_token") {
				t.Errorf("%v: %s", err, out)
			}
			if _, err := os.Stat(e.log); err == nil {
				t.Errorf("hcloud was called:\n%s", e.recorded(t))
			}
		})
	}
}

// TestDownWithoutAPI: nobody may be told that all is gone who could not be heard.
func TestDownWithoutAPI(t *testing.T) {
	t.Parallel()
	needHCloud(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "http://" + listener.Addr().String() + "/v1"
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	e := newEnvironment(t, "alice", endpoint)
	recorder(t, e.bin, "kubectl", e.log)
	if out, err := e.try(t, e.dir, "down.sh"); err == nil || strings.Contains(out, "Nothing of the environment") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSSH(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t, "alice", "")
	e.tofu(t, map[string]string{"nodes": twoNodes})
	recorder(t, e.bin, "ssh", e.log)
	e.run(t, t.TempDir(), "ssh.sh")
	e.run(t, t.TempDir(), "ssh.sh", "worker-1", "journalctl", "-u", "k3s-agent")
	const options = "ssh -i DIR/.dev-env.ssh -o UserKnownHostsFile=DIR/.known_hosts -o StrictHostKeyChecking=accept-new "
	want := options + "root@203.0.113.1\n" + options + "root@203.0.113.2 journalctl -u k3s-agent\n"
	if diff := cmp.Diff(want, e.recorded(t)); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if out, err := e.try(t, e.dir, "ssh.sh", "worker-9"); err == nil || !strings.Contains(out, "There is no server worker-9") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t, "alice", "")
	e.tofu(t, map[string]string{"network": "42"})
	recorder(t, e.bin, "skaffold", e.log)
	recorder(t, e.bin, "kubectl", e.log)
	if out, err := e.try(t, e.dir, "run.sh"); err == nil || !strings.Contains(out, "SKAFFOLD_DEFAULT_REPO") {
		t.Errorf("without a registry: %v: %s", err, out)
	}
	e.run(t, e.dir, "run.sh", "laptop")
	e.env = append(e.env, "SKAFFOLD_DEFAULT_REPO=registry.example.com/you")
	e.run(t, e.dir, "run.sh")
	e.run(t, e.dir, "run.sh", "debug")
	if diff := cmp.Diff("skaffold run --profile=laptop\nskaffold dev\nskaffold debug\n", e.recorded(t)); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if out, err := e.try(t, e.dir, "run.sh", "nonsense"); err == nil {
		t.Errorf("nonsense runs: %s", out)
	}
}

// TestCluster needs a control plane, for all of its parts the same.
func TestCluster(t *testing.T) {
	t.Parallel()
	needHCloud(t)
	s, err := stack.Start(t.Context(), stack.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("manifests", func(t *testing.T) { testManifests(t, s) })
	t.Run("load", func(t *testing.T) { testLoad(t, s) })
	t.Run("down", func(t *testing.T) { testDown(t, s) })
}

// testManifests has the API server judge the manifests of all stages.
func testManifests(t *testing.T, s *stack.Stack) {
	for _, stage := range stages(t) {
		deploy := filepath.Join("../..", stage, "deploy")
		if _, err := os.Stat(filepath.Join(deploy, "deployment.yaml")); err != nil {
			continue // stages before the one that adds it
		}
		t.Run(stage, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), s.Cluster.Binaries().Kubectl, "apply", "--kubeconfig", s.Cluster.Kubeconfig(),
				"--server-side", "--dry-run=server", "--validate=strict", "-f", deploy)
			if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("deployment.apps/cloud-controller-manager serverside-applied")) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// testLoad builds the image of a small program, and deploys it with the manifests
// of a stage. No node imports it: ssh is a recorder.
func testLoad(t *testing.T, s *stack.Stack) {
	e := newEnvironment(t, "alice", s.Endpoint)
	e.tofu(t, map[string]string{"nodes": twoNodes, "platform": basePlatform})
	e.useCluster(t, s)
	recorder(t, e.bin, "ssh", e.log)
	program(t, e.bin, "ko", fmt.Sprintf("exec %q \"$@\"\n", ko(t)))
	e.env = append(e.env, "GOWORK=off", "KO_DEFAULTBASEIMAGE="+baseImage(t))

	stage := filepath.Join(t.TempDir(), "toy")
	if err := os.CopyFS(filepath.Join(stage, "deploy"), os.DirFS("../../part2-devenv/deploy")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module toy\n\ngo 1.26.0\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(stage, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing runs pods here, so the rollout never ends.
	kubectl := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = rollout ] || exec %q \"$@\"\n", s.Cluster.Binaries().Kubectl)
	// The real one is linked there: to write to that name would overwrite it.
	if err := os.Remove(filepath.Join(e.bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.bin, "kubectl"), []byte(kubectl), 0o700); err != nil {
		t.Fatal(err)
	}
	e.run(t, stage, "load.sh")

	client, err := kubernetes.NewForConfig(s.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := client.AppsV1().Deployments("kube-system").Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	image := deployment.Spec.Template.Spec.Containers[0].Image
	if !strings.HasPrefix(image, "dev-env.invalid/toy:") {
		t.Errorf("the Deployment's image is %s", image)
	}
	got := e.recorded(t)
	for _, want := range []string{"root@203.0.113.1 k3s ctr images import -", "root@203.0.113.2 k3s ctr images import -"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in what ssh was told", want)
		}
	}
	if n := strings.Count(got, `"RepoTags":["`+image+`"]`); n != 2 {
		t.Errorf("%d servers got an image with the name %s, want 2", n, image)
	}
}

// useCluster gives the environment the lab's cluster.
func (e *environment) useCluster(t *testing.T, s *stack.Stack) {
	t.Helper()
	config, err := os.ReadFile(s.Cluster.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	e.write(t, "kubeconfig.yaml", string(config))
	program(t, e.bin, "kubectl", fmt.Sprintf("exec %q \"$@\"\n", s.Cluster.Binaries().Kubectl))
}

// testDown has two environments in one project, with strangers beside them.
func testDown(t *testing.T, s *stack.Stack) {
	ctx := t.Context()
	client := s.Client()
	must := func(args ...string) {
		t.Helper()
		if err := s.CloudCommand(ctx, t.Output(), args...); err != nil {
			t.Fatal(err)
		}
	}
	kube, err := kubernetes.NewForConfig(s.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	service := func(name string, kind corev1.ServiceType) string {
		t.Helper()
		created, err := kube.CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(created.UID)
	}
	balancer := func(name, network, uid string) {
		t.Helper()
		args := []string{"load-balancer", "create", "--name", name, "--type", "lb11", "--location", "fsn1"}
		if uid != "" {
			args = append(args, "--label", "hcloud-ccm/service-uid="+uid)
		}
		must(args...)
		if network != "" {
			must("load-balancer", "attach-to-network", name, "--network", network)
		}
	}
	for i, name := range []string{"alice", "bob"} {
		label := "ccm-from-scratch/dev-env=" + name
		must("network", "create", "--name", name, "--ip-range", "10.0.0.0/8", "--label", label)
		must("network", "add-subnet", name, "--type", "cloud", "--network-zone", "eu-central", "--ip-range", "10.0.0.0/24")
		must("server", "create", "--name", name+"-control", "--type", "cx23", "--image", "ubuntu-24.04", "--location", "fsn1", "--network", name, "--label", label)
		must("ssh-key", "create", "--name", name, "--public-key", publicKey(byte(i)), "--label", label)
		balancer(name+"-in-its-network", name, "a-uid-that-"+name+"-forgot")
	}
	must("server", "create", "--name", "stranger", "--type", "cx23", "--image", "ubuntu-24.04", "--location", "fsn1", "--label", "ccm-from-scratch/dev-env=alice2")
	must("ssh-key", "create", "--name", "stranger", "--public-key", publicKey(9))
	balancer("alice-of-a-service", "", service("web", corev1.ServiceTypeLoadBalancer))
	balancer("stranger-in-alices-network", "alice", "")
	balancer("stranger-of-another-cluster", "", "another-clusters-uid")
	service("internal", corev1.ServiceTypeClusterIP)

	alice := newEnvironment(t, "alice", s.Endpoint)
	alice.useCluster(t, s)
	alice.knows(t, "helm_release", "cilium")
	if out := alice.run(t, t.TempDir(), "down.sh"); !strings.Contains(out, "Removed helm_release.cilium") {
		t.Errorf("Terraform was left with a cluster that is gone:\n%s", out)
	}
	wantLeft := []string{
		"load balancer bob-in-its-network", "load balancer stranger-in-alices-network", "load balancer stranger-of-another-cluster",
		"network bob", "network lab", "server bob-control", "server stranger", "ssh key bob", "ssh key stranger",
	}
	if diff := cmp.Diff(wantLeft, inventory(t, client)); diff != "" {
		t.Errorf("left after down.sh (-want +got):\n%s", diff)
	}
	services, err := kube.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range services.Items {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"internal", "kubernetes"}, names); diff != "" {
		t.Errorf("Services left (-want +got):\n%s", diff)
	}

	// Again, and it has nothing to do.
	before := len(writes(s))
	alice.run(t, t.TempDir(), "down.sh")
	if diff := cmp.Diff(before, len(writes(s))); diff != "" {
		t.Errorf("the second down.sh writes (-want +got):\n%s", diff)
	}

	// A cluster that does not answer keeps nobody from deleting it.
	bob := newEnvironment(t, "bob", s.Endpoint)
	bob.useCluster(t, s)
	bob.write(t, "kubeconfig.yaml", unreachable(t))
	if out := bob.run(t, t.TempDir(), "down.sh"); !strings.Contains(out, "The cluster does not answer") {
		t.Errorf("a cluster that does not answer is not mentioned:\n%s", out)
	}
	wantLeft = slices.DeleteFunc(wantLeft, func(s string) bool { return strings.Contains(s, " bob") })
	if diff := cmp.Diff(wantLeft, inventory(t, client)); diff != "" {
		t.Errorf("left after bob's down.sh (-want +got):\n%s", diff)
	}

	// What it cannot delete, it tells, and goes on.
	for _, name := range []string{"bob-control", "bob-worker-1"} {
		must("server", "create", "--name", name, "--type", "cx23", "--image", "ubuntu-24.04", "--location", "fsn1", "--label", "ccm-from-scratch/dev-env=bob")
	}
	protected, _, err := client.Server.GetByName(ctx, "bob-control")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.Server.ChangeProtection(ctx, protected, hcloud.ServerChangeProtectionOpts{Delete: new(true), Rebuild: new(true)}); err != nil {
		t.Fatal(err)
	}
	program(t, bob.bin, "tofu", "exit 1\n")
	bob.write(t, "terraform.tfstate", "{}")
	want := fmt.Sprintf("Still to do: Terraform server %d.", protected.ID)
	if out, err := bob.try(t, t.TempDir(), "down.sh"); err == nil || !strings.Contains(out, want) {
		t.Errorf("%v, want %q:\n%s", err, want, out)
	}
	wantLeft = append(wantLeft, "server bob-control")
	slices.Sort(wantLeft)
	if diff := cmp.Diff(wantLeft, inventory(t, client)); diff != "" {
		t.Errorf("left after a down.sh with failures (-want +got):\n%s", diff)
	}
}

// knows gives the environment a Terraform, and a state with one resource in it.
func (e *environment) knows(t *testing.T, kind, name string) {
	t.Helper()
	tf := newTerraform(t, ".")
	program(t, e.bin, "tofu", fmt.Sprintf("exec %q \"$@\"\n", tf.program))
	for _, variable := range tf.env {
		if strings.HasPrefix(variable, "TF_CLI_CONFIG_FILE=") || strings.HasPrefix(variable, "TF_PROVIDER_SCHEMAS=") {
			e.env = append(e.env, variable)
		}
	}
	registry, err := defaultRegistry()
	if err != nil {
		t.Fatal(err)
	}
	state, err := json.Marshal(map[string]any{
		"version": 4, "terraform_version": "1.8.0", "serial": 1, "lineage": "test",
		"resources": []any{map[string]any{
			"mode": "managed", "type": kind, "name": name,
			"provider":  fmt.Sprintf(`provider["%s/hashicorp/helm"]`, registry),
			"instances": []any{map[string]any{"schema_version": 2, "attributes": map[string]any{"id": name, "name": name, "chart": name}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.write(t, "terraform.tfstate", string(state))
}

// writes are the requests of others than the scene's arrangement that change something.
func writes(s *stack.Stack) []cloud.Request {
	return slices.DeleteFunc(s.Cloud.Requests(stack.Project), func(r cloud.Request) bool { return r.Kind != cloud.Write })
}

// inventory lists what costs money or gives access.
func inventory(t *testing.T, client *hcloud.Client) []string {
	t.Helper()
	var all []string
	add := func(kind, name string) { all = append(all, kind+" "+name) }
	servers, err1 := client.Server.All(t.Context())
	networks, err2 := client.Network.All(t.Context())
	balancers, err3 := client.LoadBalancer.All(t.Context())
	keys, err4 := client.SSHKey.All(t.Context())
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		add("server", s.Name)
	}
	for _, n := range networks {
		add("network", n.Name)
	}
	for _, lb := range balancers {
		add("load balancer", lb.Name)
	}
	for _, k := range keys {
		add("ssh key", k.Name)
	}
	slices.Sort(all)
	return all
}

// unreachable is a kubeconfig of a cluster that is gone.
func unreachable(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: gone
clusters:
  - name: gone
    cluster: {server: "https://%s"}
contexts:
  - name: gone
    context: {cluster: gone, user: nobody}
users:
  - name: nobody
`, listener.Addr())
}
