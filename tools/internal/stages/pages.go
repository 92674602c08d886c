package stages

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

// Diff writes the diff pages of the named stages, of all if there is no name,
// and the tables in their articles. It returns the files that it changed. With
// check it writes nothing, and the error names what it would change.
func (s *Set) Diff(names []string, check bool) (changed []string, err error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	stages := s.Stages
	if len(names) > 0 {
		stages = nil
	}
	for _, name := range names {
		stage, err := s.find(name)
		if err != nil {
			return nil, err
		}
		stages = append(stages, stage)
	}
	var wrong repo.Problems
	changed, err = s.diff(stages, check, &wrong)
	if err != nil {
		return changed, err
	}
	return changed, wrong.Err()
}

func (s *Set) diff(stages []*Stage, check bool, wrong *repo.Problems) (changed []string, err error) {
	for _, stage := range stages {
		if len(s.trees[stage]) == 0 {
			continue // nothing to show yet
		}
		changes := compare(s.inherited(stage), s.trees[stage])
		pages := map[string]string{"docs/diffs/" + stage.Name + ".md": stage.page(changes)}
		if article := "docs/" + stage.Name + ".md"; slices.Contains(s.Files, article) {
			data, err := s.Read(article)
			if err != nil {
				return changed, err
			}
			if text, ok := stage.article(string(data), changes); ok {
				pages[article] = text
			} else {
				wrong.Add(article, 1, "has no place for the table of changes; add the lines %s and %s, once each", stage.mark(), endMark)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(pages)) {
			want := []byte(pages[name])
			if !check {
				wrote, err := s.Write(name, want, false)
				if err != nil {
					return changed, err
				}
				if wrote {
					changed = append(changed, name)
				}
				continue
			}
			var have []byte
			if slices.Contains(s.Files, name) {
				if have, err = s.Read(name); err != nil {
					return changed, err
				}
			}
			if line, is, should := repo.FirstDiff(repo.Lines(have), repo.Lines(want)); line > 0 {
				wrong.Add(name, line, "has %q, should have %q; go run ./tools/stages diff %s", is, should, stage.Name)
			}
		}
	}
	return changed, nil
}

const endMark = "<!-- /changes -->"

func (s *Stage) mark() string { return "<!-- changes " + s.Name + " -->" }

// article returns the text of an article with the table of changes in its place.
func (s *Stage) article(text string, changes []change) (string, bool) {
	head, rest, ok := strings.Cut(text, s.mark()+"\n")
	_, tail, closed := strings.Cut(rest, endMark+"\n")
	if !ok || !closed || strings.Contains(tail, s.mark()) || strings.Contains(tail, endMark) {
		return "", false
	}
	what := "Every line of it, against an empty folder: "
	if s.Prev != nil {
		what = fmt.Sprintf("Every line of it, against `%s`: ", s.Prev.Name)
	}
	return fmt.Sprintf("%s%s\n\n%s\n%s[diffs/%s.md](diffs/%s.md).\n\n%s\n%s",
		head, s.mark(), s.table(changes), what, s.Name, s.Name, endMark, tail), true
}

// table lists the files that a stage changes with their numbers of lines.
func (s *Stage) table(changes []change) string {
	var b strings.Builder
	row := func(name string, added, removed int) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, n := range []struct {
			sign  string
			lines int
		}{{"+", added}, {"−", removed}} {
			if n.lines > 0 {
				fmt.Fprintf(&b, " %s%d", n.sign, n.lines)
			}
			b.WriteString(" |")
		}
		b.WriteByte('\n')
	}
	b.WriteString("| file | added | removed |\n| --- | ---: | ---: |\n")
	var added, removed int
	var without []string
	for _, c := range changes {
		name := "`" + c.path + "`"
		switch {
		case c.path == "go.sum":
			without = append(without, "`go.sum`")
		case s.shared(c.path):
			name += " (shared)"
			if !slices.Contains(without, "shared files") {
				without = append(without, "shared files")
			}
		default:
			added, removed = added+c.added, removed+c.removed
		}
		if c.kind == "remove" {
			name += " (gone)"
		}
		row(name, c.added, c.removed)
	}
	sum := "sum"
	if len(without) > 0 {
		sum += " without " + strings.Join(without, " and ")
	}
	row(sum, added, removed)
	return b.String()
}

var ticks = regexp.MustCompile("`{3,}")

// page returns the diff page of a stage: Markdown that is a patch as well,
// since git apply skips all but the diffs in it.
func (s *Stage) page(changes []change) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: the diff\n\n", s.Name)
	fmt.Fprintf(&b, "This is every line that [%s](../%s.md) (%s) changes", s.Name, s.Name, s.Feature)
	if s.Prev == nil {
		fmt.Fprintf(&b, ": all of it, since nothing comes before it.\n")
	} else {
		fmt.Fprintf(&b, ",\ncompared with a copy of `%s` in which the name `%s` is replaced by `%s`.\n", s.Prev.Name, s.Prev.Name, s.Name)
	}
	b.WriteString("The page is a patch: `git apply` reads it as it is. To get the stage from the previous one, in the root of the repository:\n\n```sh\n")
	if s.Prev == nil {
		b.WriteString("mkdir mine\n")
	} else {
		fmt.Fprintf(&b, "cp -R %s mine\n", s.Prev.Name)
		for _, d := range s.Prev.Decls {
			if d.Kind == "shared" {
				fmt.Fprintf(&b, "rm -r mine/%s\n", strings.TrimSuffix(d.Path, "/"))
			}
		}
		fmt.Fprintf(&b, "grep -rl %s mine | xargs perl -pi -e 's/%s/%s/g'\n", s.Prev.Name, s.Prev.Name, s.Name)
	}
	fmt.Fprintf(&b, "git apply --directory=mine docs/diffs/%s.md\n", s.Name)
	b.WriteString("(cd mine && GOWORK=off go mod tidy)\n```\n\n`go.sum` is only counted here; the last line makes it.\n\n")
	b.WriteString(s.table(changes))
	for _, c := range changes {
		if c.path == "go.sum" {
			continue
		}
		fence := "```"
		for _, t := range ticks.FindAllString(c.patch, -1) {
			if len(t) >= len(fence) {
				fence = t + "`"
			}
		}
		fmt.Fprintf(&b, "\n## %s\n\n%sdiff\n%s%s\n", c.path, fence, c.patch, fence)
	}
	return b.String()
}
