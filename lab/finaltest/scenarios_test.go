package finaltest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	l.start([]string{fresh, "HCLOUD_TOKEN=", "HCLOUD_TOKEN_FILE=" + token})
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
	l.always(20*time.Second, everybody)

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

// TestO01 uses the quota up while Nodes are not Ready, and counts.
func TestO01(t *testing.T) {
	t.Parallel()
	l := newLab(t, stack.Options{})
	if err := l.AddServers(t.Context(), 20, stack.Network); err != nil {
		t.Fatal(err)
	}
	l.start([]string{fresh})
	l.eventually(30*time.Second, l.initialized(20))
	for n := 2; n <= 20; n++ {
		l.stopKubelets(fmt.Sprintf("worker-%d", n))
	}
	l.eventually(30*time.Second, l.notReady(19))

	l.cloud("settings --rate-limit 60 --rate-remaining 0")
	l.eventually(60*time.Second, func() string {
		if !strings.Contains(l.cloud("requests"), " 429") {
			return "no request was refused"
		}
		return ""
	})
	l.cloud("requests clear")
	const lasting = 30 * time.Second
	l.always(lasting, func() string {
		if n := len(l.nodes()); n != 20 {
			return fmt.Sprintf("%d Nodes", n)
		}
		return ""
	})
	if got, most := strings.Count(l.cloud("requests"), "\n"), int(lasting/(5*time.Second))+1; got > most {
		t.Errorf("%d requests in %s without a quota, want %d at most:\n%s", got, lasting, most, l.cloud("requests"))
	}

	l.cloud("settings --rate-limit 3600 --rate-remaining 3600")
	l.cloud("server delete worker-2")
	l.eventually(90*time.Second, func() string {
		if n := len(l.nodes()); n != 19 {
			return fmt.Sprintf("%d Nodes", n)
		}
		return ""
	})
}

// TestO03 runs two replicas: one acts, and when it is killed the other one does.
func TestO03(t *testing.T) {
	t.Parallel()
	l := newLab(t, stack.Options{})
	if err := l.AddServers(t.Context(), 1, stack.Network); err != nil {
		t.Fatal(err)
	}
	first := l.start(nil, "--leader-elect=true")
	l.eventually(30*time.Second, l.initialized(1))

	standby := *l
	standby.log = l.log + ".standby"
	second := standby.start(nil, "--leader-elect=true")
	l.eventually(30*time.Second, func() string {
		if _, err := second.Get(t.Context(), "/healthz"); err != nil {
			return err.Error()
		}
		return ""
	})
	lease, err := l.client.CoordinationV1().Leases("kube-system").Get(t.Context(), "hcloud-ccm", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leader := *lease.Spec.HolderIdentity
	l.always(5*time.Second, func() string {
		if strings.Contains(standby.logText(), "Started \"") {
			return "the second replica acts"
		}
		return ""
	})

	first.Kill()
	if err := l.AddServers(t.Context(), 1, stack.Network); err != nil {
		t.Fatal(err)
	}
	standby.eventually(30*time.Second, l.initialized(2))
	lease, err = l.client.CoordinationV1().Leases("kube-system").Get(t.Context(), "hcloud-ccm", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *lease.Spec.HolderIdentity == leader {
		t.Errorf("the lease is still held by %s", leader)
	}
	if code, err := second.Stop(); err != nil || code != 0 {
		t.Errorf("the second replica ended with %d, %v", code, err)
	}
}
