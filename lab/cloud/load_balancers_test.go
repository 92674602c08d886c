package cloud_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"

	"example.com/ccm-from-scratch/lab/cloud"
)

// balancer creates a load balancer of type lb11 in fsn1, with more fields, and
// waits for it.
func (l *lab) balancer(t testing.TB, name, more string) schema.LoadBalancer {
	t.Helper()
	a := l.ok(t, "POST", "/_lab/v1/load_balancers", fmt.Sprintf(`{"name":%q,"load_balancer_type":"lb11","location":"fsn1"%s}`, name, more))
	l.finish(t, a)
	return l.loadBalancer(t, a.LoadBalancer.ID)
}

func (l *lab) loadBalancer(t testing.TB, id int64) schema.LoadBalancer {
	t.Helper()
	return l.ok(t, "GET", fmt.Sprintf("/_lab/v1/load_balancers/%d", id), "").LoadBalancer
}

// TestLoadBalancerByClient walks a load balancer through its life with
// hcloud-go.
func TestLoadBalancerByClient(t *testing.T) {
	l := newLab(t, cloud.Config{})
	n := l.network(t, "net")
	one, two := l.server(t, "one", n.ID), l.server(t, "two", n.ID)
	client, ctx := l.client(), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want, got any, options ...cmp.Option) {
		t.Helper()
		if diff := cmp.Diff(want, got, options...); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", what, diff)
		}
	}
	var lb *hcloud.LoadBalancer
	reload := func() {
		t.Helper()
		var err error
		lb, _, err = client.LoadBalancer.GetByID(ctx, lb.ID)
		must(err)
	}
	wait := func(action *hcloud.Action, _ *hcloud.Response, err error) {
		t.Helper()
		must(err)
		must(client.Action.WaitFor(ctx, action))
		reload()
	}

	typ, _, err := client.LoadBalancerType.Get(ctx, "lb11")
	must(err)
	expect("limits", []int{5, 25, 10, 10_000}, []int{typ.MaxServices, typ.MaxTargets, typ.MaxAssignedCertificates, typ.MaxConnections})
	created, _, err := client.LoadBalancer.Create(ctx, hcloud.LoadBalancerCreateOpts{
		Name:             "lb",
		LoadBalancerType: typ,
		NetworkZone:      hcloud.NetworkZoneEUCentral,
		Network:          &hcloud.Network{ID: n.ID},
		Labels:           map[string]string{"a": "b"},
		Services:         []hcloud.LoadBalancerCreateOptsService{{Protocol: "tcp", ListenPort: hcloud.Ptr(80), DestinationPort: hcloud.Ptr(30080)}},
		Targets: []hcloud.LoadBalancerCreateOptsTarget{{
			Type: "server", Server: hcloud.LoadBalancerCreateOptsTargetServer{Server: &hcloud.Server{ID: one.ID}}, UsePrivateIP: hcloud.Ptr(true),
		}},
	})
	must(err)
	lb = created.LoadBalancer
	expect("command", "create_load_balancer", created.Action.Command)
	expect("networks at first", 0, len(lb.PrivateNet))
	must(client.Action.WaitFor(ctx, created.Action))
	reload()
	expect("private IP", "10.0.0.4", lb.PrivateNet[0].IP.String())
	expect("location", "fsn1", lb.Location.Name)
	expect("algorithm", hcloud.LoadBalancerAlgorithmTypeRoundRobin, lb.Algorithm.Type)
	expect("addresses", "203.0.113.3 2001:db8:0:3::1", lb.PublicNet.IPv4.IP.String()+" "+lb.PublicNet.IPv6.IP.String())
	expect("services", []hcloud.LoadBalancerService{{
		Protocol: "tcp", ListenPort: 80, DestinationPort: 30080,
		HealthCheck: hcloud.LoadBalancerServiceHealthCheck{Protocol: "tcp", Port: 30080, Interval: 15 * time.Second, Timeout: 10 * time.Second, Retries: 3},
	}}, lb.Services, cmpopts.EquateEmpty())
	health := func(target int) hcloud.LoadBalancerTargetHealthStatusStatus {
		reload()
		return lb.Targets[target].HealthStatus[0].Status
	}
	l.await(t, "the health check", func() bool { return health(0) == "healthy" })

	server, _, err := client.Server.GetByID(ctx, one.ID)
	must(err)
	expect("load balancers of the server", 1, len(server.LoadBalancers))
	network, _, err := client.Network.GetByID(ctx, n.ID)
	must(err)
	expect("load balancers in the network", 1, len(network.LoadBalancers))

	wait(client.LoadBalancer.AddServerTarget(ctx, lb, hcloud.LoadBalancerAddServerTargetOpts{Server: &hcloud.Server{ID: two.ID}, UsePrivateIP: hcloud.Ptr(true)}))
	expect("targets", 2, len(lb.Targets))
	wait(client.LoadBalancer.RemoveServerTarget(ctx, lb, &hcloud.Server{ID: one.ID}))
	expect("target", two.ID, lb.Targets[0].Server.Server.ID)
	wait(client.LoadBalancer.AddLabelSelectorTarget(ctx, lb, hcloud.LoadBalancerAddLabelSelectorTargetOpts{Selector: "a=b", UsePrivateIP: hcloud.Ptr(true)}))
	expect("selector", "a=b", lb.Targets[1].LabelSelector.Selector)
	wait(client.LoadBalancer.RemoveLabelSelectorTarget(ctx, lb, "a=b"))
	wait(client.LoadBalancer.AddIPTarget(ctx, lb, hcloud.LoadBalancerAddIPTargetOpts{IP: net.ParseIP("198.51.100.77")}))
	wait(client.LoadBalancer.RemoveIPTarget(ctx, lb, net.ParseIP("198.51.100.77")))
	expect("targets", 1, len(lb.Targets))

	wait(client.LoadBalancer.UpdateService(ctx, lb, 80, hcloud.LoadBalancerUpdateServiceOpts{DestinationPort: hcloud.Ptr(30081), Proxyprotocol: hcloud.Ptr(true)}))
	expect("updated service", "30081 true 30080", fmt.Sprint(lb.Services[0].DestinationPort, lb.Services[0].Proxyprotocol, lb.Services[0].HealthCheck.Port))
	wait(client.LoadBalancer.DeleteService(ctx, lb, 80))
	expect("services", 0, len(lb.Services))
	wait(client.LoadBalancer.AddService(ctx, lb, hcloud.LoadBalancerAddServiceOpts{
		Protocol: "http",
		HTTP:     &hcloud.LoadBalancerAddServiceOptsHTTP{StickySessions: hcloud.Ptr(true), CookieName: hcloud.Ptr("C")},
		HealthCheck: &hcloud.LoadBalancerAddServiceOptsHealthCheck{
			Protocol: "http", HTTP: &hcloud.LoadBalancerAddServiceOptsHealthCheckHTTP{Path: hcloud.Ptr("/healthz"), Domain: hcloud.Ptr("example.com")},
		},
	}))
	expect("services", []hcloud.LoadBalancerService{{
		Protocol: "http", ListenPort: 80, DestinationPort: 80,
		HTTP: hcloud.LoadBalancerServiceHTTP{CookieName: "C", CookieLifetime: 5 * time.Minute, StickySessions: true, TimeoutIdle: 50 * time.Second},
		HealthCheck: hcloud.LoadBalancerServiceHealthCheck{
			Protocol: "http", Port: 80, Interval: 15 * time.Second, Timeout: 10 * time.Second, Retries: 3,
			HTTP: &hcloud.LoadBalancerServiceHealthCheckHTTP{Path: "/healthz", Domain: "example.com", StatusCodes: []string{"2??", "3??"}},
		},
	}}, lb.Services, cmpopts.EquateEmpty())

	wait(client.LoadBalancer.ChangeAlgorithm(ctx, lb, hcloud.LoadBalancerChangeAlgorithmOpts{Type: "least_connections"}))
	expect("algorithm", hcloud.LoadBalancerAlgorithmTypeLeastConnections, lb.Algorithm.Type)
	wait(client.LoadBalancer.ChangeType(ctx, lb, hcloud.LoadBalancerChangeTypeOpts{LoadBalancerType: &hcloud.LoadBalancerType{Name: "lb21"}}))
	expect("type", "lb21", lb.LoadBalancerType.Name)
	wait(client.LoadBalancer.DisablePublicInterface(ctx, lb))
	expect("public interface", false, lb.PublicNet.Enabled)
	wait(client.LoadBalancer.EnablePublicInterface(ctx, lb))
	expect("public interface", true, lb.PublicNet.Enabled)
	wait(client.LoadBalancer.ChangeDNSPtr(ctx, lb, lb.PublicNet.IPv6.IP.String(), hcloud.Ptr("lb.example.com")))
	expect("reverse DNS", "static.3.113.0.203.clients.your-server.de lb.example.com", lb.PublicNet.IPv4.DNSPtr+" "+lb.PublicNet.IPv6.DNSPtr)
	wait(client.LoadBalancer.ChangeDNSPtr(ctx, lb, lb.PublicNet.IPv6.IP.String(), nil))
	expect("reverse DNS", "", lb.PublicNet.IPv6.DNSPtr)

	wait(client.LoadBalancer.DetachFromNetwork(ctx, lb, hcloud.LoadBalancerDetachFromNetworkOpts{Network: network}))
	expect("networks, targets", "0 0", fmt.Sprint(len(lb.PrivateNet), len(lb.Targets)))
	wait(client.LoadBalancer.AttachToNetwork(ctx, lb, hcloud.LoadBalancerAttachToNetworkOpts{Network: network, IP: net.ParseIP("10.0.0.99"), IPRange: mustCIDR("10.0.0.0/24")}))
	expect("asked IP", "10.0.0.99", lb.PrivateNet[0].IP.String())

	_, _, err = client.LoadBalancer.Update(ctx, lb, hcloud.LoadBalancerUpdateOpts{Name: "other", Labels: map[string]string{"c": "d"}})
	must(err)
	lb, _, err = client.LoadBalancer.GetByName(ctx, "other")
	must(err)
	expect("labels", map[string]string{"c": "d"}, lb.Labels)

	wait(client.LoadBalancer.ChangeProtection(ctx, lb, hcloud.LoadBalancerChangeProtectionOpts{Delete: hcloud.Ptr(true)}))
	_, _, err = client.LoadBalancer.DeleteWithResult(ctx, lb)
	if !hcloud.IsError(err, hcloud.ErrorCodeProtected) {
		t.Errorf("protected load balancer: %v", err)
	}
	wait(client.LoadBalancer.ChangeProtection(ctx, lb, hcloud.LoadBalancerChangeProtectionOpts{Delete: hcloud.Ptr(false)}))
	gone, _, err := client.LoadBalancer.DeleteWithResult(ctx, lb)
	must(err)
	must(client.Action.WaitFor(ctx, gone.Action)) // polled after the load balancer is gone
	reload()
	if lb != nil {
		t.Errorf("load balancer is still there: %v", lb)
	}
	network, _, err = client.Network.GetByID(ctx, n.ID)
	must(err)
	expect("load balancers in the network", 0, len(network.LoadBalancers))
}
