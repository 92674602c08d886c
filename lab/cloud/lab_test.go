package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"

	"example.com/ccm-from-scratch/lab/cloud"
	"example.com/ccm-from-scratch/lab/cloud/openapi"
)

// token has the length of real ones, which the hcloud CLI insists on.
var token = strings.Repeat("rw", 32)

// checked returns the handler with each of its responses checked against the
// document.
func checked(t testing.TB, h http.Handler) http.Handler {
	t.Helper()
	spec, err := openapi.FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	if spec == nil {
		return h
	}
	return spec.Wrap(h, func(err error) { t.Errorf("response differs from the document: %v", err) })
}

// lab is a cloud behind a real HTTP server, with the token of its project p.
type lab struct {
	*cloud.Cloud
	url string
}

func newLab(t testing.TB, config cloud.Config) *lab {
	t.Helper()
	c := cloud.New(config)
	c.AddToken(token, "p", cloud.ReadWrite)
	c.AddToken("reader", "p", cloud.ReadOnly)
	srv := httptest.NewServer(checked(t, c))
	t.Cleanup(func() {
		c.Close() // lets go of hanging requests, which srv.Close waits for
		srv.Close()
	})
	return &lab{c, srv.URL}
}

func (l *lab) client() *hcloud.Client {
	return hcloud.NewClient(
		hcloud.WithEndpoint(l.url+"/v1"),
		hcloud.WithToken(token),
		hcloud.WithPollOpts(hcloud.PollOpts{BackoffFunc: hcloud.ConstantBackoff(time.Millisecond)}),
		hcloud.WithRetryOpts(hcloud.RetryOpts{BackoffFunc: hcloud.ConstantBackoff(time.Millisecond), MaxRetries: 5}),
	)
}

// answer is a response, with the parts that tests look at.
type answer struct {
	status int
	header http.Header
	text   string
	Error  struct {
		Code    string
		Message string
		Details struct {
			Fields []struct{ Name string }
			Limits []struct{ Name string }
		}
	}
	Action        schema.Action
	Actions       []schema.Action
	NextActions   []schema.Action `json:"next_actions"`
	Server        schema.Server
	Servers       []schema.Server
	Network       schema.Network
	Networks      []schema.Network
	Members       []schema.NetworkMember
	SSHKey        schema.SSHKey         `json:"ssh_key"`
	LoadBalancer  schema.LoadBalancer   `json:"load_balancer"`
	LoadBalancers []schema.LoadBalancer `json:"load_balancers"`
	PrimaryIP     schema.PrimaryIP      `json:"primary_ip"`
	PrimaryIPs    []schema.PrimaryIP    `json:"primary_ips"`
	Certificate   schema.Certificate
	Certificates  []schema.Certificate
	Fault         cloud.Fault
	Faults        []cloud.Fault
	Requests      []cloud.Request
}

// field is the first field that an error blames.
func (a answer) field() string {
	for _, f := range a.Error.Details.Fields {
		return f.Name
	}
	return ""
}

// do sends a request with the project's token. The path is that of the URL.
func (l *lab) do(t testing.TB, method, path, body string) answer {
	t.Helper()
	a, err := l.try(t.Context(), token, method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// ok is do for requests that have to succeed.
func (l *lab) ok(t testing.TB, method, path, body string) answer {
	t.Helper()
	a := l.do(t, method, path, body)
	if a.status > 299 {
		t.Fatalf("%s %s: status %d: %s", method, path, a.status, a.text)
	}
	return a
}

// try may fail, as faults make it do.
func (l *lab) try(ctx context.Context, token, method, path, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: res.StatusCode, header: res.Header, text: string(text)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") && json.Valid(text) {
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&a); err != nil {
			return a, fmt.Errorf("%s: %w", text, err)
		}
	}
	return a, nil
}

// await waits until cond holds; it looks after each change of the cloud.
func (l *lab) await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	changed, cancel := l.Subscribe()
	defer cancel()
	late := time.After(30 * time.Second)
	for !cond() {
		select {
		case <-changed:
		case <-late:
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// finish waits for the actions of an answer and returns the first of them.
func (l *lab) finish(t testing.TB, a answer) schema.Action {
	t.Helper()
	var first schema.Action
	for i, action := range append([]schema.Action{a.Action}, a.NextActions...) {
		l.await(t, action.Command, func() bool {
			action = l.ok(t, "GET", fmt.Sprintf("/_lab/v1/actions/%d", action.ID), "").Action
			return action.Status != "running"
		})
		if i == 0 {
			first = action
		}
	}
	return first
}

// network creates a network, net, of 10.0.0.0/16 with a subnet 10.0.0.0/24.
func (l *lab) network(t testing.TB) schema.Network {
	t.Helper()
	return l.ok(t, "POST", "/_lab/v1/networks",
		`{"name":"net","ip_range":"10.0.0.0/16","subnets":[{"type":"cloud","network_zone":"eu-central","ip_range":"10.0.0.0/24"}]}`).Network
}

// server creates a server in networks, and waits until it runs.
func (l *lab) server(t testing.TB, name string, networks ...int64) schema.Server {
	t.Helper()
	ids, _ := json.Marshal(append([]int64{}, networks...))
	a := l.ok(t, "POST", "/_lab/v1/servers", fmt.Sprintf(`{"name":%q,"server_type":"cx23","image":"ubuntu-24.04","networks":%s}`, name, ids))
	l.finish(t, a)
	return l.ok(t, "GET", fmt.Sprintf("/_lab/v1/servers/%d", a.Server.ID), "").Server
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func mustCIDR(text string) *net.IPNet {
	_, n, err := net.ParseCIDR(text)
	if err != nil {
		panic(err)
	}
	return n
}

func ips(texts ...string) []net.IP {
	all := []net.IP{}
	for _, text := range texts {
		all = append(all, net.ParseIP(text))
	}
	return all
}

// sortKeys writes JSON with the keys of objects in order.
func sortKeys(t testing.TB, text string) string {
	t.Helper()
	var v any
	decode(t, text, &v)
	sorted, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}
