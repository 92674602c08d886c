package stages

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

// Set is the declared stages of a repository and the files they have now.
type Set struct {
	*repo.Repo
	Stages []*Stage
	trees  map[*Stage]tree
}

// tree is the content of a stage by path.
type tree map[string]file

type file struct {
	data []byte
	exec bool
}

// Open reads the declaration of the repository around the working directory.
func Open() (*Set, error) {
	r, err := repo.Open()
	if err != nil {
		return nil, err
	}
	data, err := r.Read(File)
	if err != nil {
		return nil, err
	}
	all, err := Parse(data)
	if err != nil {
		return nil, err
	}
	return &Set{Repo: r, Stages: all, trees: map[*Stage]tree{}}, nil
}

// load reads the stages. It refuses what cannot be compared line by line.
func (s *Set) load() error {
	var wrong repo.Problems
	for _, stage := range s.Stages {
		t := tree{}
		for _, path := range s.Under(stage.Name) {
			name := stage.Name + "/" + path
			info, err := os.Lstat(s.Path(name))
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				wrong.Add(name, 1, "not a regular file; a stage holds text files only")
				continue
			}
			data, err := s.Read(name)
			if err != nil {
				return err
			}
			if bytes.IndexByte(data, 0) >= 0 {
				wrong.Add(name, 1, "not a text; a stage holds text files only, so remove it or let .gitignore name it")
			} else if len(data) > 0 && data[len(data)-1] != '\n' {
				wrong.Add(name, len(repo.Lines(data)), "no newline at the end of the file; add one")
			}
			t[path] = file{data, info.Mode()&0o111 != 0}
		}
		s.trees[stage] = t
	}
	return wrong.Err()
}

// find returns a stage by name.
func (s *Set) find(name string) (*Stage, error) {
	for _, stage := range s.Stages {
		if stage.Name == name {
			return stage, nil
		}
	}
	return nil, fmt.Errorf("%s declares no stage %q; see stages list", File, name)
}

// From returns a stage and those that follow it, in order.
func (s *Set) From(name string) ([]*Stage, error) {
	stage, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return s.Stages[slices.Index(s.Stages, stage):], nil
}

// handedOn returns what the next stage inherits of a tree of this stage: all
// but the shared files, with this stage's name replaced by the next one's.
func (s *Stage) handedOn(t tree, next string) tree {
	out := tree{}
	for path, f := range t {
		if !s.shared(path) {
			out[path] = file{bytes.ReplaceAll(f.data, []byte(s.Name), []byte(next)), f.exec}
		}
	}
	return out
}

// inherited returns what a stage has from the previous one.
func (s *Set) inherited(stage *Stage) tree {
	if stage.Prev == nil {
		return tree{}
	}
	return stage.Prev.handedOn(s.trees[stage.Prev], stage.Name)
}

// treeAt returns a stage as it was at a revision.
func (s *Set) treeAt(rev string, stage *Stage) (tree, error) {
	out, err := s.Git("archive", "--format=tar", rev, "--", stage.Name)
	if err != nil {
		return nil, fmt.Errorf("%s at %s (commit it, or name another --base): %w", stage.Name, rev, err)
	}
	t := tree{}
	for r := tar.NewReader(bytes.NewReader(out)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		t[strings.TrimPrefix(h.Name, stage.Name+"/")] = file{data, h.Mode&0o111 != 0}
	}
}

// change is how a file of a stage differs from the one inherited.
type change struct {
	kind, path     string // kind as in a declaration: add, change or remove
	old, new       file
	patch          string // as git apply reads it
	added, removed int    // lines
}

// compare returns the changes that turn one tree into the other, by path.
func compare(a, b tree) []change {
	paths := maps.Clone(a)
	maps.Copy(paths, b)
	var all []change
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		old, before := a[path]
		new, after := b[path]
		c := change{kind: "change", path: path, old: old, new: new}
		head := fmt.Sprintf("diff --git a/%s b/%s\n", path, path)
		from, to := "a/"+path, "b/"+path
		switch {
		case !before:
			c.kind, from = "add", "/dev/null"
			head += fmt.Sprintf("new file mode %s\n", mode(new))
		case !after:
			c.kind, to = "remove", "/dev/null"
			head += fmt.Sprintf("deleted file mode %s\n", mode(old))
		case old.equal(new):
			continue
		case old.exec != new.exec:
			head += fmt.Sprintf("old mode %s\nnew mode %s\n", mode(old), mode(new))
		}
		// The differ's own first line is not one that git understands.
		_, body, _ := strings.Cut(string(diff.Diff(from, old.data, to, new.data)), "\n")
		c.patch = head + body
		for i, line := range repo.Lines([]byte(body)) {
			switch {
			case i < 2: // --- and +++
			case line[0] == '+':
				c.added++
			case line[0] == '-':
				c.removed++
			}
		}
		all = append(all, c)
	}
	return all
}

// mode is what git calls a file's mode.
func mode(f file) string {
	if f.exec {
		return "100755"
	}
	return "100644"
}
