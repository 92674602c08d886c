// Package monitoring tests what final brings along for Prometheus and Grafana: that
// it fits what the running binary serves, and that alerts fire when they must.
package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// job is the name that the alerts expect.
const job = "cloud-controller-manager"

const (
	root      = "../../.."
	alerts    = root + "/final/deploy/optional/alerts.yaml"
	dashboard = root + "/final/deploy/optional/dashboard.json"
	page      = root + "/docs/final-monitoring.md"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// programs builds promtool and the program of tools/rules.
var programs = sync.OnceValues(func() (string, error) {
	// In a folder that stays: to build promtool takes about three minutes.
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "ccm-from-scratch", "rules")
	// promtool can ask all clouds for targets, and is twice as large with that.
	build := exec.Command("go", "build", "-tags", "remove_all_sd", "-ldflags=-s -w", "-o", dir+string(filepath.Separator), ".", "github.com/prometheus/prometheus/cmd/promtool")
	build.Dir = root + "/tools/rules"
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build promtool: %w\n%s", err, out)
	}
	return dir, nil
})

// run runs one of the programs, and returns what it prints.
func run(t *testing.T, input, program string, args ...string) (string, error) {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, program), args...)
	cmd.Stdin = strings.NewReader(input)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, &out, &errOut)
	}
	return out.String(), nil
}

// analyse finds out what expressions need.
func analyse(t *testing.T, expressions []string) []expression {
	t.Helper()
	input, err := json.Marshal(expressions)
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t, string(input), "rules")
	if err != nil {
		t.Fatal(err)
	}
	var found []expression
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(read(t, alerts), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// TestAlerts evaluates each alert on series of testdata/alerts_test.yaml.
func TestAlerts(t *testing.T) {
	if _, err := run(t, "", "promtool", "check", "rules", "--lint=all", "--lint-fatal", alerts); err != nil {
		t.Error(err)
	}
	if _, err := run(t, "", "promtool", "test", "rules", "testdata/alerts_test.yaml"); err != nil {
		t.Error(err)
	}
	moments := string(read(t, "testdata/alerts_test.yaml"))
	headings := string(read(t, page))
	for _, rule := range rules(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			if !strings.Contains(moments, fmt.Sprintf("{alertname=%q", rule.Alert)) {
				t.Error("there is no moment at which it must fire")
			}
			if rule.For == "" {
				t.Error("it fires at the first sign")
			}
			if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
				t.Errorf("severity %q", severity)
			}
			for _, name := range []string{"summary", "description"} {
				if text := rule.Annotations[name]; !strings.HasSuffix(text, ".") {
					t.Errorf("%s %q", name, text)
				}
			}
			_, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "/docs/final-monitoring.md#")
			if anchor != strings.ToLower(rule.Alert) || !strings.Contains(headings, "\n### "+rule.Alert+"\n") {
				t.Errorf("the page has no heading for the link %s", rule.Annotations["runbook_url"])
			}
		})
	}
}

type board struct {
	UID        string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []panel
}

type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource struct{ Type, UID string }
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct{ RefID, Expr, LegendFormat string }
}

func readBoard(t *testing.T) board {
	t.Helper()
	var b board
	if err := json.Unmarshal(read(t, dashboard), &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// substitute does what Grafana does with variables.
var substitute = strings.NewReplacer("$job", job, "$namespace", ".*", "$__rate_interval", "5m")

var inLegend = regexp.MustCompile(`{{(\w+)}}`)

// TestDashboard looks for what Grafana would show as a hole or an error.
func TestDashboard(t *testing.T) {
	b := readBoard(t)
	var variables []string
	for _, v := range b.Templating.List {
		variables = append(variables, v.Name+" "+v.Type)
	}
	if want := []string{"datasource datasource", "job query", "namespace query"}; !slices.Equal(variables, want) {
		t.Errorf("variables %q, want %q", variables, want)
	}
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, p := range b.Panels {
		t.Run(p.Title, func(t *testing.T) {
			if other, taken := ids[p.ID]; taken {
				t.Errorf("the ID %d is that of %q", p.ID, other)
			}
			ids[p.ID] = p.Title
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other, taken := cells[[2]int{x, y}]; taken || x >= 24 {
						t.Fatalf("column %d of line %d is beyond the edge, or that of %q", x, y, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				return
			}
			if p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
				t.Errorf("data source %+v with %d targets", p.Datasource, len(p.Targets))
			}
			for _, target := range p.Targets {
				if !strings.Contains(target.Expr, `{job="$job", namespace=~"$namespace"`) {
					t.Errorf("%s is not for one job", target.Expr)
				}
				found := analyse(t, []string{substitute.Replace(target.Expr)})[0]
				if found.Error != "" {
					t.Fatal(found.Error)
				}
				for _, label := range inLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
					if label[1] != "instance" && !slices.Contains(found.Selectors[0].Labels, label[1]) {
						t.Errorf("the legend names the label %s, which %s has not", label[1], target.Expr)
					}
				}
			}
		})
	}
}

// expressions returns all that Prometheus will be asked, and what for.
func expressions(t *testing.T) (where []string, needs []expression) {
	t.Helper()
	var all []string
	add := func(what, expr string) { where, all = append(where, what), append(all, expr) }
	for _, rule := range rules(t) {
		add("alert "+rule.Alert, rule.Expr)
	}
	b := readBoard(t)
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			add("panel "+p.Title, substitute.Replace(target.Expr))
		}
	}
	for _, v := range b.Templating.List {
		if expr, ok := strings.CutPrefix(v.Query, "label_values("); ok {
			selector, label, _ := strings.Cut(strings.TrimSuffix(expr, ")"), "}, ")
			add("variable "+v.Name, "sum by ("+label+") ("+substitute.Replace(selector)+"})")
		}
	}
	return where, analyse(t, all)
}
