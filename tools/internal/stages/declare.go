// Package stages keeps the stages of the tutorial true to stages.txt, which
// declares what each of them changes.
package stages

import (
	"fmt"
	"regexp"
	"strings"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

// File declares the stages.
const File = "stages.txt"

// Stage is a stanza of stages.txt.
type Stage struct {
	Name    string // its folder, and the stem of its pages
	Feature string // what it adds, in one sentence
	Line    int    // of the stanza
	Decls   []Decl
	Budget  Budget
	Prev    *Stage // nil for the first
}

// Decl declares one file, or a whole folder if Path ends in a slash.
type Decl struct {
	Kind string // add, change, remove or shared
	Path string // relative to the stage
	Line int
}

// Budget is how many lines a stage may add and remove.
type Budget struct{ Added, Removed, Line int }

// holds says whether the declaration names the file.
func (d Decl) holds(path string) bool {
	return path == d.Path || strings.HasSuffix(d.Path, "/") && strings.HasPrefix(path, d.Path)
}

// shared says whether a file lives in this stage only.
func (s *Stage) shared(path string) bool {
	for _, d := range s.Decls {
		if d.Kind == "shared" && d.holds(path) {
			return true
		}
	}
	return false
}

var header = regexp.MustCompile(`^([a-z][a-z0-9-]*): +(\S.*)$`)

// Parse reads stages.txt.
func Parse(data []byte) ([]*Stage, error) {
	var (
		all   []*Stage
		s     *Stage
		kind  string
		wrong repo.Problems
		names = map[string]bool{}
	)
	for i, text := range repo.Lines(data) {
		line := i + 1
		if at := strings.Index(" "+text, " #"); at >= 0 {
			text = text[:at]
		}
		text = strings.TrimRight(text, " \t")
		fields := strings.Fields(text)
		switch {
		case text == "":
			continue
		case text == strings.TrimLeft(text, " \t"):
			m := header.FindStringSubmatch(text)
			if m == nil {
				wrong.Add(File, line, "%q begins no stage; write NAME: what the stage adds", text)
				continue
			}
			if names[m[1]] {
				wrong.Add(File, line, "%s is declared twice; name it once", m[1])
			}
			names[m[1]] = true
			s, kind = &Stage{Name: m[1], Feature: m[2], Line: line, Prev: s}, ""
			all = append(all, s)
			continue
		case s == nil:
			wrong.Add(File, line, "a declaration before the first stage; begin with NAME: what the stage adds")
			continue
		}
		switch fields[0] {
		case "add", "change", "remove", "shared", "budget":
			kind, fields = fields[0], fields[1:]
		}
		switch kind {
		case "":
			wrong.Add(File, line, "%q is no declaration; use add, change, remove, shared or budget", fields[0])
		case "budget":
			s.Budget.Line = line
			if _, err := fmt.Sscanf(strings.Join(fields, " ")+"\n", "+%d -%d\n", &s.Budget.Added, &s.Budget.Removed); err != nil {
				wrong.Add(File, line, "budget %s; write it as +150 -0", strings.Join(fields, " "))
			}
		default:
			for _, path := range fields {
				s.Decls = append(s.Decls, Decl{kind, path, line})
			}
		}
	}
	for _, s := range all {
		if s.Budget.Line == 0 {
			wrong.Add(File, s.Line, "%s has no budget; add a line like budget +150 -0", s.Name)
		}
	}
	return all, wrong.Err()
}
