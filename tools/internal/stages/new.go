package stages

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/mod/modfile"
)

// New starts a stage as a copy of the last one, declares it, and makes its
// pages where they do not exist.
func (s *Set) New(name string) error {
	if len(s.Stages) == 0 {
		return fmt.Errorf("%s declares no stage to copy; write the first one by hand", File)
	}
	if err := s.load(); err != nil {
		return err
	}
	last := s.Stages[len(s.Stages)-1]
	if !header.MatchString(name + ": x") {
		return fmt.Errorf("%q is no stage name; use lower-case letters, digits and hyphens", name)
	}
	if _, err := os.Lstat(s.Path(name)); err == nil || slices.ContainsFunc(s.Stages, func(o *Stage) bool { return o.Name == name }) {
		return fmt.Errorf("%s exists already; choose another name", name)
	}
	for path, f := range last.handedOn(s.trees[last], name) {
		if _, err := s.Write(name+"/"+path, f.data, f.exec); err != nil {
			return err
		}
	}

	data, err := s.Read("go.work")
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		return err
	}
	if err := work.AddUse("./"+name, ""); err != nil {
		return err
	}
	work.Cleanup()
	work.SortBlocks()
	if _, err := s.Write("go.work", modfile.Format(work.Syntax), false); err != nil {
		return err
	}

	if data, err = s.Read(File); err != nil {
		return err
	}
	stanza := fmt.Sprintf("\n%s: one sentence that says what it adds\n  budget +0 -0\n", name)
	if _, err := s.Write(File, append(data, stanza...), false); err != nil {
		return err
	}
	for page, text := range map[string]string{
		"docs/" + name + ".md":    fmt.Sprintf(article, name, (&Stage{Name: name}).mark(), endMark),
		"docs/" + name + ".txtar": "# set-up\n",
	} {
		if _, err := os.Lstat(s.Path(page)); err == nil {
			continue
		}
		if _, err := s.Write(page, []byte(text), false); err != nil {
			return err
		}
	}
	if s, err = Open(); err != nil {
		return err
	}
	_, err = s.Diff([]string{name}, false)
	return err
}

// article has the sections that every article has.
const article = `# %s

## What you will be able to do

## Predict

## Red

## Build it

## Run it

## Checkpoint

## What changed

%s
%s

## How HCCM does it

## Exercises

## Next
`
