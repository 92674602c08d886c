package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// declaration is the file that declares the stages.
const declaration = "stages.txt"

// stage is a stanza of the declaration, and the files that the stage has now.
type stage struct {
	Name    string // its folder, and the stem of its pages
	Feature string // what it adds, in one sentence
	Prev    *stage // nil for the first
	Decls   []decl
	budget  budget
	line    int // of the stanza
	tree    tree

	Changes        []change // against Prev
	Added, Removed int      // lines
	Without        string   // what does not count as lines: go.sum, shared files
}

// decl declares one file, or a whole folder if Path ends in a slash.
type decl struct {
	Kind string // add, change, remove or shared
	Path string // from the stage's folder
	line int
}

// budget is how many lines a stage may add and remove.
type budget struct{ added, removed, line int }

// holds says whether the declaration names the file.
func (d decl) holds(path string) bool {
	return path == d.Path || strings.HasSuffix(d.Path, "/") && strings.HasPrefix(path, d.Path)
}

// shared says whether a file lives in this stage only.
func (s *stage) shared(path string) bool {
	return slices.ContainsFunc(s.Decls, func(d decl) bool { return d.Kind == "shared" && d.holds(path) })
}

var header = regexp.MustCompile(`^([a-z][a-z0-9-]*): +(.*\S)\s*$`)

// parse reads the declaration.
func (s *set) parse(text string) {
	var last *stage
	for i, text := range strings.Split(text, "\n") {
		text, _, _ = strings.Cut(text, "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if m := header.FindStringSubmatch(text); m != nil {
			last = &stage{Name: m[1], Feature: m[2], Prev: last, budget: budget{line: i + 1}, line: i + 1}
			s.stages = append(s.stages, last)
			continue
		}
		switch kind := fields[0]; {
		case last == nil || !slices.Contains([]string{"add", "change", "remove", "shared", "budget"}, kind):
			s.Add(declaration, i+1, "%q is no declaration; write NAME: WHAT IT ADDS, and below it "+
				"add, change, remove, shared or budget", strings.Join(fields, " "))
		case kind == "budget":
			b := &last.budget
			b.line = i + 1
			if _, err := fmt.Sscanf(strings.Join(fields, " ")+"\n", "budget +%d -%d\n", &b.added, &b.removed); err != nil {
				s.Add(declaration, i+1, "%s; write it as budget +150 -0", strings.Join(fields, " "))
			}
		default:
			for _, path := range fields[1:] {
				last.Decls = append(last.Decls, decl{kind, path, i + 1})
			}
		}
	}
}
