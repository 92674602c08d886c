package quote

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

var (
	codeSpan = regexp.MustCompile("``.+?``|`[^`]*`")
	heading  = regexp.MustCompile(`^ {0,3}#{1,6}\s+(.*?)(\s+#+)?\s*$`)
	anchor   = regexp.MustCompile(`<[^>]*\b(?:id|name)="([^"]+)"`)
	linkText = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	// link finds targets: [text](target), [label]: target, HTML attributes, <https://...>.
	link = regexp.MustCompile(`\]\(\s*<?((?:[^()\s<>]|\([^()\s]*\))+)|^ {0,3}\[[^\]^][^\]]*\]:\s+<?([^\s<>]+)|\b(?:src|href)="([^"]*)"|<(https?:[^>]*)>`)
)

// outside returns the lines of a page with those of its fences made empty.
func outside(lines []string) []string {
	out := slices.Clone(lines)
	for _, f := range fences(lines) {
		for i := f.open; i <= f.end && i < len(out); i++ {
			out[i] = ""
		}
	}
	return out
}

// Links looks for links of the pages to files and headings that do not exist.
// Links out of the repository are parsed only.
func Links(r *repo.Repo) error {
	pages := map[string][]string{}
	exists := map[string]bool{".": true}
	for _, name := range r.Files {
		for p := name; p != "."; p = path.Dir(p) {
			exists[p] = true
		}
		if path.Ext(name) == ".md" {
			data, err := r.Read(name)
			if err != nil {
				return err
			}
			pages[name] = outside(repo.Lines(data))
		}
	}
	var wrong repo.Problems
	for _, name := range r.Files {
		if !isPage(name) {
			continue
		}
		for i, text := range pages[name] {
			for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
				target := strings.Join(m[1:], "") // one of them is not empty
				if err := follow(name, target, exists, pages); err != nil {
					wrong.Add(name, i+1, "link to %q: %v", target, err)
				}
			}
		}
	}
	return wrong.Err()
}

func follow(page, target string, exists map[string]bool, pages map[string][]string) error {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return fmt.Errorf("%w; correct it", err)
	case u.Scheme == "http" || u.Scheme == "https":
		if u.Host == "" {
			return fmt.Errorf("no host; correct it")
		}
		return nil
	case u.Scheme != "" || u.Host != "": // mailto and the like
		return nil
	}
	file := page
	switch {
	case strings.HasPrefix(u.Path, "/"):
		file = strings.TrimPrefix(path.Clean(u.Path), "/")
	case u.Path != "":
		file = path.Join(path.Dir(page), u.Path)
	}
	if file == "" {
		file = "."
	}
	if !exists[file] {
		return fmt.Errorf("the repository has no %s; correct the path", file)
	}
	if u.Fragment != "" && !slices.Contains(anchors(pages[file]), u.Fragment) {
		return fmt.Errorf("%s has no heading #%s; correct the anchor", file, u.Fragment)
	}
	return nil
}

// anchors returns what a link into a page can name: its headings by GitHub's
// rule (lower case, punctuation dropped, hyphens for spaces, a number after a
// repetition), and the ids of HTML elements.
func anchors(lines []string) []string {
	var all []string
	for _, text := range lines {
		for _, m := range anchor.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
			all = append(all, m[1])
		}
		m := heading.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		slug := strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '-'
			case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsMark(c) || unicode.IsNumber(c):
				return unicode.ToLower(c)
			}
			return -1
		}, linkText.ReplaceAllString(m[1], "$1"))
		unique := slug
		for n := 1; slices.Contains(all, unique); n++ {
			unique = fmt.Sprintf("%s-%d", slug, n)
		}
		all = append(all, unique)
	}
	return all
}
