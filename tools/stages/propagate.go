package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

// propagate carries what the working tree changes in a stage since the
// revision base into every later stage, and prints what it does. It stops
// after the first stage with conflicts: the markers have to be resolved before
// the files can go further.
func (s *set) propagate(from, base string) error {
	first := s.index(from)
	if first < 0 {
		return fmt.Errorf("%s declares no stage %q; name one of it", declaration, from)
	}
	for _, st := range s.stages[first+1:] {
		atBase, err := treeAt(base, st.Prev.Name)
		if err != nil {
			return err
		}
		edit := compare(st.Prev.handedOn(atBase, st.Name), st.Prev.handedOn(st.Prev.tree, st.Name))
		needed := st.needs()
		for _, c := range edit {
			if err := s.merge(st, c); err != nil {
				return err
			}
		}
		if err := s.Err(); err != nil {
			return fmt.Errorf("%w\nthen: go run ./tools/stages propagate --from %s", err, st.Name)
		}
		if slices.Equal(needed, st.needs()) {
			continue
		}
		fmt.Printf("%s: go mod tidy\n", st.Name)
		if _, err := repo.Run("go", "-C", st.Name, "mod", "tidy"); err != nil {
			return err
		}
		st.tree["go.mod"] = s.Read(st.Name + "/go.mod")
	}
	return s.Err()
}

// treeAt returns a stage as it was at a revision.
func treeAt(rev, name string) (tree, error) {
	out, err := repo.Run("git", "ls-tree", "-r", "-z", "--name-only", rev, "--", name+"/")
	if err != nil {
		return nil, err
	}
	if out == "" {
		return nil, fmt.Errorf("no %s at %s (commit it, or name another --base)", name, rev)
	}
	t := tree{}
	for file := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if t[strings.TrimPrefix(file, name+"/")], err = repo.Run("git", "show", rev+":"+file); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// merge makes an edit of the previous stage in this one.
func (s *set) merge(st *stage, c change) error {
	name := st.Name + "/" + c.Path
	ours, has := st.tree[c.Path]
	merged, did := c.after, "added"
	switch {
	case c.Path == "go.sum", // follows from go.mod
		c.Kind != "add" && !has: // this stage has removed it
		return nil
	case c.Kind == "remove" && ours != c.before:
		s.Add(name, 1, "deleted in %s but changed here; delete it, or restore it there", st.Prev.Name)
		return nil
	case c.Kind == "remove":
		fmt.Printf("%s: deleted\n", name)
		delete(st.tree, c.Path)
		return os.Remove(name)
	case has:
		var err error
		if merged, err = s.threeWay(st, name, c); err != nil {
			return err
		}
		for i, text := range strings.Split(merged, "\n") {
			if strings.HasPrefix(text, "<<<<<<< "+st.Name) {
				s.Add(name, i+1, "conflict with the edit in %s; resolve it", st.Prev.Name)
			}
		}
		did = "merged"
	}
	st.tree[c.Path] = merged
	if s.Write(name, merged) { // else it has the edit already
		fmt.Printf("%s: %s\n", name, did)
	}
	return nil
}

// threeWay runs git merge-file on a file of a stage.
func (s *set) threeWay(st *stage, name string, c change) (string, error) {
	dir, err := os.MkdirTemp("", "propagate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	s.Write(before, c.before)
	s.Write(after, c.after)
	out, err := repo.Run("git", "merge-file", "-p", "-L", st.Name, "-L", "base", "-L", st.Prev.Name, name, before, after)
	// The status is the number of conflicts, up to 127; above that an error.
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 && exit.ExitCode() <= 127 {
		err = nil
	}
	return out, err
}

// needs returns what decides the requirements of a stage: its go.mod and its imports.
func (s *stage) needs() []string {
	all := []string{s.tree["go.mod"]}
	for path, text := range s.tree {
		all = slices.AppendSeq(all, maps.Keys(imports(path, text)))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
