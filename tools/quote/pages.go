package main

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

const fragmentMark = "<!-- fragment -->"

var (
	// quoteMark is the comment above the fence of a quote: path and selector.
	quoteMark = regexp.MustCompile(`^<!-- quote (\S+)(?: (.*\S))? *-->\s*$`)
	fenceOpen = regexp.MustCompile("^([ \t>]*)(`{3,})\\s*([^\\s`]*)[^`]*$")
)

// fence is a fenced block of a page.
type fence struct {
	open, end int    // indexes of its opening and its closing line
	above     string // the line above it
	prefix    string // indentation or quotation marks before it
	marks     string
	lang      string
}

// fences finds the fenced blocks of a page.
func fences(lines []string) []fence {
	var all []fence
	for i := 0; i < len(lines); i++ {
		m := fenceOpen.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		f := fence{open: i, above: lines[max(i-1, 0)], prefix: m[1], marks: m[2], lang: m[3]}
		for i++; i < len(lines) && !f.closedBy(lines[i]); i++ {
		}
		f.end = i
		all = append(all, f)
	}
	return all
}

func (f fence) closedBy(text string) bool {
	text = strings.Trim(text, " \t>")
	return strings.HasPrefix(text, f.marks) && strings.Trim(text, "`") == ""
}

// outside returns the lines of a page with those of its fences made empty.
func outside(lines []string) []string {
	out := slices.Clone(lines)
	for _, f := range fences(lines) {
		clear(out[f.open:min(f.end+1, len(out))])
	}
	return out
}

// quotes compares every quote with its source, or makes it equal, and looks for
// code that should be a quote, and for phases of scripts that no page quotes.
func quotes(r *repo.Repo, update bool) {
	quoted := map[string]string{} // all quotes of a source
	for _, name := range r.Files {
		if path.Ext(name) == ".md" && !strings.HasPrefix(name, "docs/diffs/") {
			quotesOf(r, name, update, quoted)
		}
	}
	for _, name := range r.Files {
		if path.Dir(name) != "docs" || path.Ext(name) != ".txtar" {
			continue
		}
		for _, p := range sections(r.Read(name)) {
			isPhase := p.line > 0 && slices.ContainsFunc(p.lines, func(s string) bool { return s != "" && s[0] != '#' })
			if isPhase && !strings.HasPrefix(p.name, `"set-up`) && !strings.Contains(quoted[name], dedent(p.lines)+"\n") {
				r.Add(name, p.line, "no page quotes the phase %s; quote it, or let its comment begin with # set-up", p.name)
			}
		}
	}
}

// quotesOf looks at one page, and adds what it quotes.
func quotesOf(r *repo.Repo, name string, update bool, quoted map[string]string) {
	lines := strings.Split(r.Read(name), "\n")
	var out []string
	done := 0 // lines that out has
	for _, f := range fences(lines) {
		m := quoteMark.FindStringSubmatch(f.above)
		if m == nil || f.prefix != "" {
			if f.lang == "go" && f.above != fragmentMark {
				r.Add(name, f.open+1, "Go code that is no quote; "+
					"put <!-- quote PATH SELECTOR --> or %s above it, both at the left edge", fragmentMark)
			}
			continue
		}
		source := m[1]
		if !slices.Contains(r.Files, source) {
			r.Add(name, f.open, "quote of %s; the repository has no such file", source)
			continue
		}
		want, err := choose(source, r.Read(source), m[2])
		if err != nil {
			r.Add(name, f.open, "quote of %s: %w", source, err)
			continue
		}
		quoted[source] += want + "\n"
		have := strings.Join(lines[f.open+1:min(f.end, len(lines))], "\n")
		n, is, should := repo.FirstDiff(have+"\n", want+"\n")
		switch {
		case slices.ContainsFunc(strings.Split(want, "\n"), f.closedBy):
			r.Add(name, f.open+1, "%s has a line that would end the fence; use a longer one", source)
		case update:
			out = append(append(out, lines[done:f.open+1]...), want)
			done = f.end
		case n > 0:
			r.Add(name, f.open+1+n, "has %q, but %s has %q; go run ./tools/quote update", is, source, should)
		}
	}
	if update {
		r.Write(name, strings.Join(append(out, lines[done:]...), "\n"))
	}
	for i, text := range outside(lines) {
		isQuote := quoteMark.MatchString(text) && strings.HasPrefix(lines[min(i+1, len(lines)-1)], "```")
		if strings.HasPrefix(strings.TrimSpace(text), "<!-- quote ") && !isQuote {
			r.Add(name, i+1, "a quote without its fence; put the fence below it, both at the left edge")
		}
	}
}
