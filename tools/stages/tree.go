package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

// set is the stages of a repository.
type set struct {
	*repo.Repo
	stages []*stage
}

// tree is the files of a stage: their texts by their paths from its folder.
type tree map[string]string

// open reads the declaration and the stages of the repository around the
// working directory. It refuses what cannot be compared line by line.
func open() (*set, error) {
	r, err := repo.Open()
	if err != nil {
		return nil, err
	}
	s := &set{Repo: r}
	s.parse(s.Read(declaration))
	for _, st := range s.stages {
		st.tree = tree{}
		for _, name := range s.Files {
			path, in := strings.CutPrefix(name, st.Name+"/")
			if !in {
				continue
			}
			st.tree[path] = s.Read(name)
			info, err := os.Lstat(name)
			if err != nil || info.Mode()&(fs.ModeType|0o111) != 0 || strings.Contains(st.tree[path], "\x00") {
				s.Add(name, 1, "a stage holds texts only, no links, binaries or executables; "+
					"chmod -x what is a text, and take out or name in .gitignore what is not")
			}
		}
		st.compare()
	}
	return s, s.Err()
}

// index returns the place of a stage, -1 if it is not declared.
func (s *set) index(name string) int {
	return slices.IndexFunc(s.stages, func(st *stage) bool { return st.Name == name })
}

// handedOn returns what the next stage inherits of a tree of this stage: all
// but the shared files, with this stage's name replaced by the next one's.
func (s *stage) handedOn(t tree, next string) tree {
	out := tree{}
	for path, text := range t {
		if !s.shared(path) {
			out[path] = strings.ReplaceAll(text, s.Name, next)
		}
	}
	return out
}

// compare finds what a stage changes.
func (s *stage) compare() {
	var inherited tree
	if s.Prev != nil {
		inherited = s.Prev.handedOn(s.Prev.tree, s.Name)
	}
	s.Changes = compare(inherited, s.tree)
	var without []string
	for i, c := range s.Changes {
		switch {
		case c.Path == "go.sum":
			without = append(without, "`go.sum`")
		case s.shared(c.Path):
			s.Changes[i].Shared = true
			without = append(without, "shared files")
		default:
			s.Added, s.Removed = s.Added+c.Added, s.Removed+c.Removed
		}
	}
	slices.Sort(without)
	s.Without = strings.Join(slices.Compact(without), " and ")
}

// change is how a file differs between two trees.
type change struct {
	Kind, Path     string // kind as in a declaration: add, change or remove
	Patch          string // as git apply reads it
	Added, Removed int    // lines
	Shared         bool
	before, after  string // the texts
}

// Fence returns backquotes enough to quote the patch.
func (c change) Fence() string {
	fence := "```"
	for strings.Contains(c.Patch, fence) {
		fence += "`"
	}
	return fence
}

// compare returns the changes that turn one tree into the other, by path.
func compare(a, b tree) []change {
	paths := maps.Clone(b)
	maps.Copy(paths, a)
	var all []change
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		before, had := a[path]
		after, has := b[path]
		if had && has && before == after {
			continue
		}
		c := change{Kind: "change", Path: path, before: before, after: after}
		from, to, mode := "a/"+path, "b/"+path, ""
		switch {
		case !had:
			c.Kind, from, mode = "add", "/dev/null", "new file mode 100644\n"
		case !has:
			c.Kind, to, mode = "remove", "/dev/null", "deleted file mode 100644\n"
		}
		// The differ's own first line is not one that git understands.
		_, body, _ := strings.Cut(string(diff.Diff(from, []byte(before), to, []byte(after))), "\n")
		c.Patch = fmt.Sprintf("diff --git a/%s b/%s\n%s%s", path, path, mode, body)
		_, hunks, _ := strings.Cut(body, "\n@@")
		c.Added, c.Removed = strings.Count(hunks, "\n+"), strings.Count(hunks, "\n-")
		all = append(all, c)
	}
	return all
}
