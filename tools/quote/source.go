package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// part is a piece of a source that a selector can name.
type part struct {
	name  string
	line  int // of the source, the first, counted from 1
	lines []string
}

// selectorForm is names of parts, and {/block/} or /first/,/last/.
var selectorForm = regexp.MustCompile(`^(.*?) ?(?:\{/([^/]+)/\}|/([^/]+)/,/([^/]+)/)?$`)

// choose returns the text of a source that a selector means: the parts that it
// names, or all of it, and of each a range, if there is one. Parts have an empty
// line between them.
func choose(source, text, selector string) (string, error) {
	m := selectorForm.FindStringSubmatch(selector)
	chosen, err := parts(source, text, m[1])
	if err != nil {
		return "", err
	}
	var texts []string
	for _, p := range chosen {
		lines, err := narrow(p.lines, m[2]+m[3], m[4])
		if err != nil {
			return "", err
		}
		texts = append(texts, dedent(lines))
	}
	return strings.Join(texts, "\n\n"), nil
}

// parts returns the parts of a source that have these names; without names the
// whole.
func parts(source, text, names string) ([]part, error) {
	if names == "" {
		return []part{{lines: strings.Split(text, "\n")}}, nil
	}
	var all, chosen []part
	var err error
	wanted := strings.Fields(names)
	switch path.Ext(source) {
	case ".go":
		all, err = declarations(text)
	case ".txtar": // titles have spaces and even quotation marks
		all = sections(text)
		wanted = strings.Split(strings.ReplaceAll(names, `" "`, "\"\n\""), "\n")
	}
	for _, name := range wanted {
		isIt := func(p part) bool { return p.name == name }
		i := slices.IndexFunc(all, isIt)
		if err == nil && (i < 0 || slices.ContainsFunc(all[i+1:], isIt)) {
			err = fmt.Errorf("no part is named %s, or several are; it has to be one", name)
		}
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// dedent takes off the indentation that all lines share, and empty lines at the end.
func dedent(lines []string) string {
	shared := math.MaxInt
	for _, text := range lines {
		if text != "" {
			shared = min(shared, indent(text))
		}
	}
	var out strings.Builder
	for _, text := range lines {
		out.WriteString(text[min(len(text), shared):] + "\n")
	}
	return strings.TrimRight(out.String(), "\n")
}

func indent(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// narrow returns the lines from the only one that matches first to the next
// that matches last or, without last, to the end of the block; without first all.
func narrow(lines []string, first, last string) ([]string, error) {
	if first == "" {
		return lines, nil
	}
	begin, err := regexp.Compile(first)
	end, errEnd := regexp.Compile(last)
	if err := errors.Join(err, errEnd); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(lines, begin.MatchString)
	if i < 0 || slices.ContainsFunc(lines[i+1:], begin.MatchString) {
		return nil, fmt.Errorf("/%s/ matches no line, or several; make it match one", first)
	}
	lines = lines[i:]
	if last == "" {
		return lines[:blockLen(lines)], nil
	}
	if i = slices.IndexFunc(lines, end.MatchString); i < 0 {
		return nil, fmt.Errorf("/%s/ matches no line from /%s/ on; make it match one", last, first)
	}
	return lines[:i+1], nil
}

// blockLen counts the lines of the block that the first line begins: all that
// are indented deeper, then a closing bracket. A YAML sequence may stand no
// deeper than its key.
func blockLen(lines []string) int {
	isItem := func(s string) bool { return strings.HasPrefix(strings.TrimLeft(s, " "), "- ") }
	for i, text := range lines[1:] {
		depth := indent(text) - indent(lines[0])
		switch {
		case text == "" || depth > 0 || depth == 0 && isItem(text) && !isItem(lines[0]):
		case depth == 0 && strings.ContainsAny(text[indent(text):][:1], "}])"):
			return i + 2
		default:
			return i + 1
		}
	}
	return len(lines)
}

// declarations returns Go declarations with the comments above them. A member
// of a group in parentheses stands alone.
func declarations(src string) ([]part, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(src, "\n")
	var all []part
	add := func(name string, n ast.Node) {
		from := fset.Position(n.Pos()).Line - 1
		for from > 0 && strings.HasPrefix(strings.TrimSpace(lines[from-1]), "//") {
			from--
		}
		all = append(all, part{name, from + 1, lines[from:fset.Position(n.End()).Line]})
	}
	for _, d := range f.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			name := f.Name.Name
			if f.Recv != nil {
				receiver, _, _ := strings.Cut(types.ExprString(f.Recv.List[0].Type), "[")
				name = strings.TrimPrefix(receiver, "*") + "." + name
			}
			add(name, f)
			continue
		}
		group := d.(*ast.GenDecl) // the parser has refused what is neither
		for _, s := range group.Specs {
			node := ast.Node(s)
			if !group.Lparen.IsValid() {
				node = group
			}
			switch s := s.(type) {
			case *ast.TypeSpec:
				add(s.Name.Name, node)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					add(name.Name, node)
				}
			}
		}
	}
	return all, nil
}

// sections returns the phases of a script, named by their titles in quotation
// marks, and the files of its archive, named by their markers. A phase begins
// with a comment, whose first line is its title.
func sections(text string) []part {
	archive := txtar.Parse([]byte(text))
	var all []part
	inComment := false
	for i, text := range strings.Split(string(archive.Comment), "\n") {
		title, isComment := strings.CutPrefix(text, "#")
		if isComment && !inComment || i == 0 {
			all = append(all, part{name: `"` + strings.TrimSpace(title) + `"`, line: i + 1})
		}
		last := &all[len(all)-1]
		last.lines = append(last.lines, text)
		inComment = isComment
	}
	for _, f := range archive.Files {
		all = append(all, part{name: "-- " + f.Name + " --", lines: strings.Split(string(f.Data), "\n")})
	}
	return all
}
