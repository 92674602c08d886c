package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

func TestParse(t *testing.T) {
	one := &stage{
		Name: "part1-one", Feature: "a CCM: with no controllers", line: 2, budget: budget{150, 0, 5},
		Decls: []decl{{"add", "main.go", 3}, {"add", "ccm/", 3}, {"add", "go.mod", 4}},
	}
	two := &stage{
		Name: "final", Feature: "all of it", Prev: one, line: 7, budget: budget{1, 20, 11},
		Decls: []decl{{"change", "main.go", 8}, {"remove", "a", 9}, {"shared", "dev-env/", 10}, {"change", "go.mod", 12}},
	}
	tests := []struct {
		name, text string
		want       []*stage
		wrong      []string
	}{
		{name: "nothing", text: "# only a comment\n\n"},
		{
			name: "two stages",
			text: "# stages\npart1-one: a CCM: with no controllers\n  add main.go ccm/ # a folder\n  add go.mod\n\tbudget +150 -0\n\n" +
				"final: all of it\n  change main.go\n  remove a\n  shared dev-env/\n  budget +1 -20\n  change go.mod\n",
			want: []*stage{one, two},
		},
		{
			name: "all that is wrong",
			text: "  add main.go\npart1\na: x\n  main.go\n  budget 150\nB: x\n  budget +1 -1 -1\n",
			wrong: []string{
				`stages.txt:1: "add main.go" is no declaration; write NAME: WHAT IT ADDS, and below it add, change, remove, shared or budget`,
				`stages.txt:2: "part1" is no declaration; write NAME: WHAT IT ADDS, and below it add, change, remove, shared or budget`,
				`stages.txt:4: "main.go" is no declaration; write NAME: WHAT IT ADDS, and below it add, change, remove, shared or budget`,
				"stages.txt:5: budget 150; write it as budget +150 -0",
				`stages.txt:6: "B: x" is no declaration; write NAME: WHAT IT ADDS, and below it add, change, remove, shared or budget`,
				"stages.txt:7: budget +1 -1 -1; write it as budget +150 -0",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &set{Repo: &repo.Repo{}}
			s.parse(tt.text)
			var wrong []string
			if err := s.Err(); err != nil {
				wrong = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.wrong, wrong); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if tt.wrong != nil {
				return
			}
			if diff := cmp.Diff(tt.want, s.stages, cmp.AllowUnexported(stage{}, decl{}, budget{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	tests := []struct {
		name string
		a, b tree
		want []change // without the texts
	}{
		{"the same", tree{"a": "x\n"}, tree{"a": "x\n"}, nil},
		{"empty file", tree{}, tree{"a": ""}, []change{
			{Kind: "add", Path: "a", Patch: "diff --git a/a b/a\nnew file mode 100644\n"},
		}},
		{"no newline at the end", tree{"a": "x\n"}, tree{"a": "x"}, []change{
			{Kind: "change", Path: "a", Added: 1, Removed: 1, Patch: "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-x\n+x\n\\ No newline at end of file\n"},
		}},
		{"lines that look like headers", tree{"a": "-- x\n"}, tree{"a": "++ y\n"}, []change{
			{Kind: "change", Path: "a", Added: 1, Removed: 1, Patch: "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n--- x\n+++ y\n"},
		}},
		{"order", tree{"b": "x\n", "c": "x\n"}, tree{"a": "", "c": "x\n"}, []change{
			{Kind: "add", Path: "a", Patch: "diff --git a/a b/a\nnew file mode 100644\n"},
			{Kind: "remove", Path: "b", Removed: 1, Patch: "diff --git a/b b/b\ndeleted file mode 100644\n--- a/b\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, compare(tt.a, tt.b), cmpopts.IgnoreUnexported(change{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
