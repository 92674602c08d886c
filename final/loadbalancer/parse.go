package loadbalancer

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Defaults are for Services without the annotation. A zero value asks for
// nothing, and what the API does by itself holds.
type Defaults struct {
	Location, NetworkZone string
	Type                  string
	Algorithm             hcloud.LoadBalancerAlgorithmType
	UsePrivateIP          bool
	DisablePrivateIngress bool
	IPv6Disabled          bool
	DisablePublicNetwork  bool
	PrivateSubnet         netip.Prefix
	ProxyProtocol         bool
	HealthInterval        time.Duration
	HealthTimeout         time.Duration
	HealthRetries         int
}

// settings are those of a Service without annotations. Where the configuration
// says nothing they are what the API would choose, so that removing an
// annotation brings that back. API reference, load balancers.
func (d Defaults) settings() *Settings {
	return &Settings{
		Location:              d.Location,
		NetworkZone:           d.NetworkZone,
		Type:                  cmp.Or(d.Type, "lb11"),
		Algorithm:             cmp.Or(d.Algorithm, hcloud.LoadBalancerAlgorithmTypeRoundRobin),
		UsePrivateIP:          d.UsePrivateIP,
		DisablePrivateIngress: d.DisablePrivateIngress,
		IPv6Disabled:          d.IPv6Disabled,
		DisablePublicNetwork:  d.DisablePublicNetwork,
		PrivateSubnet:         d.PrivateSubnet,
		NodeSelector:          labels.Everything(),
		Protocol:              PerPort[hcloud.LoadBalancerServiceProtocol]{Default: hcloud.LoadBalancerServiceProtocolTCP},
		ProxyProtocol:         PerPort[bool]{Default: d.ProxyProtocol},
		CookieName:            "HCLBSTICKY",
		CookieLifetime:        300 * time.Second,
		TimeoutIdle:           50 * time.Second,
		CertificateType:       hcloud.CertificateTypeUploaded,
		HealthInterval:        cmp.Or(d.HealthInterval, 15*time.Second),
		HealthTimeout:         cmp.Or(d.HealthTimeout, 10*time.Second),
		HealthRetries:         cmp.Or(d.HealthRetries, 3),
		HealthPath:            "/",
		HealthStatusCode:      []string{"2??", "3??"},
		healthConfigured:      d.HealthInterval != 0 || d.HealthTimeout != 0 || d.HealthRetries != 0,
		given:                 map[string]bool{},
	}
}

// Parse reads the annotations of a Service. The error joins everything that is
// wrong, each annotation with its value and what would be right.
// Settings are returned in any case, without what is wrong.
func Parse(service *corev1.Service, defaults Defaults) (*Settings, error) {
	s := defaults.settings()
	var errs []error
	for _, a := range Annotations {
		value, ok := service.Annotations[Prefix+a.Name]
		if !ok {
			continue
		}
		if err := a.set(s, value); err != nil {
			errs = append(errs, fmt.Errorf("annotation %s%s: %w", Prefix, a.Name, err))
			continue
		}
		s.given[a.Name] = true
	}
	// A list names some ports; the others have the default.
	base := defaults.settings()
	if s.Protocol.Ports != nil {
		s.Protocol.Default = base.Protocol.Default
	}
	if s.ProxyProtocol.Ports != nil {
		s.ProxyProtocol.Default = base.ProxyProtocol.Default
	}
	// A zone that the Service names wins over a location that it does not.
	if s.NetworkZone != "" && s.has("network-zone") && !s.has("location") {
		s.Location = ""
	}
	return s, joinErrors(errs...)
}

// unknownAnnotations lists those with our prefix that nothing knows, which are
// typing errors.
func unknownAnnotations(service *corev1.Service) []string {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(service.Annotations)) {
		name, ours := strings.CutPrefix(key, Prefix)
		if ours && !slices.ContainsFunc(Annotations, func(a Annotation) bool { return a.Name == name }) {
			unknown = append(unknown, key)
		}
	}
	return unknown
}

// PerPort is a value for all ports of a Service, or one for some of them.
type PerPort[T any] struct {
	Default T
	Ports   map[int]T
}

// At returns the value for a port.
func (p PerPort[T]) At(port int) T {
	if v, ok := p.Ports[port]; ok {
		return v
	}
	return p.Default
}

// kind is a kind of values: the rule for people, the rule for the admission
// policy, and the rule itself. The two rules are held together by tests.
type kind[T any] struct {
	values string
	cel    string
	parse  func(string) (T, error)
}

// pattern is a kind of texts that match a regular expression, which both Go and
// CEL understand.
func pattern(values, expression string) kind[string] {
	re := regexp.MustCompile("^(" + expression + ")$")
	return kind[string]{
		values: values,
		cel:    fmt.Sprintf("v.matches(%q)", re),
		parse: func(v string) (string, error) {
			if !re.MatchString(v) {
				return "", fmt.Errorf("%q is not %s", v, values)
			}
			return v, nil
		},
	}
}

// dnsName is a kind of DNS names, which lose upper case and a dot at the end.
func dnsName(values, expression string) kind[string] {
	k := pattern(values, expression+`\.?`)
	match := k.parse
	k.parse = func(v string) (string, error) {
		v, err := match(v)
		return lowerASCII(strings.TrimSuffix(v, ".")), err
	}
	return k
}

const (
	dnsLabel  = `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`
	hostLabel = `[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?`
	anyLabel  = `[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?`
	labelName = `([A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?`
)

var (
	name       = pattern("1 to 128 printable ASCII characters, without spaces at the ends", `[!-~]([ -~]{0,126}[!-~])?`)
	place      = pattern("a name of lower-case letters, digits, and dashes, or empty", `[a-z0-9-]*`)
	typeName   = pattern("a name such as lb11", `[a-z][a-z0-9-]*`)
	word       = pattern("a name or an ID", `[A-Za-z0-9]([ -+\--~]{0,126}[!-+\--~])?`)
	domain     = dnsName("a DNS name", anyLabel+`(\.`+anyLabel+`)*`)
	hostname   = dnsName("a DNS name, and no IP address", `(`+hostLabel+`\.)*[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?`)
	wildcard   = dnsName("a DNS name, or *. and one", `(\*\.)?`+hostLabel+`(\.`+hostLabel+`)*`)
	secretName = pattern("the name of a Secret", dnsLabel+`(\.`+dnsLabel+`)*`)
	cookie     = pattern("1 to 100 characters that RFC 6265 allows, such as letters, digits, dots, and dashes", `[!#$%&'*+.^_\x60|~0-9A-Za-z-]{1,100}`)
	path       = pattern("a path, such as /healthz, of at most 256 characters without spaces", `/[!-~]{0,255}`)
	statusCode = pattern("a status code such as 200 or 2??", `[1-5][0-9?][0-9?]`)
)

// boolean accepts what strconv.ParseBool does, as the official CCM.
var boolean = kind[bool]{
	values: "true or false",
	cel:    `v in ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"]`,
	parse: func(v string) (bool, error) {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return false, fmt.Errorf("%q is neither true nor false", v)
		}
		return b, nil
	},
}

var ipv4 = kind[netip.Addr]{
	values: "an IPv4 address",
	cel:    `isIP(v) && ip(v).family() == 4`,
	parse: func(v string) (netip.Addr, error) {
		a, err := netip.ParseAddr(v)
		if err != nil || !a.Is4() {
			return netip.Addr{}, fmt.Errorf("%q is not an IPv4 address", v)
		}
		return a, nil
	},
}

var cidr = kind[netip.Prefix]{
	values: "an IPv4 range such as 10.0.0.0/24",
	cel:    `isCIDR(v) && cidr(v).ip().family() == 4`,
	parse: func(v string) (netip.Prefix, error) {
		p, err := netip.ParsePrefix(v)
		if err != nil || !p.Addr().Is4() {
			return netip.Prefix{}, fmt.Errorf("%q is not an IPv4 range such as 10.0.0.0/24", v)
		}
		return p.Masked(), nil
	},
}

// selector has a rule for the policy that is as close as a regular expression gets.
var selector = kind[labels.Selector]{
	values: "a label selector",
	cel: fmt.Sprintf("v.matches(%q)", fmt.Sprintf(`^(|%[1]s(,%[1]s)*)$`,
		` *(!? *`+labelName+`|`+labelName+` *(=|==|!=|>|<) *[A-Za-z0-9_.-]*|`+labelName+` +(in|notin) *\([A-Za-z0-9_., -]*\)) *`)),
	parse: func(v string) (labels.Selector, error) {
		s, err := labels.Parse(v)
		if err != nil {
			return nil, fmt.Errorf("%q is not a label selector: %w", v, err)
		}
		return s, nil
	},
}

var id = kind[int64]{
	values: "an ID",
	cel:    `v.matches("^[1-9][0-9]{0,17}$")`,
	parse: func(v string) (int64, error) {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && n > 0 && len(v) <= 18 && v == strconv.FormatInt(n, 10) {
			return n, nil
		}
		return 0, fmt.Errorf("%q is not an ID", v)
	},
}

// number is a whole number in bounds.
func number(least, top int) kind[int] {
	values := fmt.Sprintf("a number from %d to %d", least, top)
	return kind[int]{
		values: values,
		cel:    fmt.Sprintf(`v.matches("^[0-9]{1,9}$") && int(v) >= %d && int(v) <= %d`, least, top),
		parse: func(v string) (int, error) {
			n, err := strconv.Atoi(v)
			if err != nil || !decimal.MatchString(v) || n < least || n > top {
				return 0, fmt.Errorf("%q is not %s", v, values)
			}
			return n, nil
		},
	}
}

var (
	decimal  = regexp.MustCompile(`^[0-9]{1,9}$`)
	duration = regexp.MustCompile(`^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(h|m|s|ms|us|ns))+$`)
)

// seconds is a duration in bounds, of whole seconds: 10, 10s, and 10000ms are the same.
func seconds(least, top int) kind[time.Duration] {
	values := fmt.Sprintf("a duration of whole seconds from %ds to %ds, such as %[1]d or %[1]ds", least, top)
	return kind[time.Duration]{
		values: values,
		cel: fmt.Sprintf(`[v.matches(%q) ? v + "s" : v].all(v, v.size() < 20 && v.matches(%q) && duration(v) >= duration("%ds") && duration(v) <= duration("%ds") && duration(v) == duration(string(duration(v).getSeconds()) + "s"))`,
			decimal, duration, least, top),
		parse: func(v string) (time.Duration, error) {
			text := v
			if decimal.MatchString(v) {
				text += "s"
			}
			d, err := time.ParseDuration(text)
			if err != nil || len(text) >= 20 || !duration.MatchString(text) || d%time.Second != 0 || d < time.Duration(least)*time.Second || d > time.Duration(top)*time.Second {
				return 0, fmt.Errorf("%q is not %s", v, values)
			}
			return d, nil
		},
	}
}

// enum is one of some words, in any case.
func enum[T ~string](allowed ...T) kind[T] {
	words := make([]string, len(allowed))
	for i, word := range allowed {
		words[i] = string(word)
	}
	return kind[T]{
		values: strings.Join(words, ", "),
		cel:    fmt.Sprintf(`v.lowerAscii() in ["%s"]`, strings.Join(words, `", "`)),
		parse: func(v string) (T, error) {
			if i := slices.Index(words, lowerASCII(v)); i >= 0 {
				return allowed[i], nil
			}
			return "", fmt.Errorf("%q is not one of %s", v, strings.Join(words, ", "))
		},
	}
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// list is one or more values with commas between them. Spaces around them do not count.
func list[T any](element kind[T]) kind[[]T] {
	return kind[[]T]{
		values: "a list with commas of: " + element.values,
		cel:    fmt.Sprintf(`v.split(",").map(v, v.trim()).all(v, %s)`, element.cel),
		parse: func(v string) ([]T, error) {
			var all []T
			for text := range strings.SplitSeq(v, ",") {
				one, err := element.parse(strings.TrimSpace(text))
				if err != nil {
					return nil, err
				}
				all = append(all, one)
			}
			return all, nil
		},
	}
}

// perPort is a value for all ports, or a list such as 80=http,443=https.
func perPort[T any](element kind[T]) kind[PerPort[T]] {
	port := number(1, 65535)
	return kind[PerPort[T]]{
		values: element.values + "; or a list such as 80=VALUE,443=VALUE",
		cel: fmt.Sprintf(`v.contains("=") ? v.split(",").map(v, v.trim().split("=")).all(p, p.size() == 2 && [p[0]].all(v, %s) && [p[1]].all(v, %s)) : %[2]s`,
			port.cel, element.cel),
		parse: func(v string) (p PerPort[T], err error) {
			if !strings.Contains(v, "=") {
				p.Default, err = element.parse(v)
				return p, err
			}
			p.Ports = map[int]T{}
			for text := range strings.SplitSeq(v, ",") {
				before, after, _ := strings.Cut(strings.TrimSpace(text), "=")
				n, err := port.parse(before)
				if err != nil {
					return p, err
				}
				if p.Ports[n], err = element.parse(after); err != nil {
					return p, fmt.Errorf("port %d: %w", n, err)
				}
			}
			return p, nil
		},
	}
}
