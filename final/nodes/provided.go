package nodes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// Uninitialized tells whether a Node still waits for its cloud provider.
func Uninitialized(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == cloudproviderapi.TaintExternalCloudProvider
	})
}

// ProvidedIPs are the IPs of the kubelet's --node-ip flag.
func ProvidedIPs(node *corev1.Node) []netip.Addr {
	var ips []netip.Addr
	for s := range strings.SplitSeq(node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr], ",") {
		if ip, err := netip.ParseAddr(strings.TrimSpace(s)); err == nil {
			ips = append(ips, ip)
		}
	}
	return ips
}

// Mismatch explains why a Node cannot be initialized: its kubelet was told to use
// an IP that the Node's addresses do not have. It is empty if there is no such IP.
func (p Policy) Mismatch(server *hcloud.Server, node *corev1.Node) string {
	provided := ProvidedIPs(node)
	addresses := p.Addresses(server, provided)
	for _, ip := range provided {
		known := slices.ContainsFunc(addresses, func(a corev1.NodeAddress) bool { return a.Address == ip.String() })
		if !known {
			return fmt.Sprintf("the kubelet's --node-ip %s is not among the addresses of server %q: %s", ip, server.Name, whereIs(ip, server))
		}
	}
	return ""
}

// whereIs tells where a server has an IP that its Node does not get, and what to
// do about it.
func whereIs(ip netip.Addr, server *hcloud.Server) string {
	for _, privateNet := range server.PrivateNet {
		if own, _ := netip.AddrFromSlice(privateNet.IP); own.Unmap() == ip {
			return fmt.Sprintf("it is the server's IP in network %d; set HCLOUD_NETWORK to that network", privateNet.Network.ID)
		}
		for _, alias := range privateNet.Aliases {
			if own, _ := netip.AddrFromSlice(alias); own.Unmap() == ip {
				return fmt.Sprintf("it is an alias IP in network %d; use the server's own IP there", privateNet.Network.ID)
			}
		}
	}
	if ip == publicIPv4(server) || publicIPv6Network(server).Contains(ip) {
		return "it is a public IP; set HCLOUD_INSTANCES_ADDRESS_FAMILY to dualstack"
	}
	return "the server does not have it; attach the server to the network, or change the flag"
}
