package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestChoose reads testdata/select.txtar: the sources, and one file for each
// selector, "SOURCE SELECTOR", with the text that it means or, after "error: ",
// the error.
func TestChoose(t *testing.T) {
	data, err := os.ReadFile("testdata/select.txtar")
	if err != nil {
		t.Fatal(err)
	}
	// The sources contain archives, so the marker of the table is another one.
	a := txtar.Parse([]byte(strings.ReplaceAll(strings.ReplaceAll(string(data), "\n-- ", "\n\\-- "), "\n=== ", "\n-- ")))
	sources := map[string][]byte{}
	tests := 0
	for _, f := range a.Files {
		text := []byte(strings.ReplaceAll(string(f.Data), "\n\\-- ", "\n-- "))
		name, selector, isTest := strings.Cut(f.Name, " ")
		if !isTest {
			sources[name] = text
			continue
		}
		tests++
		t.Run(f.Name, func(t *testing.T) {
			src, ok := sources[name]
			if !ok {
				t.Fatalf("no source %s", name)
			}
			selector := strings.TrimPrefix(selector, "whole")
			got, err := choose(name, string(src), selector)
			if got += "\n"; err != nil {
				got = "error: " + err.Error() + "\n"
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if tests == 0 {
		t.Error("no tests")
	}
}

func TestAnchors(t *testing.T) {
	tests := []struct {
		name string
		page string
		want []string
	}{
		{"words", "# What the Models teach", []string{"what-the-models-teach"}},
		{"punctuation", "## go.mod: `-o jsonpath`, or *not*?", []string{"gomod--o-jsonpath-or-not"}},
		{"underscore and hyphen", "### HCLOUD_TOKEN two-word", []string{"hcloud_token-two-word"}},
		{"letters of all languages", "# Über Größe e\u0301", []string{"über-größe-e\u0301"}},
		{"repetition", "# A\n# A\n# A", []string{"a", "a-1", "a-2"}},
		{"link", "# See [the page](page.md) now", []string{"see-the-page-now"}},
		{"dash", "# one — two", []string{"one--two"}},
		{"fence", "```sh\n# a\n```", nil},
		{"no heading", "#hash\n    # indented\ntext # a", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, anchors(tt.page)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFences(t *testing.T) {
	text := "a\n```go\nx\n````\nb\n````` yaml\n```go\n```\n`````\n  ```sh title\n  y\n  ```\n> ```\n> z\n> ```\n```inline``` text\n```\nopen"
	var got [][2]int
	var langs []string
	for _, f := range fences(strings.Split(text, "\n")) {
		got = append(got, [2]int{f.open, f.end})
		langs = append(langs, f.prefix+f.lang)
	}
	if diff := cmp.Diff([][2]int{{1, 3}, {5, 8}, {9, 11}, {12, 14}, {16, 18}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"go", "yaml", "  sh", "> ", ""}, langs); diff != "" {
		t.Errorf("languages (-want +got):\n%s", diff)
	}
}
