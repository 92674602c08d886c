package cloud_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"

	"example.com/ccm-from-scratch/lab/cloud"
)

// TestServerByClient walks a server through its life with hcloud-go.
func TestServerByClient(t *testing.T) {
	l := newLab(t, cloud.Config{})
	client, ctx := l.client(), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var server *hcloud.Server
	expect := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", what, diff)
		}
	}
	reload := func() {
		t.Helper()
		var err error
		server, _, err = client.Server.GetByID(ctx, server.ID)
		must(err)
	}
	wait := func(action *hcloud.Action, _ *hcloud.Response, err error) {
		t.Helper()
		must(err)
		must(client.Action.WaitFor(ctx, action))
		reload()
	}

	key, _, err := client.SSHKey.Create(ctx, hcloud.SSHKeyCreateOpts{
		Name:      "me",
		PublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA me",
	})
	must(err)
	expect("fingerprint", "3d:52:38:ce:ff:94:f5:d7:81:a4:a4:f9:2b:4f:fe:a0", key.Fingerprint)

	network, _, err := client.Network.Create(ctx, hcloud.NetworkCreateOpts{Name: "net", IPRange: mustCIDR("10.0.0.0/8")})
	must(err)
	action, _, err := client.Network.AddSubnet(ctx, network, hcloud.NetworkAddSubnetOpts{
		Subnet: hcloud.NetworkSubnet{Type: hcloud.NetworkSubnetTypeCloud, NetworkZone: hcloud.NetworkZoneEUCentral, IPRange: mustCIDR("10.0.0.0/24")},
	})
	must(err)
	must(client.Action.WaitFor(ctx, action))

	created, _, err := client.Server.Create(ctx, hcloud.ServerCreateOpts{
		Name:       "worker-1",
		ServerType: &hcloud.ServerType{Name: "cx23"},
		Image:      &hcloud.Image{Name: "ubuntu-24.04"},
		Location:   &hcloud.Location{ID: 2},
		SSHKeys:    []*hcloud.SSHKey{key},
		Networks:   []*hcloud.Network{network},
		Labels:     map[string]string{"role": "worker"},
	})
	must(err)
	server = created.Server
	expect("root password with a key", "", created.RootPassword)
	expect("status at first", hcloud.ServerStatusInitializing, server.Status)
	expect("private networks at first", 0, len(server.PrivateNet))
	expect("lock at first", true, server.Locked)
	commands := []string{created.Action.Command}
	for _, a := range created.NextActions {
		commands = append(commands, a.Command)
	}
	expect("commands", []string{"create_server", "start_server", "attach_to_network"}, commands)
	must(client.Action.WaitFor(ctx, append(created.NextActions, created.Action)...))
	reload()
	expect("status", hcloud.ServerStatusRunning, server.Status)
	expect("lock", false, server.Locked)
	expect("location", "nbg1", server.Location.Name)
	expect("private IP", "10.0.0.2", server.PrivateNet[0].IP.String())
	expect("public IPv4", "203.0.113.1", server.PublicNet.IPv4.IP.String())
	expect("public IPv6", "2001:db8:0:1::/64", server.PublicNet.IPv6.Network.String())
	expect("architecture of the image", hcloud.ArchitectureX86, server.Image.Architecture)

	shut, _, err := client.Server.Shutdown(ctx, server)
	must(err)
	must(client.Action.WaitFor(ctx, shut))
	l.await(t, "the shutdown", func() bool { reload(); return server.Status == hcloud.ServerStatusOff })
	wait(client.Server.ChangeType(ctx, server, hcloud.ServerChangeTypeOpts{ServerType: &hcloud.ServerType{Name: "cpx32"}, UpgradeDisk: true}))
	expect("type", "cpx32", server.ServerType.Name)
	expect("disk", 160, server.PrimaryDiskSize)
	expect("status after the change of type", hcloud.ServerStatusRunning, server.Status)
	wait(client.Server.Poweroff(ctx, server))
	expect("status without power", hcloud.ServerStatusOff, server.Status)
	wait(client.Server.Reboot(ctx, server))
	expect("status after a reboot without power", hcloud.ServerStatusOff, server.Status)
	wait(client.Server.Poweron(ctx, server))
	expect("status with power", hcloud.ServerStatusRunning, server.Status)
	wait(client.Server.Reset(ctx, server))
	expect("status after reset", hcloud.ServerStatusRunning, server.Status)

	wait(client.Server.ChangeAliasIPs(ctx, server, hcloud.ServerChangeAliasIPsOpts{Network: network, AliasIPs: ips("10.0.0.9", "10.0.0.8")}))
	expect("aliases", "[10.0.0.9 10.0.0.8]", fmt.Sprint(server.PrivateNet[0].Aliases))
	wait(client.Server.DetachFromNetwork(ctx, server, hcloud.ServerDetachFromNetworkOpts{Network: network}))
	expect("private networks", 0, len(server.PrivateNet))
	wait(client.Server.AttachToNetwork(ctx, server, hcloud.ServerAttachToNetworkOpts{Network: network, IP: ips("10.0.0.77")[0], IPRange: mustCIDR("10.0.0.0/24")}))
	expect("asked IP", "10.0.0.77", server.PrivateNet[0].IP.String())

	_, _, err = client.Server.Update(ctx, server, hcloud.ServerUpdateOpts{Name: "worker-2", Labels: map[string]string{"a": "b"}})
	must(err)
	reload()
	expect("name", "worker-2", server.Name)
	expect("labels", map[string]string{"a": "b"}, server.Labels)

	yes, no := true, false
	wait(client.Server.ChangeProtection(ctx, server, hcloud.ServerChangeProtectionOpts{Delete: &yes, Rebuild: &yes}))
	_, _, err = client.Server.DeleteWithResult(ctx, server)
	if !hcloud.IsError(err, hcloud.ErrorCodeProtected) {
		t.Errorf("protected server: %v", err)
	}
	wait(client.Server.ChangeProtection(ctx, server, hcloud.ServerChangeProtectionOpts{Delete: &no, Rebuild: &no}))

	gone, _, err := client.Server.DeleteWithResult(ctx, server)
	must(err)
	must(client.Action.WaitFor(ctx, gone.Action)) // polled after the server is gone
	reload()
	if server != nil {
		t.Errorf("server is still there: %v", server)
	}
	network, _, err = client.Network.Get(ctx, "net")
	must(err)
	expect("servers in the network", 0, len(network.Servers))
}

// TestServerAtOnce: a deleted server is gone before its action ends.
func TestServerAtOnce(t *testing.T) {
	l := newLab(t, cloud.Config{Profile: cloud.Realistic})
	a := l.ok(t, "POST", "/v1/servers", `{"name":"one","server_type":"cx23","image":"debian-12"}`)
	if a.Action.Status != "running" || a.NextActions[0].Status != "running" {
		t.Errorf("actions are not running: %s", a.text)
	}
	path := fmt.Sprintf("/v1/servers/%d", a.Server.ID)
	locked := refused{423, "locked", "cannot perform operation because server is locked", ""}
	locked.check(t, l.do(t, "POST", path+"/actions/poweroff", ""))
	locked.check(t, l.do(t, "DELETE", path, ""))
	if got := l.ok(t, "PUT", path, `{"name":"two"}`).Server.Name; got != "two" {
		t.Errorf("name %s, want two", got)
	}
}

// TestFieldsForIDOrName: clients send numbers, numbers in strings, and names.
func TestFieldsForIDOrName(t *testing.T) {
	l := newLab(t, cloud.Config{})
	l.ok(t, "POST", "/v1/ssh_keys", `{"name":"me","public_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`)
	id := l.ok(t, "GET", "/v1/ssh_keys", "")
	var keys struct {
		SSHKeys []schema.SSHKey `json:"ssh_keys"`
	}
	decode(t, id.text, &keys)
	key := keys.SSHKeys[0].ID
	for name, body := range map[string]string{
		"names":   `"server_type":"cax11","image":"ubuntu-24.04","location":"hel1","ssh_keys":["me"]`,
		"numbers": fmt.Sprintf(`"server_type":45,"image":161547270,"location":3,"ssh_keys":[%d]`, key),
		"strings": fmt.Sprintf(`"server_type":"45","image":"161547270","location":"3","ssh_keys":["%d"]`, key),
	} {
		t.Run(name, func(t *testing.T) {
			s := l.ok(t, "POST", "/v1/servers", fmt.Sprintf(`{"name":%q,%s}`, name, body)).Server
			got := []string{s.ServerType.Name, s.Image.Architecture, s.Location.Name}
			if diff := cmp.Diff([]string{"cax11", "arm", "hel1"}, got); diff != "" {
				t.Errorf("server differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPublicIPs also counts that addresses stay unique beyond the first ranges.
func TestPublicIPs(t *testing.T) {
	l := newLab(t, cloud.Config{})
	for name, test := range map[string]struct {
		publicNet  string
		ipv4, ipv6 bool
	}{
		"default": {`{}`, true, true},
		"neither": {`{"enable_ipv4":false,"enable_ipv6":false}`, false, false},
		"only-4":  {`{"enable_ipv4":true,"enable_ipv6":false}`, true, false},
		"only-6":  {`{"enable_ipv4":false,"enable_ipv6":true}`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := l.ok(t, "POST", "/v1/servers", fmt.Sprintf(
				`{"name":%q,"server_type":"cx23","image":"debian-12","start_after_create":false,"public_net":%s}`, name, test.publicNet))
			got := a.Server.PublicNet
			if (got.IPv4.IP != "") != test.ipv4 || (got.IPv6.IP != "") != test.ipv6 {
				t.Errorf("public net %+v", got)
			}
			if !test.ipv4 && !strings.Contains(a.text, `"ipv4":null`) {
				t.Errorf("no null for the missing IPv4: %s", a.text)
			}
			if len(a.NextActions) != 0 {
				t.Errorf("next actions %v, want none", a.NextActions)
			}
			l.finish(t, a)
			if got := l.ok(t, "GET", fmt.Sprintf("/v1/servers/%d", a.Server.ID), "").Server.Status; got != "off" {
				t.Errorf("status %s, want off", got)
			}
		})
	}

	const n = 1100
	for i := range n {
		l.ok(t, "POST", "/_lab/v1/servers", fmt.Sprintf(`{"name":"s%d","server_type":"cx23","image":"debian-12"}`, i))
	}
	seen := map[string]bool{}
	for _, s := range l.Servers("p") {
		for _, ip := range []string{s.PublicNet.IPv4.IP, s.PublicNet.IPv6.IP} {
			if ip != "" && seen[ip] {
				t.Fatalf("%s is given out twice", ip)
			}
			seen[ip] = true
		}
		if _, err := netip.ParseAddr(s.PublicNet.IPv4.IP); err != nil && s.PublicNet.IPv4.IP != "" {
			t.Fatal(err)
		}
	}
	if len(seen) < 2*n {
		t.Errorf("%d addresses, want at least %d", len(seen), 2*n)
	}
}

func TestServersIsASnapshot(t *testing.T) {
	l := newLab(t, cloud.Config{})
	n := l.network(t)
	a, b := l.server(t, "b", n.ID), l.server(t, "a", n.ID)
	before := l.Servers("p")
	if diff := cmp.Diff([]schema.Server{a, b}, before, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("servers differ (-want +got):\n%s", diff)
	}
	l.ok(t, "PUT", fmt.Sprintf("/v1/servers/%d", a.ID), `{"labels":{"x":"y"}}`)
	l.finish(t, l.ok(t, "POST", fmt.Sprintf("/v1/servers/%d/actions/detach_from_network", a.ID), fmt.Sprintf(`{"network":%d}`, n.ID)))
	if diff := cmp.Diff([]schema.Server{a, b}, before, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("snapshot has changed (-want +got):\n%s", diff)
	}
	if got := l.Servers("nonsense"); len(got) != 0 {
		t.Errorf("servers of an unknown project: %v", got)
	}
}

// TestConcurrency is for the race detector: many clients do what gets into each
// other's way, and each ends with its own server in the network.
func TestConcurrency(t *testing.T) {
	l := newLab(t, cloud.Config{RateLimit: 100_000})
	n := l.network(t)
	const clients = 8
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			client, ctx := l.client(), t.Context()
			created, _, err := client.Server.Create(ctx, hcloud.ServerCreateOpts{
				Name:       fmt.Sprintf("s%d", i),
				ServerType: &hcloud.ServerType{Name: "cx23"},
				Image:      &hcloud.Image{Name: "debian-12"},
				Networks:   []*hcloud.Network{{ID: n.ID}},
			})
			if err != nil {
				t.Error(err)
				return
			}
			if err := client.Action.WaitFor(ctx, append(created.NextActions, created.Action)...); err != nil {
				t.Error(err)
			}
			if _, err := client.Server.All(ctx); err != nil {
				t.Error(err)
			}
			l.Servers("p")
			l.Requests("p")
		})
	}
	group.Wait()
	seen := map[string]bool{}
	for _, s := range l.Servers("p") {
		seen[s.PrivateNet[0].IP] = true
	}
	if len(seen) != clients {
		t.Errorf("%d private IPs, want %d", len(seen), clients)
	}
}
