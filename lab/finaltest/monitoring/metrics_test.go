package monitoring

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// target are the labels that Prometheus gives to all series of a process.
var target = map[string]string{"job": job, "namespace": "kube-system", "instance": "10.0.0.2:10258"}

// served is what Prometheus makes of the metrics of a process.
type served struct {
	kinds  map[string]string              // of metrics, by their names
	series map[string][]map[string]string // labels, by names such as those of the buckets of a metric
}

// parse reads metrics as they are served.
func parse(t *testing.T, text string) served {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s := served{kinds: map[string]string{}, series: map[string][]map[string]string{"up": {target}}}
	for name, family := range families {
		s.kinds[name] = strings.ToLower(family.GetType().String())
		for _, metric := range family.GetMetric() {
			labels := maps.Clone(target)
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if family.GetType() != dto.MetricType_HISTOGRAM {
				s.series[name] = append(s.series[name], labels)
				continue
			}
			s.series[name+"_sum"] = append(s.series[name+"_sum"], labels)
			s.series[name+"_count"] = append(s.series[name+"_count"], labels)
			for _, bucket := range metric.GetHistogram().GetBucket() {
				labels := maps.Clone(labels)
				labels["le"] = fmt.Sprint(bucket.GetUpperBound())
				s.series[name+"_bucket"] = append(s.series[name+"_bucket"], labels)
			}
		}
	}
	return s
}

// labels returns the names of the labels that a metric has of its own.
func (s served) labels(metric string) string {
	names := map[string]bool{}
	for _, suffix := range []string{"", "_sum"} {
		for _, series := range s.series[metric+suffix] {
			for name := range series {
				names[name] = true
			}
		}
	}
	for name := range target {
		delete(names, name)
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// What an expression needs, as tools/rules finds it.
type (
	expression struct {
		Error     string
		Selectors []selector
	}
	selector struct {
		Metric   string
		Matchers []struct{ Label, Type, Value string }
		Labels   []string
	}
)

// matches tells whether Prometheus would choose the series.
func (s selector) matches(series map[string]string) bool {
	for _, m := range s.Matchers {
		equal := series[m.Label] == m.Value
		if strings.HasSuffix(m.Type, "~") {
			equal = regexp.MustCompile("^(?:" + m.Value + ")$").MatchString(series[m.Label])
		}
		if equal == strings.HasPrefix(m.Type, "!") {
			return false
		}
	}
	return true
}

// missing returns what is wrong with a selector: it would choose nothing, or what
// it chooses has not the labels that it is for.
func (s served) missing(want selector) string {
	all := s.series[want.Metric]
	if len(all) == 0 {
		return fmt.Sprintf("there is no metric %s", want.Metric)
	}
	var chosen []map[string]string
	for _, series := range all {
		if want.matches(series) {
			chosen = append(chosen, series)
		}
	}
	if len(chosen) == 0 {
		return fmt.Sprintf("no series of %s matches %v; the last is %v", want.Metric, want.Matchers, all[len(all)-1])
	}
	for _, label := range want.Labels {
		if _, ok := chosen[0][label]; !ok {
			return fmt.Sprintf("%s has no label %s", want.Metric, label)
		}
	}
	return ""
}

// TestMissing: nothing that is misspelt goes unnoticed.
func TestMissing(t *testing.T) {
	s := parse(t, `
# TYPE requests_total counter
requests_total{code="200"} 1
# TYPE latency_seconds histogram
latency_seconds_bucket{method="get",le="1"} 1
latency_seconds_bucket{method="get",le="+Inf"} 1
latency_seconds_sum{method="get"} 1
latency_seconds_count{method="get"} 1
`)
	for expr, want := range map[string]string{
		`up == 0`: "",
		`sum by (job, code) (rate(requests_total{job="cloud-controller-manager", code=~"2.."}[5m]))`: "",
		`histogram_quantile(0.9, sum by (le, method) (rate(latency_seconds_bucket[5m])))`:            "",
		`requests_totals`:                            "there is no metric requests_totals",
		`latency_seconds`:                            "there is no metric latency_seconds",
		`requests_total{code!~"2.."}`:                "no series of requests_total matches [{code !~ 2..}]; the last is map[code:200 instance:10.0.0.2:10258 job:cloud-controller-manager namespace:kube-system]",
		`requests_total{job="cloud-controller"}`:     "no series of requests_total matches [{job = cloud-controller}]; the last is map[code:200 instance:10.0.0.2:10258 job:cloud-controller-manager namespace:kube-system]",
		`sum by (status) (requests_total)`:           "requests_total has no label status",
		`up and on (instance, pool) requests_total`:  "up has no label pool\nrequests_total has no label pool",
		`up / requests_total{code="200", verb=""}`:   "requests_total has no label verb",
		`sum(rate(latency_seconds_bucket[5m])) by (`: "1:43: parse error: unclosed left parenthesis",
	} {
		t.Run(expr, func(t *testing.T) {
			found := analyse(t, []string{expr})[0]
			if diff := cmp.Diff(want, strings.Join(s.faults(found), "\n")); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// faults returns what is wrong with an expression.
func (s served) faults(e expression) []string {
	if e.Error != "" {
		return []string{e.Error}
	}
	var faults []string
	for _, selector := range e.Selectors {
		if fault := s.missing(selector); fault != "" {
			faults = append(faults, fault)
		}
	}
	return faults
}
