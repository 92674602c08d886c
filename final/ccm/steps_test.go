package ccm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

func TestCompare(t *testing.T) {
	server := func(id int64, private bool) hcloud.LoadBalancerTarget {
		return hcloud.LoadBalancerTarget{
			Type:         hcloud.LoadBalancerTargetTypeServer,
			Server:       &hcloud.LoadBalancerTargetServer{Server: &hcloud.Server{ID: id}},
			UsePrivateIP: private,
		}
	}
	service := func(port, nodePort int) hcloud.LoadBalancerService {
		return hcloud.LoadBalancerService{
			Protocol:        hcloud.LoadBalancerServiceProtocolTCP,
			ListenPort:      port,
			DestinationPort: nodePort,
			HealthCheck:     hcloud.LoadBalancerServiceHealthCheck{Protocol: hcloud.LoadBalancerServiceProtocolTCP, Port: nodePort},
		}
	}
	// A new case starts from a load balancer that is what is wanted.
	state := func() (*wantedLoadBalancer, *hcloud.LoadBalancer) {
		wanted := &wantedLoadBalancer{
			Type:      "lb11",
			Listeners: []listener{{Port: 80, NodePort: 30080}, {Port: 443, NodePort: 30443}},
			Targets:   []int64{1, 2},
		}
		actual := &hcloud.LoadBalancer{
			LoadBalancerType: &hcloud.LoadBalancerType{Name: "lb11"},
			Services:         []hcloud.LoadBalancerService{service(443, 30443), service(80, 30080)},
			Targets:          []hcloud.LoadBalancerTarget{server(2, false), server(1, false)},
		}
		return wanted, actual
	}

	tests := []struct {
		name   string
		change func(*wantedLoadBalancer, *hcloud.LoadBalancer)
		want   []step
	}{
		{
			name:   "nothing to do",
			change: func(*wantedLoadBalancer, *hcloud.LoadBalancer) {},
		},
		{
			name: "everything is missing",
			change: func(_ *wantedLoadBalancer, actual *hcloud.LoadBalancer) {
				actual.Services, actual.Targets = nil, nil
			},
			want: []step{
				{Kind: addTarget, Server: 1},
				{Kind: addTarget, Server: 2},
				{Kind: addListener, Listener: listener{Port: 80, NodePort: 30080}},
				{Kind: addListener, Listener: listener{Port: 443, NodePort: 30443}},
			},
		},
		{
			name:   "a node is replaced: the new one comes first",
			change: func(wanted *wantedLoadBalancer, _ *hcloud.LoadBalancer) { wanted.Targets = []int64{2, 3} },
			want:   []step{{Kind: addTarget, Server: 3}, {Kind: removeTarget, Server: 1}},
		},
		{
			name: "a port is replaced: the old one goes first",
			change: func(wanted *wantedLoadBalancer, _ *hcloud.LoadBalancer) {
				wanted.Listeners = []listener{{Port: 80, NodePort: 30080}, {Port: 444, NodePort: 30443}}
			},
			want: []step{
				{Kind: deleteListener, Listener: listener{Port: 443}},
				{Kind: addListener, Listener: listener{Port: 444, NodePort: 30443}},
			},
		},
		{
			name: "a node port changes",
			change: func(wanted *wantedLoadBalancer, _ *hcloud.LoadBalancer) {
				wanted.Listeners[0].NodePort = 30090
			},
			want: []step{{Kind: updateListener, Listener: listener{Port: 80, NodePort: 30090}}},
		},
		{
			name: "a health check looks elsewhere",
			change: func(_ *wantedLoadBalancer, actual *hcloud.LoadBalancer) {
				actual.Services[0].HealthCheck.Port = 30000
			},
			want: []step{{Kind: updateListener, Listener: listener{Port: 443, NodePort: 30443}}},
		},
		{
			name: "PROXY protocol was switched on by somebody",
			change: func(_ *wantedLoadBalancer, actual *hcloud.LoadBalancer) {
				actual.Services[0].Proxyprotocol = true
			},
			want: []step{{Kind: updateListener, Listener: listener{Port: 443, NodePort: 30443}}},
		},
		{
			name: "targets change to private IPs, after the network is there",
			change: func(wanted *wantedLoadBalancer, _ *hcloud.LoadBalancer) {
				wanted.Network, wanted.UsePrivateIP = &hcloud.Network{ID: 7}, true
			},
			want: []step{
				{Kind: attachNetwork, Network: 7},
				{Kind: removeTarget, Server: 2},
				{Kind: addTarget, Server: 2, UsePrivateIP: true},
				{Kind: removeTarget, Server: 1},
				{Kind: addTarget, Server: 1, UsePrivateIP: true},
			},
		},
		{
			name: "attached already",
			change: func(wanted *wantedLoadBalancer, actual *hcloud.LoadBalancer) {
				wanted.Network = &hcloud.Network{ID: 7}
				actual.PrivateNet = []hcloud.LoadBalancerPrivateNet{{Network: &hcloud.Network{ID: 7}}}
			},
		},
		{
			name:   "another type",
			change: func(wanted *wantedLoadBalancer, _ *hcloud.LoadBalancer) { wanted.Type = "lb21" },
			want:   []step{{Kind: changeType, Type: "lb21"}},
		},
		{
			name: "others' targets stay",
			change: func(_ *wantedLoadBalancer, actual *hcloud.LoadBalancer) {
				actual.Targets = append(actual.Targets,
					hcloud.LoadBalancerTarget{Type: hcloud.LoadBalancerTargetTypeIP, IP: &hcloud.LoadBalancerTargetIP{IP: "203.0.113.9"}},
					hcloud.LoadBalancerTarget{Type: hcloud.LoadBalancerTargetTypeLabelSelector, LabelSelector: &hcloud.LoadBalancerTargetLabelSelector{Selector: "a=b"}},
				)
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wanted, actual := state()
			test.change(wanted, actual)
			if diff := cmp.Diff(test.want, compare(wanted, actual)); diff != "" {
				t.Errorf("compare (-want +got):\n%s", diff)
			}
		})
	}
}
