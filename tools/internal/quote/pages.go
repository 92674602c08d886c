package quote

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

// quoteMark is the comment above the fence of a quote: path and selector.
var quoteMark = regexp.MustCompile(`^<!-- quote (\S+)(?: (.*\S))? *-->\s*$`)

const fragmentMark = "<!-- fragment -->"

// fence is a fenced block of a page, without indentation or other prefix.
type fence struct {
	open, end int // indexes of its opening and its closing line
	marks     string
	lang      string
	above     string // the line above it
	prefix    string // indentation or quotation marks before it
}

var fenceOpen = regexp.MustCompile("^([ \t>]*)(`{3,}|~{3,})\\s*([^\\s`]*)[^`]*$")

// fences finds the fenced blocks of a page.
func fences(lines []string) []fence {
	var all []fence
	for i := 0; i < len(lines); i++ {
		m := fenceOpen.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		f := fence{open: i, prefix: m[1], marks: m[2], lang: m[3]}
		if i > 0 {
			f.above = lines[i-1]
		}
		for i++; i < len(lines) && !closes(strings.TrimLeft(lines[i], " \t>"), f.marks); i++ {
		}
		f.end = i
		all = append(all, f)
	}
	return all
}

// closes says whether a line ends a fence.
func closes(text, marks string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, marks) && strings.Trim(text, marks[:1]) == ""
}

// isPage says whether quotes and links of a file are looked at.
func isPage(name string) bool {
	return path.Ext(name) == ".md" && !strings.Contains("/"+name, "/testdata/")
}

// Check compares every quote with its source and looks for code that should be
// a quote, and for phases of scripts that no page quotes.
func Check(r *repo.Repo) error { return run(r, false) }

// Update makes every quote equal to its source. The error is what Check would
// still find.
func Update(r *repo.Repo) error { return run(r, true) }

func run(r *repo.Repo, update bool) error {
	var wrong repo.Problems
	quoted := map[string]bool{} // page, source and selector of each quote
	for _, name := range r.Files {
		if !isPage(name) || strings.HasPrefix(name, "docs/diffs/") {
			continue
		}
		data, err := r.Read(name)
		if err != nil {
			return err
		}
		lines := repo.Lines(data)
		var out []string
		done := 0 // lines that out has
		marks := map[int]bool{}
		for _, f := range fences(lines) {
			m := quoteMark.FindStringSubmatch(f.above)
			if m == nil || f.prefix != "" {
				if f.lang == "go" && f.above != fragmentMark {
					wrong.Add(name, f.open+1, "Go code that is no quote; put <!-- quote PATH SELECTOR --> or %s above it, both at the left edge", fragmentMark)
				}
				continue
			}
			marks[f.open-1] = true
			quoted[name+" "+m[1]+" "+m[2]] = true
			for _, title := range titles(m[2]) {
				quoted[name+" "+m[1]+` "`+title+`"`] = true
			}
			want, have := source(r, name, f, m[1], m[2], &wrong), lines[f.open+1:min(f.end, len(lines))]
			if want == nil {
				continue
			}
			texts := make([]string, len(want))
			for i, l := range want {
				texts[i] = l.text
			}
			if update {
				out = append(append(out, lines[done:f.open+1]...), texts...)
				done = f.end
				continue
			}
			if n, is, should := repo.FirstDiff(have, texts); n > 0 {
				wrong.Add(name, f.open+1+n, "has %q, but %s:%d: %q; go run ./tools/quote update", is, m[1], want[min(n, len(want))-1].n, should)
			}
		}
		if out != nil {
			out = append(out, lines[done:]...)
			if _, err := r.Write(name, []byte(strings.Join(out, "\n")+"\n"), false); err != nil {
				return err
			}
		}
		for i, text := range outside(lines) {
			if strings.HasPrefix(strings.TrimSpace(text), "<!-- quote ") && !marks[i] {
				wrong.Add(name, i+1, "a quote without its fence; put the fence below it, both at the left edge")
			}
		}
	}
	if err := unquoted(r, quoted, &wrong); err != nil {
		return err
	}
	return wrong.Err()
}

// source returns the lines that a fence has to have, or notes why there are none.
func source(r *repo.Repo, page string, f fence, name, selector string, wrong *repo.Problems) []line {
	if !slices.Contains(r.Files, name) {
		wrong.Add(page, f.open, "quote of %s; the repository has no such file", name)
		return nil
	}
	data, err := r.Read(name)
	if err != nil {
		wrong.Add(page, f.open, "%v", err)
		return nil
	}
	lines, err := choose(name, data, selector)
	if err != nil {
		wrong.Add(page, f.open, "quote of %s: %v", name, err)
		return nil
	}
	for _, l := range lines {
		if closes(l.text, f.marks) {
			wrong.Add(page, f.open+1, "%s:%d would end the fence; use a longer one", name, l.n)
			return nil
		}
	}
	return lines
}

// unquoted looks for phases of the scripts in docs that their pages do not quote.
func unquoted(r *repo.Repo, quoted map[string]bool, wrong *repo.Problems) error {
	for _, name := range r.Files {
		if path.Dir(name) != "docs" || path.Ext(name) != ".txtar" {
			continue
		}
		// A script without a page of its own belongs to that of a shorter name.
		page := strings.TrimSuffix(name, ".txtar")
		for ; page != "" && !slices.Contains(r.Files, page+".md"); page = page[:max(0, strings.LastIndexByte(page, '-'))] {
		}
		if page += ".md"; page == ".md" {
			wrong.Add(name, 1, "a script without a page; write %s.md", strings.TrimSuffix(name, ".txtar"))
			continue
		}
		data, err := r.Read(name)
		if err != nil {
			return err
		}
		all, err := phases(numbered(data))
		if err != nil {
			wrong.Add(name, 1, "%v", err)
		}
		for _, p := range all {
			commands := slices.ContainsFunc(p.lines, func(l line) bool { return l.text != "" && l.text[0] != '#' })
			if commands && !strings.HasPrefix(p.title, "set-up") && !quoted[page+" "+name+` "`+p.title+`"`] && !quoted[page+" "+name+" "] {
				wrong.Add(name, p.lines[0].n, "%s does not quote the phase %q; quote it, or let its comment begin with # set-up", page, p.title)
			}
		}
	}
	return nil
}
