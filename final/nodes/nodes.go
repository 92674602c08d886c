// Package nodes says what a Node should tell of its server. It asks nobody.
package nodes

import (
	"net"
	"net/netip"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"

	"example.com/ccm-from-scratch/final/config"
	"example.com/ccm-from-scratch/final/providerid"
)

// Label and value that the official CCM gives its Nodes.
const (
	ProvidedByLabel = "instance.hetzner.cloud/provided-by"
	ProvidedByCloud = "cloud"
)

// zones are the labels that Nodes got while the API still named the data center
// of a server. Volumes and schedules depend on them. A location that is not here
// is its own zone.
var zones = map[string]string{
	"ash":  "ash-dc1",
	"fsn1": "fsn1-dc14",
	"hel1": "hel1-dc2",
	"hil":  "hil-dc1",
	"nbg1": "nbg1-dc3",
	"sin":  "sin-dc1",
}

// Policy is the part of the configuration that Nodes depend on.
type Policy struct {
	Network   *hcloud.Network // source of InternalIPs; nil if none is configured
	Family    config.AddressFamily
	ZoneLabel bool
}

// Metadata is what the Node of a server should say.
func (p Policy) Metadata(server *hcloud.Server, node *corev1.Node) *cloudprovider.InstanceMetadata {
	return &cloudprovider.InstanceMetadata{
		ProviderID:       providerid.Format(server.ID),
		InstanceType:     InstanceType(server),
		NodeAddresses:    p.Addresses(server, ProvidedIPs(node)),
		Region:           labelValue(server.Location.Name),
		Zone:             p.zone(server),
		AdditionalLabels: map[string]string{ProvidedByLabel: ProvidedByCloud},
	}
}

// InstanceType is the value of the instance-type label.
func InstanceType(server *hcloud.Server) string {
	if server.ServerType == nil {
		return ""
	}
	return labelValue(server.ServerType.Name)
}

// zone is empty if Nodes have no zone label.
func (p Policy) zone(server *hcloud.Server) string {
	if !p.ZoneLabel {
		return ""
	}
	if zone, ok := zones[server.Location.Name]; ok {
		return zone
	}
	return labelValue(server.Location.Name)
}

// labelValue replaces what no label may contain: a Node with such a label would
// be refused, and wait for ever.
func labelValue(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, s)
	return strings.Trim(s[:min(len(s), validation.LabelValueMaxLength)], "-_.")
}

// Addresses lists all addresses of a server, always in the same order: its name,
// its IP in the network, its public IPv4, its public IPv6. The node controller
// replaces the addresses in the Node's status with this list.
//
// provided are the IPs that the kubelet was told to use. A server has a /64 of
// IPv6 to itself, and may use any address in it.
func (p Policy) Addresses(server *hcloud.Server, provided []netip.Addr) []corev1.NodeAddress {
	addresses := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: server.Name}}
	add := func(kind corev1.NodeAddressType, ip netip.Addr) {
		if ip.IsValid() && !ip.IsUnspecified() {
			addresses = append(addresses, corev1.NodeAddress{Type: kind, Address: ip.String()})
		}
	}
	add(corev1.NodeInternalIP, PrivateIP(server, p.Network))
	if p.Family != config.IPv6 {
		add(corev1.NodeExternalIP, publicIPv4(server))
	}
	if p.Family != config.IPv4 {
		add(corev1.NodeExternalIP, publicIPv6(server, provided))
	}
	return addresses
}

// PrivateIPs returns the IPs of a server in a network: its own, then its alias
// IPs. There are none if the server is not a member, or the network is nil.
func PrivateIPs(server *hcloud.Server, network *hcloud.Network) (ips []netip.Addr) {
	for _, privateNet := range server.PrivateNet {
		if network == nil || privateNet.Network == nil || privateNet.Network.ID != network.ID {
			continue
		}
		for _, ip := range append([]net.IP{privateNet.IP}, privateNet.Aliases...) {
			addr, _ := netip.AddrFromSlice(ip)
			ips = append(ips, addr.Unmap())
		}
	}
	return ips
}

// PrivateIP returns the first of a server's PrivateIPs, its own; an invalid one if
// there is none.
func PrivateIP(server *hcloud.Server, network *hcloud.Network) netip.Addr {
	for _, ip := range PrivateIPs(server, network) {
		return ip
	}
	return netip.Addr{}
}

func publicIPv4(server *hcloud.Server) netip.Addr {
	ip, _ := netip.AddrFromSlice(server.PublicNet.IPv4.IP)
	return ip.Unmap()
}

// publicIPv6 returns the address that a server uses in its public IPv6 network.
// The API reports only the network, a /64 such as 2001:db8::/64. The images of
// Hetzner Cloud configure its first address, 2001:db8::1; whoever chose another
// one has told the kubelet.
func publicIPv6(server *hcloud.Server, provided []netip.Addr) netip.Addr {
	network := publicIPv6Network(server)
	for _, ip := range provided {
		if network.Contains(ip) {
			return ip
		}
	}
	if !network.IsValid() {
		return netip.Addr{}
	}
	return network.Addr().Next()
}

func publicIPv6Network(server *hcloud.Server) netip.Prefix {
	ip, ok := netip.AddrFromSlice(server.PublicNet.IPv6.IP.To16())
	if !ok || ip.IsUnspecified() || ip.Is4In6() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(ip, 64).Masked()
}
