package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	nodeinfo "example.com/ccm-from-scratch/final/nodes"
)

// leaves says why a load balancer has to leave the network that it is in, empty
// if it has not. It can be in one only, and keeps its address there.
func (d *Desired) leaves(actual *hcloud.LoadBalancer) string {
	if d.Network == 0 || len(actual.PrivateNet) == 0 {
		return ""
	}
	now := actual.PrivateNet[0]
	ip, _ := netip.AddrFromSlice(now.IP)
	ip = ip.Unmap()
	switch {
	case now.Network.ID != d.Network:
		return "it is the wrong one"
	case d.PrivateIP.IsValid() && ip != d.PrivateIP:
		return fmt.Sprintf("the private IP is %s instead of %s", ip, d.PrivateIP)
	case d.Subnet.IsValid() && !d.Subnet.Contains(ip):
		return fmt.Sprintf("the private IP %s is not in the subnet %s", ip, d.Subnet)
	}
	return ""
}

// checkMove refuses a place in the network that is not to be had. A load balancer
// has to leave its old place first, and would be left with none. That of an
// adopted one is not ours to change.
func (r *Reconciler) checkMove(ctx context.Context, d *Desired, actual *hcloud.LoadBalancer) error {
	why := d.leaves(actual)
	if why == "" {
		return nil
	}
	if d.Labels[AdoptedLabel] != "" {
		return &ConflictError{
			fmt.Sprintf("%s, in network %d,", actual.Name, actual.PrivateNet[0].Network.ID),
			fmt.Sprintf("whoever has attached it there, and %s: set annotation %suse-private-ip to false and remove %[2]sprivate-ipv4 and -subnet-ip-range, or set %[2]stakeover to true", why, Prefix),
		}
	}
	network, _, err := r.Client.Network.GetByID(ctx, d.Network)
	if err != nil {
		return fmt.Errorf("look up network %d: %w", d.Network, err)
	}
	if network == nil {
		return fmt.Errorf("network %d has vanished", d.Network)
	}
	if !slices.ContainsFunc(network.Subnets, d.fits) {
		if d.Subnet.IsValid() {
			return fmt.Errorf("annotation %sprivate-subnet-ip-range: network %s has no subnet %s", Prefix, network.Name, d.Subnet)
		}
		return fmt.Errorf("annotation %sprivate-ipv4: network %s has no subnet with %s", Prefix, network.Name, d.PrivateIP)
	}
	if !d.PrivateIP.IsValid() {
		return nil
	}
	servers, err := r.Client.Server.All(ctx)
	if err != nil {
		return fmt.Errorf("list servers: %w", err)
	}
	for _, s := range servers {
		if slices.Contains(nodeinfo.PrivateIPs(s, network), d.PrivateIP) {
			return fmt.Errorf("annotation %sprivate-ipv4: %s is that of server %s: choose another", Prefix, d.PrivateIP, s.Name)
		}
	}
	lbs, err := r.Client.LoadBalancer.All(ctx)
	if err != nil {
		return fmt.Errorf("list load balancers: %w", err)
	}
	for _, lb := range lbs {
		if slices.ContainsFunc(lb.PrivateNet, func(n hcloud.LoadBalancerPrivateNet) bool {
			return lb.ID != actual.ID && n.Network.ID == network.ID && n.IP.Equal(d.PrivateIP.AsSlice())
		}) {
			return fmt.Errorf("annotation %sprivate-ipv4: %s is that of load balancer %s: choose another", Prefix, d.PrivateIP, lb.Name)
		}
	}
	return nil
}

// fits tells whether the load balancer may be in a subnet.
func (d *Desired) fits(subnet hcloud.NetworkSubnet) bool {
	prefix, err := netip.ParsePrefix(subnet.IPRange.String())
	return err == nil && (!d.Subnet.IsValid() || prefix == d.Subnet) && (!d.PrivateIP.IsValid() || prefix.Contains(d.PrivateIP))
}
