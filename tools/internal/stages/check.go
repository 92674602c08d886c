package stages

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

// goVersion is what every go.mod and go.work says.
const goVersion = "1.26.0"

// Check compares the repository with its declaration and returns all that is wrong.
func (s *Set) Check() error {
	if err := s.load(); err != nil {
		return err
	}
	var wrong repo.Problems
	s.checkFolders(&wrong)
	for _, stage := range s.Stages {
		if len(s.trees[stage]) == 0 {
			continue // said by checkFolders
		}
		s.checkChanges(stage, &wrong)
		s.checkSource(stage, &wrong)
		for _, page := range []string{"docs/" + stage.Name + ".md", "docs/" + stage.Name + ".txtar"} {
			if !slices.Contains(s.Files, page) {
				wrong.Add(page, 1, "does not exist; every stage has a page and a script")
			}
		}
	}
	if err := s.checkModules(&wrong); err != nil {
		return err
	}
	if _, err := s.diff(s.Stages, true, &wrong); err != nil {
		return err
	}
	return wrong.Err()
}

// checkFolders compares the folders that look like stages with the declared ones.
func (s *Set) checkFolders(wrong *repo.Problems) {
	for _, stage := range s.Stages {
		if len(s.trees[stage]) == 0 {
			wrong.Add(File, stage.Line, "%s has no files; create it or take the stanza out", stage.Name)
		}
	}
	seen := map[string]bool{}
	for _, name := range s.Files {
		dir, rest, in := strings.Cut(name, "/")
		if !in || seen[dir] || dir == "lab" || dir == "tools" || !(rest == "go.mod" || partNumber.MatchString(dir)) {
			continue
		}
		seen[dir] = true
		if _, err := s.find(dir); err != nil {
			wrong.Add(name, 1, "%s is not declared; give it a stanza in %s", dir, File)
		}
	}
}

// checkChanges compares what a stage changes with what it declares and may spend.
func (s *Set) checkChanges(stage *Stage, wrong *repo.Problems) {
	old, new := s.inherited(stage), s.trees[stage]
	before := "an empty folder"
	if stage.Prev != nil {
		before = stage.Prev.Name
	}
	used := make([]bool, len(stage.Decls))
	var added, removed int
	for _, c := range compare(old, new) {
		if c.path == "go.sum" {
			continue
		}
		if !stage.shared(c.path) {
			added, removed = added+c.added, removed+c.removed
		}
		declared := false
		for i, d := range stage.Decls {
			if d.holds(c.path) && (d.Kind == c.kind || d.Kind == "shared" && c.kind == "add") {
				used[i], declared = true, true
			}
		}
		if declared {
			continue
		}
		name, carry := stage.Name+"/"+c.path, fmt.Sprintf("declare %q in %s", c.kind+" "+c.path, File)
		if c.kind != "add" {
			carry += ", or go run ./tools/stages propagate --from " + before
		}
		switch line, was, is := repo.FirstDiff(repo.Lines(c.old.data), repo.Lines(c.new.data)); {
		case c.kind == "add":
			wrong.Add(name, 1, "new, but not declared; %s", carry)
		case c.kind == "remove":
			wrong.Add(name, 1, "missing, but in %s; %s", before, carry)
		case line == 0:
			wrong.Add(name, 1, "mode %s, in %s %s; %s", mode(c.new), before, mode(c.old), carry)
		default:
			wrong.Add(name, line, "has %q, %s has %q; %s", is, before, was, carry)
		}
	}
	for i, d := range stage.Decls {
		if used[i] {
			continue
		}
		a, before := old[d.Path]
		b, after := new[d.Path]
		state := "does not exist"
		switch {
		case strings.HasSuffix(d.Path, "/"):
			state = "has no such file"
		case before && after && a.equal(b):
			state = "is the same as in " + stage.Prev.Name
		case before && after:
			state = "is changed"
		case before:
			state = "is removed"
		case after:
			state = "is added"
		}
		wrong.Add(File, d.Line, "%s declares %q, but it %s; correct the declaration or the stage", stage.Name, d.Kind+" "+d.Path, state)
	}
	if added > stage.Budget.Added || removed > stage.Budget.Removed {
		wrong.Add(File, stage.Budget.Line, "%s adds %d lines and removes %d, its budget is +%d -%d; make the stage smaller or the budget larger",
			stage.Name, added, removed, stage.Budget.Added, stage.Budget.Removed)
	}
}

var (
	partNumber = regexp.MustCompile(`part[0-9]`)
	// A year is no part of an IPv6 address, such as 2001:db8::1.
	banned = regexp.MustCompile(`(part[0-9][a-z-]*)|(?:^|[^\w:])(20[0-9][0-9])(?:[^\w:]|$)|\b(TODO|FIXME)\b`)
)

// checkSource looks for what would make every later stage edit a line, and for
// imports that would make a stage need more than its own folder.
func (s *Set) checkSource(stage *Stage, wrong *repo.Problems) {
	for _, p := range slices.Sorted(maps.Keys(s.trees[stage])) {
		name, data := stage.Name+"/"+p, s.trees[stage][p].data
		if base := path.Base(p); base == "go.sum" || base == ".terraform.lock.hcl" {
			continue // hashes
		}
		own := stage.Name
		if p == "go.mod" || path.Ext(p) == ".go" {
			own = "/" + own // as part of a module path only
		}
		for i, line := range repo.Lines(data) {
			if m := banned.FindStringSubmatch(strings.ReplaceAll(line, own, "")); m != nil {
				wrong.Add(name, i+1, "%q; take it out: a stage names no parts, years or things to do", strings.Join(m[1:], ""))
			}
		}
	}
	mod := modfile.ModulePath(s.trees[stage]["go.mod"].data)
	prefix, ok := strings.CutSuffix(mod, "/"+stage.Name)
	if !ok {
		wrong.Add(stage.Name+"/go.mod", 1, "module %q; it has to end in /%s", mod, stage.Name)
		return
	}
	for _, p := range slices.Sorted(maps.Keys(s.trees[stage])) {
		if path.Ext(p) != ".go" {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, stage.Name+"/"+p, s.trees[stage][p].data, parser.ImportsOnly)
		if err != nil {
			*wrong = append(*wrong, err.Error())
			continue
		}
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
			if strings.HasPrefix(imp, prefix+"/") && imp != mod && !strings.HasPrefix(imp, mod+"/") {
				wrong.Add(stage.Name+"/"+p, fset.Position(spec.Pos()).Line, "import of %s; a stage imports nothing of the repository but itself", imp)
			}
		}
	}
}

// checkModules holds all modules to one Go version, and those of the workspace
// to one version of each requirement: so that a stage built alone is the
// program that the tests of the workspace test.
func (s *Set) checkModules(wrong *repo.Problems) error {
	data, err := s.Read("go.work")
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		return err
	}
	if work.Go == nil || work.Go.Version != goVersion {
		wrong.Add("go.work", 1, "does not say go %s; all modules do", goVersion)
	}
	used := map[string]bool{}
	for _, u := range work.Use {
		used[path.Join(u.Path, "go.mod")] = true
	}
	for _, stage := range s.Stages {
		if !used[stage.Name+"/go.mod"] {
			wrong.Add("go.work", 1, "does not use ./%s; go work use ./%s", stage.Name, stage.Name)
		}
	}
	type requirement struct {
		version, file string
		line          int
	}
	all, newest := map[string][]requirement{}, map[string]string{}
	for _, name := range s.Files {
		if path.Base(name) != "go.mod" || strings.Contains(name, "testdata/") {
			continue
		}
		data, err := s.Read(name)
		if err != nil {
			return err
		}
		mod, err := modfile.Parse(name, data, nil)
		if err != nil {
			*wrong = append(*wrong, err.Error())
			continue
		}
		if mod.Go == nil || mod.Go.Version != goVersion {
			line := 1
			if mod.Go != nil {
				line = mod.Go.Syntax.Start.Line
			}
			wrong.Add(name, line, "does not say go %s; all modules do", goVersion)
		}
		for _, r := range mod.Require {
			p, v := r.Mod.Path, r.Mod.Version
			if !used[name] {
				break
			}
			all[p] = append(all[p], requirement{v, name, r.Syntax.Start.Line})
			if semver.Compare(v, newest[p]) > 0 {
				newest[p] = v
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(all)) {
		for _, r := range all[p] {
			if r.version != newest[p] {
				wrong.Add(r.file, r.line, "requires %s %s, another module of the workspace %s; go work sync makes them equal", p, r.version, newest[p])
			}
		}
	}
	return nil
}
