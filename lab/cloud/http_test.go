package cloud_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/ccm-from-scratch/lab/cloud"
)

// refused is what clients see of an error.
type refused struct {
	Status  int
	Code    string
	Message string // prefix
	Field   string
}

func (want refused) check(t *testing.T, got answer) {
	t.Helper()
	have := refused{got.status, got.Error.Code, got.Error.Message, got.field()}
	if strings.HasPrefix(have.Message, want.Message) {
		have.Message = want.Message
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("answer differs (-want +got):\n%s%s", diff, got.text)
	}
}

func TestRouting(t *testing.T) {
	l := newLab(t, cloud.Config{})
	for name, test := range map[string]struct {
		token, method, path string
		want                refused
	}{
		"unknown path without token":    {"", "GET", "/v1/nonsense", refused{404, "not_found", "api route not found", ""}},
		"unknown path":                  {token, "GET", "/v1/volumes/1", refused{404, "not_found", "api route not found", ""}},
		"unknown base":                  {token, "GET", "/v2/servers", refused{404, "not_found", "api route not found", ""}},
		"no number":                     {token, "GET", "/v1/servers/one", refused{404, "not_found", "api route not found", ""}},
		"slash at the end":              {token, "GET", "/v1/servers/", refused{404, "not_found", "api route not found", ""}},
		"two slashes":                   {token, "GET", "/v1//servers", refused{404, "not_found", "api route not found", ""}},
		"no token":                      {"", "GET", "/v1/servers", refused{401, "unauthorized", "token is required", ""}},
		"wrong token":                   {"wrong", "GET", "/v1/servers", refused{401, "unauthorized", "the token you have provided is invalid", ""}},
		"wrong method without token":    {"", "PATCH", "/v1/servers", refused{401, "unauthorized", "token is required", ""}},
		"wrong method":                  {token, "PATCH", "/v1/servers", refused{405, "method_not_allowed", "", ""}},
		"wrong method on the catalogue": {token, "DELETE", "/v1/locations/1", refused{405, "method_not_allowed", "", ""}},
		"write with read-only token":    {"reader", "POST", "/v1/servers", refused{403, "forbidden", "", ""}},
		"unknown server":                {token, "GET", "/v1/servers/1", refused{404, "not_found", "server with ID 1 not found", ""}},
		"larger than any ID":            {token, "GET", "/v1/servers/99999999999999999999", refused{404, "not_found", "server with ID 0 not found", ""}},
		"unknown action of a server":    {token, "GET", "/v1/servers/actions/1", refused{404, "not_found", "action with ID 1 not found", ""}},
		"lab needs a token, too":        {"", "GET", "/_lab/faults", refused{401, "unauthorized", "token is required", ""}},
		"lab for readers":               {"reader", "DELETE", "/_lab/faults", refused{403, "forbidden", "", ""}},
		"unknown verb of the lab":       {token, "GET", "/_lab/nonsense", refused{404, "not_found", "api route not found", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := l.try(t.Context(), test.token, test.method, test.path, "")
			if err != nil {
				t.Fatal(err)
			}
			test.want.check(t, got)
			if got.header.Get("X-Correlation-Id") == "" {
				t.Error("no X-Correlation-Id")
			}
		})
	}
	if got, err := l.try(t.Context(), "reader", "GET", "/v1/servers", ""); err != nil || got.status != 200 {
		t.Errorf("read-only token cannot read: %d, %v", got.status, err)
	}
}

// TestInvalid sends what the API refuses to a project that has something of
// everything.
func TestInvalid(t *testing.T) {
	l := newLab(t, cloud.Config{Limits: cloud.Limits{Servers: 3, NetworkSubnets: 3, NetworkRoutes: 2}})
	n := l.network(t)
	l.finish(t, l.ok(t, "POST", fmt.Sprintf("/v1/networks/%d/actions/add_subnet", n.ID),
		`{"type":"vswitch","vswitch_id":7,"network_zone":"eu-central","ip_range":"10.0.9.0/24"}`))
	l.finish(t, l.ok(t, "POST", fmt.Sprintf("/v1/networks/%d/actions/add_route", n.ID), `{"destination":"10.1.1.0/24","gateway":"10.0.0.5"}`))
	overlapping := l.ok(t, "POST", "/v1/networks", `{"name":"overlapping","ip_range":"10.0.0.0/8"}`).Network
	apart := l.ok(t, "POST", "/v1/networks", `{"name":"apart","ip_range":"192.168.0.0/24","subnets":[{"type":"cloud","network_zone":"us-east"}]}`).Network
	full := l.ok(t, "POST", "/v1/networks", `{"name":"full","ip_range":"172.16.0.0/16","subnets":[
		{"type":"cloud","network_zone":"eu-central"},{"type":"cloud","network_zone":"eu-central"},{"type":"server","network_zone":"eu-central"}],
		"routes":[{"destination":"10.2.0.0/24","gateway":"172.16.0.9"},{"destination":"0.0.0.0/0","gateway":"172.16.0.9"}]}`).Network
	wide := l.ok(t, "POST", "/v1/networks", `{"name":"wide","ip_range":"172.16.0.0/12"}`).Network
	s := l.server(t, "one", n.ID)
	l.server(t, "two")
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA one"
	l.ok(t, "POST", "/v1/ssh_keys", fmt.Sprintf(`{"name":"one","public_key":%q}`, key))

	net := fmt.Sprintf("/v1/networks/%d", n.ID)
	srv := fmt.Sprintf("/v1/servers/%d", s.ID)
	route := net + "/actions/add_route"
	subnet := net + "/actions/add_subnet"
	attach := srv + "/actions/attach_to_network"
	create := func(more string) string {
		return `{"name":"new","server_type":"cx23","image":"ubuntu-24.04"` + more + `}`
	}
	const overlaps = "network route destination overlaps with another subnetwork or network route"

	for name, test := range map[string]struct {
		method, path, body string
		want               refused
	}{
		"body malformed":         {"POST", "/v1/servers", `{"name":`, refused{400, "json_error", "invalid JSON", ""}},
		"body empty":             {"POST", "/v1/servers", ``, refused{400, "json_error", "invalid JSON", ""}},
		"body twice":             {"POST", "/v1/servers", `{}{}`, refused{400, "json_error", "invalid JSON", ""}},
		"body an array":          {"POST", "/v1/servers", `[]`, refused{400, "json_error", "invalid JSON", ""}},
		"body too large":         {"POST", "/v1/servers", strings.Repeat(" ", 2<<20), refused{413, "invalid_input", "request body is larger", ""}},
		"name of wrong type":     {"POST", "/v1/servers", `{"name":1}`, refused{422, "invalid_input", "invalid input in field 'name'", "name"}},
		"ID or name wrong type":  {"POST", "/v1/servers", `{"name":"x","server_type":{}}`, refused{422, "invalid_input", "invalid input in field 'server_type'", "server_type"}},
		"ID no integer":          {"POST", attach, `{"network":1.5}`, refused{422, "invalid_input", "invalid input in field 'network'", "network"}},
		"page zero":              {"GET", "/v1/servers?page=0", ``, refused{422, "invalid_input", "invalid input in field 'page'", "page"}},
		"page no number":         {"GET", "/v1/servers?page=x", ``, refused{422, "invalid_input", "invalid input in field 'page'", "page"}},
		"sort by unknown":        {"GET", "/v1/servers?sort=labels", ``, refused{422, "invalid_input", "invalid input in field 'sort'", "sort"}},
		"sort nowhere":           {"GET", "/v1/servers?sort=id:up", ``, refused{422, "invalid_input", "invalid input in field 'sort'", "sort"}},
		"selector malformed":     {"GET", "/v1/servers?label_selector=a+in", ``, refused{422, "invalid_input", "invalid input in field 'label_selector'", "label_selector"}},
		"selector of Kubernetes": {"GET", "/v1/servers?label_selector=a%3E1", ``, refused{422, "invalid_input", "invalid input in field 'label_selector'", "label_selector"}},
		"actions without ID":     {"GET", "/v1/actions", ``, refused{410, "deprecated_api_endpoint", "API functionality was removed", ""}},

		"server without name":         {"POST", "/v1/servers", `{"server_type":"cx23","image":"ubuntu-24.04"}`, refused{422, "invalid_input", "invalid input in field 'name'", "name"}},
		"server name with underscore": {"POST", "/v1/servers", `{"name":"a_b","server_type":"cx23","image":"ubuntu-24.04"}`, refused{422, "invalid_input", "invalid input in field 'name'", "name"}},
		"server name taken":           {"POST", "/v1/servers", `{"name":"one","server_type":"cx23","image":"ubuntu-24.04"}`, refused{409, "uniqueness_error", "server name is already used", "name"}},
		"server without type":         {"POST", "/v1/servers", `{"name":"new","image":"ubuntu-24.04"}`, refused{422, "invalid_input", "invalid input in field 'server_type'", "server_type"}},
		"server of unknown type":      {"POST", "/v1/servers", `{"name":"new","server_type":"cx11","image":"ubuntu-24.04"}`, refused{422, "invalid_input", "server type not found", "server_type"}},
		"server without image":        {"POST", "/v1/servers", `{"name":"new","server_type":"cx23"}`, refused{422, "invalid_input", "invalid input in field 'image'", "image"}},
		"server of unknown image":     {"POST", "/v1/servers", `{"name":"new","server_type":"cx23","image":"plan9"}`, refused{422, "invalid_input", "image not found", "image"}},
		"server of other architecture": {
			"POST", "/v1/servers", `{"name":"new","server_type":"cax11","image":161547269}`,
			refused{422, "invalid_input", "invalid input in field 'image'", "image"},
		},
		"server in unknown location":    {"POST", "/v1/servers", create(`,"location":"fsn9"`), refused{422, "invalid_input", "location not found", "location"}},
		"server where its type is not":  {"POST", "/v1/servers", create(`,"location":"ash"`), refused{422, "invalid_input", "unsupported location for server type", "location"}},
		"server with unknown key":       {"POST", "/v1/servers", create(`,"ssh_keys":["two"]`), refused{422, "invalid_input", "SSH key not found", "ssh_keys"}},
		"server in unknown network":     {"POST", "/v1/servers", create(`,"networks":[1]`), refused{422, "invalid_input", "network with ID 1 not found", "network"}},
		"server with long user data":    {"POST", "/v1/servers", create(`,"user_data":"` + strings.Repeat("x", 32<<10+1) + `"`), refused{422, "invalid_input", "invalid input in field 'user_data'", "user_data"}},
		"server with volume":            {"POST", "/v1/servers", create(`,"volumes":[5]`), refused{422, "invalid_input", "volume with ID 5 not found", "volumes"}},
		"server with reserved label":    {"POST", "/v1/servers", create(`,"labels":{"hetzner.cloud/a":"b"}`), refused{422, "invalid_input", "invalid input in field 'labels'", "labels"}},
		"server with bad label":         {"POST", "/v1/servers", create(`,"labels":{"a":"b c"}`), refused{422, "invalid_input", "invalid input in field 'labels'", "labels"}},
		"server in a full network zone": {"POST", "/v1/servers", create(fmt.Sprintf(`,"networks":[%d]`, apart.ID)), refused{422, "no_subnet_available", "no subnet", ""}},
		"rename to taken name":          {"PUT", srv, `{"name":"two"}`, refused{409, "uniqueness_error", "server name is already used", "name"}},
		"half a protection":             {"POST", srv + "/actions/change_protection", `{"delete":true}`, refused{422, "invalid_input", "invalid input in field 'rebuild'", "rebuild"}},
		"change type while running":     {"POST", srv + "/actions/change_type", `{"server_type":"cpx32"}`, refused{422, "server_not_stopped", "server is not stopped", ""}},

		"attach without network":     {"POST", attach, `{}`, refused{422, "invalid_input", "invalid input in field 'network'", "network"}},
		"attach twice":               {"POST", attach, fmt.Sprintf(`{"network":%d}`, n.ID), refused{422, "server_already_attached", "server is already attached", ""}},
		"attach to overlapping":      {"POST", attach, fmt.Sprintf(`{"network":%d}`, overlapping.ID), refused{422, "networks_overlap", "network IP range overlaps", ""}},
		"attach in other zone":       {"POST", attach, fmt.Sprintf(`{"network":%d}`, apart.ID), refused{422, "no_subnet_available", "no subnet", ""}},
		"attach to unknown subnet":   {"POST", attach, fmt.Sprintf(`{"network":%d,"ip_range":"172.16.77.0/24"}`, full.ID), refused{422, "no_subnet_available", "no subnet", ""}},
		"attach with reserved IP":    {"POST", attach, fmt.Sprintf(`{"network":%d,"ip":"172.16.0.1"}`, full.ID), refused{422, "ip_not_available", "IP 172.16.0.1 is not available", ""}},
		"attach with broadcast":      {"POST", attach, fmt.Sprintf(`{"network":%d,"ip":"172.16.0.255"}`, full.ID), refused{422, "ip_not_available", "IP 172.16.0.255", ""}},
		"attach with IP elsewhere":   {"POST", attach, fmt.Sprintf(`{"network":%d,"ip":"172.16.0.5","ip_range":"172.16.1.0/24"}`, full.ID), refused{422, "invalid_input", "invalid input in field 'ip'", "ip"}},
		"alias in use":               {"POST", srv + "/actions/change_alias_ips", fmt.Sprintf(`{"network":%d,"alias_ips":["10.0.0.2"]}`, n.ID), refused{422, "ip_not_available", "IP 10.0.0.2", ""}},
		"alias outside the subnet":   {"POST", srv + "/actions/change_alias_ips", fmt.Sprintf(`{"network":%d,"alias_ips":["10.0.5.2"]}`, n.ID), refused{422, "invalid_input", "invalid input in field 'alias_ips'", "alias_ips"}},
		"alias where not attached":   {"POST", srv + "/actions/change_alias_ips", fmt.Sprintf(`{"network":%d,"alias_ips":[]}`, apart.ID), refused{404, "not_found", "server is not attached", ""}},
		"detach where not attached":  {"POST", srv + "/actions/detach_from_network", fmt.Sprintf(`{"network":%d}`, apart.ID), refused{404, "not_found", "server is not attached", ""}},
		"detach without network":     {"POST", srv + "/actions/detach_from_network", `{}`, refused{422, "invalid_input", "invalid input in field 'network'", "network"}},
		"network without name":       {"POST", "/v1/networks", `{"ip_range":"10.0.0.0/16"}`, refused{422, "invalid_input", "invalid input in field 'name'", "name"}},
		"network name taken":         {"POST", "/v1/networks", `{"name":"net","ip_range":"10.0.0.0/16"}`, refused{409, "uniqueness_error", "name is already used", "name"}},
		"network name too long":      {"POST", "/v1/networks", `{"name":"` + strings.Repeat("ü", 129) + `","ip_range":"10.0.0.0/16"}`, refused{422, "invalid_input", "invalid input in field 'name'", "name"}},
		"network without range":      {"POST", "/v1/networks", `{"name":"x"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"network of public range":    {"POST", "/v1/networks", `{"name":"x","ip_range":"8.8.8.0/24"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"network beyond RFC 1918":    {"POST", "/v1/networks", `{"name":"x","ip_range":"10.0.0.0/7"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"network too small":          {"POST", "/v1/networks", `{"name":"x","ip_range":"10.0.0.0/25"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"network of IPv6":            {"POST", "/v1/networks", `{"name":"x","ip_range":"fd00::/16"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"network with bits":          {"POST", "/v1/networks", `{"name":"x","ip_range":"10.0.0.1/16"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"network shrinks":            {"POST", net + "/actions/change_ip_range", `{"ip_range":"10.0.0.0/17"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"network moves":              {"POST", net + "/actions/change_ip_range", `{"ip_range":"10.1.0.0/16"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"subnet without type":        {"POST", subnet, `{"network_zone":"eu-central"}`, refused{422, "invalid_input", "invalid input in field 'type'", "type"}},
		"subnet of unknown type":     {"POST", subnet, `{"type":"x","network_zone":"eu-central"}`, refused{422, "invalid_input", "invalid input in field 'type'", "type"}},
		"subnet without zone":        {"POST", subnet, `{"type":"cloud"}`, refused{422, "invalid_input", "invalid input in field 'network_zone'", "network_zone"}},
		"subnet of unknown zone":     {"POST", subnet, `{"type":"cloud","network_zone":"eu"}`, refused{422, "invalid_input", "invalid input in field 'network_zone'", "network_zone"}},
		"subnet of other zone":       {"POST", subnet, `{"type":"cloud","network_zone":"us-east"}`, refused{422, "invalid_input", "invalid input in field 'network_zone'", "network_zone"}},
		"subnet outside":             {"POST", subnet, `{"type":"cloud","network_zone":"eu-central","ip_range":"10.1.0.0/24"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"subnet too small":           {"POST", subnet, `{"type":"cloud","network_zone":"eu-central","ip_range":"10.0.1.0/31"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"subnet overlaps":            {"POST", subnet, `{"type":"cloud","network_zone":"eu-central","ip_range":"10.0.0.128/25"}`, refused{422, "invalid_input", "invalid input in field 'ip_range'", "ip_range"}},
		"vSwitch without ID":         {"POST", subnet, `{"type":"vswitch","network_zone":"eu-central"}`, refused{422, "invalid_input", "invalid input in field 'vswitch_id'", "vswitch_id"}},
		"vSwitch twice":              {"POST", subnet, `{"type":"vswitch","vswitch_id":7,"network_zone":"eu-central"}`, refused{422, "vswitch_id_already_used", "vSwitch is already used", ""}},
		"subnets over the limit":     {"POST", fmt.Sprintf("/v1/networks/%d/actions/add_subnet", full.ID), `{"type":"cloud","network_zone":"eu-central"}`, refused{403, "resource_limit_exceeded", "network subnet limit reached", ""}},
		"delete unknown subnet":      {"POST", net + "/actions/delete_subnet", `{"ip_range":"10.0.3.0/24"}`, refused{404, "not_found", "subnet 10.0.3.0/24 not found", ""}},
		"delete subnet in use":       {"POST", net + "/actions/delete_subnet", `{"ip_range":"10.0.0.0/24"}`, refused{422, "service_error", "cannot remove subnet because servers are attached to it", ""}},
		"route without destination":  {"POST", route, `{"gateway":"10.0.0.5"}`, refused{422, "invalid_input", "invalid input in field 'destination'", "destination"}},
		"route without gateway":      {"POST", route, `{"destination":"10.2.0.0/24"}`, refused{422, "invalid_input", "invalid input in field 'gateway'", "gateway"}},
		"route to public range":      {"POST", route, `{"destination":"8.8.8.0/24","gateway":"10.0.0.5"}`, refused{422, "invalid_input", "invalid input in field 'destination'", "destination"}},
		"route to its gateway":       {"POST", route, `{"destination":"10.0.0.0/24","gateway":"10.0.0.5"}`, refused{422, "invalid_input", "invalid gateway", "gateway"}},
		"route via outside":          {"POST", route, `{"destination":"10.2.0.0/24","gateway":"10.1.0.5"}`, refused{422, "invalid_input", "network route gateway not part of the network IP range (10.0.0.0/16)", "gateway"}},
		"route via first IP":         {"POST", route, `{"destination":"10.2.0.0/24","gateway":"10.0.0.1"}`, refused{422, "invalid_input", "invalid gateway", "gateway"}},
		"route via public gateway":   {"POST", fmt.Sprintf("/v1/networks/%d/actions/add_route", wide.ID), `{"destination":"10.2.0.0/24","gateway":"172.31.1.1"}`, refused{422, "invalid_input", "invalid gateway", "gateway"}},
		"route via vSwitch":          {"POST", route, `{"destination":"10.2.0.0/24","gateway":"10.0.9.4"}`, refused{422, "invalid_input", "invalid gateway", "gateway"}},
		"route into subnet":          {"POST", route, `{"destination":"10.0.0.128/25","gateway":"10.0.0.5"}`, refused{422, "invalid_input", overlaps, "destination"}},
		"route over public gateway":  {"POST", route, `{"destination":"172.31.0.0/16","gateway":"10.0.0.5"}`, refused{422, "invalid_input", "invalid input in field 'destination'", "destination"}},
		"route twice":                {"POST", route, `{"destination":"10.1.1.0/24","gateway":"10.0.0.5"}`, refused{422, "invalid_input", overlaps, "destination"}},
		"route via another gateway":  {"POST", route, `{"destination":"10.1.1.0/24","gateway":"10.0.0.6"}`, refused{422, "invalid_input", overlaps, "destination"}},
		"route inside another":       {"POST", route, `{"destination":"10.1.1.7/32","gateway":"10.0.0.6"}`, refused{422, "invalid_input", overlaps, "destination"}},
		"routes over the limit":      {"POST", fmt.Sprintf("/v1/networks/%d/actions/add_route", full.ID), `{"destination":"10.3.0.0/24","gateway":"172.16.0.9"}`, refused{403, "resource_limit_exceeded", "network route limit reached", ""}},
		"delete unknown destination": {"POST", net + "/actions/delete_route", `{"destination":"10.7.0.0/24","gateway":"10.0.0.5"}`, refused{404, "not_found", "route to", ""}},
		"delete unknown gateway":     {"POST", net + "/actions/delete_route", `{"destination":"10.1.1.0/24","gateway":"10.0.0.6"}`, refused{404, "not_found", "route to", ""}},
		"delete half a route":        {"POST", net + "/actions/delete_route", `{"destination":"10.1.1.0/24"}`, refused{422, "invalid_input", "invalid input in field 'gateway'", "gateway"}},

		"key without name":      {"POST", "/v1/ssh_keys", `{"public_key":"` + strings.Replace(key, "AAAA one", "AAAB two", 1) + `"}`, refused{422, "invalid_input", "", "name"}},
		"key without key":       {"POST", "/v1/ssh_keys", `{"name":"x"}`, refused{422, "invalid_input", "invalid input in field 'public_key'", "public_key"}},
		"key that is none":      {"POST", "/v1/ssh_keys", `{"name":"x","public_key":"ssh-rsa AAAA"}`, refused{422, "invalid_input", "invalid input in field 'public_key'", "public_key"}},
		"key with the same key": {"POST", "/v1/ssh_keys", fmt.Sprintf(`{"name":"x","public_key":%q}`, key), refused{409, "uniqueness_error", "SSH key with the same fingerprint already exists", "public_key"}},

		"setting unknown":           {"PUT", "/_lab/settings", `{"speed":1}`, refused{422, "invalid_input", "", "speed"}},
		"setting of unknown kind":   {"PUT", "/_lab/settings", `{"profile":"slow"}`, refused{422, "invalid_input", "", "profile"}},
		"setting out of range":      {"PUT", "/_lab/settings", `{"rate_limit":0}`, refused{422, "invalid_input", "", "rate_limit"}},
		"setting above the limit":   {"PUT", "/_lab/settings", `{"rate_remaining":3601}`, refused{422, "invalid_input", "", "rate_remaining"}},
		"fault without effect":      {"POST", "/_lab/faults", `{}`, refused{422, "invalid_input", "", "effect"}},
		"fault of unknown effect":   {"POST", "/_lab/faults", `{"effect":"fire"}`, refused{422, "invalid_input", "", "effect"}},
		"fault with unknown field":  {"POST", "/_lab/faults", `{"effekt":"hang"}`, refused{422, "invalid_input", "", "effekt"}},
		"fault with field of type":  {"POST", "/_lab/faults", `{"effect":"hang","count":"1"}`, refused{422, "invalid_input", "", "count"}},
		"fault without status":      {"POST", "/_lab/faults", `{"effect":"status"}`, refused{422, "invalid_input", "", "status"}},
		"fault of wild duration":    {"POST", "/_lab/faults", `{"effect":"hang","duration":"30"}`, refused{422, "invalid_input", "", "duration"}},
		"fault late without delay":  {"POST", "/_lab/faults", `{"effect":"late"}`, refused{422, "invalid_input", "", "delay"}},
		"fault hiding nothing":      {"POST", "/_lab/faults", `{"effect":"hide"}`, refused{422, "invalid_input", "", "resource_id"}},
		"fault on path with base":   {"POST", "/_lab/faults", `{"effect":"hang","path":"/v1/servers"}`, refused{422, "invalid_input", "", "path"}},
		"fault on relative path":    {"POST", "/_lab/faults", `{"effect":"hang","path":"servers"}`, refused{422, "invalid_input", "", "path"}},
		"fault on ** in the middle": {"POST", "/_lab/faults", `{"effect":"hang","path":"/**/actions"}`, refused{422, "invalid_input", "", "path"}},
		"fault on lower method":     {"POST", "/_lab/faults", `{"effect":"hang","method":"get"}`, refused{422, "invalid_input", "", "method"}},
		"fault less than never":     {"POST", "/_lab/faults", `{"effect":"hang","count":-1}`, refused{422, "invalid_input", "", "count"}},
		"fault that is unknown":     {"DELETE", "/_lab/faults/7", ``, refused{404, "not_found", "fault with ID 7 not found", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, l.do(t, test.method, test.path, test.body))
		})
	}

	// Nothing of that had an effect.
	if got := len(l.Servers("p")); got != 2 {
		t.Errorf("%d servers, want 2", got)
	}
	after := l.ok(t, "GET", net, "").Network
	if len(after.Subnets) != 2 || len(after.Routes) != 1 || len(after.Servers) != 1 {
		t.Errorf("network has changed: %+v", after)
	}
}

func TestLimits(t *testing.T) {
	l := newLab(t, cloud.Config{Limits: cloud.Limits{Servers: 2, NetworkMembers: 1}})
	n := l.network(t)
	l.server(t, "one", n.ID)
	body := `{"name":"two","server_type":"cx23","image":"ubuntu-24.04"`
	got := l.do(t, "POST", "/v1/servers", fmt.Sprintf(`%s,"networks":[%d]}`, body, n.ID))
	refused{403, "resource_limit_exceeded", "network attached resources limit reached", ""}.check(t, got)
	if diff := cmp.Diff([]struct{ Name string }{{"network_attached_resources"}}, got.Error.Details.Limits); diff != "" {
		t.Errorf("details differ (-want +got):\n%s", diff)
	}
	l.server(t, "two")
	refused{403, "resource_limit_exceeded", "server limit reached", ""}.check(t,
		l.do(t, "POST", "/v1/servers", `{"name":"three","server_type":"cx23","image":"ubuntu-24.04"}`))

	l.ok(t, "PUT", "/_lab/settings", `{"limits":{"servers":3}}`)
	l.server(t, "three")
}

// TestStrictRoutes is about the older reading of the documentation.
func TestStrictRoutes(t *testing.T) {
	l := newLab(t, cloud.Config{})
	route := fmt.Sprintf("/v1/networks/%d/actions/add_route", l.network(t).ID)
	l.finish(t, l.ok(t, "POST", route, `{"destination":"10.1.0.0/24","gateway":"10.0.0.5"}`))
	l.ok(t, "PUT", "/_lab/settings", `{"strict_routes":true}`)
	refused{422, "invalid_input", "invalid input in field 'destination'", "destination"}.check(t,
		l.do(t, "POST", route, `{"destination":"10.2.0.0/24","gateway":"10.0.0.5"}`))
}

func TestProjects(t *testing.T) {
	l := newLab(t, cloud.Config{})
	l.AddToken("other", "q", cloud.ReadWrite)
	s := l.server(t, "one")
	got, err := l.try(t.Context(), "other", "GET", fmt.Sprintf("/v1/servers/%d", s.ID), "")
	if err != nil {
		t.Fatal(err)
	}
	refused{404, "not_found", "server with ID", ""}.check(t, got)
	if got := len(l.Requests("q")); got != 1 {
		t.Errorf("%d requests in the other project's journal, want 1", got)
	}
	if got := len(l.Requests("p")); got != 0 { // the set-up went below /_lab
		t.Errorf("%d requests in the project's journal, want 0", got)
	}
}
