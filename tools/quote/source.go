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

// part is a range of lines of a source that a selector can name: from the one
// with the index from to the one before the index to.
type part struct {
	name     string
	from, to int
}

// line is a line of a source, and its number, counted from 1.
type line struct {
	text string
	n    int
}

// selectorForm is names of parts, and {/block/} or /first/,/last/.
var selectorForm = regexp.MustCompile(`^(.*?) ?(?:\{/([^/]+)/\}|/([^/]+)/,/([^/]+)/)?$`)

// choose returns the lines of a source that a selector means: the parts that it
// names, or all of it, and of each a range, if there is one. Parts have an empty
// line between them.
func choose(source, text, selector string) ([]line, error) {
	m := selectorForm.FindStringSubmatch(selector)
	names, first, last := m[1], m[2]+m[3], m[4]
	chosen, err := parts(source, text, names)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(text, "\n")
	var out []line
	for i, p := range chosen {
		if first != "" {
			if p, err = p.narrow(lines, first, last); err != nil {
				return nil, err
			}
		}
		if i > 0 {
			out = append(out, line{"", p.from + 1})
		}
		out = append(out, p.lines(lines)...)
	}
	if len(out) == 0 {
		return nil, errors.New("nothing there; quote something else")
	}
	return out, nil
}

// parts returns the parts of a source that have these names; without names the
// whole.
func parts(source, text, names string) ([]part, error) {
	if names == "" {
		return []part{{"", 0, strings.Count(text, "\n") + 1}}, nil
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

// lines returns the lines of a part without the indentation that all of them
// share, and without empty ones at the end.
func (p part) lines(lines []string) []line {
	for p.to > p.from && strings.TrimSpace(lines[p.to-1]) == "" {
		p.to--
	}
	shared := math.MaxInt
	for _, text := range lines[p.from:p.to] {
		if text != "" {
			shared = min(shared, indent(text))
		}
	}
	var out []line
	for i := p.from; i < p.to; i++ {
		out = append(out, line{lines[i][min(len(lines[i]), shared):], i + 1})
	}
	return out
}

func indent(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// narrow returns the lines of a part from the only one that matches first to
// the next that matches last or, without last, to the end of the block.
func (p part) narrow(lines []string, first, last string) (part, error) {
	begin, err := regexp.Compile(first)
	if err != nil {
		return p, err
	}
	end, err := regexp.Compile(last)
	if err != nil {
		return p, err
	}
	i := slices.IndexFunc(lines[p.from:p.to], begin.MatchString)
	if i < 0 || slices.ContainsFunc(lines[p.from+i+1:p.to], begin.MatchString) {
		return p, fmt.Errorf("/%s/ matches no line, or several; make it match one", first)
	}
	p.from += i
	n := blockLen(lines[p.from:p.to])
	if last != "" {
		n = slices.IndexFunc(lines[p.from:p.to], end.MatchString) + 1
	}
	if n == 0 {
		return p, fmt.Errorf("/%s/ matches no line from line %d on; make it match one", last, p.from+1)
	}
	p.to = p.from + n
	return p, nil
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
		all = append(all, part{name, from, fset.Position(n.End()).Line})
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
	end := strings.Count(string(archive.Comment), "\n")
	var all []part
	inComment := false
	for i, text := range strings.Split(text, "\n")[:end] {
		title, isComment := strings.CutPrefix(text, "#")
		if isComment && !inComment || len(all) == 0 {
			all = append(all, part{name: `"` + strings.TrimSpace(title) + `"`, from: i})
		}
		all[len(all)-1].to = i + 1
		inComment = isComment
	}
	for _, f := range archive.Files {
		from := end + 1
		end = from + strings.Count(string(f.Data), "\n")
		all = append(all, part{"-- " + f.Name + " --", from, end})
	}
	return all
}
