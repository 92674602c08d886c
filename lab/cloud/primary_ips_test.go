package cloud_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"example.com/ccm-from-scratch/lab/cloud"
)

// TestPrimaryIPByClient assigns a primary IP to a server and a load balancer.
func TestPrimaryIPByClient(t *testing.T) {
	l := newLab(t, cloud.Config{})
	client, ctx := l.client(), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wait := func(action *hcloud.Action, _ *hcloud.Response, err error) {
		t.Helper()
		must(err)
		must(client.Action.WaitFor(ctx, action))
	}
	expect := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", what, diff)
		}
	}
	assignee := func(id int64) string {
		t.Helper()
		ip, _, err := client.PrimaryIP.GetByID(ctx, id)
		must(err)
		return fmt.Sprint(ip.AssigneeType, " ", ip.AssigneeID)
	}

	created, _, err := client.PrimaryIP.Create(ctx, hcloud.PrimaryIPCreateOpts{Name: "ip", Type: "ipv4", Location: "fsn1", Labels: map[string]string{"a": "b"}})
	must(err)
	ip := created.PrimaryIP
	expect("address", "203.0.113.1", ip.IP.String())
	expect("location", "fsn1", ip.Location.Name)
	expect("assignee", "unassigned 0", assignee(ip.ID))
	found, _, err := client.PrimaryIP.GetByIP(ctx, "203.0.113.1")
	must(err)
	expect("found by address", ip.ID, found.ID)

	a := l.ok(t, "POST", "/v1/servers", `{"name":"one","server_type":"cx23","image":"debian-12","location":"fsn1","start_after_create":false,"public_net":{"enable_ipv4":false}}`)
	l.finish(t, a)
	wait(client.PrimaryIP.Assign(ctx, hcloud.PrimaryIPAssignOpts{ID: ip.ID, AssigneeID: a.Server.ID, AssigneeType: "server"}))
	expect("assignee", fmt.Sprint("server ", a.Server.ID), assignee(ip.ID))
	server, _, err := client.Server.GetByID(ctx, a.Server.ID)
	must(err)
	expect("address of the server", fmt.Sprint(ip.ID, " 203.0.113.1"), fmt.Sprint(server.PublicNet.IPv4.ID, " ", server.PublicNet.IPv4.IP))
	_, err = client.PrimaryIP.Delete(ctx, ip)
	if !hcloud.IsError(err, hcloud.ErrorCode("must_be_unassigned")) {
		t.Errorf("deletion of an assigned primary IP: %v", err)
	}

	lb := l.balancer(t, "lb", fmt.Sprintf(`,"targets":[{"type":"server","server":{"id":%d}}]`, server.ID))
	_, _, err = client.PrimaryIP.Unassign(ctx, ip.ID)
	if !hcloud.IsError(err, hcloud.ErrorCodeServerIsLoadBalancerTarget) {
		t.Errorf("primary IP of a target: %v", err)
	}
	l.ok(t, "DELETE", fmt.Sprintf("/v1/load_balancers/%d", lb.ID), "")
	wait(client.PrimaryIP.Unassign(ctx, ip.ID))
	expect("assignee", "unassigned 0", assignee(ip.ID))

	wait(client.PrimaryIP.ChangeDNSPtr(ctx, hcloud.PrimaryIPChangeDNSPtrOpts{ID: ip.ID, IP: "203.0.113.1", DNSPtr: "lb.example.com"}))
	balancer, _, err := client.LoadBalancer.Create(ctx, hcloud.LoadBalancerCreateOpts{
		Name: "lb", LoadBalancerType: &hcloud.LoadBalancerType{ID: 1}, Location: &hcloud.Location{Name: "fsn1"},
		PublicNet: &hcloud.LoadBalancerCreateOptsPublicNet{IPv4: &hcloud.PrimaryIP{ID: ip.ID}},
	})
	must(err)
	must(client.Action.WaitFor(ctx, balancer.Action))
	expect("assignee", fmt.Sprint("load_balancer ", balancer.LoadBalancer.ID), assignee(ip.ID))
	expect("address of the load balancer", hcloud.LoadBalancerPublicNetIPv4{ID: ip.ID, IP: net.ParseIP("203.0.113.1"), DNSPtr: "lb.example.com"}, balancer.LoadBalancer.PublicNet.IPv4)
	expect("ID of the other address", int64(0), balancer.LoadBalancer.PublicNet.IPv6.ID)
	_, _, err = client.PrimaryIP.Unassign(ctx, ip.ID)
	if !hcloud.IsError(err, hcloud.ErrorCode("unsupported_error")) {
		t.Errorf("primary IP of a load balancer: %v", err)
	}
	gone, _, err := client.LoadBalancer.DeleteWithResult(ctx, balancer.LoadBalancer)
	must(err)
	must(client.Action.WaitFor(ctx, gone.Action))
	expect("assignee", "unassigned 0", assignee(ip.ID))

	wait(client.PrimaryIP.ChangeProtection(ctx, hcloud.PrimaryIPChangeProtectionOpts{ID: ip.ID, Delete: true}))
	_, err = client.PrimaryIP.Delete(ctx, ip)
	if !hcloud.IsError(err, hcloud.ErrorCodeProtected) {
		t.Errorf("protected primary IP: %v", err)
	}
	wait(client.PrimaryIP.ChangeProtection(ctx, hcloud.PrimaryIPChangeProtectionOpts{ID: ip.ID, Delete: false}))
	_, _, err = client.PrimaryIP.Update(ctx, ip, hcloud.PrimaryIPUpdateOpts{Name: "other", AutoDelete: hcloud.Ptr(true)})
	must(err)
	ip, _, err = client.PrimaryIP.GetByName(ctx, "other")
	must(err)
	expect("updated", "true map[a:b]", fmt.Sprint(ip.AutoDelete, ip.Labels))
	_, err = client.PrimaryIP.Delete(ctx, ip)
	must(err)
}

// TestPrimaryIPsOfServers come and go with their server, unless they are kept.
func TestPrimaryIPsOfServers(t *testing.T) {
	l := newLab(t, cloud.Config{})
	s := l.server(t, "one")
	all := l.ok(t, "GET", "/v1/primary_ips?sort=id", "").PrimaryIPs
	got := []string{}
	for _, ip := range all {
		got = append(got, fmt.Sprint(ip.Type, " ", ip.IP, " ", *ip.AssigneeID == s.ID, " ", ip.AutoDelete, " ", len(ip.DNSPtr)))
	}
	if diff := cmp.Diff([]string{"ipv4 203.0.113.1 true true 1", "ipv6 2001:db8:0:1::/64 true true 0"}, got); diff != "" {
		t.Errorf("primary IPs differ (-want +got):\n%s", diff)
	}
	l.ok(t, "PUT", fmt.Sprintf("/v1/primary_ips/%d", all[1].ID), `{"auto_delete":false}`)
	l.ok(t, "POST", fmt.Sprintf("/v1/primary_ips/%d/actions/change_dns_ptr", all[1].ID), `{"ip":"2001:db8:0:1::1","dns_ptr":"one.example.com"}`)
	if got := l.ok(t, "GET", fmt.Sprintf("/v1/servers/%d", s.ID), "").Server.PublicNet.IPv6.DNSPtr; len(got) != 1 || got[0].DNSPtr != "one.example.com" {
		t.Errorf("reverse DNS of the server: %v", got)
	}
	l.ok(t, "DELETE", fmt.Sprintf("/v1/servers/%d", s.ID), "")
	left := l.ok(t, "GET", "/v1/primary_ips", "").PrimaryIPs
	if len(left) != 1 || left[0].ID != all[1].ID || left[0].AssigneeID != nil {
		t.Errorf("primary IPs %+v, want the kept one", left)
	}

	// The kept one serves a new server; a load balancer takes a host of it.
	a := l.ok(t, "POST", "/v1/servers", fmt.Sprintf(`{"name":"two","server_type":"cx23","image":"debian-12","public_net":{"ipv6":%d}}`, left[0].ID))
	if got := a.Server.PublicNet; got.IPv6.ID != left[0].ID || got.IPv4.IP != "203.0.113.2" {
		t.Errorf("public net of the new server: %+v", got)
	}
	l.finish(t, a)
	l.ok(t, "DELETE", fmt.Sprintf("/v1/servers/%d", a.Server.ID), "")
	lb := l.balancer(t, "lb", fmt.Sprintf(`,"public_net":{"ipv6":%d}`, left[0].ID))
	if got := lb.PublicNet.IPv6; got.ID != left[0].ID || got.IP != "2001:db8:0:1::1" || got.DNSPtr != "one.example.com" {
		t.Errorf("public net of the load balancer: %+v", got)
	}
}

func TestPrimaryIPInvalid(t *testing.T) {
	l := newLab(t, cloud.Config{})
	on := l.server(t, "on")
	a := l.ok(t, "POST", "/v1/servers", `{"name":"off","server_type":"cx23","image":"debian-12","location":"nbg1","start_after_create":false,"public_net":{"enable_ipv6":false}}`)
	l.finish(t, a)
	off := a.Server
	ip := l.ok(t, "POST", "/v1/primary_ips", `{"name":"ip","type":"ipv6","location":1}`).PrimaryIP
	kept := l.ok(t, "POST", "/v1/primary_ips", `{"name":"kept","type":"ipv4","location":"nbg1"}`).PrimaryIP
	l.ok(t, "POST", fmt.Sprintf("/v1/primary_ips/%d/actions/change_protection", kept.ID), `{"delete":true}`)
	path := func(id int64, rest string) string { return fmt.Sprintf("/v1/primary_ips/%d%s", id, rest) }
	assign := func(id int64) string { return fmt.Sprintf(`{"assignee_type":"server","assignee_id":%d}`, id) }
	for name, test := range map[string]struct {
		method, path, body string
		want               refused
	}{
		"no name":            {"POST", "/v1/primary_ips", `{"type":"ipv4","location":"fsn1"}`, refused{422, "invalid_input", "", "name"}},
		"name taken":         {"POST", "/v1/primary_ips", `{"name":"ip","type":"ipv4","location":"fsn1"}`, refused{409, "uniqueness_error", "name is already used", "name"}},
		"no type":            {"POST", "/v1/primary_ips", `{"name":"x","location":"fsn1"}`, refused{422, "invalid_input", "", "type"}},
		"nowhere":            {"POST", "/v1/primary_ips", `{"name":"x","type":"ipv4"}`, refused{422, "invalid_input", "", "location"}},
		"unknown location":   {"POST", "/v1/primary_ips", `{"name":"x","type":"ipv4","location":"fsn9"}`, refused{422, "invalid_input", "location not found", "location"}},
		"label":              {"POST", "/v1/primary_ips", `{"name":"x","type":"ipv4","location":"fsn1","labels":{"a":"b c"}}`, refused{422, "invalid_input", "", "labels"}},
		"for a balancer":     {"POST", "/v1/primary_ips", `{"name":"x","type":"ipv4","assignee_type":"load_balancer","assignee_id":1}`, refused{422, "invalid_input", "", "assignee_type"}},
		"for nobody":         {"POST", "/v1/primary_ips", `{"name":"x","type":"ipv4","assignee_type":"server","assignee_id":1}`, refused{422, "invalid_input", "server with ID 1 not found", "assignee_id"}},
		"for one that runs":  {"POST", "/v1/primary_ips", `{"name":"x","type":"ipv4",` + assign(on.ID)[1:], refused{422, "server_not_stopped", "", ""}},
		"for one that has":   {"POST", "/v1/primary_ips", `{"name":"x","type":"ipv4",` + assign(off.ID)[1:], refused{422, "server_has_ipv4", "server already has an IPv4 address", ""}},
		"assign elsewhere":   {"POST", path(ip.ID, "/actions/assign"), assign(off.ID), refused{422, "primary_ip_datacenter_mismatch", "", ""}},
		"assign twice":       {"POST", path(on.PublicNet.IPv4.ID, "/actions/assign"), assign(off.ID), refused{422, "primary_ip_already_assigned", "", ""}},
		"assign the second":  {"POST", path(kept.ID, "/actions/assign"), assign(off.ID), refused{422, "server_has_ipv4", "", ""}},
		"unassign free one":  {"POST", path(ip.ID, "/actions/unassign"), ``, refused{422, "unsupported_error", "primary IP is not assigned", ""}},
		"unassign in use":    {"POST", path(on.PublicNet.IPv4.ID, "/actions/unassign"), ``, refused{422, "server_not_stopped", "", ""}},
		"pointer elsewhere":  {"POST", path(ip.ID, "/actions/change_dns_ptr"), `{"ip":"203.0.113.1","dns_ptr":"a.b"}`, refused{422, "invalid_input", "", "ip"}},
		"protect auto":       {"POST", path(on.PublicNet.IPv4.ID, "/actions/change_protection"), `{"delete":true}`, refused{422, "invalid_input", "", "delete"}},
		"auto and protected": {"PUT", path(kept.ID, ""), `{"auto_delete":true}`, refused{422, "invalid_input", "", "auto_delete"}},
		"delete in use":      {"DELETE", path(on.PublicNet.IPv4.ID, ""), ``, refused{422, "must_be_unassigned", "", ""}},
		"delete protected":   {"DELETE", path(kept.ID, ""), ``, refused{423, "protected", "primary IP is protected", ""}},
		"unknown":            {"GET", path(1, ""), ``, refused{404, "not_found", "primary IP with ID 1 not found", ""}},
		"server elsewhere": {
			"POST", "/v1/servers", fmt.Sprintf(`{"name":"x","server_type":"cx23","image":"debian-12","location":"fsn1","public_net":{"ipv4":%d}}`, kept.ID),
			refused{422, "primary_ip_datacenter_mismatch", "", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, l.do(t, test.method, test.path, test.body))
		})
	}

	// One that comes with its assignee does so through an action.
	made := l.ok(t, "POST", "/v1/primary_ips", `{"name":"x","type":"ipv6",`+assign(off.ID)[1:])
	if got := l.finish(t, made); got.Command != "assign_primary_ip" || made.PrimaryIP.Location.Name != "nbg1" {
		t.Errorf("primary IP for a server: %s", made.text)
	}
}
