package nodes

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"

	"example.com/ccm-from-scratch/final/config"
)

var (
	network   = &hcloud.Network{ID: 2}
	publicNet = hcloud.ServerPublicNet{
		IPv4: hcloud.ServerPublicNetIPv4{IP: net.ParseIP("192.0.2.10")},
		IPv6: hcloud.ServerPublicNetIPv6{IP: net.ParseIP("2001:db8:1::")},
	}
	privateNets = []hcloud.ServerPrivateNet{
		{Network: &hcloud.Network{ID: 1}, IP: net.ParseIP("172.16.0.2")},
		{Network: network, IP: net.ParseIP("10.0.0.6"), Aliases: []net.IP{net.ParseIP("10.0.0.7")}},
	}
)

func newNode(nodeIP string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	if nodeIP != "" {
		node.Annotations = map[string]string{"alpha.kubernetes.io/provided-node-ip": nodeIP}
	}
	return node
}

func address(kind corev1.NodeAddressType, ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: kind, Address: ip}
}

// TestN02 is about families and order, TestN04 about servers that lack something.
func TestN02N04(t *testing.T) {
	var (
		hostname = address(corev1.NodeHostName, "worker-1")
		internal = address(corev1.NodeInternalIP, "10.0.0.6")
		ipv4     = address(corev1.NodeExternalIP, "192.0.2.10")
		ipv6     = address(corev1.NodeExternalIP, "2001:db8:1::1")
	)
	tests := []struct {
		name   string
		server hcloud.Server
		policy Policy
		nodeIP string
		want   []corev1.NodeAddress
	}{
		{
			name:   "N02 ipv4",
			server: hcloud.Server{PublicNet: publicNet},
			policy: Policy{Family: config.IPv4},
			want:   []corev1.NodeAddress{hostname, ipv4},
		},
		{
			name:   "N02 ipv6",
			server: hcloud.Server{PublicNet: publicNet},
			policy: Policy{Family: config.IPv6},
			want:   []corev1.NodeAddress{hostname, ipv6},
		},
		{
			name:   "N02 dual stack",
			server: hcloud.Server{PublicNet: publicNet},
			policy: Policy{Family: config.DualStack},
			nodeIP: "192.0.2.10,2001:db8:1::1",
			want:   []corev1.NodeAddress{hostname, ipv4, ipv6},
		},
		{
			name:   "N02 an address of one's own in the /64",
			server: hcloud.Server{PublicNet: publicNet},
			policy: Policy{Family: config.DualStack},
			nodeIP: "2001:db8:1::beef",
			want:   []corev1.NodeAddress{hostname, ipv4, address(corev1.NodeExternalIP, "2001:db8:1::beef")},
		},
		{
			name:   "N02 an address in another /64",
			server: hcloud.Server{PublicNet: publicNet},
			policy: Policy{Family: config.DualStack},
			nodeIP: "2001:db8:2::beef",
			want:   []corev1.NodeAddress{hostname, ipv4, ipv6},
		},
		{
			name:   "N04 no IPv4",
			server: hcloud.Server{PublicNet: hcloud.ServerPublicNet{IPv6: publicNet.IPv6}},
			policy: Policy{Family: config.DualStack},
			want:   []corev1.NodeAddress{hostname, ipv6},
		},
		{
			name:   "N04 no IPv6",
			server: hcloud.Server{PublicNet: hcloud.ServerPublicNet{IPv4: publicNet.IPv4}},
			policy: Policy{Family: config.DualStack},
			want:   []corev1.NodeAddress{hostname, ipv4},
		},
		{
			name:   "N04 unspecified addresses",
			server: hcloud.Server{PublicNet: hcloud.ServerPublicNet{IPv4: hcloud.ServerPublicNetIPv4{IP: net.IPv4zero}, IPv6: hcloud.ServerPublicNetIPv6{IP: net.IPv6zero}}},
			policy: Policy{Family: config.DualStack},
			want:   []corev1.NodeAddress{hostname},
		},
		{
			name:   "N04 no public net",
			server: hcloud.Server{PrivateNet: privateNets},
			policy: Policy{Family: config.DualStack, Network: network},
			want:   []corev1.NodeAddress{hostname, internal},
		},
		{
			name:   "N04 nothing at all",
			policy: Policy{Family: config.DualStack, Network: network},
			want:   []corev1.NodeAddress{hostname},
		},
		{
			name:   "N04 several networks, alias IPs",
			server: hcloud.Server{PublicNet: publicNet, PrivateNet: privateNets},
			policy: Policy{Family: config.IPv4, Network: network},
			want:   []corev1.NodeAddress{hostname, internal, ipv4},
		},
		{
			name:   "N04 not in the configured network",
			server: hcloud.Server{PublicNet: publicNet, PrivateNet: privateNets[:1]},
			policy: Policy{Family: config.IPv4, Network: network},
			want:   []corev1.NodeAddress{hostname, ipv4},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.server.Name = "worker-1"
			for range 3 { // the order is stable, and nothing is changed in the server
				got := test.policy.Addresses(&test.server, ProvidedIPs(newNode(test.nodeIP)))
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("Addresses (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestN01 explains each reason why a kubelet's IP is not among the addresses.
func TestN01(t *testing.T) {
	server := &hcloud.Server{Name: "worker-1", PublicNet: publicNet, PrivateNet: privateNets}
	tests := []struct {
		name   string
		policy Policy
		nodeIP string
		want   string // part of the explanation; empty if there is none
	}{
		{"no flag", Policy{Family: config.IPv4}, "", ""},
		{"a known IP", Policy{Family: config.IPv4, Network: network}, "10.0.0.6", ""},
		{"no network", Policy{Family: config.IPv4}, "10.0.0.6", `--node-ip 10.0.0.6 is not among the addresses of server "worker-1": it is the server's IP in network 2; set HCLOUD_NETWORK`},
		{"another network", Policy{Family: config.IPv4, Network: network}, "172.16.0.2", "network 1; set HCLOUD_NETWORK"},
		{"alias IP", Policy{Family: config.IPv4, Network: network}, "10.0.0.7", "alias IP in network 2"},
		{"another family", Policy{Family: config.IPv4}, "2001:db8:1::5", "set HCLOUD_INSTANCES_ADDRESS_FAMILY"},
		{"the second of two", Policy{Family: config.IPv6}, "2001:db8:1::5,192.0.2.10", "--node-ip 192.0.2.10 is not"},
		{"nobody's", Policy{Family: config.DualStack, Network: network}, "198.51.100.1", "the server does not have it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.policy.Mismatch(server, newNode(test.nodeIP))
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("Mismatch = %q, want %q in it", got, test.want)
			}
		})
	}
}

// TestN08 is about places: there is no data center to read any more.
func TestN08(t *testing.T) {
	tests := []struct {
		location   string
		zoneLabel  bool
		wantRegion string
		wantZone   string
	}{
		{"nbg1", true, "nbg1", "nbg1-dc3"},
		{"hel1", true, "hel1", "hel1-dc2"},
		{"fsn1", true, "fsn1", "fsn1-dc14"},
		{"ash", true, "ash", "ash-dc1"},
		{"hil", true, "hil", "hil-dc1"},
		{"sin", true, "sin", "sin-dc1"},
		{"xyz1", true, "xyz1", "xyz1"},
		{"fsn1", false, "fsn1", ""},
	}
	for _, test := range tests {
		t.Run(test.location, func(t *testing.T) {
			server := &hcloud.Server{ID: 42, Name: "worker-1", Location: &hcloud.Location{Name: test.location}, ServerType: &hcloud.ServerType{Name: "cx23"}}
			got := Policy{ZoneLabel: test.zoneLabel}.Metadata(server, newNode(""))
			want := &cloudprovider.InstanceMetadata{
				ProviderID:       "hcloud://42",
				InstanceType:     "cx23",
				Region:           test.wantRegion,
				Zone:             test.wantZone,
				NodeAddresses:    []corev1.NodeAddress{address(corev1.NodeHostName, "worker-1")},
				AdditionalLabels: map[string]string{"instance.hetzner.cloud/provided-by": "cloud"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Metadata (-want +got):\n%s", diff)
			}
		})
	}
}

// TestN09 turns any name into a label that the API server accepts.
func TestN09(t *testing.T) {
	tests := map[string]string{
		"cx23":                   "cx23",
		"AX41 NVMe® ":            "AX41-NVMe",
		" (x) ":                  "x",
		"®":                      "",
		strings.Repeat("a-", 60): strings.Repeat("a-", 31) + "a",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			got := InstanceType(&hcloud.Server{ServerType: &hcloud.ServerType{Name: in}})
			if got != want {
				t.Errorf("InstanceType = %q, want %q", got, want)
			}
			if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}
