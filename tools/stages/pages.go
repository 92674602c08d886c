package main

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

//go:embed pages.tmpl
var tmpl string

var templates = template.Must(template.New("").Funcs(template.FuncMap{"trimSuffix": strings.TrimSuffix}).Parse(tmpl))

// render executes one of the templates of pages.tmpl.
func render(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the template does not fit its data
	}
	return b.String()
}

// pages calls want with each page that is generated, or has a part that is, and
// what it has to be: the diff page of each stage, and its article with the table.
func (s *set) pages(want func(name, text string)) {
	for _, st := range s.stages {
		if len(st.tree) == 0 {
			continue // nothing to show yet
		}
		want("docs/diffs/"+st.Name+".md", render("diff", st))
		article := "docs/" + st.Name + ".md"
		if !slices.Contains(s.Files, article) {
			continue
		}
		mark, end := "<!-- changes "+st.Name+" -->\n", "<!-- /changes -->\n"
		head, rest, begun := strings.Cut(s.Read(article), mark)
		_, tail, ended := strings.Cut(rest, end)
		if !begun || !ended || strings.Contains(tail, mark) {
			s.Add(article, 1, "has no place for the table of changes; add the lines %s and %s, once each",
				strings.TrimSpace(mark), strings.TrimSpace(end))
			continue
		}
		want(article, head+mark+render("changes", st)+end+tail)
	}
}

// writePages makes the pages what they have to be, and prints those that it changes.
func (s *set) writePages() error {
	s.pages(func(name, text string) {
		if s.Write(name, text) {
			fmt.Println(name)
		}
	})
	return s.Err()
}

// checkPages compares the pages with what they have to be.
func (s *set) checkPages() {
	s.pages(func(name, text string) {
		have, _ := os.ReadFile(name) // one that does not exist is empty
		if line, is, should := repo.FirstDiff(string(have), text); line > 0 {
			s.Add(name, line, "has %q, should have %q; go run ./tools/stages diff", is, should)
		}
	})
}

// begin makes a new stage as a copy of the last one, declares it, and makes its
// pages where they do not exist.
func (s *set) begin(name string) error {
	if !header.MatchString(name + ": x") {
		return fmt.Errorf("%q is no stage name; use lower-case letters, digits and hyphens", name)
	}
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s exists already; choose another name", name)
	}
	last := s.stages[len(s.stages)-1]
	for path, text := range last.handedOn(last.tree, name) {
		s.Write(name+"/"+path, text)
	}
	stanza := fmt.Sprintf("\n%s: one sentence that says what it adds\n  budget +0 -0\n", name)
	s.Write(declaration, s.Read(declaration)+stanza)
	for page, text := range map[string]string{".md": render("article", name), ".txtar": "# set-up\n"} {
		if page = "docs/" + name + page; !slices.Contains(s.Files, page) {
			s.Write(page, text)
		}
	}
	if _, err := repo.Run("go", "work", "use", "./"+name); err != nil {
		return err
	}
	if err := s.Err(); err != nil {
		return err
	}
	s, err := open()
	if err != nil {
		return err
	}
	return s.writePages()
}
