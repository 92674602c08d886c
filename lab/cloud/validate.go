package cloud

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// checkLabels applies API reference, labels: the rules of Kubernetes, and a
// reserved prefix.
func checkLabels(labels map[string]string) error {
	for key, value := range labels {
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		if strings.HasPrefix(key, "hetzner.cloud/") {
			problems = append(problems, "the prefix hetzner.cloud/ is reserved")
		}
		if len(problems) > 0 {
			return invalid("labels", "label '%s=%s': %s", key, value, strings.Join(problems, "; "))
		}
	}
	return nil
}

// checkHostname applies API reference, create a server: "may only contain
// letters, digits, periods, and dashes", as in RFC 1123.
func checkHostname(name string) error {
	if name == "" {
		return required("name")
	}
	if problems := validation.IsDNS1123Subdomain(strings.ToLower(name)); len(problems) > 0 {
		return invalid("name", "is not a valid hostname")
	}
	return nil
}

// checkName applies API reference, create a network: 1 to 128 characters. That
// the same holds for SSH keys is a guess; so is that spaces at the ends are
// refused, which is known of load balancers.
func checkName(name string) error {
	switch {
	case name == "":
		return required("name")
	case utf8.RuneCountInString(name) > 128:
		return invalid("name", "is longer than 128 characters")
	case strings.TrimSpace(name) != name:
		return invalid("name", "must not start or end with a space")
	}
	return nil
}

// rfc1918 are the private ranges of IPv4.
var rfc1918 = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
}

// publicGateway is the gateway of every server's public interface.
// API reference, add a route.
var publicGateway = netip.MustParseAddr("172.31.1.1")

// parseRange parses an IPv4 range in CIDR notation. That bits after the prefix
// are refused is a guess.
func parseRange(name, text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, required(name)
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p != p.Masked() {
		return netip.Prefix{}, invalid(name, "is not an IPv4 range in CIDR notation")
	}
	return p, nil
}

func parseIP(name, text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, required(name)
	}
	ip, err := netip.ParseAddr(text)
	if err != nil || !ip.Is4() {
		return netip.Addr{}, invalid(name, "is not an IPv4 address")
	}
	return ip, nil
}

// covers reports whether inner lies in outer.
func covers(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

func private(p netip.Prefix) bool {
	for _, r := range rfc1918 {
		if covers(r, p) {
			return true
		}
	}
	return false
}

// lastIP is the highest address of a range.
func lastIP(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(b)
}
