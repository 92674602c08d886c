package ccm

import (
	"net/netip"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
)

// nodeAddresses lists all addresses of a server: its name, its IP in network,
// and its public IPs. The node controller replaces the addresses in the Node's
// status with this list, so what is missing here vanishes there.
//
// A nil network means that there are no InternalIPs.
func nodeAddresses(server *hcloud.Server, network *hcloud.Network) []corev1.NodeAddress {
	addresses := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: server.Name}}

	if network != nil {
		for _, privateNet := range server.PrivateNet {
			if privateNet.Network.ID == network.ID {
				addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: privateNet.IP.String()})
			}
		}
	}
	if ipv4 := server.PublicNet.IPv4; !ipv4.IsUnspecified() {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ipv4.IP.String()})
	}
	if ipv6 := server.PublicNet.IPv6; !ipv6.IsUnspecified() {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: hostAddress(ipv6).String()})
	}
	return addresses
}

// hostAddress returns the address that a server uses in its public IPv6
// network. The API reports only the network, a /64 such as 2001:db8::/64; the
// images of Hetzner Cloud configure its first address, 2001:db8::1.
func hostAddress(ipv6 hcloud.ServerPublicNetIPv6) netip.Addr {
	network, _ := netip.AddrFromSlice(ipv6.IP.To16())
	return network.Next()
}
