package devenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// providers is what the configuration requires, in the versions whose schemas the
// tests use.
var providers = map[string]string{
	"hashicorp/helm":       "3.1.2",
	"hashicorp/kubernetes": "3.2.1",
	"hashicorp/local":      "2.9.0",
	"hashicorp/null":       "3.3.1",
	"hashicorp/tls":        "4.2.1",
	"hetznercloud/hcloud":  "1.68.0",
}

// findTerraform finds OpenTofu or Terraform, or else builds OpenTofu, once per user.
var findTerraform = sync.OnceValues(func() (string, error) {
	for _, name := range []string{"tofu", "terraform"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	module := "../../tools/tofu"
	sum, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return "", err
	}
	version := regexp.MustCompile(`opentofu/opentofu (v\S+)`).FindSubmatch(sum)
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "ccm-from-scratch", fmt.Sprintf("tofu-%s-%s-%s", version[1], runtime.GOOS, runtime.GOARCH))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	fmt.Fprintln(os.Stderr, "neither tofu nor terraform is installed: building OpenTofu, once, about 10 minutes on two processors")
	begin := time.Now()
	build := exec.Command("go", "build", "-ldflags=-s -w -X github.com/opentofu/opentofu/version.dev=no",
		"-o", path+".new", "github.com/opentofu/opentofu/cmd/tofu")
	build.Dir = module
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build OpenTofu: %w\n%s", err, out)
	}
	fmt.Fprintf(os.Stderr, "built OpenTofu in %s\n", time.Since(begin).Round(time.Second))
	return path, os.Rename(path+".new", path) // at once, in case that others build, too
})

// defaultRegistry is where the program at hand looks for a provider whose source
// names no host. A mirror has a folder of that name.
var defaultRegistry = sync.OnceValues(func() (string, error) {
	program, err := findTerraform()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "devenv-registry-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	config := "terraform {\n  required_providers {\n    x = { source = \"a/x\" }\n  }\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(config), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command(program, "providers")
	cmd.Dir, cmd.Env = dir, cleanEnv()
	out, err := cmd.CombinedOutput()
	host := regexp.MustCompile(`provider\[([^/]+)/a/x\]`).FindSubmatch(out)
	if err != nil || host == nil {
		return "", fmt.Errorf("%s providers: %w\n%s", program, err, out)
	}
	return string(host[1]), nil
})

// schemaProvider builds the provider that knows schemas only, and a mirror in
// which it is all providers.
var schemaProvider = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "devenv-provider-")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "provider"), ".")
	build.Dir = "provider"
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build the schema-only provider: %w\n%s", err, out)
	}
	registry, err := defaultRegistry()
	if err != nil {
		return dir, err
	}
	for source, version := range providers {
		folder := filepath.Join(dir, registry, source, version, runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return dir, err
		}
		file := fmt.Sprintf("terraform-provider-%s_v%s", filepath.Base(source), version)
		if err := os.Link(filepath.Join(dir, "provider"), filepath.Join(folder, file)); err != nil {
			return dir, err
		}
	}
	config := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", dir)
	return dir, os.WriteFile(filepath.Join(dir, "rc"), []byte(config), 0o600)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := schemaProvider(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// terraform is a folder with a configuration, and the program that reads it.
type terraform struct {
	dir     string
	program string
	env     []string
	trap    string // a file that exists after a provisioner has run
}

// newTerraform copies a folder of the configuration, "." being the root module.
func newTerraform(t *testing.T, folder string) *terraform {
	t.Helper()
	schemas := os.Getenv("TF_PROVIDER_SCHEMAS")
	if schemas == "" {
		const why = "TF_PROVIDER_SCHEMAS does not name a file with the schemas of the providers (tofu providers schema -json)"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	tf := &terraform{dir: t.TempDir()}
	if err := os.CopyFS(tf.dir, os.DirFS(filepath.Join(devEnv, folder))); err != nil {
		t.Fatal(err)
	}
	var err error
	if tf.program, err = findTerraform(); err != nil {
		t.Fatal(err)
	}
	provider, err := schemaProvider()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	tf.trap = filepath.Join(bin, "sprung")
	for _, name := range []string{"k3sup", "ssh", "kubectl", "helm"} {
		recorder(t, bin, name, tf.trap)
	}
	tf.env = append(cleanEnv(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"TF_CLI_CONFIG_FILE="+filepath.Join(provider, "rc"),
		"TF_PROVIDER_SCHEMAS="+schemas,
		"TF_VAR_name=alice",
		"TF_VAR_hcloud_token=secret",
	)
	tf.run(t, "init", "-input=false")
	return tf
}

// try runs a command and returns what it prints, with its errors.
func (tf *terraform) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tf.program, args...)
	cmd.Dir = tf.dir
	cmd.Env = tf.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (tf *terraform) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tf.try(t, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(tf.program), strings.Join(args, " "), err, out)
	}
	return out
}

func (tf *terraform) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(tf.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// plan is a part of what `show -json` says of one.
type plan struct {
	Changes []struct {
		Address string
		Change  struct{ Actions []string }
	} `json:"resource_changes"`
	Planned struct {
		Outputs map[string]struct{ Value any }
	} `json:"planned_values"`
}

func (tf *terraform) plan(t *testing.T, args ...string) plan {
	t.Helper()
	tf.run(t, append([]string{"plan", "-input=false", "-out=plan"}, args...)...)
	cmd := exec.CommandContext(t.Context(), tf.program, "show", "-json", "plan")
	cmd.Dir = tf.dir
	cmd.Env = tf.env
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("show -json: %v", err)
	}
	var p plan
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

// actions maps the addresses of resources to what happens to them, without those
// to which nothing does.
func (p plan) actions() map[string]string {
	all := map[string]string{}
	for _, c := range p.Changes {
		if action := strings.Join(c.Change.Actions, ","); action != "no-op" {
			all[c.Address] = action
		}
	}
	return all
}

func TestFormat(t *testing.T) {
	t.Parallel()
	tf := newTerraform(t, ".")
	if out, err := tf.try(t, "fmt", "-check", "-recursive", "-diff"); err != nil {
		t.Errorf("fmt -check: %v\n%s", err, out)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tf := newTerraform(t, ".")
	tf.run(t, "validate")

	typo := newTerraform(t, ".")
	typo.write(t, "typo.tf", `resource "hcloud_network" "typo" {
  name      = "typo"
  ip_ranges = "10.0.0.0/8"
}
`)
	out, err := typo.try(t, "validate", "-no-color")
	if err == nil || !strings.Contains(out, `An argument named "ip_ranges" is not expected here`) {
		t.Errorf("a misspelt argument passes: %v\n%s", err, out)
	}
}

// TestMocked runs the tests beside the configuration. None of them may run a
// provisioner, for which mocks are no obstacle.
func TestMocked(t *testing.T) {
	t.Parallel()
	tf := newTerraform(t, ".")
	out := tf.run(t, "test", "-no-color")
	if !regexp.MustCompile(`Success! [1-9]\d* passed, 0 failed`).MatchString(out) {
		t.Errorf("no test passed:\n%s", out)
	}
	for _, file := range []string{tf.trap, filepath.Join(tf.dir, "errored_test.tfstate")} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s exists after:\n%s", filepath.Base(file), out)
		}
	}

	control := newTerraform(t, "k3s")
	control.write(t, "main.tf", "resource \"null_resource\" \"k3s\" {\n  provisioner \"local-exec\" {\n    command = \"k3sup install\"\n  }\n}\n")
	control.write(t, "main.tftest.hcl", "mock_provider \"null\" {}\nrun \"apply\" {}\n")
	out = control.run(t, "test", "-no-color")
	if _, err := os.Stat(control.trap); err != nil {
		t.Errorf("a provisioner that ran was not noticed: %v\n%s", err, out)
	}
}

// TestProvisioners: the module k3s is what the tests beside the configuration
// replace, so all provisioners have to be there.
func TestProvisioners(t *testing.T) {
	t.Parallel()
	got := map[string]int{}
	err := filepath.WalkDir(devEnv, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".tf" {
			return err
		}
		text, err := os.ReadFile(path)
		if n := bytes.Count(text, []byte("provisioner \"")); n > 0 {
			file, _ := filepath.Rel(devEnv, path)
			got[file] = n
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"k3s/main.tf": 4}, got); diff != "" {
		t.Errorf("provisioners (-want +got):\n%s", diff)
	}
}

// TestEmptyState: before there is a cluster there is no kubeconfig, and neither
// plan nor destroy may want one.
func TestEmptyState(t *testing.T) {
	t.Parallel()
	tf := newTerraform(t, ".")
	want := map[string]string{
		"module.k3s.data.local_sensitive_file.kubeconfig": "read", // when it is there
	}
	for _, address := range []string{
		"tls_private_key.ssh", "local_sensitive_file.ssh", "hcloud_ssh_key.ssh",
		"hcloud_network.cluster", "hcloud_network_subnet.servers",
		`hcloud_server.node["control"]`, `hcloud_server.node["worker-1"]`, `hcloud_server.node["worker-2"]`,
		`hcloud_server_network.node["control"]`, `hcloud_server_network.node["worker-1"]`, `hcloud_server_network.node["worker-2"]`,
		"module.k3s.null_resource.install", `module.k3s.null_resource.join["worker-1"]`, `module.k3s.null_resource.join["worker-2"]`,
		"helm_release.cilium", "kubernetes_secret_v1.hcloud",
	} {
		want[address] = "create"
	}
	if diff := cmp.Diff(want, tf.plan(t, "-var=worker_count=2").actions()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if out := tf.run(t, "destroy", "-auto-approve", "-input=false", "-no-color"); !strings.Contains(out, "0 destroyed") {
		t.Errorf("destroy:\n%s", out)
	}
}

// k3sModule is the module alone, with a control plane and the named workers.
func k3sModule(t *testing.T, workers ...string) *terraform {
	t.Helper()
	tf := newTerraform(t, "k3s")
	nodes := map[string]map[string]string{"control": {"id": "1", "public_ip": "203.0.113.1", "private_ip": "10.0.0.2"}}
	for i, name := range workers {
		nodes[name] = map[string]string{"id": fmt.Sprint(i + 2), "public_ip": fmt.Sprintf("203.0.113.%d", i+2), "private_ip": fmt.Sprintf("10.0.0.%d", i+3)}
	}
	variables, err := json.Marshal(map[string]any{
		"nodes": nodes, "channel": "v1.37", "cluster_cidr": "10.244.0.0/16",
		"ssh_key_file": "./.dev-env.ssh", "ssh_key": "secret", "kubeconfig": "./kubeconfig.yaml",
	})
	if err != nil {
		t.Fatal(err)
	}
	tf.write(t, "test.auto.tfvars.json", string(variables))
	return tf
}

// TestWorkerIsAdded: to a cluster that runs. Whoever depended on all that happens
// to servers would lose sight of the cluster, and ask a cluster at localhost.
func TestWorkerIsAdded(t *testing.T) {
	t.Parallel()
	tf := k3sModule(t, "worker-1", "worker-2")
	registry, err := defaultRegistry()
	if err != nil {
		t.Fatal(err)
	}
	instance := func(id string, triggers map[string]string) map[string]any {
		return map[string]any{"schema_version": 0, "attributes": map[string]any{"id": id, "triggers": triggers}}
	}
	join := instance("8", map[string]string{"server": "2", "cluster": "7"})
	join["index_key"] = "worker-1"
	resource := func(name string, instances ...map[string]any) map[string]any {
		return map[string]any{
			"mode": "managed", "type": "null_resource", "name": name,
			"provider": fmt.Sprintf(`provider["%s/hashicorp/null"]`, registry), "instances": instances,
		}
	}
	install := resource("install", instance("7", map[string]string{"server": "1"}))
	joined := resource("join", join)
	joined["each"] = "map"
	state, err := json.Marshal(map[string]any{
		"version": 4, "terraform_version": "1.8.0", "serial": 1, "lineage": "test",
		"resources": []any{install, joined},
	})
	if err != nil {
		t.Fatal(err)
	}
	tf.write(t, "terraform.tfstate", string(state))

	p := tf.plan(t, "-refresh=false")
	if diff := cmp.Diff(map[string]string{`null_resource.join["worker-2"]`: "create"}, p.actions()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if got := p.Planned.Outputs["kubeconfig"].Value; got != "./kubeconfig.yaml" {
		t.Errorf("the providers' kubeconfig is %v in the plan", got)
	}

	// What down.sh does needs neither the cluster nor its kubeconfig.
	gone := map[string]string{"null_resource.install": "delete", `null_resource.join["worker-1"]`: "delete"}
	if diff := cmp.Diff(gone, tf.plan(t, "-destroy", "-refresh=false").actions()); diff != "" {
		t.Errorf("plan -destroy (-want +got):\n%s", diff)
	}
}

// What the programs understand. k3s: docs.k3s.io/cli/server and /cli/agent;
// k3sup: `k3sup install --help` and `k3sup join --help` of version 0.13.
var (
	k3sBoth     = []string{"kubelet-arg", "node-ip", "node-external-ip", "node-label", "node-taint", "node-name", "token", "data-dir", "private-registry", "flannel-iface", "resolv-conf", "protect-kernel-defaults", "snapshotter"}
	k3sServer   = []string{"disable", "disable-cloud-controller", "disable-network-policy", "disable-kube-proxy", "disable-helm-controller", "flannel-backend", "cluster-cidr", "service-cidr", "cluster-dns", "tls-san", "write-kubeconfig-mode", "kube-apiserver-arg", "kube-controller-manager-arg", "cluster-init"}
	k3supBoth   = []string{"host", "ip", "k3s-channel", "k3s-extra-args", "k3s-version", "print-command", "skip-install", "ssh-key", "ssh-port", "sudo", "user"}
	k3supServer = []string{"cluster", "context", "datastore", "ipsec", "local", "local-path", "merge", "no-extras", "tls-san", "token"}
	k3supJoin   = []string{"server", "server-data-dir", "server-host", "server-ip", "server-ssh-port", "server-user"}
)

// TestCommandLines: a server's flag keeps an agent from starting, and so does a
// flag that k3s or k3sup does not know.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	outputs := k3sModule(t, "worker-1", "worker-2").plan(t).Planned.Outputs
	commands := map[string]string{}
	for name, command := range outputs["join"].Value.(map[string]any) {
		commands[name] = command.(string)
	}
	if diff := cmp.Diff([]string{"worker-1", "worker-2"}, slices.Sorted(maps.Keys(commands))); diff != "" {
		t.Fatalf("servers that join (-want +got):\n%s", diff)
	}
	commands["control"] = outputs["install"].Value.(string)

	privateIPs := map[string]string{"control": "10.0.0.2", "worker-1": "10.0.0.3", "worker-2": "10.0.0.4"}
	publicIPs := map[string]string{"control": "203.0.113.1", "worker-1": "203.0.113.2", "worker-2": "203.0.113.3"}
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			verb, k3sup, k3s := "join", slices.Concat(k3supBoth, k3supJoin), k3sBoth
			if name == "control" {
				verb, k3sup, k3s = "install", slices.Concat(k3supBoth, k3supServer), slices.Concat(k3sBoth, k3sServer)
			}
			outer, inner, found := strings.Cut(command, "--k3s-extra-args='")
			if !found || !strings.HasPrefix(outer, "k3sup "+verb+" ") {
				t.Fatalf("not k3sup %s: %s", verb, command)
			}
			checkFlags(t, strings.TrimPrefix(outer, "k3sup "+verb+" "), k3sup)
			flags := checkFlags(t, strings.TrimSuffix(inner, "'"), k3s)
			for flag, want := range map[string]string{
				"kubelet-arg":      "cloud-provider=external",
				"node-ip":          privateIPs[name],
				"node-external-ip": publicIPs[name],
			} {
				if flags[flag] != want {
					t.Errorf("--%s=%s, want %s", flag, flags[flag], want)
				}
			}
		})
	}
}

// checkFlags returns the flags of a command line, all of which have to be known.
func checkFlags(t *testing.T, line string, known []string) map[string]string {
	t.Helper()
	flags := map[string]string{}
	for _, word := range strings.Fields(line) {
		name, value, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if !strings.HasPrefix(word, "--") || !slices.Contains(known, name) {
			t.Errorf("%q is no known flag", word)
		}
		flags[name] = value
	}
	return flags
}
