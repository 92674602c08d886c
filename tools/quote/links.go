package main

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

var (
	codeSpan = regexp.MustCompile("``.+?``|`[^`]*`")
	heading  = regexp.MustCompile(`^#{1,6}\s+(.*\S)`)
	linkText = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	// punctuation is all but letters, marks, numbers, spaces, hyphens and underscores.
	punctuation = regexp.MustCompile(`[^\pL\pM\pN _-]`)
	link        = regexp.MustCompile(`\]\(\s*<?((?:[^()\s<>]|\([^()\s]*\))+)` + // [text](target)
		`|^ {0,3}\[[^\]^][^\]]*\]:\s+<?([^\s<>]+)` + // [label]: target
		`|\b(?:src|href)="([^"]*)"|<(https?:[^>]*)>`)
)

// links looks for links of the pages to files and headings that do not exist.
// Links out of the repository are parsed only.
func links(r *repo.Repo) {
	for _, name := range r.Files {
		if path.Ext(name) != ".md" {
			continue
		}
		for i, text := range outside(strings.Split(r.Read(name), "\n")) {
			for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
				target := strings.Join(m[1:], "") // one of them is not empty
				if err := follow(r, name, target); err != nil {
					r.Add(name, i+1, "link to %q: %w", target, err)
				}
			}
		}
	}
}

func follow(r *repo.Repo, page, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return fmt.Errorf("%w; correct it", err)
	}
	if u.Scheme != "" {
		return nil
	}
	file := page
	switch {
	case strings.HasPrefix(u.Path, "/"):
		file = path.Join(".", u.Path)
	case u.Path != "":
		file = path.Join(path.Dir(page), u.Path)
	}
	if file != "." && !slices.ContainsFunc(r.Files, func(f string) bool { return strings.HasPrefix(f+"/", file+"/") }) {
		return fmt.Errorf("the repository has no %s; correct the path", file)
	}
	if u.Fragment != "" && !slices.Contains(anchors(r.Read(file)), u.Fragment) {
		return fmt.Errorf("%s has no heading #%s; correct the anchor", file, u.Fragment)
	}
	return nil
}

// anchors returns the names that links have for the headings of a page, by
// GitHub's rule: lower case, punctuation dropped, hyphens for spaces, a number
// after a repetition.
func anchors(page string) []string {
	var all []string
	for _, text := range outside(strings.Split(page, "\n")) {
		m := heading.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		text = punctuation.ReplaceAllString(linkText.ReplaceAllString(m[1], "$1"), "")
		slug := strings.ReplaceAll(strings.ToLower(text), " ", "-")
		unique := slug
		for n := 1; slices.Contains(all, unique); n++ {
			unique = fmt.Sprintf("%s-%d", slug, n)
		}
		all = append(all, unique)
	}
	return all
}
