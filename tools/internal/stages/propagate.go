package stages

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

// Propagate carries what the working tree changes in a stage since the
// revision base into every later stage, and says to w what it does. It stops
// after the first stage with conflicts: the markers have to be resolved before
// the files can go further. With tidy, a stage whose requirements or imports
// change gets its go.mod and go.sum tidied.
func (s *Set) Propagate(w io.Writer, from, base string, tidy bool) error {
	chain, err := s.From(from)
	if err != nil {
		return err
	}
	for _, stage := range chain[1:] {
		atBase, err := s.treeAt(base, stage.Prev)
		if err != nil {
			return err
		}
		m := merge{Set: s, w: w, stage: stage, base: stage.Prev.handedOn(atBase, stage.Name), theirs: s.inherited(stage), ours: s.trees[stage]}
		if err := m.run(tidy); err != nil {
			return err
		}
	}
	return nil
}

// merge is the step from one stage to the next: ours is the stage's own tree,
// base and theirs are the previous one's before and after the edit.
type merge struct {
	*Set
	w                  io.Writer
	stage              *Stage
	base, theirs, ours tree
	conflicts          repo.Problems
	untidy             bool
}

func (m *merge) run(tidy bool) error {
	paths := maps.Clone(m.base)
	maps.Copy(paths, m.theirs)
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if p == "go.sum" {
			continue
		}
		if err := m.file(p); err != nil {
			return err
		}
	}
	if len(m.conflicts) > 0 {
		return fmt.Errorf("%w\nthen: go run ./tools/stages propagate --from %s", m.conflicts, m.stage.Name)
	}
	if !m.untidy || !tidy {
		return nil
	}
	fmt.Fprintf(m.w, "%s: go mod tidy\n", m.stage.Name)
	cmd := exec.Command("go", "mod", "tidy")
	cmd.Dir, cmd.Env = m.Path(m.stage.Name), append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go mod tidy in %s: %w\n%s", m.stage.Name, err, out)
	}
	data, err := m.Read(m.stage.Name + "/go.mod")
	m.ours["go.mod"] = file{data: data}
	return err
}

// file merges one file.
func (m *merge) file(p string) error {
	name := m.stage.Name + "/" + p
	base, hadIt := m.base[p]
	theirs, haveIt := m.theirs[p]
	ours, weHaveIt := m.ours[p]
	same := func(a, b file) bool { return a.exec == b.exec && bytes.Equal(a.data, b.data) }
	switch {
	case hadIt && haveIt && same(base, theirs), // no edit
		weHaveIt && haveIt && same(ours, theirs), // here already
		hadIt && !weHaveIt:                       // this stage has removed it
		return nil
	case !haveIt && !same(base, ours):
		m.conflicts.Add(name, 1, "deleted in %s but changed here; delete it, or restore it there", m.stage.Prev.Name)
		return nil
	case !haveIt:
		delete(m.ours, p)
		fmt.Fprintf(m.w, "%s: deleted\n", name)
		if err := os.Remove(m.Path(name)); err != nil {
			return err
		}
		for dir := path.Dir(name); os.Remove(m.Path(dir)) == nil; dir = path.Dir(dir) { // as long as it is empty
		}
		m.noteImports(p, base.data, nil)
		return nil
	case !weHaveIt:
		ours = theirs
		fmt.Fprintf(m.w, "%s: added\n", name)
		m.noteImports(p, nil, theirs.data)
	default:
		merged, err := m.threeWay(base.data, ours.data, theirs.data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for i, line := range repo.Lines(merged) {
			if strings.HasPrefix(line, "<<<<<<< "+m.stage.Name) {
				m.conflicts.Add(name, i+1, "conflict with the edit in %s; resolve it", m.stage.Prev.Name)
			}
		}
		ours.data = merged
		if base.exec != theirs.exec {
			ours.exec = theirs.exec
		}
		if same(ours, m.ours[p]) {
			return nil // the edit is part of this stage already
		}
		fmt.Fprintf(m.w, "%s: merged\n", name)
		m.noteImports(p, m.ours[p].data, merged)
	}
	m.ours[p] = ours
	perm := os.FileMode(0o644)
	if ours.exec {
		perm = 0o755
	}
	_, err := m.Write(name, ours.data, perm)
	return err
}

// threeWay runs git merge-file.
func (m *merge) threeWay(base, ours, theirs []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "propagate")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	args := []string{"merge-file", "-p", "-L", m.stage.Name, "-L", "base", "-L", m.stage.Prev.Name}
	for i, data := range [][]byte{ours, base, theirs} {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return nil, err
		}
		args = append(args, name)
	}
	out, err := m.Git(args...)
	// The status is the number of conflicts, up to 127; above that an error.
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() <= 127 {
		err = nil
	}
	return out, err
}

// noteImports asks for a tidy if an edit of a file can change what the module requires.
func (m *merge) noteImports(p string, before, after []byte) {
	if p == "go.mod" || path.Ext(p) == ".go" && !slices.Equal(imports(before), imports(after)) {
		m.untidy = true
	}
}

func imports(src []byte) []string {
	f, err := parser.ParseFile(token.NewFileSet(), "", src, parser.ImportsOnly)
	if err != nil {
		return nil
	}
	var paths []string
	for _, spec := range f.Imports {
		paths = append(paths, spec.Path.Value)
	}
	return slices.Sorted(slices.Values(paths))
}
