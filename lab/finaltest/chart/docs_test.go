package chart

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the table of values instead of comparing it")

// TestValuesTable compares the table of docs/final-install.md with values.yaml: each
// value has a comment there, or is part of one that has.
func TestValuesTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	rows, missing := table(document.Content[0], "")
	for _, value := range missing {
		t.Errorf("values.yaml has no comment on %s", value)
	}
	want := "| value | default | meaning |\n| --- | --- | --- |\n" + strings.Join(rows, "")

	const begin, end = "<!-- values -->\n\n", "\n<!-- /values -->"
	path := filepath.Join(root, "docs/final-install.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table between %q and %q", path, begin, end)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the table differs from values.yaml, run with -update (-want +got):\n%s", diff)
	}
}

// table returns a row for each key of a mapping that has a comment, and for those in
// it, and the keys that nothing is said about.
func table(mapping *yaml.Node, prefix string) (rows, missing []string) {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		var inner, unsaid []string
		if value.Kind == yaml.MappingNode {
			inner, unsaid = table(value, name+".")
		}
		comment := strings.TrimPrefix(key.HeadComment, "# ")
		if comment != "" {
			content := ""
			if len(inner) == 0 {
				content = "`" + flow(value) + "`"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", name, content, comment))
		} else if value.Kind != yaml.MappingNode || len(value.Content) == 0 {
			missing = append(missing, name)
		} else {
			missing = append(missing, unsaid...)
		}
		rows = append(rows, inner...)
	}
	return rows, missing
}

// flow returns YAML in one line.
func flow(node *yaml.Node) string {
	text, err := yaml.Marshal(inline(node))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

func inline(node *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: node.Kind, Tag: node.Tag, Value: node.Value, Style: node.Style | yaml.FlowStyle}
	for _, child := range node.Content {
		out.Content = append(out.Content, inline(child))
	}
	return out
}
