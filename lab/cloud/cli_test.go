package cloud_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"

	"example.com/ccm-from-scratch/lab/cloud"
)

// TestCLI drives the cloud with a client that nobody here wrote: the hcloud
// CLI as Debian ships it.
func TestCLI(t *testing.T) {
	hcloud, err := exec.LookPath("hcloud")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal("hcloud is not installed; on Debian: apt-get install hcloud-cli")
	case err != nil:
		t.Skip("hcloud is not installed; on Debian: apt-get install hcloud-cli")
	}
	l := newLab(t, cloud.Config{})
	home := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), hcloud, args...)
		cmd.Dir = home
		cmd.Env = []string{
			"HOME=" + home,
			"XDG_CONFIG_HOME=" + home,
			"HCLOUD_ENDPOINT=" + l.url + "/v1",
			"HCLOUD_TOKEN=" + token,
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("hcloud %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	server := func() schema.Server {
		t.Helper()
		servers := l.Servers("p")
		if len(servers) != 1 {
			t.Fatalf("%d servers, want 1", len(servers))
		}
		return servers[0]
	}
	network := func() schema.Network {
		t.Helper()
		return l.ok(t, "GET", "/_lab/v1/networks", "").Networks[0]
	}
	shows := func(out string, wanted ...string) {
		t.Helper()
		for _, want := range wanted {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing in:\n%s", want, out)
			}
		}
	}

	run("ssh-key", "create", "--name", "me", "--public-key", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	run("network", "create", "--name", "net", "--ip-range", "10.0.0.0/8")
	run("network", "add-subnet", "net", "--type", "cloud", "--network-zone", "eu-central", "--ip-range", "10.0.0.0/24")
	run("network", "add-route", "net", "--destination", "10.244.0.0/24", "--gateway", "10.0.0.2")
	shows(run("network", "describe", "net"), "10.0.0.0/24", "10.244.0.0/24", "10.0.0.2")
	run("network", "remove-route", "net", "--destination", "10.244.0.0/24", "--gateway", "10.0.0.2")
	if diff := cmp.Diff([]schema.NetworkRoute{}, network().Routes); diff != "" {
		t.Errorf("routes differ (-want +got):\n%s", diff)
	}

	shows(run("server", "create", "--name", "worker-1", "--type", "cx23", "--image", "ubuntu-24.04", "--location", "nbg1",
		"--ssh-key", "me", "--network", "net", "--label", "role=worker"), "created")
	if got := server(); got.Status != "running" || got.Location.Name != "nbg1" || got.PrivateNet[0].IP != "10.0.0.2" {
		t.Errorf("server %+v", got)
	}
	shows(run("server", "list"), "worker-1", "running", "203.0.113.1", "10.0.0.2 (net)")
	shows(run("server", "list", "--selector", "role=worker", "--output", "noheader", "--output", "columns=name"), "worker-1")
	shows(run("server", "describe", "worker-1"), "worker-1", "cx23", "2001:db8:0:1::/64", "10.0.0.2", "ubuntu-24.04", "role: worker")
	run("server", "poweroff", "worker-1")
	if got := server().Status; got != "off" {
		t.Errorf("status %s, want off", got)
	}
	run("server", "poweron", "worker-1")
	if got := server().Status; got != "running" {
		t.Errorf("status %s, want running", got)
	}
	run("server", "delete", "worker-1")
	if got := l.Servers("p"); len(got) != 0 {
		t.Errorf("servers %v, want none", got)
	}
}
