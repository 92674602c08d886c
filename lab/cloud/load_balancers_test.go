package cloud_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
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
	n := l.network(t)
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

// TestLoadBalancerInvalid sends what the API refuses to a project that has
// something of everything.
func TestLoadBalancerInvalid(t *testing.T) {
	l := newLab(t, cloud.Config{Limits: cloud.Limits{LoadBalancers: 5}})
	n, other := l.network(t), l.ok(t, "POST", "/v1/networks", `{"name":"other","ip_range":"192.168.0.0/16","subnets":[
		{"type":"cloud","network_zone":"eu-central"},{"type":"vswitch","vswitch_id":7,"network_zone":"eu-central"}]}`).Network
	inside, outside := l.server(t, "inside", n.ID), l.server(t, "outside")
	mute := l.ok(t, "POST", "/v1/servers", `{"name":"mute","server_type":"cx23","image":"debian-12","public_net":{"enable_ipv4":false}}`)
	l.finish(t, mute)
	text, key := pair(t)
	cert := l.ok(t, "POST", "/v1/certificates", upload("cert", text, key)).Certificate.ID
	free := l.balancer(t, "free", "")
	lb := l.balancer(t, "lb", fmt.Sprintf(`,"network":%d,"services":[{"protocol":"tcp","listen_port":80,"destination_port":81},{"protocol":"https","http":{"certificates":[%d]}}],
		"targets":[{"type":"server","server":{"id":%d}}]`, n.ID, cert, inside.ID))
	vSwitch := l.balancer(t, "vswitch", fmt.Sprintf(`,"network":%d`, other.ID))
	private := l.balancer(t, "private", fmt.Sprintf(`,"network":%d,"public_interface":false`, n.ID))
	before := l.ok(t, "GET", "/v1/load_balancers", "").text

	path := fmt.Sprintf("/v1/load_balancers/%d", lb.ID)
	action := func(lb schema.LoadBalancer, command string) string {
		return fmt.Sprintf("/v1/load_balancers/%d/actions/%s", lb.ID, command)
	}
	create := func(more string) string {
		return `{"name":"new","load_balancer_type":"lb11","location":"fsn1"` + more + `}`
	}
	service := func(more string) string {
		return `{"protocol":"http","listen_port":8080` + more + `}`
	}
	check := func(more string) string { return service(`,"health_check":{"protocol":"http"` + more + `}`) }
	web := func(more string) string { return service(`,"http":{` + more + `}`) }
	server := func(id int64, more string) string {
		return fmt.Sprintf(`{"type":"server","server":{"id":%d}%s}`, id, more)
	}
	invalid := func(field string) refused {
		return refused{422, "invalid_input", "invalid input in field '" + field + "'", field}
	}
	const viaNetwork = `,"use_private_ip":true`

	for name, test := range map[string]struct {
		method, path, body string
		want               refused
	}{
		"no name":               {"POST", "/v1/load_balancers", `{"load_balancer_type":"lb11","location":"fsn1"}`, invalid("name")},
		"name with space":       {"POST", "/v1/load_balancers", `{"name":" x","load_balancer_type":"lb11","location":"fsn1"}`, invalid("name")},
		"name taken":            {"POST", "/v1/load_balancers", `{"name":"lb","load_balancer_type":"lb11","location":"fsn1"}`, refused{409, "uniqueness_error", "name is already used", "name"}},
		"no type":               {"POST", "/v1/load_balancers", `{"name":"x","location":"fsn1"}`, invalid("load_balancer_type")},
		"unknown type":          {"POST", "/v1/load_balancers", `{"name":"x","load_balancer_type":"lb99","location":"fsn1"}`, refused{422, "invalid_input", "load balancer type not found", "load_balancer_type"}},
		"nowhere":               {"POST", "/v1/load_balancers", `{"name":"x","load_balancer_type":"lb11"}`, invalid("location")},
		"location and zone":     {"POST", "/v1/load_balancers", create(`,"network_zone":"eu-central"`), invalid("network_zone")},
		"unknown location":      {"POST", "/v1/load_balancers", `{"name":"x","load_balancer_type":"lb11","location":"fsn9"}`, refused{422, "invalid_input", "location not found", "location"}},
		"unknown zone":          {"POST", "/v1/load_balancers", `{"name":"x","load_balancer_type":"lb11","network_zone":"eu"}`, invalid("network_zone")},
		"unknown algorithm":     {"POST", "/v1/load_balancers", create(`,"algorithm":{"type":"x"}`), invalid("algorithm.type")},
		"empty algorithm":       {"POST", "/v1/load_balancers", create(`,"algorithm":{}`), invalid("algorithm.type")},
		"label":                 {"POST", "/v1/load_balancers", create(`,"labels":{"a":"b c"}`), invalid("labels")},
		"unknown network":       {"POST", "/v1/load_balancers", create(`,"network":1`), refused{422, "invalid_input", "network with ID 1 not found", "network"}},
		"unknown primary IP":    {"POST", "/v1/load_balancers", create(`,"public_net":{"ipv4":1}`), refused{422, "invalid_input", "primary IP with ID 1 not found", "public_net.ipv4"}},
		"primary IP in use":     {"POST", "/v1/load_balancers", create(fmt.Sprintf(`,"public_net":{"ipv4":%d}`, inside.PublicNet.IPv4.ID)), refused{422, "primary_ip_assigned", "primary IP is already assigned", ""}},
		"primary IP of type":    {"POST", "/v1/load_balancers", create(fmt.Sprintf(`,"public_net":{"ipv6":%d}`, inside.PublicNet.IPv4.ID)), refused{412, "primary_ip_version_mismatch", "primary IP is not of type ipv6", ""}},
		"port twice":            {"POST", "/v1/load_balancers", create(`,"services":[` + service("") + "," + service("") + `]`), refused{412, "source_port_already_used", "", ""}},
		"too many services":     {"POST", "/v1/load_balancers", create(`,"services":[` + manyServices(6) + `]`), refused{403, "resource_limit_exceeded", "load balancer service limit reached", ""}},
		"null for a service":    {"POST", "/v1/load_balancers", create(`,"services":[null]`), invalid("protocol")},
		"null for a target":     {"POST", "/v1/load_balancers", create(`,"targets":[null]`), invalid("type")},
		"service of wrong type": {"POST", "/v1/load_balancers", create(`,"services":[{"protocol":"tcp","listen_port":"80"}]`), invalid("services.listen_port")},
		"target twice": {
			"POST", "/v1/load_balancers", create(`,"targets":[` + server(inside.ID, "") + "," + server(inside.ID, "") + `]`),
			refused{422, "target_already_defined", "", ""},
		},
		"private target without network": {
			"POST", "/v1/load_balancers", create(`,"targets":[` + server(inside.ID, viaNetwork) + `]`),
			refused{422, "load_balancer_not_attached_to_network", "load balancer is not attached to a network", ""},
		},
		"private target elsewhere": {
			"POST", "/v1/load_balancers", create(fmt.Sprintf(`,"network":%d,"targets":[%s]`, other.ID, server(inside.ID, viaNetwork))),
			refused{422, "resolve_cloud_private_targets_error", "", ""},
		},
		"public target without IPv4":   {"POST", "/v1/load_balancers", create(`,"targets":[` + server(mute.Server.ID, "") + `]`), refused{422, "resolve_cloud_public_targets_error", "", ""}},
		"public target, no interface":  {"POST", "/v1/load_balancers", create(`,"public_interface":false,"targets":[` + server(inside.ID, "") + `]`), refused{422, "load_balancer_public_interface_disabled", "", ""}},
		"label on update":              {"PUT", path, `{"labels":{"a":"b c"}}`, invalid("labels")},
		"rename to taken name":         {"PUT", path, `{"name":"free"}`, refused{409, "uniqueness_error", "name is already used", "name"}},
		"unknown load balancer":        {"GET", "/v1/load_balancers/1", ``, refused{404, "not_found", "load balancer with ID 1 not found", ""}},
		"unknown load balancer type":   {"GET", "/v1/load_balancer_types/9", ``, refused{404, "not_found", "load balancer type with ID 9 not found", ""}},
		"actions of an unknown one":    {"GET", "/v1/load_balancers/1/actions", ``, refused{404, "not_found", "load balancer with ID 1 not found", ""}},
		"metrics are not there":        {"GET", path + "/metrics", ``, refused{404, "not_found", "api route not found", ""}},
		"service without protocol":     {"POST", action(lb, "add_service"), `{"listen_port":8080}`, invalid("protocol")},
		"service of unknown protocol":  {"POST", action(lb, "add_service"), `{"protocol":"udp","listen_port":8080}`, invalid("protocol")},
		"tcp without port":             {"POST", action(lb, "add_service"), `{"protocol":"tcp","destination_port":80}`, invalid("listen_port")},
		"tcp without destination":      {"POST", action(lb, "add_service"), `{"protocol":"tcp","listen_port":8080}`, invalid("destination_port")},
		"port too large":               {"POST", action(lb, "add_service"), `{"protocol":"tcp","listen_port":65536,"destination_port":80}`, invalid("listen_port")},
		"port in use":                  {"POST", action(lb, "add_service"), `{"protocol":"http"}`, refused{412, "source_port_already_used", "", ""}},
		"port of a redirect":           {"POST", action(lb, "update_service"), `{"listen_port":443,"http":{"redirect_http":true}}`, refused{422, "source_port_already_used", "", ""}},
		"redirect to itself":           {"POST", action(free, "add_service"), fmt.Sprintf(`{"protocol":"https","listen_port":80,"http":{"certificates":[%d],"redirect_http":true}}`, cert), refused{412, "source_port_already_used", "", ""}},
		"https without certificate":    {"POST", action(free, "add_service"), `{"protocol":"https"}`, invalid("http.certificates")},
		"unknown certificate":          {"POST", action(free, "add_service"), `{"protocol":"https","http":{"certificates":[1]}}`, refused{422, "invalid_input", "certificate with ID 1 not found", "http.certificates"}},
		"redirect without https":       {"POST", action(lb, "add_service"), web(`"redirect_http":true`), invalid("http.redirect_http")},
		"cookie without name":          {"POST", action(lb, "add_service"), web(`"cookie_name":""`), invalid("http.cookie_name")},
		"cookie lives too long":        {"POST", action(lb, "add_service"), web(`"cookie_lifetime":86401`), invalid("http.cookie_lifetime")},
		"idle for too short":           {"POST", action(lb, "add_service"), web(`"timeout_idle":29`), invalid("http.timeout_idle")},
		"idle for too long":            {"POST", action(lb, "update_service"), `{"listen_port":443,"http":{"timeout_idle":301}}`, invalid("http.timeout_idle")},
		"check of unknown protocol":    {"POST", action(lb, "add_service"), service(`,"health_check":{"protocol":"icmp"}`), invalid("health_check.protocol")},
		"check on no port":             {"POST", action(lb, "add_service"), check(`,"port":70000`), invalid("health_check.port")},
		"check too often":              {"POST", action(lb, "add_service"), check(`,"interval":2`), invalid("health_check.interval")},
		"check never":                  {"POST", action(lb, "add_service"), check(`,"interval":0`), invalid("health_check.interval")},
		"check takes too long":         {"POST", action(lb, "add_service"), check(`,"timeout":61`), invalid("health_check.timeout")},
		"check six times":              {"POST", action(lb, "add_service"), check(`,"retries":6`), invalid("health_check.retries")},
		"check without path":           {"POST", action(lb, "add_service"), check(`,"http":{"path":""}`), invalid("health_check.http.path")},
		"check of a path with space":   {"POST", action(lb, "add_service"), check(`,"http":{"path":"/a b"}`), invalid("health_check.http.path")},
		"check of a strange domain":    {"POST", action(lb, "add_service"), check(`,"http":{"domain":"a%b"}`), invalid("health_check.http.domain")},
		"check for a long answer":      {"POST", action(lb, "add_service"), check(`,"http":{"response":"` + strings.Repeat("x", 257) + `"}`), invalid("health_check.http.response")},
		"check for many codes":         {"POST", action(lb, "add_service"), check(`,"http":{"status_codes":[` + strings.Repeat(`"200",`, 20) + `"200"]}`), invalid("health_check.http.status_codes")},
		"update without port":          {"POST", action(lb, "update_service"), `{"protocol":"tcp"}`, invalid("listen_port")},
		"update of no service":         {"POST", action(lb, "update_service"), `{"listen_port":9,"protocol":"tcp"}`, refused{404, "not_found", fmt.Sprintf("service with listen port 9 for load balancer with ID %d not found", lb.ID), ""}},
		"update with malformed body":   {"POST", action(lb, "update_service"), `{"listen_port":443,"http":7}`, invalid("http")},
		"update takes certificates":    {"POST", action(lb, "update_service"), `{"listen_port":443,"http":{"certificates":[]}}`, invalid("http.certificates")},
		"deletion of no service":       {"POST", action(lb, "delete_service"), `{"listen_port":9}`, refused{404, "not_found", fmt.Sprintf("service with listen port 9 for load balancer with ID %d not found", lb.ID), ""}},
		"deletion of service nowhere":  {"POST", action(lb, "delete_service"), `{}`, invalid("listen_port")},
		"target without type":          {"POST", action(lb, "add_target"), `{}`, invalid("type")},
		"target of unknown type":       {"POST", action(lb, "add_target"), `{"type":"x"}`, invalid("type")},
		"target without server":        {"POST", action(lb, "add_target"), `{"type":"server"}`, invalid("server")},
		"target without selector":      {"POST", action(lb, "add_target"), `{"type":"label_selector"}`, invalid("label_selector")},
		"target of empty selector":     {"POST", action(lb, "add_target"), `{"type":"label_selector","label_selector":{"selector":""}}`, invalid("label_selector.selector")},
		"target of bad selector":       {"POST", action(lb, "add_target"), `{"type":"label_selector","label_selector":{"selector":"a in"}}`, invalid("label_selector.selector")},
		"target of long selector":      {"POST", action(lb, "add_target"), `{"type":"label_selector","label_selector":{"selector":"` + strings.Repeat("a", 1001) + `"}}`, invalid("label_selector.selector")},
		"target of no IP":              {"POST", action(lb, "add_target"), `{"type":"ip","ip":{"ip":"x"}}`, invalid("ip.ip")},
		"IP target, private":           {"POST", action(lb, "add_target"), `{"type":"ip","ip":{"ip":"198.51.100.9"}` + viaNetwork + `}`, invalid("use_private_ip")},
		"unknown server as target":     {"POST", action(lb, "add_target"), server(123, ""), refused{422, "invalid_input", "server with ID 123 not found", "server"}},
		"target defined already":       {"POST", action(lb, "add_target"), server(inside.ID, viaNetwork), refused{422, "target_already_defined", "", ""}},
		"target not in the network":    {"POST", action(lb, "add_target"), server(outside.ID, viaNetwork), refused{422, "resolve_cloud_private_targets_error", "", ""}},
		"target without the network":   {"POST", action(free, "add_target"), server(inside.ID, viaNetwork), refused{422, "load_balancer_not_attached_to_network", "", ""}},
		"selector without the network": {"POST", action(free, "add_target"), `{"type":"label_selector","label_selector":{"selector":"a"}` + viaNetwork + `}`, refused{422, "load_balancer_not_attached_to_network", "", ""}},
		"target without IPv4":          {"POST", action(lb, "add_target"), server(mute.Server.ID, ""), refused{422, "resolve_cloud_public_targets_error", "", ""}},
		"public target of private":     {"POST", action(private, "add_target"), server(inside.ID, ""), refused{422, "load_balancer_public_interface_disabled", "", ""}},
		"target at another's IP": {
			"POST", action(lb, "add_target"), fmt.Sprintf(`{"type":"server","server":{"id":%d,"ip":"2001:db8:77::1"}}`, outside.ID),
			refused{422, "ip_not_assigned_to_server", "", ""},
		},
		"target at an IP, private": {"POST", action(lb, "add_target"), fmt.Sprintf(`{"type":"server","server":{"id":%d,"ip":%q}%s}`, outside.ID, outside.PublicNet.IPv4.IP, viaNetwork), invalid("server.ip")},
		"IP of a server":           {"POST", action(lb, "add_target"), fmt.Sprintf(`{"type":"ip","ip":{"ip":%q}}`, outside.PublicNet.IPv4.IP), refused{422, "ip_not_owned", "", ""}},
		"IP of a load balancer":    {"POST", action(lb, "add_target"), fmt.Sprintf(`{"type":"ip","ip":{"ip":%q}}`, free.PublicNet.IPv6.IP), refused{422, "ip_not_owned", "", ""}},
		"private IP, no network":   {"POST", action(free, "add_target"), `{"type":"ip","ip":{"ip":"192.168.1.9"}}`, refused{422, "load_balancer_not_attached_to_network", "", ""}},
		"private IP, no vSwitch":   {"POST", action(lb, "add_target"), `{"type":"ip","ip":{"ip":"10.0.0.9"}}`, refused{422, "network_has_no_vswitch_subnet", "", ""}},
		"private IP elsewhere":     {"POST", action(vSwitch, "add_target"), `{"type":"ip","ip":{"ip":"192.168.0.9"}}`, refused{422, "ip_not_in_vswitch_subnet", "", ""}},
		"removal of no server":     {"POST", action(lb, "remove_target"), server(123, ""), refused{422, "invalid_input", "server with ID 123 not found", "server"}},
		"removal of no target":     {"POST", action(lb, "remove_target"), server(outside.ID, ""), refused{404, "load_balancer_target_not_found", "load balancer target not found", ""}},
		"attachment to nothing":    {"POST", action(free, "attach_to_network"), `{}`, invalid("network")},
		"attachment to unknown":    {"POST", action(free, "attach_to_network"), `{"network":1}`, refused{422, "invalid_input", "network with ID 1 not found", "network"}},
		"attachment twice":         {"POST", action(lb, "attach_to_network"), fmt.Sprintf(`{"network":%d}`, n.ID), refused{422, "load_balancer_already_attached", "", ""}},
		"attachment to a second":   {"POST", action(lb, "attach_to_network"), fmt.Sprintf(`{"network":%d}`, other.ID), refused{422, "load_balancer_already_attached", "", ""}},
		"attachment at a used IP":  {"POST", action(free, "attach_to_network"), fmt.Sprintf(`{"network":%d,"ip":%q}`, n.ID, inside.PrivateNet[0].IP), refused{422, "ip_not_available", "IP 10.0.0.2 is not available", ""}},
		"attachment to no subnet":  {"POST", action(free, "attach_to_network"), fmt.Sprintf(`{"network":%d,"ip_range":"10.0.9.0/24"}`, n.ID), refused{422, "no_subnet_available", "", ""}},
		"detachment from nothing":  {"POST", action(lb, "detach_from_network"), `{}`, invalid("network")},
		"detachment from another":  {"POST", action(lb, "detach_from_network"), fmt.Sprintf(`{"network":%d}`, other.ID), refused{404, "not_found", "load balancer is not attached", ""}},
		"no interface at all":      {"POST", action(free, "disable_public_interface"), ``, refused{422, "load_balancer_not_attached_to_network", "", ""}},
		"interface still needed":   {"POST", action(lb, "disable_public_interface"), ``, refused{422, "targets_without_use_private_ip", "", ""}},
		"algorithm is none":        {"POST", action(lb, "change_algorithm"), `{"type":"x"}`, invalid("type")},
		"type is none":             {"POST", action(lb, "change_type"), `{}`, invalid("load_balancer_type")},
		"type is the same":         {"POST", action(lb, "change_type"), `{"load_balancer_type":1}`, refused{422, "invalid_load_balancer_type", "", ""}},
		"pointer of another's":     {"POST", action(lb, "change_dns_ptr"), `{"ip":"203.0.113.99","dns_ptr":"a.b"}`, invalid("ip")},
		"pointer of no IP":         {"POST", action(lb, "change_dns_ptr"), `{"ip":"x","dns_ptr":"a.b"}`, invalid("ip")},
		"pointer without IP":       {"POST", action(lb, "change_dns_ptr"), `{"dns_ptr":"a.b"}`, invalid("ip")},
		"pointer to nonsense":      {"POST", action(lb, "change_dns_ptr"), fmt.Sprintf(`{"ip":%q,"dns_ptr":"a b"}`, lb.PublicNet.IPv4.IP), invalid("dns_ptr")},
		"subnet of a balancer":     {"POST", fmt.Sprintf("/v1/networks/%d/actions/delete_subnet", other.ID), `{"ip_range":"192.168.0.0/24"}`, refused{422, "service_error", "cannot remove subnet because network has attached resources", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, l.do(t, test.method, test.path, test.body))
		})
	}

	// Nothing of that had an effect.
	if diff := cmp.Diff(sortKeys(t, before), sortKeys(t, l.ok(t, "GET", "/v1/load_balancers", "").text)); diff != "" {
		t.Errorf("load balancers have changed (-want +got):\n%s", diff)
	}
	members := l.ok(t, "GET", fmt.Sprintf("/v1/networks/%d/members?sort=id", n.ID), "").Members
	if len(members) != 3 {
		t.Errorf("members %v, want one server and two load balancers", members)
	}
	l.balancer(t, "new", "")
	refused{403, "resource_limit_exceeded", "load balancer limit reached", ""}.check(t, l.do(t, "POST", "/v1/load_balancers", `{"name":"x","load_balancer_type":"lb11","location":"fsn1"}`))
}

// manyServices are n services for the body of a creation.
func manyServices(n int) string {
	services := []string{}
	for i := range n {
		services = append(services, fmt.Sprintf(`{"protocol":"tcp","listen_port":%d,"destination_port":80}`, 1000+i))
	}
	return strings.Join(services, ",")
}

// TestLoadBalancerLimits fills a load balancer, and moves it to another type.
func TestLoadBalancerLimits(t *testing.T) {
	l := newLab(t, cloud.Config{})
	targets := []string{}
	for i := range 25 {
		targets = append(targets, fmt.Sprintf(`{"type":"ip","ip":{"ip":"198.51.100.%d"}}`, i+1))
	}
	lb := l.balancer(t, "lb", `,"services":[`+manyServices(5)+`],"targets":[`+strings.Join(targets, ",")+`]`)
	path := fmt.Sprintf("/v1/load_balancers/%d/actions/", lb.ID)
	const service, target = `{"protocol":"http"}`, `{"type":"ip","ip":{"ip":"198.51.100.99"}}`
	got := l.do(t, "POST", path+"add_target", target)
	refused{403, "resource_limit_exceeded", "load balancer target limit reached", ""}.check(t, got)
	if diff := cmp.Diff([]struct{ Name string }{{"load_balancer_targets"}}, got.Error.Details.Limits); diff != "" {
		t.Errorf("details differ (-want +got):\n%s", diff)
	}
	refused{403, "resource_limit_exceeded", "load balancer service limit reached", ""}.check(t, l.do(t, "POST", path+"add_service", service))

	l.finish(t, l.ok(t, "POST", path+"change_type", `{"load_balancer_type":"lb21"}`))
	l.finish(t, l.ok(t, "POST", path+"add_service", service))
	refused{422, "invalid_load_balancer_type", "", ""}.check(t, l.do(t, "POST", path+"change_type", `{"load_balancer_type":"lb11"}`))
	l.finish(t, l.ok(t, "POST", path+"delete_service", `{"listen_port":80}`))
	l.finish(t, l.ok(t, "POST", path+"add_target", target))
	refused{422, "invalid_load_balancer_type", "", ""}.check(t, l.do(t, "POST", path+"change_type", `{"load_balancer_type":"lb11"}`))
	l.finish(t, l.ok(t, "POST", path+"remove_target", target))
	l.finish(t, l.ok(t, "POST", path+"change_type", `{"load_balancer_type":"lb11"}`))
}

// TestCertificateLimit counts each certificate once.
func TestCertificateLimit(t *testing.T) {
	l := newLab(t, cloud.Config{})
	ids := []string{}
	for i := range 11 {
		text, key := pair(t)
		ids = append(ids, fmt.Sprint(l.ok(t, "POST", "/v1/certificates", upload(fmt.Sprint("c", i), text, key)).Certificate.ID))
	}
	lb := l.balancer(t, "lb", `,"services":[{"protocol":"https","http":{"certificates":[`+strings.Join(ids[:10], ",")+`]}}]`)
	path := fmt.Sprintf("/v1/load_balancers/%d/actions/add_service", lb.ID)
	l.finish(t, l.ok(t, "POST", path, `{"protocol":"https","listen_port":444,"http":{"certificates":[`+ids[3]+`]}}`))
	refused{403, "resource_limit_exceeded", "load balancer certificate limit reached", ""}.check(t,
		l.do(t, "POST", path, `{"protocol":"https","listen_port":445,"http":{"certificates":[`+ids[10]+`]}}`))
}

// TestLoadBalancerConflict: one change at a time, 409 to all others meanwhile.
func TestLoadBalancerConflict(t *testing.T) {
	l := newLab(t, cloud.Config{Profile: cloud.Realistic})
	a := l.ok(t, "POST", "/v1/load_balancers", `{"name":"lb","load_balancer_type":"lb11","network_zone":"eu-central"}`)
	path := fmt.Sprintf("/v1/load_balancers/%d", a.LoadBalancer.ID)
	if a.Action.Status != "running" {
		t.Errorf("action is not running: %s", a.text)
	}
	for _, test := range []struct{ method, path, body string }{
		{"POST", "/actions/add_service", `{"protocol":"http"}`},
		{"POST", "/actions/update_service", `{"listen_port":80}`},
		{"POST", "/actions/delete_service", `{"listen_port":80}`},
		{"POST", "/actions/add_target", `{"type":"ip","ip":{"ip":"198.51.100.9"}}`},
		{"POST", "/actions/remove_target", `{"type":"ip","ip":{"ip":"198.51.100.9"}}`},
		{"POST", "/actions/attach_to_network", `{"network":1}`},
		{"POST", "/actions/detach_from_network", `{"network":1}`},
		{"POST", "/actions/enable_public_interface", ``},
		{"POST", "/actions/disable_public_interface", ``},
		{"POST", "/actions/change_algorithm", `{"type":"least_connections"}`},
		{"POST", "/actions/change_type", `{"load_balancer_type":"lb21"}`},
		{"POST", "/actions/change_dns_ptr", `{"ip":"203.0.113.1"}`},
		{"POST", "/actions/change_protection", `{"delete":true}`},
		{"PUT", "", `{"name":"other"}`},
		{"DELETE", "", ``},
	} {
		t.Run(test.method+test.path, func(t *testing.T) {
			refused{409, "conflict", "load balancer has changed during request", ""}.check(t, l.do(t, test.method, path+test.path, test.body))
		})
	}
	// A change of the network is a conflict for those who want in.
	n := l.network(t)
	l.ok(t, "POST", fmt.Sprintf("/v1/networks/%d/actions/add_route", n.ID), `{"destination":"10.1.0.0/24","gateway":"10.0.0.5"}`)
	refused{409, "conflict", "network has changed during request", ""}.check(t, l.do(t, "POST", "/v1/load_balancers",
		fmt.Sprintf(`{"name":"two","load_balancer_type":"lb11","location":"fsn1","network":%d}`, n.ID)))
}

// TestLoadBalancerFaults: what fails has no effect, what is stuck locks.
func TestLoadBalancerFaults(t *testing.T) {
	l := newLab(t, cloud.Config{})
	n := l.network(t)
	ip := l.ok(t, "POST", "/v1/primary_ips", `{"name":"ip","type":"ipv4","location":"fsn1"}`).PrimaryIP
	l.fault(t, `{"effect":"fail","method":"POST","path":"/load_balancers"}`)
	a := l.ok(t, "POST", "/v1/load_balancers", fmt.Sprintf(`{"name":"lb","load_balancer_type":"lb11","location":"fsn1","network":%d,"public_net":{"ipv4":%d}}`, n.ID, ip.ID))
	if got := l.finish(t, a); got.Status != "error" || got.Error.Code != "action_failed" {
		t.Errorf("action %+v", got)
	}
	refused{404, "not_found", "", ""}.check(t, l.do(t, "GET", fmt.Sprintf("/v1/load_balancers/%d", a.LoadBalancer.ID), ""))
	if got := l.ok(t, "GET", fmt.Sprintf("/v1/networks/%d/members", n.ID), "").Members; len(got) != 0 {
		t.Errorf("members %v, want none", got)
	}
	if got := l.ok(t, "GET", fmt.Sprintf("/v1/primary_ips/%d", ip.ID), "").PrimaryIP; got.AssigneeID != nil {
		t.Errorf("primary IP is still assigned: %+v", got)
	}

	lb := l.balancer(t, "lb", "")
	path := fmt.Sprintf("/v1/load_balancers/%d/actions/", lb.ID)
	for command, body := range map[string]string{
		"add_service":       `{"protocol":"http"}`,
		"add_target":        `{"type":"ip","ip":{"ip":"198.51.100.9"}}`,
		"attach_to_network": fmt.Sprintf(`{"network":%d}`, n.ID),
		"change_algorithm":  `{"type":"least_connections"}`,
		"change_type":       `{"load_balancer_type":"lb21"}`,
	} {
		t.Run(command, func(t *testing.T) {
			id := l.fault(t, `{"effect":"fail","path":"/load_balancers/*/actions/`+command+`"}`)
			if got := l.finish(t, l.ok(t, "POST", path+command, body)); got.Status != "error" {
				t.Errorf("action %+v", got)
			}
			l.ok(t, "DELETE", fmt.Sprintf("/_lab/faults/%d", id), "")
			if diff := cmp.Diff(lb, l.loadBalancer(t, lb.ID)); diff != "" {
				t.Errorf("load balancer has changed (-want +got):\n%s", diff)
			}
		})
	}

	l.fault(t, `{"effect":"stuck","path":"/load_balancers/*/actions/attach_to_network"}`)
	stuck := l.ok(t, "POST", path+"attach_to_network", fmt.Sprintf(`{"network":%d}`, n.ID))
	refused{409, "conflict", "", ""}.check(t, l.do(t, "POST", path+"add_service", `{"protocol":"http"}`))
	if got := l.loadBalancer(t, lb.ID).PrivateNet; len(got) != 0 {
		t.Errorf("networks %v while the attachment is stuck", got)
	}
	l.ClearFaults("p")
	l.finish(t, stuck)
	if got := l.loadBalancer(t, lb.ID).PrivateNet; len(got) != 1 {
		t.Errorf("networks %v, want one", got)
	}
}

// TestTargetsGo: targets go with their servers and networks, wherever the
// change comes from.
func TestTargetsGo(t *testing.T) {
	for name, test := range map[string]struct {
		method, path, body string
		want               string
	}{
		"nothing":                {"PUT", "/servers/{one}", `{"labels":{"role":"worker"}}`, "one private, two public, [one two] private, ip"},
		"server deleted":         {"DELETE", "/servers/{one}", ``, "two public, [two] private, ip"},
		"public server deleted":  {"DELETE", "/servers/{two}", ``, "one private, [one] private, ip"},
		"server leaves network":  {"POST", "/servers/{one}/actions/detach_from_network", `{"network":{net}}`, "two public, [two] private, ip"},
		"balancer leaves":        {"POST", "/load_balancers/{lb}/actions/detach_from_network", `{"network":{net}}`, "two public, ip"},
		"network deleted":        {"DELETE", "/networks/{net}", ``, "two public, ip"},
		"label gone":             {"PUT", "/servers/{two}", `{"labels":{}}`, "one private, two public, [one] private, ip"},
		"server off stays":       {"POST", "/servers/{one}/actions/poweroff", ``, "one private, two public, [one two] private, ip"},
		"selector removed":       {"POST", "/load_balancers/{lb}/actions/remove_target", `{"type":"label_selector","label_selector":{"selector":"role=worker"}}`, "one private, two public, ip"},
		"address removed":        {"POST", "/load_balancers/{lb}/actions/remove_target", `{"type":"ip","ip":{"ip":"198.51.100.9"}}`, "one private, two public, [one two] private"},
		"private target removed": {"POST", "/load_balancers/{lb}/actions/remove_target", `{"type":"server","server":{"id":{one}}}`, "two public, [one two] private, ip"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, cloud.Config{})
			n := l.network(t)
			names := map[int64]string{}
			ids := map[string]int64{"net": n.ID}
			for _, name := range []string{"one", "two"} {
				s := l.server(t, name, n.ID)
				l.ok(t, "PUT", fmt.Sprintf("/_lab/v1/servers/%d", s.ID), `{"labels":{"role":"worker"}}`)
				names[s.ID], ids[name] = name, s.ID
			}
			lb := l.balancer(t, "lb", fmt.Sprintf(`,"network":%d,"targets":[{"type":"server","server":{"id":%d},"use_private_ip":true},{"type":"server","server":{"id":%d}},
				{"type":"label_selector","label_selector":{"selector":"role=worker"},"use_private_ip":true},{"type":"ip","ip":{"ip":"198.51.100.9"}}]`,
				n.ID, ids["one"], ids["two"]))
			ids["lb"] = lb.ID
			fill := func(text string) string {
				for name, id := range ids {
					text = strings.ReplaceAll(text, "{"+name+"}", fmt.Sprint(id))
				}
				return text
			}
			a := l.do(t, test.method, "/v1"+fill(test.path), fill(test.body))
			if a.Action.ID != 0 {
				l.finish(t, a)
			}
			kinds := map[bool]string{true: " private", false: " public"}
			got := []string{}
			for _, target := range l.loadBalancer(t, lb.ID).Targets {
				switch target.Type {
				case "server":
					got = append(got, names[target.Server.ID]+kinds[target.UsePrivateIP])
				case "label_selector":
					servers := []string{}
					for _, resolved := range target.Targets {
						servers = append(servers, names[resolved.Server.ID])
					}
					got = append(got, fmt.Sprint(servers)+kinds[target.UsePrivateIP])
				default:
					got = append(got, target.Type)
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("targets differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTargetAddresses looks at server.ip, which hcloud-go does not know.
func TestTargetAddresses(t *testing.T) {
	l := newLab(t, cloud.Config{})
	n := l.network(t)
	one, two := l.server(t, "one", n.ID), l.server(t, "two", n.ID)
	lb := l.balancer(t, "lb", fmt.Sprintf(`,"network":%d,"targets":[{"type":"server","server":{"id":%d},"use_private_ip":true},
		{"type":"server","server":{"id":%d}},{"type":"server","server":{"id":%d,"ip":"2001:db8:0:2::7"}}]`, n.ID, one.ID, two.ID, two.ID))
	type address struct {
		Server struct {
			ID int64
			IP string
		}
	}
	look := func() []string {
		t.Helper()
		var got struct {
			LoadBalancer struct{ Targets []address } `json:"load_balancer"`
		}
		decode(t, l.ok(t, "GET", fmt.Sprintf("/v1/load_balancers/%d", lb.ID), "").text, &got)
		ips := []string{}
		for _, target := range got.LoadBalancer.Targets {
			ips = append(ips, target.Server.IP)
		}
		return ips
	}
	if diff := cmp.Diff([]string{"10.0.0.2", "203.0.113.2", "2001:db8:0:2::7"}, look()); diff != "" {
		t.Errorf("addresses differ (-want +got):\n%s", diff)
	}
	path := fmt.Sprintf("/v1/load_balancers/%d/actions/remove_target", lb.ID)
	l.finish(t, l.ok(t, "POST", path, fmt.Sprintf(`{"type":"server","server":{"id":%d,"ip":"203.0.113.2"}}`, two.ID)))
	if diff := cmp.Diff([]string{"10.0.0.2", "2001:db8:0:2::7"}, look()); diff != "" {
		t.Errorf("addresses differ (-want +got):\n%s", diff)
	}

	// A target of the vSwitch goes with the network.
	l.finish(t, l.ok(t, "POST", fmt.Sprintf("/v1/networks/%d/actions/add_subnet", n.ID), `{"type":"vswitch","vswitch_id":7,"network_zone":"eu-central","ip_range":"10.0.9.0/24"}`))
	l.finish(t, l.ok(t, "POST", fmt.Sprintf("/v1/load_balancers/%d/actions/add_target", lb.ID), `{"type":"ip","ip":{"ip":"10.0.9.9"}}`))
	l.ok(t, "DELETE", fmt.Sprintf("/v1/networks/%d", n.ID), "")
	if diff := cmp.Diff([]string{"2001:db8:0:2::7"}, look()); diff != "" {
		t.Errorf("addresses differ (-want +got):\n%s", diff)
	}
}

// TestHealth follows the health of targets on synthetic time.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cloud.New(cloud.Config{Profile: cloud.Realistic})
		defer c.Close()
		c.AddToken(token, "p", cloud.ReadWrite)
		do := func(method, path, body string) (a answer) {
			t.Helper()
			rec := serve(t, c, method, path, body)
			if rec.Code > 299 {
				t.Fatalf("%s %s: %s", method, path, rec.Body)
			}
			if rec.Body.Len() > 0 {
				decode(t, rec.Body.String(), &a)
			}
			return a
		}
		s := do("POST", "/v1/servers", `{"name":"one","server_type":"cx23","image":"debian-12"}`).Server
		server := fmt.Sprintf("/v1/servers/%d", s.ID)
		<-time.After(time.Minute)
		lb := do("POST", "/v1/load_balancers", fmt.Sprintf(`{"name":"lb","load_balancer_type":"lb11","location":"fsn1","targets":[{"type":"server","server":{"id":%d}}],
			"services":[{"protocol":"tcp","listen_port":80,"destination_port":8080},{"protocol":"http","listen_port":81,"destination_port":8081,"health_check":{"protocol":"http","interval":60}}]}`, s.ID)).LoadBalancer
		path := fmt.Sprintf("/v1/load_balancers/%d", lb.ID)
		expect := func(when, want string) {
			t.Helper()
			got := []string{}
			for _, h := range do("GET", path, "").LoadBalancer.Targets[0].HealthStatus {
				text := fmt.Sprint(h.ListenPort, " ", h.Status)
				if h.Detail != nil {
					text += " " + *h.Detail
				}
				if h.HTTPStatusCode != nil {
					text += fmt.Sprint(" ", *h.HTTPStatusCode)
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("health %s (-want +got):\n%s", when, diff)
			}
		}
		expect("at first", "80 unknown, 81 unknown")
		<-time.After(30 * time.Second)
		expect("after the first interval", "80 healthy, 81 unknown")
		<-time.After(time.Minute)
		expect("after the second", "80 healthy, 81 healthy")
		do("PUT", server, `{"labels":{"lab/health":"unhealthy"}}`)
		expect("by label", "80 unhealthy layer4_no_connection, 81 unhealthy unexpected_http_status 503")
		do("PUT", server, `{"labels":{"lab/health":"unhealthy","lab/health-8081":"healthy"}}`)
		expect("by label of a port", "80 unhealthy layer4_no_connection, 81 healthy")
		do("PUT", server, `{"labels":{"lab/health":"unknown"}}`)
		expect("unknown by label", "80 unknown, 81 unknown")
		do("PUT", server, `{"labels":{}}`)
		do("POST", server+"/actions/poweroff", "")
		<-time.After(time.Minute)
		expect("without power", "80 unhealthy layer4_timeout, 81 unhealthy layer4_timeout")
		do("POST", server+"/actions/poweron", "")
		<-time.After(time.Minute)
		do("POST", path+"/actions/add_service", `{"protocol":"tcp","listen_port":82,"destination_port":8082}`)
		<-time.After(10 * time.Second)
		expect("of a new service", "80 healthy, 81 healthy, 82 unknown")
		changed, cancel := c.Subscribe()
		defer cancel()
		<-changed // tells that the check is done
		expect("of a service that was new", "80 healthy, 81 healthy, 82 healthy")
	})
}

// TestUpdateService changes some fields and keeps the others.
func TestUpdateService(t *testing.T) {
	l := newLab(t, cloud.Config{})
	text, key := pair(t)
	cert := l.ok(t, "POST", "/v1/certificates", upload("cert", text, key)).Certificate.ID
	lb := l.balancer(t, "lb", `,"services":[{"protocol":"tcp","listen_port":80,"destination_port":8080}]`)
	path := fmt.Sprintf("/v1/load_balancers/%d", lb.ID)
	want := schema.LoadBalancerService{
		Protocol: "tcp", ListenPort: 80, DestinationPort: 8080,
		HealthCheck: &schema.LoadBalancerServiceHealthCheck{Protocol: "tcp", Port: 8080, Interval: 15, Timeout: 10, Retries: 3},
	}
	for _, step := range []struct {
		name, body string
		change     func()
	}{
		{"nothing", `{"listen_port":80}`, func() {}},
		{"ports", `{"listen_port":80,"destination_port":8081,"proxyprotocol":true}`, func() { want.DestinationPort, want.Proxyprotocol = 8081, true }},
		{"tcp has no http", `{"listen_port":80,"http":{"sticky_sessions":true}}`, func() {}},
		{"http", `{"listen_port":80,"protocol":"http","http":{"sticky_sessions":true}}`, func() {
			want.Protocol = "http"
			want.HTTP = &schema.LoadBalancerServiceHTTP{CookieName: "HCLBSTICKY", CookieLifetime: 300, TimeoutIdle: 50, StickySessions: true, Certificates: []int64{}}
		}},
		{"cookie", `{"listen_port":80,"http":{"cookie_name":"C","cookie_lifetime":30}}`, func() { want.HTTP.CookieName, want.HTTP.CookieLifetime = "C", 30 }},
		{"health check", `{"listen_port":80,"health_check":{"protocol":"http","interval":5}}`, func() {
			want.HealthCheck.Protocol, want.HealthCheck.Interval = "http", 5
			want.HealthCheck.HTTP = &schema.LoadBalancerServiceHealthCheckHTTP{Path: "/", StatusCodes: []string{"2??", "3??"}}
		}},
		{"status codes", `{"listen_port":80,"health_check":{"http":{"status_codes":["200"],"tls":true}}}`, func() {
			want.HealthCheck.HTTP.StatusCodes, want.HealthCheck.HTTP.TLS = []string{"200"}, true
		}},
		{"https", fmt.Sprintf(`{"listen_port":80,"protocol":"https","http":{"certificates":[%d]}}`, cert), func() {
			want.Protocol, want.HTTP.Certificates = "https", []int64{cert}
		}},
		{"http by null", `{"listen_port":80,"protocol":"http","http":null}`, func() {
			want.Protocol = "http"
			want.HTTP = &schema.LoadBalancerServiceHTTP{CookieName: "HCLBSTICKY", CookieLifetime: 300, TimeoutIdle: 50, Certificates: []int64{}}
		}},
		{"tcp again", `{"listen_port":80,"protocol":"tcp","health_check":{"protocol":"tcp"}}`, func() {
			want.Protocol, want.HTTP, want.HealthCheck.Protocol, want.HealthCheck.HTTP = "tcp", nil, "tcp", nil
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			l.finish(t, l.ok(t, "POST", path+"/actions/update_service", step.body))
			step.change()
			if diff := cmp.Diff([]schema.LoadBalancerService{want}, l.loadBalancer(t, lb.ID).Services); diff != "" {
				t.Errorf("service differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLoadBalancerAsMember: servers and load balancers share a network's limit.
func TestLoadBalancerAsMember(t *testing.T) {
	l := newLab(t, cloud.Config{Limits: cloud.Limits{NetworkMembers: 2}})
	n := l.network(t)
	s := l.server(t, "one", n.ID)
	lb := l.balancer(t, "lb", fmt.Sprintf(`,"network":%d`, n.ID))
	path := fmt.Sprintf("/v1/networks/%d", n.ID)
	want := []schema.NetworkMember{
		{Type: "server", ID: s.ID, IP: "10.0.0.2", Status: "ok", AliasIPs: []string{}, Subnet: "10.0.0.0/24"},
		{Type: "load_balancer", ID: lb.ID, IP: "10.0.0.3", Status: "ok", AliasIPs: []string{}, Subnet: "10.0.0.0/24"},
	}
	if diff := cmp.Diff(want, l.ok(t, "GET", path+"/members", "").Members); diff != "" {
		t.Errorf("members differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[1:], l.ok(t, "GET", path+"/members?type=load_balancer", "").Members); diff != "" {
		t.Errorf("load balancers differ (-want +got):\n%s", diff)
	}
	refused{403, "resource_limit_exceeded", "network attached resources limit reached", ""}.check(t,
		l.do(t, "POST", "/v1/load_balancers", fmt.Sprintf(`{"name":"two","load_balancer_type":"lb11","location":"fsn1","network":%d}`, n.ID)))
	refused{422, "service_error", "cannot remove subnet because servers are attached to it", ""}.check(t,
		l.do(t, "POST", path+"/actions/delete_subnet", `{"ip_range":"10.0.0.0/24"}`))
	l.ok(t, "DELETE", path, "")
	if got := l.loadBalancer(t, lb.ID); len(got.PrivateNet) != 0 {
		t.Errorf("load balancer is still in the deleted network: %v", got.PrivateNet)
	}
}

// TestLoadBalancersAtOnce is for the race detector: many clients change one
// load balancer, and hcloud-go retries their conflicts.
func TestLoadBalancersAtOnce(t *testing.T) {
	l := newLab(t, cloud.Config{RateLimit: 100_000})
	lb := l.balancer(t, "lb", "")
	done := make(chan bool)
	for i := range 4 {
		go func() {
			defer func() { done <- true }()
			client, ctx := l.client(), t.Context()
			for range 1000 {
				action, _, err := client.LoadBalancer.AddIPTarget(ctx, &hcloud.LoadBalancer{ID: lb.ID}, hcloud.LoadBalancerAddIPTargetOpts{IP: net.IPv4(198, 51, 100, byte(i+1))})
				if hcloud.IsError(err, hcloud.ErrorCodeConflict) {
					continue
				}
				if err != nil {
					t.Error(err)
				} else if err := client.Action.WaitFor(ctx, action); err != nil {
					t.Error(err)
				}
				break
			}
			if _, err := client.LoadBalancer.All(ctx); err != nil {
				t.Error(err)
			}
		}()
	}
	for range 4 {
		<-done
	}
	if got := l.loadBalancer(t, lb.ID).Targets; len(got) != 4 {
		t.Errorf("%d targets, want 4", len(got))
	}
}

// TestGoneMeanwhile: what an addition needs may go before it ends.
func TestGoneMeanwhile(t *testing.T) {
	l := newLab(t, cloud.Config{})
	text, key := pair(t)
	for name, test := range map[string]struct {
		create, collection, command, body string
	}{
		"server":      {`{"name":"one","server_type":"cx23","image":"debian-12"}`, "servers", "add_target", `{"type":"server","server":{"id":%d}}`},
		"certificate": {upload("cert", text, key), "certificates", "add_service", `{"protocol":"https","http":{"certificates":[%d]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			lb := l.balancer(t, name, "")
			made := l.ok(t, "POST", "/_lab/v1/"+test.collection, test.create)
			id := made.Server.ID + made.Certificate.ID
			if made.Action.ID != 0 {
				l.finish(t, made)
			}
			l.fault(t, `{"effect":"stuck","count":1}`)
			a := l.ok(t, "POST", fmt.Sprintf("/v1/load_balancers/%d/actions/%s", lb.ID, test.command), fmt.Sprintf(test.body, id))
			l.ok(t, "DELETE", fmt.Sprintf("/_lab/v1/%s/%d", test.collection, id), "")
			l.ClearFaults("p")
			l.finish(t, a)
			if diff := cmp.Diff(lb, l.loadBalancer(t, lb.ID)); diff != "" {
				t.Errorf("load balancer has changed (-want +got):\n%s", diff)
			}
		})
	}
}
