package ccm

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
)

func TestNodeAddresses(t *testing.T) {
	var (
		network  = &hcloud.Network{ID: 7}
		other    = &hcloud.Network{ID: 8}
		hostname = corev1.NodeAddress{Type: corev1.NodeHostName, Address: "worker-1"}
		internal = corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.2"}
		ipv4     = corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.7"}
		ipv6     = corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "2001:db8:1::1"}

		privateNet = []hcloud.ServerPrivateNet{
			{Network: other, IP: net.ParseIP("172.16.0.2")},
			{Network: network, IP: net.ParseIP("10.0.0.2")},
		}
		publicNet = hcloud.ServerPublicNet{
			IPv4: hcloud.ServerPublicNetIPv4{IP: net.ParseIP("203.0.113.7")},
			IPv6: hcloud.ServerPublicNetIPv6{IP: net.ParseIP("2001:db8:1::")},
		}
	)

	tests := []struct {
		name    string
		server  hcloud.Server
		network *hcloud.Network
		want    []corev1.NodeAddress
	}{
		{
			name:    "all kinds",
			server:  hcloud.Server{PrivateNet: privateNet, PublicNet: publicNet},
			network: network,
			want:    []corev1.NodeAddress{hostname, internal, ipv4, ipv6},
		},
		{
			name:   "no network configured",
			server: hcloud.Server{PrivateNet: privateNet, PublicNet: publicNet},
			want:   []corev1.NodeAddress{hostname, ipv4, ipv6},
		},
		{
			name:    "not in the configured network",
			server:  hcloud.Server{PrivateNet: privateNet[:1], PublicNet: publicNet},
			network: network,
			want:    []corev1.NodeAddress{hostname, ipv4, ipv6},
		},
		{
			name:    "private only",
			server:  hcloud.Server{PrivateNet: privateNet},
			network: network,
			want:    []corev1.NodeAddress{hostname, internal},
		},
		{
			name:   "IPv6 only",
			server: hcloud.Server{PublicNet: hcloud.ServerPublicNet{IPv6: publicNet.IPv6}},
			want:   []corev1.NodeAddress{hostname, ipv6},
		},
		{
			name: "no address at all",
			want: []corev1.NodeAddress{hostname},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.server.Name = "worker-1"
			got := nodeAddresses(&test.server, test.network)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("nodeAddresses (-want +got):\n%s", diff)
			}
		})
	}
}
