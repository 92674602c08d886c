package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names that more than one place needs.
const (
	tokenVariable        = "HCLOUD_TOKEN"
	networkVariable      = "HCLOUD_NETWORK"
	routesVariable       = "HCLOUD_NETWORK_ROUTES_ENABLED"
	locationVariable     = "HCLOUD_LOAD_BALANCERS_LOCATION"
	networkZoneVariable  = "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE"
	usePrivateIPVariable = "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP"
)

// Variable is one environment variable: what people read about it, and how its
// value gets into a Config.
type Variable struct {
	Name    string
	Kind    string // what values look like
	Default string // for people; empty if there is none
	Help    string // one sentence
	File    bool   // Name with _FILE appended may name a file with the value
	Secret  bool   // the value must not be shown

	// set stores a value that is trimmed and not empty. The error says what would
	// be right. file is the path that the value was read from, if it was.
	set func(c *Config, value, file string) error
}

// Variables lists all variables that are read, in the order of the reference page.
var Variables = []Variable{
	{
		Name: tokenVariable, Kind: "text", File: true, Secret: true,
		Help: "API token, with read and write access, of the project with the servers. Required. The file is read again for each request, so the token may change.",
		set: func(c *Config, value, file string) error {
			if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return errors.New("holds white space or other characters that no token has")
			}
			if c.TokenFile = file; file == "" {
				c.Token = value
			}
			return nil
		},
	},
	{
		Name: "HCLOUD_ENDPOINT", Kind: "URL", Default: "https://api.hetzner.cloud/v1",
		Help: "URL of the API, with the version.",
		set: func(c *Config, value, _ string) error {
			u, err := url.Parse(value)
			if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
				return errors.New("want a URL such as https://api.hetzner.cloud/v1")
			}
			c.Endpoint = value
			return nil
		},
	},
	{
		Name: "HCLOUD_DEBUG", Kind: "bool", Default: "false",
		Help: "Dump every request to the API and its answer to stderr, without the token and private keys.",
		set:  toBool(func(c *Config) *bool { return &c.Debug }),
	},
	{
		Name: networkVariable, Kind: "name or ID",
		Help: "Network that holds the Nodes' InternalIPs, and gets the routes.",
		set:  toText(func(c *Config) *string { return &c.Network }),
	},
	{
		Name: "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", Kind: "bool", Default: "false",
		Help: "Do not check at start that the server below is a member of the network. Elsewhere than on such a server there is no check anyway.",
		set: func(c *Config, value, _ string) (err error) {
			disable, err := parseBool(value)
			c.NetworkAttachedCheck = !disable
			return err
		},
	},
	{
		Name: routesVariable, Kind: "bool", Default: "true with a network",
		Help: "Keep a route in the network for the pod CIDR of each Node.",
		set:  toBool(func(c *Config) *bool { return &c.RoutesEnabled }),
	},
	{
		Name: "HCLOUD_INSTANCES_ADDRESS_FAMILY", Kind: "ipv4, ipv6, or dualstack", Default: "ipv4",
		Help: "Which public IPs a Node has as ExternalIPs. With dualstack, IPv4 comes first.",
		set: func(c *Config, value, _ string) error {
			c.AddressFamily = AddressFamily(value)
			return oneOf(c.AddressFamily, IPv4, IPv6, DualStack)
		},
	},
	{
		Name: "HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", Kind: "bool", Default: "true",
		Help: "Give new Nodes the label topology.kubernetes.io/zone. Nodes that have been initialized keep what they have.",
		set:  toBool(func(c *Config) *bool { return &c.ZoneLabel }),
	},
	{
		Name: "HCLOUD_SERVER_CACHE_MODE", Kind: "all, one, or off", Default: "all",
		Help: "all: one list of all servers answers all questions. one: each server is read, and remembered, alone. off: nothing is remembered.",
		set: func(c *Config, value, _ string) error {
			c.ServerCacheMode = CacheMode(value)
			return oneOf(c.ServerCacheMode, CacheAll, CacheOne, CacheOff)
		},
	},
	{
		Name: "HCLOUD_SERVER_CACHE_MAX_AGE", Kind: "duration", Default: "10s",
		Help: "How old an answer about a server may be. Questions that can wait accept older ones; before a Node is deleted there is always a new one.",
		set:  toDuration(func(c *Config) *time.Duration { return &c.ServerCacheAge }),
	},
	{
		Name: "HCLOUD_METRICS_ENABLED", Kind: "bool", Default: "true",
		Help: "Serve metrics on HCLOUD_METRICS_ADDRESS, without authentication. The secure port has them always.",
		set:  toBool(func(c *Config) *bool { return &c.MetricsEnabled }),
	},
	{
		Name: "HCLOUD_METRICS_ADDRESS", Kind: "host:port", Default: ":8233",
		Help: "Where to serve metrics, at the path /metrics. If somebody else has the port, there are no metrics on it.",
		set: func(c *Config, value, _ string) error {
			c.MetricsAddress = value
			if _, port, err := net.SplitHostPort(value); err != nil || port == "" {
				return errors.New("want an address such as 127.0.0.1:8233 or :8233")
			}
			return nil
		},
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_ENABLED", Kind: "bool", Default: "true",
		Help: "Keep a load balancer for each Service of that type.",
		set:  toBool(func(c *Config) *bool { return &c.LoadBalancers.Enabled }),
	},
	{
		Name: locationVariable, Kind: "name",
		Help: "Location of new load balancers. Excludes the network zone.",
		set:  toName(func(c *Config) *string { return &c.LoadBalancers.Location }),
	},
	{
		Name: networkZoneVariable, Kind: "name",
		Help: "Network zone of new load balancers. Excludes the location.",
		set:  toName(func(c *Config) *string { return &c.LoadBalancers.NetworkZone }),
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_TYPE", Kind: "name", Default: "lb11",
		Help: "Type of load balancers.",
		set:  toName(func(c *Config) *string { return &c.LoadBalancers.Type }),
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE", Kind: "round_robin or least_connections", Default: "that of the API",
		Help: "How load balancers choose a target.",
		set: func(c *Config, value, _ string) error {
			c.LoadBalancers.Algorithm = strings.ToLower(value)
			return oneOf(c.LoadBalancers.Algorithm, "round_robin", "least_connections")
		},
	},
	{
		Name: usePrivateIPVariable, Kind: "bool", Default: "false",
		Help: "Reach targets by their IPs in the network.",
		set:  toBool(func(c *Config) *bool { return &c.LoadBalancers.UsePrivateIP }),
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS", Kind: "bool", Default: "false",
		Help: "Leave private IPs out of the status of Services.",
		set:  toBool(func(c *Config) *bool { return &c.LoadBalancers.DisablePrivateIngress }),
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_DISABLE_IPV6", Kind: "bool", Default: "false",
		Help: "Leave IPv6 addresses out of the status of Services.",
		set:  toBool(func(c *Config) *bool { return &c.LoadBalancers.DisableIPv6 }),
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK", Kind: "bool", Default: "that of the API",
		Help: "Switch the public interface of load balancers off.",
		set:  toOptionalBool(func(c *Config) **bool { return &c.LoadBalancers.DisablePublicNetwork }),
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE", Kind: "CIDR",
		Help: "Subnet of the network in which load balancers get their private IP.",
		set: func(c *Config, value, _ string) error {
			subnet, err := netip.ParsePrefix(value)
			if err != nil || !subnet.Addr().Is4() {
				return errors.New("want an IPv4 range such as 10.0.1.0/24")
			}
			c.LoadBalancers.PrivateSubnet = subnet.Masked()
			return nil
		},
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL", Kind: "bool", Default: "that of the API",
		Help: "Speak the PROXY protocol to targets.",
		set:  toOptionalBool(func(c *Config) **bool { return &c.LoadBalancers.ProxyProtocol }),
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL", Kind: "duration", Default: "that of the API",
		Help: "Time between two health checks of a target.",
		set:  toSeconds(3, 60, func(c *Config) *time.Duration { return &c.LoadBalancers.HealthCheckInterval }),
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT", Kind: "duration", Default: "that of the API",
		Help: "Time after which a health check has failed.",
		set:  toSeconds(1, 60, func(c *Config) *time.Duration { return &c.LoadBalancers.HealthCheckTimeout }),
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", Kind: "number", Default: "that of the API",
		Help: "Failed health checks after which a target is unhealthy.",
		set: func(c *Config, value, _ string) (err error) {
			c.LoadBalancers.HealthCheckRetries, err = strconv.Atoi(value)
			if n := c.LoadBalancers.HealthCheckRetries; err != nil || n < 0 || n > 5 {
				return errors.New("want a number from 1 to 5")
			}
			return nil
		},
	},
	{
		Name: "HCLOUD_LOAD_BALANCERS_REPAIR_PERIOD", Kind: "duration", Default: "10m",
		Help: "How often to look for changes that somebody else has made to load balancers, and to mend them. One list of all load balancers each time.",
		set: func(c *Config, value, file string) error {
			if err := toDuration(func(c *Config) *time.Duration { return &c.LoadBalancers.RepairPeriod })(c, value, file); err != nil {
				return err
			}
			if c.LoadBalancers.RepairPeriod < time.Second {
				return errors.New("want at least 1s")
			}
			return nil
		},
	},
	robot("ROBOT_ENABLED"),
	robot("ROBOT_USER"),
	robot("ROBOT_PASSWORD"),
	robot("ROBOT_CACHE_TIMEOUT"),
	robot("ROBOT_RATE_LIMIT_WAIT_TIME"),
	robot("ROBOT_FORWARD_INTERNAL_IPS"),
}

// robot is a variable about dedicated servers.
func robot(name string) Variable {
	v := Variable{Name: name, Kind: "ignored", Secret: true, Help: "Robot is not supported: Nodes of dedicated servers are left alone."}
	v.set = func(*Config, string, string) error { return nil }
	return v
}

func toText(field func(*Config) *string) func(*Config, string, string) error {
	return func(c *Config, value, _ string) error {
		*field(c) = value
		return nil
	}
}

// toName takes what places and types have for names.
func toName(field func(*Config) *string) func(*Config, string, string) error {
	return func(c *Config, value, _ string) error {
		if *field(c) = value; !name.MatchString(value) {
			return errors.New("want a name of lower-case letters, digits, and dashes")
		}
		return nil
	}
}

var name = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

func toBool(field func(*Config) *bool) func(*Config, string, string) error {
	return func(c *Config, value, _ string) (err error) {
		*field(c), err = parseBool(value)
		return err
	}
}

func toOptionalBool(field func(*Config) **bool) func(*Config, string, string) error {
	return func(c *Config, value, _ string) error {
		b, err := parseBool(value)
		*field(c) = &b
		return err
	}
}

// toDuration takes 10s, and 10 as well: nobody means nanoseconds.
func toDuration(field func(*Config) *time.Duration) func(*Config, string, string) error {
	return func(c *Config, value, _ string) error {
		d, err := time.ParseDuration(value)
		if seconds, atoiErr := strconv.Atoi(value); atoiErr == nil {
			d, err = time.Duration(seconds)*time.Second, nil
		}
		if err != nil || d < 0 {
			return errors.New("want a duration such as 15s or 1m30s")
		}
		*field(c) = d
		return nil
	}
}

// toSeconds takes whole seconds in the bounds of the API, and 0 for what the API
// does by itself.
func toSeconds(least, top int, field func(*Config) *time.Duration) func(*Config, string, string) error {
	set := toDuration(field)
	return func(c *Config, value, file string) error {
		if err := set(c, value, file); err != nil {
			return err
		}
		d := *field(c)
		if d != 0 && (d%time.Second != 0 || d < time.Duration(least)*time.Second || d > time.Duration(top)*time.Second) {
			return fmt.Errorf("want whole seconds from %ds to %ds", least, top)
		}
		return nil
	}
}

func parseBool(value string) (bool, error) {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return false, errors.New("want true or false")
	}
	return b, nil
}

func oneOf[T ~string](value T, allowed ...T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	var names []string
	for _, a := range allowed {
		names = append(names, string(a))
	}
	return fmt.Errorf("want %s", strings.Join(names, " or "))
}
