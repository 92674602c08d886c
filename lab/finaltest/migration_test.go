package finaltest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/ccm-from-scratch/lab/stack"
)

// officialVariables are the variables of the official CCM and what holds without
// them, "as it was" if it then leaves what a load balancer has. Its source,
// version 1.35.0.
var officialVariables = map[string]string{
	"HCLOUD_TOKEN":                                  "none",
	"HCLOUD_ENDPOINT":                               "https://api.hetzner.cloud/v1",
	"HCLOUD_DEBUG":                                  "false",
	"HCLOUD_NETWORK":                                "none",
	"HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK":         "false",
	"HCLOUD_NETWORK_ROUTES_ENABLED":                 "true with a network",
	"HCLOUD_INSTANCES_ADDRESS_FAMILY":               "ipv4",
	"HCLOUD_INSTANCES_ZONE_LABEL_ENABLED":           "true",
	"HCLOUD_SERVER_CACHE_MODE":                      "all",
	"HCLOUD_SERVER_CACHE_MAX_AGE":                   "10s",
	"HCLOUD_METRICS_ENABLED":                        "true",
	"HCLOUD_METRICS_ADDRESS":                        ":8233",
	"HCLOUD_LOAD_BALANCERS_ENABLED":                 "true",
	"HCLOUD_LOAD_BALANCERS_LOCATION":                "none",
	"HCLOUD_LOAD_BALANCERS_NETWORK_ZONE":            "none",
	"HCLOUD_LOAD_BALANCERS_TYPE":                    "lb11",
	"HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE":          "as it was",
	"HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP":          "false",
	"HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS": "false",
	"HCLOUD_LOAD_BALANCERS_DISABLE_IPV6":            "false",
	"HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK":  "as it was",
	"HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE": "none",
	"HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL":      "as it was",
	"HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL":   "as it was",
	"HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT":    "as it was",
	"HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES":    "as it was",
	"ROBOT_ENABLED":                                 "false",
	"ROBOT_USER":                                    "none",
	"ROBOT_PASSWORD":                                "none",
	"ROBOT_CACHE_TIMEOUT":                           "5m",
	"ROBOT_RATE_LIMIT_WAIT_TIME":                    "none",
	"ROBOT_FORWARD_INTERNAL_IPS":                    "true",
	"GOCOVERDIR":                                    "none",
}

// officialAnnotations are those of the official CCM that final has as well. Its
// reference page, version 1.39.0.
var officialAnnotations = []string{
	"name", "location", "network-zone", "type", "algorithm-type", "disable-public-network", "public-net-ipv4", "public-net-ipv6",
	"ipv4-rdns", "ipv6-rdns", "id", "ipv4", "ipv6", "ipv6-disabled", "disable-private-ingress", "hostname", "use-private-ip",
	"private-ipv4", "private-subnet-ip-range", "node-selector", "protocol", "uses-proxyprotocol", "http-cookie-name",
	"http-cookie-lifetime", "http-timeout-idle", "http-redirect-http", "http-sticky-sessions", "certificate-type",
	"http-certificates", "http-managed-certificate-domains", "http-managed-certificate-name",
	"http-managed-certificate-acme-staging", "health-check-protocol", "health-check-port", "health-check-interval",
	"health-check-timeout", "health-check-retries", "health-check-http-domain", "health-check-http-path",
	"health-check-http-validate-certificate", "http-status-codes",
}

// TestMigrationPage compares the page about moving a cluster with the tables in
// the code: it names each variable that does not mean the same, and each
// annotation that is ours alone.
func TestMigrationPage(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := stack.BuildCCM(t.Context(), root, "final", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	reference := func(table string) [][]string {
		text, err := exec.CommandContext(t.Context(), binary, "reference", table).Output()
		if err != nil {
			t.Fatal(err)
		}
		return rows(string(text))
	}
	page := read("final-migration.md")

	t.Run("variables", func(t *testing.T) {
		byVariable := map[string]string{} // the default of the annotation that it is for
		for _, row := range reference("annotations") {
			byVariable[strings.Trim(row[3], "`")] = row[2]
		}
		ours := map[string]string{}
		for _, row := range reference("configuration") {
			name, _, _ := strings.Cut(strings.Trim(row[0], "`"), "`")
			if ours[name] = row[2]; row[2] == "that of the API" {
				ours[name] = byVariable[name]
			}
		}
		want := map[string]string{} // without the variable: official, and ours
		for name, official := range officialVariables {
			if mine, ok := ours[name]; !ok {
				want[name] = official + " | not read"
			} else if official != mine {
				want[name] = official + " | " + mine
			}
		}
		for name, mine := range ours {
			if _, ok := officialVariables[name]; !ok {
				want[name] = "not read | " + mine
			}
		}
		got := map[string]string{}
		for _, row := range rows(page) {
			if name := strings.Trim(row[0], "`"); strings.ToUpper(name) == name {
				got[name] = row[1] + " | " + row[2]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("variables that differ (-tables +page):\n%s", diff)
		}
	})

	t.Run("annotations", func(t *testing.T) {
		names := map[string]bool{}
		for _, row := range reference("annotations") {
			names[strings.Trim(row[0], "`")] = true
		}
		for _, name := range officialAnnotations {
			if !names[name] {
				t.Errorf("there is no annotation %s", name)
			}
			delete(names, name)
		}
		script := read("final-migration.txtar")
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if !strings.Contains(page, "| `"+name+"` |") {
				t.Errorf("the page has no row for the annotation %s, which is ours alone", name)
			}
			if !strings.Contains(script, "("+name+"|") && !strings.Contains(script, "|"+name+"|") && !strings.Contains(script, "|"+name+")") {
				t.Errorf("unknown.sh does not look for the annotation %s, which is ours alone", name)
			}
		}
	})
}

// rows returns the cells of all Markdown tables in a text, without the headings.
func rows(text string) [][]string {
	var all [][]string
	body := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			body = false
		case strings.HasPrefix(line, "| ---"):
			body = true
		case body:
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), " | ") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			all = append(all, cells)
		}
	}
	return all
}
