package main

import (
	"cmp"
	"errors"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

// check compares the repository with its declaration and returns all that is wrong.
func (s *set) check() error {
	for _, st := range s.stages {
		if len(st.tree) == 0 {
			s.Add(declaration, st.line, "%s has no files; create it or take the stanza out", st.Name)
			continue
		}
		s.checkChanges(st)
		s.checkSource(st)
		for _, ext := range []string{".md", ".txtar"} {
			if page := "docs/" + st.Name + ext; !slices.Contains(s.Files, page) {
				s.Add(page, 1, "does not exist; every stage has a page and a script")
			}
		}
	}
	s.checkPages()
	err := s.checkModules()
	return errors.Join(s.Err(), err)
}

// checkChanges compares what a stage changes with what it declares and may spend.
func (s *set) checkChanges(st *stage) {
	before := "an empty folder"
	if st.Prev != nil {
		before = st.Prev.Name
	}
	used := map[decl]bool{}
	for _, c := range st.Changes {
		declared := c.Path == "go.sum"
		for _, d := range st.Decls {
			if d.holds(c.Path) && (d.Kind == c.Kind || d.Kind == "shared" && c.Kind == "add") {
				used[d], declared = true, true
			}
		}
		if line, was, is := repo.FirstDiff(c.before, c.after); !declared {
			s.Add(st.Name+"/"+c.Path, max(line, 1), "has %q, %s has %q; "+
				"declare %q in %s, or go run ./tools/stages propagate --from %s",
				is, before, was, c.Kind+" "+c.Path, declaration, before)
		}
	}
	for _, d := range st.Decls {
		if !used[d] {
			s.Add(declaration, d.line, "%s declares %q, but compared with %s there is no such change; "+
				"correct the declaration or the stage", st.Name, d.Kind+" "+d.Path, before)
		}
	}
	if st.Added > st.budget.added || st.Removed > st.budget.removed {
		s.Add(declaration, st.budget.line, "%s adds %d lines and removes %d, its budget is +%d -%d; "+
			"make the stage smaller or the budget larger", st.Name, st.Added, st.Removed, st.budget.added, st.budget.removed)
	}
}

// banned matches what would make every later stage edit a line. A year is no
// part of an IPv6 address, such as 2001:db8::1.
var banned = regexp.MustCompile(`(part[0-9][a-z-]*)|(?:^|[^\w:])(20[0-9][0-9])(?:[^\w:]|$)|\b(TODO|FIXME)\b`)

// checkSource looks for banned words, and for imports that would make a stage
// need more than its own folder.
func (s *set) checkSource(st *stage) {
	mod := modfile.ModulePath([]byte(st.tree["go.mod"]))
	if path.Base(mod) != st.Name {
		s.Add(st.Name+"/go.mod", 1, "module %q; it has to end in /%s", mod, st.Name)
	}
	for _, p := range slices.Sorted(maps.Keys(st.tree)) {
		if p == "go.sum" {
			continue // hashes
		}
		name, text, own := st.Name+"/"+p, st.tree[p], st.Name
		if p == "go.mod" || path.Ext(p) == ".go" {
			own = "/" + own // as part of a module path only
		}
		for i, text := range strings.Split(strings.ReplaceAll(text, own, ""), "\n") {
			if m := banned.FindStringSubmatch(text); m != nil {
				s.Add(name, i+1, "%q; take it out: a stage names no parts, years or things to do", strings.Join(m[1:], ""))
			}
		}
		found := imports(p, text)
		for _, imp := range slices.Sorted(maps.Keys(found)) {
			if strings.HasPrefix(imp, path.Dir(mod)+"/") && !strings.HasPrefix(imp+"/", mod+"/") {
				s.Add(name, found[imp], "import of %s; a stage imports nothing of the repository but itself", imp)
			}
		}
	}
}

// imports returns what a file imports, and on which lines. Go code that does
// not parse is for the compiler to complain about.
func imports(path, text string) map[string]int {
	lines := map[string]int{}
	if !strings.HasSuffix(path, ".go") {
		return lines
	}
	fset := token.NewFileSet()
	f, _ := parser.ParseFile(fset, path, text, parser.ImportsOnly)
	for _, spec := range f.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		lines[imp] = fset.Position(spec.Pos()).Line
	}
	return lines
}

// checkModules holds all modules to one Go version, and those of the workspace
// to one version of each requirement: so that a stage built alone is the
// program that the tests of the workspace test.
func (s *set) checkModules() error {
	work, err := modfile.ParseWork("go.work", []byte(s.Read("go.work")), nil)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, u := range work.Use {
		used[path.Join(u.Path, "go.mod")] = true
	}
	for _, st := range s.stages {
		if !used[st.Name+"/go.mod"] {
			s.Add("go.work", 1, "does not use ./%s; go work use ./%s", st.Name, st.Name)
		}
	}
	versions := map[string]string{} // of each module in the first requirement
	for _, name := range s.Files {
		if path.Base(name) != "go.mod" || strings.Contains(name, "testdata/") {
			continue
		}
		if dir := path.Dir(name); s.index(dir) < 0 && !strings.Contains(dir, "/") && dir != "lab" && dir != "tools" {
			s.Add(name, 1, "%s is not declared; give it a stanza in %s", dir, declaration)
		}
		mod, err := modfile.Parse(name, []byte(s.Read(name)), nil)
		if err != nil {
			return err
		}
		if mod.Go == nil || mod.Go.Version != work.Go.Version {
			s.Add(name, 1, "does not say go %s as go.work does; go mod edit -go=%s", work.Go.Version, work.Go.Version)
		}
		if !used[name] {
			continue
		}
		for _, r := range mod.Require {
			p, v := r.Mod.Path, r.Mod.Version
			if versions[p] = cmp.Or(versions[p], v); versions[p] != v {
				s.Add(name, r.Syntax.Start.Line, "requires %s %s, another module of the workspace %s; go work sync makes them equal",
					p, v, versions[p])
			}
		}
	}
	return nil
}
