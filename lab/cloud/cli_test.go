package cloud_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"

	"example.com/ccm-from-scratch/lab/cloud"
)

// hcloud runs a client that nobody here wrote: the hcloud CLI as Debian ships
// it.
func (l *lab) hcloud(t *testing.T) (run func(args ...string) string) {
	t.Helper()
	hcloud, err := exec.LookPath("hcloud")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal("hcloud is not installed; on Debian: apt-get install hcloud-cli")
	case err != nil:
		t.Skip("hcloud is not installed; on Debian: apt-get install hcloud-cli")
	}
	home := t.TempDir()
	return func(args ...string) string {
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
}

// shows checks that an output has all of some texts.
func shows(t *testing.T, out string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

// TestCLI works with servers and networks. It waits most of the time, since the
// CLI polls twice a second.
func TestCLI(t *testing.T) {
	t.Parallel()
	l := newLab(t, cloud.Config{})
	run := l.hcloud(t)
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
	run("ssh-key", "create", "--name", "me", "--public-key", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	run("network", "create", "--name", "net", "--ip-range", "10.0.0.0/8")
	run("network", "add-subnet", "net", "--type", "cloud", "--network-zone", "eu-central", "--ip-range", "10.0.0.0/24")
	run("network", "add-route", "net", "--destination", "10.244.0.0/24", "--gateway", "10.0.0.2")
	shows(t, run("network", "describe", "net"), "10.0.0.0/24", "10.244.0.0/24", "10.0.0.2")
	run("network", "remove-route", "net", "--destination", "10.244.0.0/24", "--gateway", "10.0.0.2")
	if diff := cmp.Diff([]schema.NetworkRoute{}, network().Routes); diff != "" {
		t.Errorf("routes differ (-want +got):\n%s", diff)
	}

	shows(t, run("server", "create", "--name", "worker-1", "--type", "cx23", "--image", "ubuntu-24.04", "--location", "nbg1",
		"--ssh-key", "me", "--network", "net", "--label", "role=worker"), "created")
	if got := server(); got.Status != "running" || got.Location.Name != "nbg1" || got.PrivateNet[0].IP != "10.0.0.2" {
		t.Errorf("server %+v", got)
	}
	shows(t, run("server", "list"), "worker-1", "running", "203.0.113.1", "10.0.0.2 (net)")
	shows(t, run("server", "list", "--selector", "role=worker", "--output", "noheader", "--output", "columns=name"), "worker-1")
	shows(t, run("server", "describe", "worker-1"), "worker-1", "cx23", "2001:db8:0:1::/64", "10.0.0.2", "ubuntu-24.04", "role: worker")
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

// TestCLILoadBalancers works with all that belongs to a load balancer.
func TestCLILoadBalancers(t *testing.T) {
	t.Parallel()
	l := newLab(t, cloud.Config{})
	run := l.hcloud(t)
	n := l.network(t)
	worker := l.server(t, "worker-1", n.ID)
	l.ok(t, "PUT", fmt.Sprintf("/_lab/v1/servers/%d", worker.ID), `{"labels":{"role":"worker"}}`)

	run("load-balancer", "create", "--name", "lb", "--type", "lb11", "--network-zone", "eu-central", "--label", "a=b")
	shows(t, run("load-balancer-type", "list"), "lb11", "lb21", "lb31")
	shows(t, run("load-balancer", "list"), "lb", "203.0.113.2", "2001:db8:0:2::1", "lb11", "fsn1", "eu-central")
	run("load-balancer", "attach-to-network", "lb", "--network", "net")
	run("load-balancer", "add-target", "lb", "--server", "worker-1", "--use-private-ip")
	run("load-balancer", "add-target", "lb", "--label-selector", "role=worker")
	run("load-balancer", "add-target", "lb", "--ip", "198.51.100.9")
	run("load-balancer", "add-service", "lb", "--protocol", "tcp", "--listen-port", "80", "--destination-port", "30080")
	run("load-balancer", "add-service", "lb", "--protocol", "http", "--listen-port", "81", "--destination-port", "30081", "--http-sticky-sessions", "--http-cookie-name", "C", "--http-cookie-lifetime", "60s")
	run("load-balancer", "update-service", "lb", "--listen-port", "81", "--proxy-protocol", "--health-check-protocol", "http", "--health-check-port", "30082",
		"--health-check-http-domain", "example.com", "--health-check-http-path", "/healthz")
	shows(t, run("load-balancer", "describe", "lb"), "10.0.0.3", "30080", "healthz", "role=worker", "198.51.100.9", "worker-1")
	balancer := func() schema.LoadBalancer {
		t.Helper()
		return l.ok(t, "GET", "/_lab/v1/load_balancers", "").LoadBalancers[0]
	}
	if got := balancer(); len(got.Services) != 2 || len(got.Targets) != 3 || !got.Services[1].Proxyprotocol || got.Services[1].HTTP.CookieLifetime != 60 || got.Services[1].HealthCheck.HTTP.Domain != "example.com" {
		t.Errorf("load balancer %+v", got)
	}
	run("load-balancer", "delete-service", "lb", "--listen-port", "81")
	run("load-balancer", "remove-target", "lb", "--server", "worker-1")
	run("load-balancer", "remove-target", "lb", "--label-selector", "role=worker")
	run("load-balancer", "remove-target", "lb", "--ip", "198.51.100.9")
	run("load-balancer", "change-algorithm", "lb", "--algorithm-type", "least_connections")
	run("load-balancer", "change-type", "lb", "lb21")
	run("load-balancer", "disable-public-interface", "lb")
	run("load-balancer", "enable-public-interface", "lb")
	run("load-balancer", "set-rdns", "lb", "--ip", "203.0.113.2", "--hostname", "lb.example.com")
	run("load-balancer", "update", "lb", "--name", "lb2")
	run("load-balancer", "add-label", "lb2", "c=d")
	if got := balancer(); got.Name != "lb2" || got.LoadBalancerType.Name != "lb21" || got.Algorithm.Type != "least_connections" || len(got.Services) != 1 ||
		len(got.Targets) != 0 || got.PublicNet.IPv4.DNSPtr != "lb.example.com" || len(got.Labels) != 2 {
		t.Errorf("load balancer %+v", got)
	}
	run("load-balancer", "enable-protection", "lb2", "delete")
	run("load-balancer", "disable-protection", "lb2", "delete")
	run("certificate", "create", "--name", "cert", "--type", "managed", "--domain", "example.com")
	shows(t, run("certificate", "list"), "cert", "example.com", "managed")
	shows(t, run("certificate", "describe", "cert"), "completed")
	cert := fmt.Sprint(l.ok(t, "GET", "/_lab/v1/certificates", "").Certificates[0].ID)
	run("load-balancer", "add-service", "lb2", "--protocol", "https", "--http-certificates", cert)
	shows(t, run("load-balancer", "describe", "lb2"), "443", cert)
	run("load-balancer", "detach-from-network", "lb2", "--network", "net")
	run("load-balancer", "delete", "lb2")
	run("certificate", "delete", "cert")
	shows(t, run("primary-ip", "list"), "203.0.113.1", "worker-1")
	if got := l.ok(t, "GET", "/_lab/v1/load_balancers", "").LoadBalancers; len(got) != 0 {
		t.Errorf("load balancers %v, want none", got)
	}
}
