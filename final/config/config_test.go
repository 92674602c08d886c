package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var token = strings.Repeat("t0ken+/=", 8)

// load reads an environment, to which it adds a token unless there is one.
func load(env map[string]string) (*Config, error) {
	return Load(func(name string) (string, bool) {
		if _, ok := env[tokenVariable+"_FILE"]; name == tokenVariable && !ok && env[name] == "" {
			return token, true
		}
		value, ok := env[name]
		return value, ok
	})
}

func TestDefaults(t *testing.T) {
	got, err := load(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Token: token, NetworkAttachedCheck: true, AddressFamily: "ipv4", ZoneLabel: true,
		ServerCacheMode: "all", ServerCacheAge: 10 * time.Second,
		MetricsEnabled: true, MetricsAddress: ":8233", LoadBalancers: LoadBalancers{Enabled: true, RepairPeriod: 10 * time.Minute},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
}

// TestEveryVariable sets each variable to a value that differs from its default.
func TestEveryVariable(t *testing.T) {
	yes := true
	tests := map[string]struct {
		value string
		want  func(*Config)
	}{
		"HCLOUD_TOKEN":                                  {" other\r\n", func(c *Config) { c.Token = "other" }},
		"HCLOUD_ENDPOINT":                               {"http://127.0.0.1:80/v1", func(c *Config) { c.Endpoint = "http://127.0.0.1:80/v1" }},
		"HCLOUD_DEBUG":                                  {"1", func(c *Config) { c.Debug = true }},
		"HCLOUD_NETWORK":                                {"net-1\n", func(c *Config) { c.Network, c.RoutesEnabled = "net-1", true }},
		"HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK":         {"true", func(c *Config) { c.NetworkAttachedCheck = false }},
		"HCLOUD_NETWORK_ROUTES_ENABLED":                 {"false", func(*Config) {}},
		"HCLOUD_INSTANCES_ADDRESS_FAMILY":               {"ipv6", func(c *Config) { c.AddressFamily = IPv6 }},
		"HCLOUD_INSTANCES_ZONE_LABEL_ENABLED":           {"f", func(c *Config) { c.ZoneLabel = false }},
		"HCLOUD_SERVER_CACHE_MODE":                      {"off", func(c *Config) { c.ServerCacheMode = CacheOff }},
		"HCLOUD_SERVER_CACHE_MAX_AGE":                   {"1m30s", func(c *Config) { c.ServerCacheAge = 90 * time.Second }},
		"HCLOUD_METRICS_ENABLED":                        {"False", func(c *Config) { c.MetricsEnabled = false }},
		"HCLOUD_METRICS_ADDRESS":                        {"[::1]:9", func(c *Config) { c.MetricsAddress = "[::1]:9" }},
		"HCLOUD_LOAD_BALANCERS_ENABLED":                 {"0", func(c *Config) { c.LoadBalancers.Enabled = false }},
		"HCLOUD_LOAD_BALANCERS_LOCATION":                {"fsn1", func(c *Config) { c.LoadBalancers.Location = "fsn1" }},
		"HCLOUD_LOAD_BALANCERS_NETWORK_ZONE":            {"eu-central", func(c *Config) { c.LoadBalancers.NetworkZone = "eu-central" }},
		"HCLOUD_LOAD_BALANCERS_TYPE":                    {"lb21", func(c *Config) { c.LoadBalancers.Type = "lb21" }},
		"HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE":          {" Least_Connections", func(c *Config) { c.LoadBalancers.Algorithm = "least_connections" }},
		"HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP":          {"false", func(*Config) {}},
		"HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS": {"true", func(c *Config) { c.LoadBalancers.DisablePrivateIngress = true }},
		"HCLOUD_LOAD_BALANCERS_DISABLE_IPV6":            {"true", func(c *Config) { c.LoadBalancers.DisableIPv6 = true }},
		"HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK":  {"true", func(c *Config) { c.LoadBalancers.DisablePublicNetwork = &yes }},
		"HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE": {"10.0.1.0/24", func(c *Config) { c.LoadBalancers.PrivateSubnet = netip.MustParsePrefix("10.0.1.0/24") }},
		"HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL":      {"true", func(c *Config) { c.LoadBalancers.ProxyProtocol = &yes }},
		"HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL":   {"20", func(c *Config) { c.LoadBalancers.HealthCheckInterval = 20 * time.Second }},
		"HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT":    {"5s", func(c *Config) { c.LoadBalancers.HealthCheckTimeout = 5 * time.Second }},
		"HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES":    {"4", func(c *Config) { c.LoadBalancers.HealthCheckRetries = 4 }},
		"HCLOUD_LOAD_BALANCERS_REPAIR_PERIOD":           {"2m", func(c *Config) { c.LoadBalancers.RepairPeriod = 2 * time.Minute }},
		"ROBOT_ENABLED":                                 {"true", func(*Config) {}},
		"ROBOT_USER":                                    {"user", func(*Config) {}},
		"ROBOT_PASSWORD":                                {"password", func(*Config) {}},
		"ROBOT_CACHE_TIMEOUT":                           {"5m", func(*Config) {}},
		"ROBOT_RATE_LIMIT_WAIT_TIME":                    {"5m", func(*Config) {}},
		"ROBOT_FORWARD_INTERNAL_IPS":                    {"true", func(*Config) {}},
	}
	for _, v := range Variables {
		t.Run(v.Name, func(t *testing.T) {
			test, ok := tests[v.Name]
			if !ok {
				t.Fatal("not tested")
			}
			got, err := load(map[string]string{v.Name: test.value})
			if err != nil {
				t.Fatal(err)
			}
			want, err := load(nil)
			if err != nil {
				t.Fatal(err)
			}
			test.want(want)
			got.Warnings, want.Warnings = nil, nil
			if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
				t.Errorf("Load (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		name, value, want string
	}{
		{"ROBOT_ENABLED", "true", "ROBOT_ENABLED is set, but Robot is not supported: Nodes of dedicated servers are left alone"},
		{"ROBOT_ENABLED", "0", ""},
		{"HCLOUD_TOKEN", "short", "HCLOUD_TOKEN has 5 characters: tokens of Hetzner Cloud have 64"},
	}
	for _, test := range tests {
		t.Run(test.name+" "+test.value, func(t *testing.T) {
			c, err := load(map[string]string{test.name: test.value})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(c.Warnings, "\n"); got != test.want {
				t.Errorf("warnings = %q, want %q", got, test.want)
			}
		})
	}
}

// TestC03 gives many bad values: all are reported at once, each with its name,
// its value, and what would be right.
func TestC03(t *testing.T) {
	_, err := load(map[string]string{
		"HCLOUD_TOKEN":                                  "two words",
		"HCLOUD_ENDPOINT":                               "api.hetzner.cloud",
		"HCLOUD_METRICS_ENABLED":                        "maybe",
		"HCLOUD_METRICS_ADDRESS":                        "8233",
		"HCLOUD_INSTANCES_ADDRESS_FAMILY":               "IPv5",
		"HCLOUD_SERVER_CACHE_MODE":                      "some",
		"HCLOUD_SERVER_CACHE_MAX_AGE":                   "-1s",
		"HCLOUD_NETWORK_ROUTES_ENABLED":                 "true",
		"HCLOUD_LOAD_BALANCERS_LOCATION":                "fsn1",
		"HCLOUD_LOAD_BALANCERS_NETWORK_ZONE":            "eu-central",
		"HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP":          "true",
		"HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE":          "random",
		"HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE": "10.0.0.0",
		"HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES":    "few",
	})
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`HCLOUD_TOKEN: holds white space or other characters that no token has`,
		`HCLOUD_ENDPOINT "api.hetzner.cloud": want a URL such as https://api.hetzner.cloud/v1`,
		`HCLOUD_INSTANCES_ADDRESS_FAMILY "IPv5": want ipv4 or ipv6 or dualstack`,
		`HCLOUD_SERVER_CACHE_MODE "some": want all or one or off`,
		`HCLOUD_SERVER_CACHE_MAX_AGE "-1s": want a duration such as 15s or 1m30s`,
		`HCLOUD_METRICS_ENABLED "maybe": want true or false`,
		`HCLOUD_METRICS_ADDRESS "8233": want an address such as 127.0.0.1:8233 or :8233`,
		`HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE "random": want round_robin or least_connections`,
		`HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE "10.0.0.0": want an IPv4 range such as 10.0.1.0/24`,
		`HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES "few": want a number from 1 to 5`,
		`HCLOUD_NETWORK_ROUTES_ENABLED "true": there are no routes without a network; set HCLOUD_NETWORK`,
		`HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP "true": there are no private IPs without a network; set HCLOUD_NETWORK`,
		`HCLOUD_LOAD_BALANCERS_LOCATION "fsn1" and HCLOUD_LOAD_BALANCERS_NETWORK_ZONE "eu-central": a load balancer has one or the other; unset one`,
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// TestC01 is about tokens: white space does not matter, wherever they are from,
// and no error shows one.
func TestC01(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", token+"\r\n")

	tests := []struct {
		name          string
		variable      string
		file          string
		token         string
		tokenFile     string
		wantErr       string
		wantNoSecrets string
	}{
		{name: "variable", variable: "\t" + token + "\n", token: token},
		{name: "variable before file", variable: token, file: good, token: token},
		{name: "file", file: good, tokenFile: good},
		{name: "neither", wantErr: "HCLOUD_TOKEN is not set"},
		{name: "blank variable", variable: " \n", wantErr: "HCLOUD_TOKEN is not set"},
		{name: "empty file", file: file("empty", " \n"), wantErr: "empty\": the file is empty"},
		{name: "no file", file: filepath.Join(dir, "none"), wantErr: "no such file"},
		{name: "two lines", variable: "secret1\nsecret2", wantErr: "HCLOUD_TOKEN: holds white space", wantNoSecrets: "secret"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := Load(func(name string) (string, bool) {
				value := map[string]string{"HCLOUD_TOKEN": test.variable, "HCLOUD_TOKEN_FILE": test.file}[name]
				return value, value != ""
			})
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error = %v, want one with %q", err, test.wantErr)
				}
				if test.wantNoSecrets != "" && strings.Contains(err.Error(), test.wantNoSecrets) {
					t.Errorf("the error shows the token: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Token != test.token || c.TokenFile != test.tokenFile {
				t.Errorf("token = %q, file = %q", c.Token, c.TokenFile)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	usage, markdown := Usage(), Markdown()
	for _, v := range Variables {
		if !strings.Contains(usage, v.Name+" ") || !strings.Contains(markdown, "`"+v.Name+"`") {
			t.Errorf("%s is missing in a reference", v.Name)
		}
	}
}
