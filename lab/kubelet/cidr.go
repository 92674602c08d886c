package kubelet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
)

const podCIDRBits = 24

// cidrAllocator hands out the /24s of a prefix, the lowest free one first. When
// the prefix is used up it goes on behind it, so that tests can have more nodes
// than the prefix has room for.
type cidrAllocator struct {
	prefix netip.Prefix

	mu   sync.Mutex
	used map[netip.Prefix]string // by node
}

// allocate returns the node's pod CIDR, the same one at each call until release.
func (a *cidrAllocator) allocate(node string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for cidr, holder := range a.used {
		if holder == node {
			return cidr.String(), nil
		}
	}
	for cidr := netip.PrefixFrom(a.prefix.Addr(), podCIDRBits); cidr.IsValid(); cidr = next(cidr) {
		if _, taken := a.used[cidr]; !taken {
			a.used[cidr] = node
			return cidr.String(), nil
		}
	}
	return "", fmt.Errorf("no pod CIDR left for node %s", node)
}

// reserve notes that a Node holds a pod CIDR, whoever gave it.
func (a *cidrAllocator) reserve(node, podCIDR string) {
	if cidr, err := netip.ParsePrefix(podCIDR); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.used[cidr] = node
	}
}

// release makes all pod CIDRs of a node available again.
func (a *cidrAllocator) release(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for cidr, holder := range a.used {
		if holder == node {
			delete(a.used, cidr)
		}
	}
}

// next returns the /24 behind cidr, the zero Prefix after the last one.
func next(cidr netip.Prefix) netip.Prefix {
	addr := cidr.Addr().As4()
	n := binary.BigEndian.Uint32(addr[:]) + 1<<(32-podCIDRBits)
	if n == 0 {
		return netip.Prefix{}
	}
	binary.BigEndian.PutUint32(addr[:], n)
	return netip.PrefixFrom(netip.AddrFrom4(addr), podCIDRBits)
}
