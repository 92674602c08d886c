package bench

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"

	"example.com/ccm-from-scratch/lab/stack"
)

// leastMemory is what no program that talks to an API server does with, in bytes.
const leastMemory = 10 << 20

func TestRun(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	build := func(stage string) string {
		binary, err := stack.BuildCCM(t.Context(), root, stage, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		return binary
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho out of luck\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name, binary, scenario string
		deadline               time.Duration

		want      Result
		wantReads int // at most
	}{
		{
			name:      "nodes join",
			binary:    build("part3-nodes"),
			scenario:  "join-10",
			deadline:  time.Minute,
			want:      Result{Settled: true},
			wantReads: 11, // one for each Node, one for the network
		},
		{
			name:     "nothing happens",
			binary:   build("part3-nodes"),
			scenario: "idle",
			deadline: time.Minute,
			want:     Result{Settled: true, Seconds: 1},
		},
		{
			name:     "no controller for it",
			binary:   build("part1-skeleton"),
			scenario: "service",
			deadline: time.Second,
			want:     Result{Note: "no progress for 1s: 10 of 10 Nodes are not initialized"},
		},
		{
			name:     "a CCM that ends",
			binary:   broken,
			scenario: "routes-50",
			deadline: time.Minute,
			want:     Result{Note: "the CCM ended with exit code 3: out of luck"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			options := Options{CCM: "ccm", Binary: test.binary, Idle: time.Second, Calm: time.Second, Deadline: test.deadline, Log: t.Output()}
			got, err := Run(t.Context(), options, test.scenario)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", got)
			if got.Reads > test.wantReads || (test.wantReads > 0 && got.Reads == 0) {
				t.Errorf("%d reads, want at most %d", got.Reads, test.wantReads)
			}
			if test.binary != broken && got.PeakMemory < leastMemory {
				t.Errorf("%d bytes of memory, want at least %d", got.PeakMemory, leastMemory)
			}
			if test.scenario != "idle" {
				if (got.Seconds > 0) != test.want.Settled {
					t.Errorf("%g seconds, settled %t", got.Seconds, test.want.Settled)
				}
				got.Seconds = 0
			}
			got.Reads, got.PeakMemory = 0, 0
			test.want.CCM, test.want.Scenario = "ccm", test.scenario
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("no such scenario", func(t *testing.T) {
		if _, err := Run(t.Context(), Options{}, "join-7"); err == nil {
			t.Error("a scenario that does not exist was run")
		}
	})
	t.Run("given up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if result, err := Run(ctx, Options{Log: io.Discard}, "join-10"); err == nil {
			t.Errorf("result %+v of a scenario that nobody waits for", result)
		}
	})
}

func TestIsBalanced(t *testing.T) {
	const nodes = 2
	server := func(id int64) hcloud.LoadBalancerTarget {
		return hcloud.LoadBalancerTarget{
			Type:   hcloud.LoadBalancerTargetTypeServer,
			Server: &hcloud.LoadBalancerTargetServer{Server: &hcloud.Server{ID: id}},
		}
	}
	selector := func(targets ...hcloud.LoadBalancerTarget) hcloud.LoadBalancerTarget {
		return hcloud.LoadBalancerTarget{Type: hcloud.LoadBalancerTargetTypeLabelSelector, Targets: targets}
	}
	ip := hcloud.LoadBalancerTarget{Type: hcloud.LoadBalancerTargetTypeIP, IP: &hcloud.LoadBalancerTargetIP{IP: "192.0.2.1"}}
	http := hcloud.LoadBalancerService{ListenPort: 80, DestinationPort: 30080}
	https := hcloud.LoadBalancerService{ListenPort: 443, DestinationPort: 30443}

	tests := []struct {
		name      string
		ip        string // in the status of the Service
		listeners []hcloud.LoadBalancerService
		targets   []hcloud.LoadBalancerTarget
		want      bool
	}{
		{"all there", "203.0.113.1", []hcloud.LoadBalancerService{https, http}, []hcloud.LoadBalancerTarget{server(1), server(2)}, true},
		{"by its private IP", "10.0.0.9", []hcloud.LoadBalancerService{https, http}, []hcloud.LoadBalancerTarget{server(1), server(2)}, true},
		{"targets of other types", "203.0.113.1", []hcloud.LoadBalancerService{https, http}, []hcloud.LoadBalancerTarget{selector(server(1)), ip}, true},
		{"the same target twice", "203.0.113.1", []hcloud.LoadBalancerService{https, http}, []hcloud.LoadBalancerTarget{server(1), selector(server(1))}, false},
		{"a target is missing", "203.0.113.1", []hcloud.LoadBalancerService{https, http}, []hcloud.LoadBalancerTarget{server(1)}, false},
		{"a listener is missing", "203.0.113.1", []hcloud.LoadBalancerService{http}, []hcloud.LoadBalancerTarget{server(1), server(2)}, false},
		{"a listener has an old port", "203.0.113.1", []hcloud.LoadBalancerService{http, {ListenPort: 443, DestinationPort: 30444}}, []hcloud.LoadBalancerTarget{server(1), server(2)}, false},
		{"nobody's IP", "203.0.113.2", []hcloud.LoadBalancerService{https, http}, []hcloud.LoadBalancerTarget{server(1), server(2)}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			service := &corev1.Service{
				Spec:   corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}, {Port: 443, NodePort: 30443}}},
				Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: test.ip}}}},
			}
			balancer := &hcloud.LoadBalancer{
				PublicNet:  hcloud.LoadBalancerPublicNet{IPv4: hcloud.LoadBalancerPublicNetIPv4{IP: net.ParseIP("203.0.113.1")}},
				PrivateNet: []hcloud.LoadBalancerPrivateNet{{IP: net.ParseIP("10.0.0.9")}},
				Services:   test.listeners,
				Targets:    test.targets,
			}
			if got := isBalanced(service, []*hcloud.LoadBalancer{balancer}, nodes); got != test.want {
				t.Errorf("isBalanced = %t, want %t", got, test.want)
			}
		})
	}
}

func TestWriteTable(t *testing.T) {
	var got bytes.Buffer
	err := WriteTable(&got, []Result{
		{CCM: "part3-nodes", Scenario: "join-10", Settled: true, Seconds: 0.61, Reads: 11, PeakMemory: 72 << 20},
		{CCM: "part3-nodes", Scenario: "service", Note: "no progress for 1m0s: 1 of 1 Services have no IP", Reads: 5},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `
CCM          SCENARIO  SETTLED  READS  WRITES  POLLS  MEMORY  NOTE
part3-nodes  join-10   0.6 s    11     0       0      72 MiB
part3-nodes  service   -        -      -       -      -       no progress for 1m0s: 1 of 1 Services have no IP
`[1:]
	lines := strings.SplitAfter(got.String(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \n")
	}
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
