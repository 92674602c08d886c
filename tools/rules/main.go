// Command rules says which series PromQL expressions need. It reads a JSON array
// of expressions, and writes an array of what it has found in each.
package main

import (
	"encoding/json"
	"io"
	"log"
	"maps"
	"os"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// Expression is what has been found in an expression.
type Expression struct {
	Error     string     `json:"error,omitempty"` // why it is none
	Selectors []Selector `json:"selectors"`
}

// Selector chooses series of a metric.
type Selector struct {
	Metric   string    `json:"metric"`
	Matchers []Matcher `json:"matchers"`
	Labels   []string  `json:"labels"` // that the expression takes for granted, sorted
}

// Matcher is what a selector wants of a label.
type Matcher struct {
	Label string `json:"label"`
	Type  string `json:"type"` // =, !=, =~ or !~
	Value string `json:"value"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(in io.Reader, out io.Writer) error {
	var texts []string
	if err := json.NewDecoder(in).Decode(&texts); err != nil {
		return err
	}
	found := make([]Expression, len(texts))
	for i, text := range texts {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		if err != nil {
			found[i].Error = err.Error()
			continue
		}
		found[i].Selectors = selectors(expr)
	}
	return json.NewEncoder(out).Encode(found)
}

// selectors returns the selectors of an expression. What an aggregation groups by,
// and what operands are matched on, are labels that each selector within must have.
func selectors(expr parser.Expr) []Selector {
	var found []Selector
	parser.Inspect(expr, func(node parser.Node, above []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		used := map[string]bool{}
		s := Selector{Metric: selector.Name, Matchers: []Matcher{}}
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != model.MetricNameLabel {
				s.Matchers = append(s.Matchers, Matcher{matcher.Name, matcher.Type.String(), matcher.Value})
				used[matcher.Name] = true
			}
		}
		for _, node := range above {
			switch node := node.(type) {
			case *parser.AggregateExpr:
				add(used, node.Grouping)
			case *parser.BinaryExpr:
				if node.VectorMatching != nil && node.VectorMatching.On {
					add(used, node.VectorMatching.MatchingLabels)
				}
			}
		}
		s.Labels = slices.Sorted(maps.Keys(used))
		found = append(found, s)
		return nil
	})
	return found
}

func add(set map[string]bool, names []string) {
	for _, name := range names {
		set[name] = true
	}
}
