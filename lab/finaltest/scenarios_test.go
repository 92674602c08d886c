package finaltest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"example.com/ccm-from-scratch/lab/cloud"
	"example.com/ccm-from-scratch/lab/stack"
)

// fresh lets a CCM ask as often as it likes, so that a test need not wait.
const fresh = "HCLOUD_SERVER_CACHE_MAX_AGE=0s"

var otherToken = strings.Repeat("other", 12) + "othe"

// TestL01 swaps the token for one of another project, where there are servers,
// too. No Node goes, and an event on each says why. It is also TestC01: in
// between the token is refused, and the right one works without a restart.
func TestL01(t *testing.T) {
	t.Parallel()
	l := newLab(t, stack.Options{})
	if err := l.AddServers(t.Context(), 3, stack.Network); err != nil {
		t.Fatal(err)
	}
	token := l.tokenFile(stack.Token)
	ccm := l.start([]string{fresh, "HCLOUD_TOKEN=", "HCLOUD_TOKEN_FILE=" + token})
	l.eventually(30*time.Second, l.initialized(3))
	l.stopKubelets("worker-1", "worker-2", "worker-3")
	l.eventually(30*time.Second, l.notReady(3))

	everybody := func() string {
		if n := len(l.nodes()); n != 3 {
			return fmt.Sprintf("%d Nodes", n)
		}
		return ""
	}
	l.writeToken(token, strings.Repeat("nobody", 10)+"body")
	l.eventually(30*time.Second, func() string {
		if !strings.Contains(l.logText(), "unauthorized") {
			return "no request was refused"
		}
		return everybody()
	})
	l.always(5*time.Second, everybody)

	l.Cloud.AddToken(otherToken, "other", cloud.ReadWrite)
	l.writeToken(token, otherToken)
	l.eventually(30*time.Second, func() string {
		if n := len(l.events("WrongProject")); n != 3 {
			return fmt.Sprintf("%d events", n)
		}
		return everybody()
	})
	// A minute is 12 passes at the period by default, and more than that are seen here.
	asked := l.asked(ccm, "InstanceExists")
	l.eventually(60*time.Second, func() string {
		if what := everybody(); what != "" {
			t.Fatalf("it did happen: %s", what)
		}
		if n := l.asked(ccm, "InstanceExists") - asked; n < 3*13 {
			return fmt.Sprintf("%d questions", n)
		}
		return ""
	})

	// O05: each event is on its Node, and is told once.
	uids := map[string]string{}
	for _, node := range l.nodes() {
		uids[node.Name] = string(node.UID)
	}
	for _, event := range l.events("WrongProject") {
		if object := event.InvolvedObject; object.Kind != "Node" || uids[object.Name] != string(object.UID) || event.Count != 1 {
			t.Errorf("event %d times on %s %s, UID %s", event.Count, object.Kind, object.Name, object.UID)
		}
		if !strings.Contains(event.Message, "token may be that of another project") {
			t.Errorf("event = %q", event.Message)
		}
	}

	// The right token is back, and a server that is really gone takes its Node along.
	l.writeToken(token, stack.Token)
	l.cloud("server delete worker-2")
	l.eventually(30*time.Second, func() string {
		var names []string
		for _, node := range l.nodes() {
			names = append(names, node.Name)
		}
		if !slices.Equal(names, []string{"worker-1", "worker-3"}) {
			return fmt.Sprintf("Nodes are %v", names)
		}
		return ""
	})
	for _, secret := range []string{stack.Token, otherToken} {
		if strings.Contains(l.logText(), secret) {
			t.Error("the log shows a token")
		}
	}
}

// TestL04 deletes a server between the controller's two questions about it. Its
// Node gets no taint, and goes at the next pass.
func TestL04(t *testing.T) {
	t.Parallel()
	l := newLab(t, stack.Options{})
	if err := l.AddServers(t.Context(), 2, stack.Network); err != nil {
		t.Fatal(err)
	}
	lost, _, err := l.Client().Server.GetByName(t.Context(), "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/v1/servers/%d", lost.ID)
	var armed atomic.Bool
	endpoint := l.watchedAPI(func(answer *http.Response) error {
		if answer.Request.URL.Path != path || answer.StatusCode != http.StatusOK || !armed.CompareAndSwap(true, false) {
			return nil
		}
		l.cloud("requests clear")
		_, _, err := l.Client().Server.DeleteWithResult(context.WithoutCancel(t.Context()), lost)
		return err
	})
	// Without a cache each question is a request.
	l.start([]string{"HCLOUD_ENDPOINT=" + endpoint, "HCLOUD_SERVER_CACHE_MODE=off"})
	l.eventually(30*time.Second, l.initialized(2))

	versions, err := l.client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=worker-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer versions.Stop()
	l.stopKubelets("worker-1")
	l.eventually(30*time.Second, l.notReady(1))
	armed.Store(true)
	for deleted := false; !deleted; {
		select {
		case version := <-versions.ResultChan():
			node := version.Object.(*corev1.Node)
			if tainted(*node, cloudproviderapi.TaintNodeShutdown) {
				t.Fatalf("the Node has a taint: %v", node.Spec.Taints)
			}
			deleted = version.Type == watch.Deleted
		case <-time.After(30 * time.Second):
			t.Fatalf("the Node is still there:\n%s", l.logText())
		}
	}
	// What follows the deletion is the second question, and then the next pass.
	requests := strings.SplitAfter(l.cloud("requests --path /servers/*"), "\n")
	want := fmt.Sprintf("GET /servers/%d 404\n", lost.ID)
	if len(requests) < 2 || requests[0] != want || requests[1] != want {
		t.Errorf("requests after the deletion: %q", requests)
	}
	if nodes := l.nodes(); len(nodes) != 1 || nodes[0].Name != "worker-2" {
		t.Errorf("Nodes = %v", nodes)
	}
}

// TestN09 gives a server another public IPv4 and another type, as its owner would:
// while it is off. The Node follows both at the next refresh, five minutes in a
// cluster and two seconds here.
func TestN09(t *testing.T) {
	t.Parallel()
	l := newLab(t, stack.Options{})
	ctx := t.Context()
	if err := l.AddServers(ctx, 1, stack.Network); err != nil {
		t.Fatal(err)
	}
	l.start(nil)
	l.eventually(30*time.Second, l.initialized(1))
	server, _, err := l.Client().Server.GetByName(ctx, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	before := server.PublicNet.IPv4
	has := func(instanceType, ip string) func() string {
		return l.node("worker-1", func(node corev1.Node) bool {
			external := corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip}
			return slices.Contains(node.Status.Addresses, external) && node.Labels[corev1.LabelInstanceTypeStable] == instanceType
		})
	}
	l.eventually(30*time.Second, has("cx23", before.IP.String()))

	l.cloud("server poweroff worker-1")
	wait := func(action *hcloud.Action, _ *hcloud.Response, err error) {
		t.Helper()
		if err == nil && action != nil {
			err = l.Client().Action.WaitFor(ctx, action)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	created, _, err := l.Client().PrimaryIP.Create(ctx, hcloud.PrimaryIPCreateOpts{Name: "next", Type: hcloud.PrimaryIPTypeIPv4, Location: "fsn1", AutoDelete: hcloud.Ptr(true)})
	if err != nil {
		t.Fatal(err)
	}
	wait(l.Client().PrimaryIP.Unassign(ctx, before.ID))
	wait(l.Client().PrimaryIP.Assign(ctx, hcloud.PrimaryIPAssignOpts{ID: created.PrimaryIP.ID, AssigneeID: server.ID, AssigneeType: "server"}))
	l.cloud("server change-type worker-1 cpx22")
	l.cloud("server poweron worker-1")
	l.eventually(60*time.Second, has("cpx22", created.PrimaryIP.IP.String()))
	l.eventually(30*time.Second, l.node("worker-1", func(node corev1.Node) bool {
		return !slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == before.IP.String() })
	}))
}

// TestC01 starts with tokens of all shapes. One that is odd works, and is told; none
// is shown.
func TestC01(t *testing.T) {
	t.Parallel()
	l := newLab(t, stack.Options{})
	short, long := strings.Repeat("s", 32), strings.Repeat("l", 128)
	l.Cloud.AddToken(short, stack.Project, cloud.ReadWrite)
	l.Cloud.AddToken(long, stack.Project, cloud.ReadWrite)
	write := func(content string) (path string) {
		path = filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		name    string
		content string
		warning string
		exit    string // what is said before the CCM ends
	}{
		{name: "a token", content: stack.Token},
		{name: "a line", content: stack.Token + "\n"},
		{name: "a line of Windows", content: " " + stack.Token + "\r\n"},
		{name: "32 characters", content: short + "\n", warning: "HCLOUD_TOKEN has 32 characters"},
		{name: "128 characters", content: long + "\r\n", warning: "HCLOUD_TOKEN has 128 characters"},
		{name: "empty", content: "", exit: "HCLOUD_TOKEN"},
		{name: "an empty line", content: "\r\n", exit: "HCLOUD_TOKEN"},
	}
	for i, test := range tests {
		for from, env := range map[string][]string{
			"variable": {"HCLOUD_TOKEN=" + test.content},
			"file":     {"HCLOUD_TOKEN=", "HCLOUD_TOKEN_FILE=" + write(test.content)},
		} {
			t.Run(test.name+" in a "+from, func(t *testing.T) {
				l := *l
				l.T, l.log = t, fmt.Sprintf("%s.%s.%d", l.log, from, i)
				l.cloud("requests clear")
				ccm := l.start(env)
				l.eventually(30*time.Second, func() string {
					code, exited := ccm.Exited()
					switch {
					case exited != (test.exit != ""):
						return "it runs, or has ended"
					case exited && code == 0:
						return "it ended as if all were well"
					case !exited && !strings.Contains(l.cloud("requests"), "GET /networks?name=lab 200"):
						return "no request was answered"
					}
					return ""
				})
				ccm.Kill()
				log := l.logText()
				if !strings.Contains(log, test.warning) || !strings.Contains(log, test.exit) {
					t.Errorf("the log lacks %q:\n%s", test.warning+test.exit, log)
				}
				if odd := strings.Contains(log, "characters"); odd != (test.warning != "") {
					t.Errorf("a warning about the length: %t\n%s", odd, log)
				}
				if token := strings.TrimSpace(test.content); token != "" && strings.Contains(log, token) {
					t.Error("the log shows the token")
				}
			})
		}
	}
}

// TestC01Rotation has the old token refused before the new one is there. Nothing
// happens to Nodes and load balancers, and then all goes on.
func TestC01Rotation(t *testing.T) {
	t.Parallel()
	l := newLab(t, stack.Options{})
	if err := l.AddServers(t.Context(), 2, stack.Network); err != nil {
		t.Fatal(err)
	}
	token := l.tokenFile(stack.Token)
	ccm := l.start([]string{fresh, "HCLOUD_TOKEN=", "HCLOUD_TOKEN_FILE=" + token})
	l.eventually(30*time.Second, l.initialized(2))
	l.service("web", nil)
	l.eventually(30*time.Second, l.served("web"))
	l.stopKubelets("worker-2")
	l.eventually(30*time.Second, l.notReady(1))
	state := func() string {
		return fmt.Sprintln(len(l.nodes()), l.statuses()) + l.cloud("load-balancer list -o noheader")
	}
	before := state()

	// The old token is refused for longer than the controllers need to notice.
	l.cloud("fault add * /** --status 401 --code unauthorized")
	l.cloud("requests clear")
	l.patchService("web", `{"spec": {"ports": [{"name": "http", "port": 8080}]}}`)
	asked := l.asked(ccm, "InstanceExists")
	l.eventually(60*time.Second, func() string {
		if after := state(); after != before {
			t.Fatalf("it was %s, and is %s", before, after)
		}
		if n := l.asked(ccm, "InstanceExists") - asked; n < 5 || len(l.events("SyncLoadBalancerFailed")) == 0 {
			return fmt.Sprintf("%d questions, %d failures of the Service", n, len(l.events("SyncLoadBalancerFailed")))
		}
		return ""
	})
	if requests := l.cloud("requests"); !strings.Contains(requests, " 401") || strings.Contains(requests, " 20") {
		t.Errorf("requests with the old token: %s", requests)
	}
	rotated := strings.Repeat("new", 21) + "!"
	l.Cloud.AddToken(rotated, stack.Project, cloud.ReadWrite)
	l.writeToken(token, rotated)
	l.cloud("fault clear")
	l.cloud("server delete worker-2")
	l.eventually(60*time.Second, func() string {
		if n := len(l.nodes()); n != 1 || !strings.Contains(l.cloud("load-balancer list -o json"), `"listen_port": 8080`) {
			return fmt.Sprintf("%d Nodes, %s", n, l.cloud("load-balancer list -o json"))
		}
		return ""
	})
	if strings.Contains(l.logText(), rotated) {
		t.Error("the log shows the token")
	}
}

// TestC03 starts with what cannot work: all of it is told, in one go, and nothing
// is asked of the cloud that could change it.
func TestC03(t *testing.T) {
	t.Parallel()
	l := newLab(t, stack.Options{})
	tests := []struct {
		name     string
		env      []string
		fault    string
		want     []string
		requests bool
	}{
		{
			name: "three bad values",
			env:  []string{"HCLOUD_METRICS_ENABLED=maybe", "HCLOUD_INSTANCES_ADDRESS_FAMILY=ipv5", "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE=eu-central"},
			want: []string{`HCLOUD_METRICS_ENABLED "maybe": want true or false`, `HCLOUD_INSTANCES_ADDRESS_FAMILY "ipv5": want`, `HCLOUD_LOAD_BALANCERS_LOCATION "fsn1" and HCLOUD_LOAD_BALANCERS_NETWORK_ZONE "eu-central"`},
		},
		{name: "no token", env: []string{"HCLOUD_TOKEN= "}, want: []string{"HCLOUD_TOKEN is not set"}},
		{name: "refused token", env: []string{"HCLOUD_TOKEN=" + otherToken}, want: []string{"HCLOUD_TOKEN is refused by " + l.Endpoint}},
		{name: "failing API", fault: "GET /networks --status 503 --code unavailable", want: []string{"HCLOUD_NETWORK", l.Endpoint, "unavailable"}},
		{name: "no API", env: []string{"HCLOUD_ENDPOINT=http://127.0.0.1:1/v1"}, want: []string{"http://127.0.0.1:1/v1"}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := *l
			l.T, l.log = t, fmt.Sprintf("%s.%d", l.log, i)
			if test.fault != "" {
				l.cloud("fault add " + test.fault)
				defer l.cloud("fault clear")
			}
			ccm := l.start(test.env)
			l.eventually(30*time.Second, func() string {
				if code, exited := ccm.Exited(); !exited || code == 0 {
					return "the CCM runs"
				}
				return ""
			})
			log := l.logText()
			for _, want := range test.want {
				if !strings.Contains(log, want) {
					t.Errorf("the log lacks %q:\n%s", want, log)
				}
			}
			if strings.Contains(log, "goroutine ") {
				t.Errorf("stack trace:\n%s", log)
			}
		})
	}
	if writes := l.cloud("requests --kind write"); writes != "" {
		t.Errorf("changes in the cloud: %s", writes)
	}
}

// TestO01 uses the quota up while Nodes are not Ready and Services change, and counts.
func TestO01(t *testing.T) {
	t.Parallel()
	const nodes, services = 50, 20
	l := newLab(t, stack.Options{})
	if err := l.AddServers(t.Context(), nodes, stack.Network); err != nil {
		t.Fatal(err)
	}
	l.start([]string{fresh})
	l.eventually(60*time.Second, l.initialized(nodes))
	var names []string
	for n := range services {
		names = append(names, fmt.Sprintf("web-%d", n+1))
		l.service(names[n], nil)
	}
	l.eventually(60*time.Second, l.served(names...))
	for n := 2; n <= nodes; n++ {
		l.stopKubelets(fmt.Sprintf("worker-%d", n))
	}
	l.eventually(30*time.Second, l.notReady(nodes-1))
	statuses, balancers := l.statuses(), l.cloud("load-balancer list -o columns=id,name,ipv4")

	l.cloud("settings --rate-limit 60 --rate-remaining 0")
	for _, name := range names {
		l.patchService(name, `{"spec": {"ports": [{"name": "http", "port": 8080}]}}`)
	}
	l.eventually(60*time.Second, func() string {
		if !strings.Contains(l.cloud("requests"), " 429") {
			return "no request was refused"
		}
		return ""
	})
	l.cloud("requests clear")
	const lasting = 20 * time.Second
	l.always(lasting, func() string {
		if n := len(l.nodes()); n != nodes {
			return fmt.Sprintf("%d Nodes", n)
		}
		return ""
	})
	if got, most := strings.Count(l.cloud("requests"), "\n"), int(lasting/(5*time.Second))+1; got > most {
		t.Errorf("%d requests in %s without a quota, want %d at most:\n%s", got, lasting, most, l.cloud("requests"))
	}
	if after := l.statuses(); after != statuses {
		t.Errorf("Services were %s, and are %s", statuses, after)
	}
	if after := l.cloud("load-balancer list -o columns=id,name,ipv4"); after != balancers {
		t.Errorf("load balancers were\n%s, and are\n%s", balancers, after)
	}
	for _, event := range l.events("SyncLoadBalancerFailed") {
		if event.Count > 2 {
			t.Errorf("%d times: %s %s", event.Count, event.InvolvedObject.Name, event.Message)
		}
	}

	l.cloud("settings --rate-limit 3600 --rate-remaining 3600")
	l.cloud("server delete worker-2")
	l.eventually(120*time.Second, func() string {
		changed := 0
		balancers, err := l.Client().LoadBalancer.All(t.Context())
		if err != nil {
			return err.Error()
		}
		for _, balancer := range balancers {
			if len(balancer.Services) == 0 {
				t.Fatalf("load balancer %d has no listener", balancer.ID)
			}
			if len(balancer.Services) == 1 && balancer.Services[0].ListenPort == 8080 {
				changed++
			}
		}
		if n := len(l.nodes()); n != nodes-1 || changed != services {
			return fmt.Sprintf("%d Nodes, %d changed load balancers", n, changed)
		}
		return ""
	})
	if after := l.cloud("load-balancer list -o columns=id,name,ipv4"); after != balancers {
		t.Errorf("load balancers were\n%s, and are\n%s", balancers, after)
	}
}

// statuses returns the statuses of all Services.
func (l *lab) statuses() string {
	l.Helper()
	list, err := l.client.CoreV1().Services("default").List(l.Context(), metav1.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	var all []string
	for _, service := range list.Items {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			all = append(all, service.Name+"="+ingress.IP)
		}
	}
	return strings.Join(all, " ")
}

// election makes the lease of a leader a third as long as it is by default, so
// that ten seconds here are thirty in a cluster.
var election = []string{
	"--leader-elect=true", "--leader-elect-lease-duration=5s",
	"--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=600ms",
}

// TestO03 runs two replicas. One acts. It is killed while it creates a load
// balancer, and the other one finishes that; the next leader is cut off from the
// API server, and ends before another one may act.
func TestO03(t *testing.T) {
	t.Parallel()
	l := newLab(t, stack.Options{})
	l.apply("testdata/leader-election.yaml")
	if err := l.AddServers(t.Context(), 1, stack.Network); err != nil {
		t.Fatal(err)
	}
	first := l.start(nil, election...)
	l.eventually(30*time.Second, l.initialized(1))

	standby := *l
	standby.log = l.log + ".standby"
	link, kubeconfig := l.newLink()
	standby.kubeconfig = kubeconfig
	second := standby.start(nil, election...)
	l.eventually(30*time.Second, func() string {
		if _, err := second.Get(t.Context(), "/healthz"); err != nil {
			return err.Error()
		}
		return ""
	})
	leader := l.holder()

	l.cloud("fault add POST /load_balancers --stuck")
	l.service("web", nil)
	l.eventually(30*time.Second, func() string {
		if l.cloud("requests --method POST --path /load_balancers") == "" {
			return "nobody creates the load balancer"
		}
		return ""
	})
	if log := standby.logText(); strings.Contains(log, "Started \"") {
		t.Errorf("the second replica acts:\n%s", log)
	}
	first.Kill()
	l.cloud("fault clear")
	standby.eventually(30*time.Second, l.served("web"))
	if l.holder() == leader {
		t.Errorf("the lease is still held by %s", leader)
	}
	l.oneLoadBalancer("web")

	// The second leader hears nothing of the API server any more, but of the cloud.
	third := l.start(nil, election...)
	l.eventually(30*time.Second, func() string {
		if _, err := third.Get(t.Context(), "/healthz"); err != nil {
			return err.Error()
		}
		return ""
	})
	leader = l.holder()
	link.cut()
	l.eventually(30*time.Second, func() string {
		if l.holder() == leader {
			return "the lease is still held by " + leader
		}
		return ""
	})
	if code, exited := second.Exited(); !exited || code == 0 {
		t.Error("somebody else has the lease, and the leader that was cut off runs")
	}
	l.service("more", nil)
	if err := l.AddServers(t.Context(), 1, stack.Network); err != nil {
		t.Fatal(err)
	}
	l.eventually(30*time.Second, l.served("web", "more"))
	l.eventually(30*time.Second, l.initialized(2))
	l.oneLoadBalancer("web", "more")
	if code, err := third.Stop(); err != nil || code != 0 {
		t.Errorf("the third replica ended with %d, %v", code, err)
	}
}

// holder returns who has the lease.
func (l *lab) holder() string {
	l.Helper()
	lease, err := l.client.CoordinationV1().Leases("kube-system").Get(l.Context(), "hcloud-ccm", metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return *lease.Spec.HolderIdentity
}

// oneLoadBalancer fails the test if there are others than one for each Service.
func (l *lab) oneLoadBalancer(services ...string) {
	l.Helper()
	if got := strings.Count(l.cloud("load-balancer list -o noheader"), "\n"); got != len(services) {
		l.Errorf("%d load balancers for Services %v:\n%s", got, services, l.cloud("load-balancer list"))
	}
}
