package cloud_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"example.com/ccm-from-scratch/lab/cloud"
)

// FuzzServeHTTP sends anything to a cloud that has something of everything. It
// never panics, always answers in JSON, and never with a 5xx.
func FuzzServeHTTP(f *testing.F) {
	for _, seed := range [][3]string{
		{"GET", "/v1/servers?page=2&per_page=1&sort=name:desc&label_selector=a+in+(b,c)", ""},
		{"GET", "/v1/actions?id=9000001&id=x", ""},
		{"GET", "/v1/servers/3000001/actions/9000001", ""},
		{"GET", "/v1/networks/2000001/members?subnet=10.0.0.0/24", ""},
		{"GET", "/v1/images?architecture=arm&include_deprecated=true&bound_to=1", ""},
		{"POST", "/v1/servers", `{"name":"x","server_type":"cx23","image":161547269,"location":"1","networks":[2000001],"ssh_keys":["a",1],"labels":{"a":"b"},"public_net":{"enable_ipv4":false}}`},
		{"PUT", "/v1/servers/3000001", `{"name":"y","labels":null}`},
		{"DELETE", "/v1/servers/3000001", ""},
		{"POST", "/v1/servers/3000001/actions/attach_to_network", `{"network":2000002,"ip":"192.168.0.3","alias_ips":["192.168.0.4"],"ip_range":"192.168.0.0/24"}`},
		{"POST", "/v1/servers/3000001/actions/detach_from_network", `{"network":2000001}`},
		{"POST", "/v1/servers/3000001/actions/change_alias_ips", `{"network":2000001,"alias_ips":["10.0.0.3"]}`},
		{"POST", "/v1/servers/3000001/actions/change_type", `{"server_type":109,"upgrade_disk":true}`},
		{"POST", "/v1/servers/3000001/actions/change_protection", `{"delete":true,"rebuild":true}`},
		{"POST", "/v1/servers/3000001/actions/poweroff", ""},
		{"POST", "/v1/networks", `{"name":"x","ip_range":"10.0.0.0/8","subnets":[{"type":"cloud","network_zone":"eu-central"}],"routes":[{"destination":"0.0.0.0/0","gateway":"10.0.0.2"}]}`},
		{"POST", "/v1/networks/2000001/actions/add_subnet", `{"type":"vswitch","vswitch_id":1,"network_zone":"eu-central","ip_range":"10.0.8.0/30"}`},
		{"POST", "/v1/networks/2000001/actions/delete_subnet", `{"ip_range":"10.0.0.0/24"}`},
		{"POST", "/v1/networks/2000001/actions/add_route", `{"destination":"10.244.0.0/24","gateway":"10.0.0.2"}`},
		{"POST", "/v1/networks/2000001/actions/change_ip_range", `{"ip_range":"10.0.0.0/15"}`},
		{"POST", "/v1/ssh_keys", `{"name":"x","public_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`},
		{"GET", "/v1/load_balancers?label_selector=a&name=lb&sort=created:desc", ""},
		{"POST", "/v1/load_balancers", `{"name":"x","load_balancer_type":1,"network_zone":"eu-central","network":2000001,"algorithm":{"type":"least_connections"},"public_interface":true,"public_net":{"ipv4":5000003,"ipv6":null},"labels":{"a":"b"},"services":[{"protocol":"https","http":{"certificates":[6000001],"redirect_http":true}},null],"targets":[{"type":"server","server":{"id":3000001},"use_private_ip":true},{"type":"label_selector","label_selector":{"selector":"a=b"}},{"type":"ip","ip":{"ip":"198.51.100.9"}}]}`},
		{"PUT", "/v1/load_balancers/4000001", `{"name":"y","labels":{"c":"d"}}`},
		{"DELETE", "/v1/load_balancers/4000001", ""},
		{"POST", "/v1/load_balancers/4000001/actions/add_service", `{"protocol":"http","listen_port":80,"destination_port":8080,"proxyprotocol":true,"health_check":{"protocol":"http","port":1,"interval":3,"timeout":1,"retries":1,"http":{"domain":null,"path":"/","response":"x","status_codes":["2??"],"tls":true}},"http":{"sticky_sessions":true,"cookie_name":"C","cookie_lifetime":30,"timeout_idle":30}}`},
		{"POST", "/v1/load_balancers/4000001/actions/update_service", `{"listen_port":443,"protocol":"tcp","http":null,"health_check":{"http":null}}`},
		{"POST", "/v1/load_balancers/4000001/actions/delete_service", `{"listen_port":443}`},
		{"POST", "/v1/load_balancers/4000001/actions/add_target", `{"type":"server","server":{"id":3000001,"ip":"2001:db8:0:1::2"}}`},
		{"POST", "/v1/load_balancers/4000001/actions/remove_target", `{"type":"server","server":{"id":3000001}}`},
		{"POST", "/v1/load_balancers/4000001/actions/attach_to_network", `{"network":2000002,"ip":"192.168.0.9","ip_range":"192.168.0.0/24"}`},
		{"POST", "/v1/load_balancers/4000001/actions/detach_from_network", `{"network":2000001}`},
		{"POST", "/v1/load_balancers/4000001/actions/disable_public_interface", ""},
		{"POST", "/v1/load_balancers/4000001/actions/change_type", `{"load_balancer_type":"lb31"}`},
		{"POST", "/v1/load_balancers/4000001/actions/change_dns_ptr", `{"ip":"203.0.113.2","dns_ptr":null}`},
		{"POST", "/v1/certificates", `{"name":"x","type":"managed","domain_names":["*.example.com"]}`},
		{"POST", "/v1/certificates", `{"name":"x","certificate":"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n","private_key":"x"}`},
		{"DELETE", "/v1/certificates/6000001", ""},
		{"POST", "/v1/certificates/6000001/actions/retry", ""},
		{"POST", "/v1/primary_ips", `{"name":"x","type":"ipv6","assignee_type":"server","assignee_id":3000001,"auto_delete":true}`},
		{"POST", "/v1/primary_ips/5000003/actions/assign", `{"assignee_type":"server","assignee_id":3000001}`},
		{"POST", "/v1/primary_ips/5000001/actions/unassign", ""},
		{"DELETE", "/v1/primary_ips/5000003", ""},
		{"PUT", "/_lab/settings", `{"profile":"realistic","limits":{"network_routes":0}}`},
		{"POST", "/_lab/faults", `{"effect":"late","delay":"1ns","path":"/**","method":"*"}`},
		{"GET", "/_lab/requests?path=/**&kind=read", ""},
		{"PATCH", "/v1//servers/../servers/%2e%2e/", "{"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		u, err := url.Parse(target)
		if err != nil {
			return // net/http never lets it through
		}
		c := cloud.New(cloud.Config{})
		defer c.Close()
		c.AddToken(token, "p", cloud.ReadWrite)
		h := checked(t, c)
		send := func(method string, u *url.URL, body string) *httptest.ResponseRecorder {
			req := &http.Request{
				Method: method, URL: u, Host: "localhost", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
				Header: http.Header{"Authorization": {"Bearer " + token}},
				Body:   http.NoBody,
			}
			if body != "" {
				req.Body = io.NopCloser(strings.NewReader(body))
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req.WithContext(t.Context()))
			return rec
		}
		for _, set := range [][2]string{
			{"/v1/networks", `{"name":"net","ip_range":"10.0.0.0/16","subnets":[{"type":"cloud","network_zone":"eu-central","ip_range":"10.0.0.0/24"}]}`},
			{"/v1/networks", `{"name":"other","ip_range":"192.168.0.0/24","subnets":[{"type":"cloud","network_zone":"eu-central"}]}`},
			{"/v1/servers", `{"name":"one","server_type":"cx23","image":"ubuntu-24.04","networks":[2000001],"start_after_create":false}`},
			{"/v1/primary_ips", `{"name":"ip","type":"ipv4","location":"fsn1"}`},
			{"/v1/certificates", `{"name":"cert","type":"managed","domain_names":["example.com"]}`},
			{"/v1/load_balancers", `{"name":"lb","load_balancer_type":"lb11","location":"fsn1","network":2000001,
				"services":[{"protocol":"https","http":{"certificates":[6000001]}}],"targets":[{"type":"server","server":{"id":3000001}}]}`},
		} {
			if rec := send("POST", &url.URL{Path: set[0]}, set[1]); rec.Code != http.StatusCreated {
				t.Fatalf("set-up: %s", rec.Body)
			}
		}

		rec := send(method, u, body)
		if rec.Code >= 500 {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
		if rec.Code != http.StatusNoContent && !json.Valid(rec.Body.Bytes()) {
			t.Errorf("status %d, not JSON: %q", rec.Code, rec.Body)
		}
		// The cloud can still show all that it has.
		c.ClearFaults("p")
		for _, path := range []string{
			"/_lab/v1/servers", "/_lab/v1/networks", "/_lab/v1/ssh_keys", "/_lab/v1/servers/actions",
			"/_lab/v1/load_balancers", "/_lab/v1/primary_ips", "/_lab/v1/certificates",
		} {
			if rec := send("GET", &url.URL{Path: path}, ""); rec.Code != http.StatusOK {
				t.Errorf("%s afterwards: status %d: %s", path, rec.Code, rec.Body)
			}
		}
	})
}
