package cloud_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"

	"example.com/ccm-from-scratch/lab/cloud"
)

// TestNetwork follows a network through all its changes.
func TestNetwork(t *testing.T) {
	l := newLab(t, cloud.Config{})
	n := l.ok(t, "POST", "/v1/networks", `{"name":"net","ip_range":"10.0.0.0/16","subnets":[{"type":"cloud","network_zone":"eu-central","ip_range":"10.0.1.0/24"}],
		"routes":[{"destination":"10.244.0.0/24","gateway":"10.0.1.7"}]}`).Network
	path := fmt.Sprintf("/v1/networks/%d", n.ID)
	want := schema.Network{
		ID: n.ID, Name: "net", IPRange: "10.0.0.0/16", Created: n.Created,
		Subnets: []schema.NetworkSubnet{{Type: "cloud", NetworkZone: "eu-central", IPRange: "10.0.1.0/24", Gateway: "10.0.0.1"}},
		Routes:  []schema.NetworkRoute{{Destination: "10.244.0.0/24", Gateway: "10.0.1.7"}},
		Servers: []int64{}, LoadBalancers: []int64{}, Labels: map[string]string{},
	}
	for _, step := range []struct {
		name, method, path, body string
		change                   func()
	}{
		{"first free range", "POST", "/actions/add_subnet", `{"type":"cloud","network_zone":"eu-central","gateway":""}`, func() {
			want.Subnets = append(want.Subnets, schema.NetworkSubnet{Type: "cloud", NetworkZone: "eu-central", IPRange: "10.0.0.0/24", Gateway: "10.0.0.1"})
		}},
		{"next free range", "POST", "/actions/add_subnet", `{"type":"server","network_zone":"eu-central"}`, func() {
			want.Subnets = append(want.Subnets, schema.NetworkSubnet{Type: "server", NetworkZone: "eu-central", IPRange: "10.0.2.0/24", Gateway: "10.0.0.1"})
		}},
		{"smallest subnet", "POST", "/actions/add_subnet", `{"type":"cloud","network_zone":"eu-central","ip_range":"10.0.3.0/30"}`, func() {
			want.Subnets = append(want.Subnets, schema.NetworkSubnet{Type: "cloud", NetworkZone: "eu-central", IPRange: "10.0.3.0/30", Gateway: "10.0.0.1"})
		}},
		{"remove a subnet", "POST", "/actions/delete_subnet", `{"ip_range":"10.0.2.0/24"}`, func() {
			want.Subnets = append(want.Subnets[:2:2], want.Subnets[3])
		}},
		{"default route beside others", "POST", "/actions/add_route", `{"destination":"0.0.0.0/0","gateway":"10.0.1.7"}`, func() {
			want.Routes = append(want.Routes, schema.NetworkRoute{Destination: "0.0.0.0/0", Gateway: "10.0.1.7"})
		}},
		{"other routes beside the default", "POST", "/actions/add_route", `{"destination":"10.244.1.0/24","gateway":"10.0.77.77"}`, func() {
			want.Routes = append(want.Routes, schema.NetworkRoute{Destination: "10.244.1.0/24", Gateway: "10.0.77.77"})
		}},
		{"remove a route", "POST", "/actions/delete_route", `{"destination":"10.244.0.0/24","gateway":"10.0.1.7"}`, func() {
			want.Routes = want.Routes[1:]
		}},
		{"grow", "POST", "/actions/change_ip_range", `{"ip_range":"10.0.0.0/8"}`, func() { want.IPRange = "10.0.0.0/8" }},
		{"rename", "PUT", "", `{"name":"other"}`, func() { want.Name = "other" }},
		{"labels", "PUT", "", `{"labels":{"a":"b"}}`, func() { want.Labels = map[string]string{"a": "b"} }},
		{"other labels", "PUT", "", `{"labels":{"c":"d"},"expose_routes_to_vswitch":true}`, func() {
			want.Labels, want.ExposeRoutesToVSwitch = map[string]string{"c": "d"}, true
		}},
		{"protect", "POST", "/actions/change_protection", `{"delete":true}`, func() { want.Protection.Delete = true }},
	} {
		t.Run(step.name, func(t *testing.T) {
			a := l.ok(t, step.method, path+step.path, step.body)
			if a.Action.ID != 0 {
				if got := l.finish(t, a); got.Status != "success" || got.Progress != 100 || got.Finished == nil {
					t.Errorf("action %+v", got)
				}
			}
			step.change()
			if diff := cmp.Diff(want, l.ok(t, "GET", path, "").Network); diff != "" {
				t.Errorf("network differs (-want +got):\n%s", diff)
			}
		})
	}
	refused{423, "protected", "network is protected", ""}.check(t, l.do(t, "DELETE", path, ""))
	l.ok(t, "POST", path+"/actions/change_protection", `{"delete":false}`)
	if got := l.do(t, "DELETE", path, ""); got.status != 204 || got.text != "" {
		t.Errorf("deletion: %d %s", got.status, got.text)
	}
	refused{404, "not_found", "network with ID", ""}.check(t, l.do(t, "GET", path, ""))
}

// TestNetworkConflict: one change at a time, 409 to all others meanwhile.
func TestNetworkConflict(t *testing.T) {
	l := newLab(t, cloud.Config{Profile: cloud.Realistic})
	n := l.network(t)
	path := fmt.Sprintf("/v1/networks/%d", n.ID)
	a := l.ok(t, "POST", path+"/actions/add_route", `{"destination":"10.1.0.0/24","gateway":"10.0.0.5"}`)
	if a.Action.Status != "running" || a.Action.Finished != nil {
		t.Errorf("action is not running: %s", a.text)
	}
	for _, test := range []struct{ method, path, body string }{
		{"POST", "/actions/add_route", `{"destination":"10.2.0.0/24","gateway":"10.0.0.5"}`},
		{"POST", "/actions/delete_route", `{"destination":"10.2.0.0/24","gateway":"10.0.0.5"}`},
		{"POST", "/actions/add_subnet", `{"type":"cloud","network_zone":"eu-central"}`},
		{"POST", "/actions/delete_subnet", `{"ip_range":"10.0.0.0/24"}`},
		{"POST", "/actions/change_ip_range", `{"ip_range":"10.0.0.0/8"}`},
		{"POST", "/actions/change_protection", `{"delete":true}`},
		{"PUT", "", `{"name":"other"}`},
		{"DELETE", "", ``},
	} {
		t.Run(test.method+test.path, func(t *testing.T) {
			refused{409, "conflict", "", ""}.check(t, l.do(t, test.method, path+test.path, test.body))
		})
	}
	refused{409, "conflict", "", ""}.check(t, l.do(t, "POST", "/v1/servers",
		fmt.Sprintf(`{"name":"one","server_type":"cx23","image":"debian-12","networks":[%d]}`, n.ID)))
	if got := l.ok(t, "GET", path, "").Network.Routes; len(got) != 0 {
		t.Errorf("routes %v before the action has ended", got)
	}
}

// TestMembers: addresses are lowest first, freed by deletion, and routes stay.
func TestMembers(t *testing.T) {
	l := newLab(t, cloud.Config{})
	n := l.network(t)
	path := fmt.Sprintf("/v1/networks/%d", n.ID)
	a, b := l.server(t, "a", n.ID), l.server(t, "b", n.ID)
	l.finish(t, l.ok(t, "POST", path+"/actions/add_route", `{"destination":"10.244.0.0/24","gateway":"10.0.0.2"}`))
	want := []schema.NetworkMember{
		{Type: "server", ID: a.ID, IP: "10.0.0.2", Status: "ok", AliasIPs: []string{}, Subnet: "10.0.0.0/24"},
		{Type: "server", ID: b.ID, IP: "10.0.0.3", Status: "ok", AliasIPs: []string{}, Subnet: "10.0.0.0/24"},
	}
	for query, want := range map[string][]schema.NetworkMember{
		"":                          want,
		"sort=ip:desc":              {want[1], want[0]},
		"type=server&status=ok":     want,
		"type=load_balancer":        {},
		"status=attaching":          {},
		"subnet=10.0.0.0/24":        want,
		"subnet=10.0.1.0/24":        {},
		"sort=id&per_page=1&page=2": want[1:],
	} {
		t.Run(query, func(t *testing.T) {
			if diff := cmp.Diff(want, l.ok(t, "GET", path+"/members?"+query, "").Members); diff != "" {
				t.Errorf("members differ (-want +got):\n%s", diff)
			}
		})
	}
	if a.PrivateNet[0].MACAddress == b.PrivateNet[0].MACAddress {
		t.Errorf("two servers have the MAC address %s", a.PrivateNet[0].MACAddress)
	}

	l.ok(t, "DELETE", fmt.Sprintf("/v1/servers/%d", a.ID), "")
	after := l.ok(t, "GET", path, "").Network
	if diff := cmp.Diff([]int64{b.ID}, after.Servers); diff != "" {
		t.Errorf("servers differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]schema.NetworkRoute{{Destination: "10.244.0.0/24", Gateway: "10.0.0.2"}}, after.Routes); diff != "" {
		t.Errorf("routes differ (-want +got):\n%s", diff)
	}
	c := l.server(t, "c", n.ID)
	if got := c.PrivateNet[0].IP; got != "10.0.0.2" {
		t.Errorf("new server has %s, want the freed 10.0.0.2", got)
	}

	l.ok(t, "DELETE", path, "")
	for _, s := range l.Servers("p") {
		if len(s.PrivateNet) != 0 {
			t.Errorf("%s is still in the deleted network", s.Name)
		}
	}
}

// TestMemberStatus looks at members while something happens to them, on
// synthetic time.
func TestMemberStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cloud.New(cloud.Config{Profile: cloud.Realistic})
		defer c.Close()
		c.AddToken(token, "p", cloud.ReadWrite)
		do := func(method, path, body string) (a answer) {
			t.Helper()
			decode(t, serve(t, c, method, path, body).Body.String(), &a)
			return a
		}
		n := do("POST", "/v1/networks", `{"name":"net","ip_range":"10.0.0.0/16","subnets":[{"type":"cloud","network_zone":"eu-central","ip_range":"10.0.3.0/30"}]}`).Network
		s := do("POST", "/v1/servers", `{"name":"one","server_type":"cx23","image":"debian-12"}`).Server
		<-time.After(time.Minute)
		network, server := fmt.Sprintf("/v1/networks/%d", n.ID), fmt.Sprintf("/v1/servers/%d", s.ID)
		type state struct {
			Members    []string
			Servers    int // in the network
			PrivateNet []schema.ServerPrivateNet
		}
		look := func() state {
			got := state{Members: []string{}, Servers: len(do("GET", network, "").Network.Servers)}
			for _, m := range do("GET", network+"/members", "").Members {
				got.Members = append(got.Members, m.IP+" "+m.Status)
			}
			got.PrivateNet = do("GET", server, "").Server.PrivateNet
			return got
		}
		in := func(aliases ...string) []schema.ServerPrivateNet {
			return []schema.ServerPrivateNet{{Network: n.ID, IP: "10.0.3.1", AliasIPs: append([]string{}, aliases...), MACAddress: "86:00:00:00:00:01"}}
		}
		for _, step := range []struct {
			action, body   string
			running, ended state
		}{
			{"attach_to_network", "{%s}", state{[]string{"10.0.3.1 attaching"}, 0, []schema.ServerPrivateNet{}}, state{[]string{"10.0.3.1 ok"}, 1, in()}},
			{"change_alias_ips", `{%s,"alias_ips":["10.0.3.2"]}`, state{[]string{"10.0.3.1 updating"}, 1, in()}, state{[]string{"10.0.3.1 ok"}, 1, in("10.0.3.2")}},
			{"detach_from_network", "{%s}", state{[]string{"10.0.3.1 detaching"}, 1, in("10.0.3.2")}, state{[]string{}, 0, []schema.ServerPrivateNet{}}},
		} {
			a := do("POST", server+"/actions/"+step.action, fmt.Sprintf(step.body, fmt.Sprintf(`"network":%d`, n.ID)))
			if a.Action.Command != step.action {
				t.Fatalf("%s: %+v", step.action, a)
			}
			if diff := cmp.Diff(step.running, look()); diff != "" {
				t.Errorf("during %s (-want +got):\n%s", step.action, diff)
			}
			<-time.After(time.Minute)
			if diff := cmp.Diff(step.ended, look()); diff != "" {
				t.Errorf("after %s (-want +got):\n%s", step.action, diff)
			}
			if step.action == "change_alias_ips" { // which took the last address
				got := do("POST", "/v1/servers", fmt.Sprintf(`{"name":"two","server_type":"cx23","image":"debian-12","networks":[%d]}`, n.ID))
				if got.Error.Code != "no_subnet_available" {
					t.Errorf("full subnet: %+v", got.Error)
				}
			}
		}
	})
}
