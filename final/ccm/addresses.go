package ccm

import (
	"net"
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

	if ip := privateIP(server, network); ip != nil {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.String()})
	}
	if ipv4 := server.PublicNet.IPv4; !ipv4.IsUnspecified() {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ipv4.IP.String()})
	}
	if ipv6 := server.PublicNet.IPv6; !ipv6.IsUnspecified() {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: hostAddress(ipv6).String()})
	}
	return addresses
}

// privateIP returns the IP of a server in a network, nil if it has none there.
func privateIP(server *hcloud.Server, network *hcloud.Network) net.IP {
	for _, privateNet := range server.PrivateNet {
		if network != nil && privateNet.Network.ID == network.ID {
			return privateNet.IP
		}
	}
	return nil
}

// hostAddress returns the address that a server uses in its public IPv6
// network. The API reports only the network, a /64 such as 2001:db8::/64; the
// images of Hetzner Cloud configure its first address, 2001:db8::1.
func hostAddress(ipv6 hcloud.ServerPublicNetIPv6) netip.Addr {
	network, _ := netip.AddrFromSlice(ipv6.IP.To16())
	return network.Next()
}
