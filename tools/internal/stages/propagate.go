package stages

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
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
// revision base into every later stage, and prints what it does. It stops
// after the first stage with conflicts: the markers have to be resolved before
// the files can go further. With tidy, a stage whose requirements or imports
// change gets its go.mod and go.sum tidied.
func (s *Set) Propagate(from, base string, tidy bool) error {
	if err := s.load(); err != nil {
		return err
	}
	chain, err := s.From(from)
	if err != nil {
		return err
	}
	for _, stage := range chain[1:] {
		atBase, err := s.treeAt(base, stage.Prev)
		if err != nil {
			return err
		}
		m := merge{Set: s, stage: stage, base: stage.Prev.handedOn(atBase, stage.Name), theirs: s.inherited(stage), ours: s.trees[stage]}
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
	stage              *Stage
	base, theirs, ours tree
	conflicts          repo.Problems
}

func (m *merge) run(tidy bool) error {
	needed := m.ours.needs()
	paths := maps.Clone(m.base)
	maps.Copy(paths, m.theirs)
	delete(paths, "go.sum")
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if err := m.file(p); err != nil {
			return err
		}
	}
	if len(m.conflicts) > 0 {
		return fmt.Errorf("%w\nthen: go run ./tools/stages propagate --from %s", m.conflicts, m.stage.Name)
	}
	if !tidy || slices.Equal(needed, m.ours.needs()) {
		return nil
	}
	fmt.Printf("%s: go mod tidy\n", m.stage.Name)
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
	merged, did := theirs, "added"
	switch {
	case hadIt && haveIt && base.equal(theirs), // no edit
		hadIt && !weHaveIt: // this stage has removed it
		return nil
	case !haveIt && !base.equal(ours):
		m.conflicts.Add(name, 1, "deleted in %s but changed here; delete it, or restore it there", m.stage.Prev.Name)
		return nil
	case !haveIt:
		fmt.Printf("%s: deleted\n", name)
		delete(m.ours, p)
		err := os.Remove(m.Path(name))
		for dir := path.Dir(name); os.Remove(m.Path(dir)) == nil; dir = path.Dir(dir) { // as long as it is empty
		}
		return err
	case weHaveIt:
		data, err := m.threeWay(ours.data, base.data, theirs.data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for i, line := range repo.Lines(data) {
			if strings.HasPrefix(line, "<<<<<<< "+m.stage.Name) {
				m.conflicts.Add(name, i+1, "conflict with the edit in %s; resolve it", m.stage.Prev.Name)
			}
		}
		merged, did = file{data, ours.exec}, "merged"
		if base.exec != theirs.exec {
			merged.exec = theirs.exec
		}
		if merged.equal(ours) { // it has the edit already
			return nil
		}
	}
	fmt.Printf("%s: %s\n", name, did)
	m.ours[p] = merged
	_, err := m.Write(name, merged.data, merged.exec)
	return err
}

// threeWay runs git merge-file.
func (m *merge) threeWay(ours, base, theirs []byte) ([]byte, error) {
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

// needs returns what decides the requirements of a stage: its go.mod and its imports.
func (t tree) needs() []string {
	all := []string{string(t["go.mod"].data)}
	for p, f := range t {
		if path.Ext(p) != ".go" {
			continue
		}
		// A file that does not parse is for the compiler to complain about.
		if f, err := parser.ParseFile(token.NewFileSet(), "", f.data, parser.ImportsOnly); err == nil {
			for _, spec := range f.Imports {
				all = append(all, spec.Path.Value)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (f file) equal(g file) bool { return f.exec == g.exec && bytes.Equal(f.data, g.data) }
