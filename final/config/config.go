// Package config reads what the environment says, all of it at once, and
// reports everything that is wrong with it together.
package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Config is what the environment asks for. Its zero value is not the default:
// Load fills that in.
type Config struct {
	Token     string // API token; empty if TokenFile is set
	TokenFile string // file with the API token, which may change at any time
	Endpoint  string // URL of the API; empty for the public one
	Debug     bool   // dump requests and answers to stderr

	Network              string // name or ID; empty if there is none
	NetworkAttachedCheck bool   // at start, ask the metadata service whether this server is a member
	RoutesEnabled        bool   // never without Network

	AddressFamily   AddressFamily
	ZoneLabel       bool
	ServerCacheMode CacheMode
	ServerCacheAge  time.Duration // answers about servers may be this old

	MetricsEnabled bool
	MetricsAddress string

	LoadBalancers LoadBalancers

	// Warnings are sentences about settings that work, but perhaps not as meant.
	Warnings []string
}

// AddressFamily says which public IPs of a server its Node has.
type AddressFamily string

// Address families.
const (
	IPv4      AddressFamily = "ipv4"
	IPv6      AddressFamily = "ipv6"
	DualStack AddressFamily = "dualstack"
)

// CacheMode says how servers are looked up.
type CacheMode string

// Cache modes.
const (
	CacheAll CacheMode = "all" // the list of all servers serves all questions
	CacheOne CacheMode = "one" // each server is read, and remembered, alone
	CacheOff CacheMode = "off" // nothing is remembered
)

// LoadBalancers holds the values for Services that have no annotation of their
// own. A zero value means that nothing is asked for, nil likewise.
type LoadBalancers struct {
	Enabled               bool
	Location              string
	NetworkZone           string // empty if Location is set
	Type                  string
	Algorithm             string // round_robin or least_connections
	UsePrivateIP          bool
	DisablePrivateIngress bool
	DisableIPv6           bool
	DisablePublicNetwork  *bool
	PrivateSubnet         netip.Prefix
	ProxyProtocol         *bool
	HealthCheckInterval   time.Duration
	HealthCheckTimeout    time.Duration
	HealthCheckRetries    int
	RepairPeriod          time.Duration // between two looks for others' changes
}

// tokenLength is that of every token that the Cloud Console makes.
const tokenLength = 64

// Load reads the environment. lookup is os.LookupEnv, or stands in for it. White
// space around values does not count, and an empty value means the default.
//
// The error joins everything that is wrong, one line each.
func Load(lookup func(string) (string, bool)) (*Config, error) {
	c := &Config{
		NetworkAttachedCheck: true,
		RoutesEnabled:        true,
		AddressFamily:        IPv4,
		ZoneLabel:            true,
		ServerCacheMode:      CacheAll,
		ServerCacheAge:       10 * time.Second,
		MetricsEnabled:       true,
		MetricsAddress:       ":8233",
		LoadBalancers:        LoadBalancers{Enabled: true, RepairPeriod: 10 * time.Minute},
	}
	var errs []error
	given := map[string]string{}
	for _, v := range Variables {
		value, file, err := v.value(lookup)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if value == "" {
			continue
		}
		given[v.Name] = value
		if err := v.set(c, value, file); err != nil {
			errs = append(errs, v.fault(value, err))
		}
	}
	errs = append(errs, c.validate(given)...)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

// validate checks what concerns several variables, and adds warnings.
func (c *Config) validate(given map[string]string) []error {
	var errs []error
	if _, ok := given[tokenVariable]; !ok {
		errs = append(errs, fmt.Errorf("%s is not set: it, or the file that %s_FILE names, must hold an API token of the project with the servers", tokenVariable, tokenVariable))
	} else if n := len(given[tokenVariable]); n != tokenLength {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s has %d characters: tokens of Hetzner Cloud have %d", tokenVariable, n, tokenLength))
	}
	if c.Network == "" {
		if c.RoutesEnabled && given[routesVariable] != "" {
			errs = append(errs, fmt.Errorf("%s %q: there are no routes without a network; set %s", routesVariable, given[routesVariable], networkVariable))
		}
		if c.LoadBalancers.UsePrivateIP {
			errs = append(errs, fmt.Errorf("%s %q: there are no private IPs without a network; set %s", usePrivateIPVariable, given[usePrivateIPVariable], networkVariable))
		}
		c.RoutesEnabled = false
	}
	if c.LoadBalancers.Location != "" && c.LoadBalancers.NetworkZone != "" {
		errs = append(errs, fmt.Errorf("%s %q and %s %q: a load balancer has one or the other; unset one", locationVariable, c.LoadBalancers.Location, networkZoneVariable, c.LoadBalancers.NetworkZone))
	}
	if enabled, err := parseBool(given["ROBOT_ENABLED"]); err == nil && enabled {
		c.Warnings = append(c.Warnings, "ROBOT_ENABLED is set, but Robot is not supported: Nodes of dedicated servers are left alone")
	}
	return errs
}

// value returns the trimmed value of a variable, or of the file that its _FILE
// twin names, and then the path of that file. The variable itself comes first.
func (v Variable) value(lookup func(string) (string, bool)) (value, file string, err error) {
	value, _ = lookup(v.Name)
	if value = strings.TrimSpace(value); value != "" || !v.File {
		return value, "", nil
	}
	file, _ = lookup(v.Name + "_FILE")
	if file = strings.TrimSpace(file); file == "" {
		return "", "", nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", "", fmt.Errorf("%s_FILE %q: %w", v.Name, file, err)
	}
	if value = strings.TrimSpace(string(content)); value == "" {
		return "", "", fmt.Errorf("%s_FILE %q: the file is empty", v.Name, file)
	}
	return value, file, nil
}

// fault describes a value that is wrong. A secret one is not shown.
func (v Variable) fault(value string, err error) error {
	if v.Secret {
		return fmt.Errorf("%s: %w", v.Name, err)
	}
	return fmt.Errorf("%s %q: %w", v.Name, value, err)
}
