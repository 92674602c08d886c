package stages

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParse(t *testing.T) {
	one := &Stage{Name: "part1-one", Feature: "a CCM: with no controllers", Line: 2, Budget: Budget{150, 0, 5},
		Decls: []Decl{{"add", "main.go", 3}, {"add", "ccm/", 3}, {"add", "go.mod", 4}}}
	two := &Stage{Name: "final", Feature: "all of it", Line: 7, Budget: Budget{1, 20, 11},
		Decls: []Decl{{"change", "main.go", 8}, {"remove", "a", 9}, {"shared", "dev-env/", 10}, {"change", "go.mod", 12}}}
	tests := []struct {
		name, text string
		want       []*Stage
		wrong      []string
	}{
		{name: "nothing", text: "# only a comment\n\n"},
		{
			name: "two stages",
			text: "# stages\npart1-one: a CCM: with no controllers\n  add main.go ccm/ # a folder\n    go.mod\n\tbudget +150 -0\n\n" +
				"final: all of it\n  change main.go\n  remove a\n  shared dev-env/\n  budget +1 -20\n  change go.mod\n",
			want: []*Stage{one, two},
		},
		{
			name: "all that is wrong",
			text: "  add main.go\npart1\na: x\n  main.go\n  budget 150\nB: x\na: y\n  budget +1 -1 -1\nb: z\n  add a.go\n",
			wrong: []string{
				"stages.txt:1: a declaration before the first stage; begin with NAME: what the stage adds",
				`stages.txt:2: "part1" begins no stage; write NAME: what the stage adds`,
				`stages.txt:4: "main.go" is no declaration; use add, change, remove, shared or budget`,
				"stages.txt:5: budget 150; write it as +150 -0",
				`stages.txt:6: "B: x" begins no stage; write NAME: what the stage adds`,
				"stages.txt:7: a is declared twice; name it once",
				"stages.txt:8: budget +1 -1 -1; write it as +150 -0",
				"stages.txt:9: b has no budget; add a line like budget +150 -0",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.text))
			var wrong []string
			if err != nil {
				wrong = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.wrong, wrong); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if tt.wrong != nil {
				return
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(Stage{}, "Prev")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for i, s := range got {
				if i > 0 && s.Prev != got[i-1] || i == 0 && s.Prev != nil {
					t.Errorf("%s follows %v", s.Name, s.Prev)
				}
			}
		})
	}
}

func TestCompare(t *testing.T) {
	text := func(s string) file { return file{data: []byte(s)} }
	tests := []struct {
		name string
		a, b tree
		want []change // without the files
	}{
		{"the same", tree{"a": text("x\n")}, tree{"a": text("x\n")}, nil},
		{"empty file", tree{}, tree{"a": text("")}, []change{
			{kind: "add", path: "a", patch: "diff --git a/a b/a\nnew file mode 100644\n"},
		}},
		{"executable", tree{}, tree{"a": {data: []byte("x\n"), exec: true}}, []change{
			{kind: "add", path: "a", added: 1, patch: "diff --git a/a b/a\nnew file mode 100755\n--- /dev/null\n+++ b/a\n@@ -0,0 +1,1 @@\n+x\n"},
		}},
		{"mode", tree{"a": text("x\n")}, tree{"a": {data: []byte("x\n"), exec: true}}, []change{
			{kind: "change", path: "a", patch: "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"},
		}},
		{"lines that look like headers", tree{"a": text("-- x\n")}, tree{"a": text("++ y\n")}, []change{
			{kind: "change", path: "a", added: 1, removed: 1, patch: "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n--- x\n+++ y\n"},
		}},
		{"order", tree{"b": text("x\n"), "c": text("x\n")}, tree{"a": text(""), "c": text("x\n")}, []change{
			{kind: "add", path: "a", patch: "diff --git a/a b/a\nnew file mode 100644\n"},
			{kind: "remove", path: "b", removed: 1, patch: "diff --git a/b b/b\ndeleted file mode 100644\n--- a/b\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, compare(tt.a, tt.b), cmp.AllowUnexported(change{}), cmpopts.IgnoreFields(change{}, "old", "new")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
