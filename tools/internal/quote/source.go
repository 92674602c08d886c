// Package quote keeps the Markdown pages true: quotes equal their sources, and
// links lead somewhere.
package quote

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

// line is a line of a source and its number, counted from 1.
type line struct {
	text string
	n    int
}

func numbered(data []byte) []line {
	var lines []line
	for i, text := range repo.Lines(data) {
		lines = append(lines, line{text, i + 1})
	}
	return lines
}

// lineRange is the selector of lines: {/block/} or /only/ or /first/,/last/.
// A slash in a pattern is written \/.
var lineRange = regexp.MustCompile(`(?:^| )(?:\{/((?:\\.|[^/\\])+)/\}|/((?:\\.|[^/\\])+)/(?:,/((?:\\.|[^/\\])+)/)?)$`)

// choose returns the lines of a source that a selector means: a part by name,
// if there is a name, and of this part a range, if there is a range.
func choose(name string, data []byte, selector string) ([]line, error) {
	lines := numbered(data)
	part, block, first, last := selector, "", "", ""
	if m := lineRange.FindStringSubmatch(selector); m != nil {
		part, block, first, last = strings.TrimSuffix(selector, m[0]), m[1], m[2], m[3]
	}
	var err error
	switch {
	case part == "":
	case path.Ext(name) == ".go":
		lines, err = declarations(data, lines, strings.Fields(part))
	case path.Ext(name) == ".txtar" && strings.HasPrefix(part, "-- "):
		lines, err = archived(lines, part)
	case path.Ext(name) == ".txtar" && titles(part) != nil:
		lines, err = phasesByTitle(lines, titles(part))
	default:
		err = fmt.Errorf("no selector %s; see tools/README.md", part)
	}
	if err == nil && block+first != "" {
		lines, err = cut(lines, block+first, last, block != "") // one of them is empty
		lines = dedent(lines)
	}
	return trim(lines), err
}

// cut returns the lines from the only one that matches first to the next that
// matches last, or to the end of the block that begins there.
func cut(lines []line, first, last string, block bool) ([]line, error) {
	re, err := regexp.Compile(strings.ReplaceAll(first, `\/`, `/`))
	if err != nil {
		return nil, err
	}
	from := -1
	for i, l := range lines {
		if !re.MatchString(l.text) {
			continue
		}
		if from >= 0 {
			return nil, fmt.Errorf("/%s/ matches lines %d and %d; make it match one", first, lines[from].n, l.n)
		}
		from = i
	}
	if from < 0 {
		return nil, fmt.Errorf("/%s/ matches no line; make it match one", first)
	}
	lines = lines[from:]
	if block {
		return lines[:blockLen(lines)], nil
	}
	if last == "" {
		return lines[:1], nil
	}
	if re, err = regexp.Compile(strings.ReplaceAll(last, `\/`, `/`)); err != nil {
		return nil, err
	}
	for i, l := range lines {
		if re.MatchString(l.text) {
			return lines[:i+1], nil
		}
	}
	return nil, fmt.Errorf("/%s/ matches no line from line %d on; make it match one", last, lines[0].n)
}

// blockLen counts the lines of the block that the first line begins: to the
// closing bracket if it ends in an open one, else as far as lines are indented
// deeper. A YAML sequence may stand no deeper than its key.
func blockLen(lines []line) int {
	open := lines[0].text
	if strings.HasSuffix(open, "{") || strings.HasSuffix(open, "[") || strings.HasSuffix(open, "(") {
		depth := 0
		for i, l := range lines {
			for _, c := range l.text {
				switch c {
				case '{', '[', '(':
					depth++
				case '}', ']', ')':
					depth--
				}
			}
			if depth <= 0 {
				return i + 1
			}
		}
		return len(lines)
	}
	isItem := func(s string) bool { return strings.HasPrefix(strings.TrimLeft(s, " "), "- ") }
	for i, l := range lines[1:] {
		if l.text == "" || indent(l.text) > indent(open) ||
			indent(l.text) == indent(open) && isItem(l.text) && !isItem(open) {
			continue
		}
		return i + 1
	}
	return len(lines)
}

func indent(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// trim takes the empty lines off the end.
func trim(lines []line) []line {
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1].text) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// dedent takes off the indentation that all lines share.
func dedent(lines []line) []line {
	shared := ""
	for i, l := range lines {
		switch in := l.text[:indent(l.text)]; {
		case l.text == "":
		case i == 0:
			shared = in
		default:
			for !strings.HasPrefix(in, shared) {
				shared = shared[:len(shared)-1]
			}
		}
	}
	out := make([]line, len(lines))
	for i, l := range lines {
		out[i] = line{strings.TrimPrefix(l.text, shared), l.n}
	}
	return out
}

// declarations returns Go declarations by name, with their comments, and an
// empty line between two.
func declarations(src []byte, lines []line, names []string) ([]line, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	type span struct{ from, to int }
	found := map[string][]span{}
	add := func(name string, doc *ast.CommentGroup, n ast.Node) {
		from := n.Pos()
		if doc != nil {
			from = doc.Pos()
		}
		found[name] = append(found[name], span{fset.Position(from).Line - 1, fset.Position(n.End()).Line})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(receiver(d)+d.Name.Name, d.Doc, d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				var names []*ast.Ident
				var doc *ast.CommentGroup
				switch s := s.(type) {
				case *ast.TypeSpec:
					names, doc = []*ast.Ident{s.Name}, s.Doc
				case *ast.ValueSpec:
					names, doc = s.Names, s.Doc
				}
				for _, name := range names {
					if d.Lparen.IsValid() { // a member of a group stands alone
						add(name.Name, doc, s)
					} else {
						add(name.Name, d.Doc, d)
					}
				}
			}
		}
	}
	var out []line
	for _, name := range names {
		spans := found[name]
		if len(spans) != 1 {
			return nil, fmt.Errorf("%d declarations of %s; it has to be one", len(spans), name)
		}
		out = join(out, dedent(lines[spans[0].from:spans[0].to]))
	}
	return out, nil
}

// receiver returns the type of a method's receiver and a dot.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

// archived returns a file of a txtar archive by its marker.
func archived(lines []line, marker string) ([]line, error) {
	var at []int
	for i, l := range lines {
		if isMarker(l.text) && strings.TrimSpace(l.text) == marker {
			at = append(at, i+1)
		}
	}
	if len(at) != 1 {
		return nil, fmt.Errorf("%d files %s; it has to be one", len(at), marker)
	}
	to := at[0]
	for to < len(lines) && !isMarker(lines[to].text) {
		to++
	}
	return lines[at[0]:to], nil
}

// isMarker says whether a line begins a file of a txtar archive.
func isMarker(text string) bool { return len(txtar.Parse([]byte(text)).Files) > 0 }

// A phase of a script begins with a comment, whose first line is its title.
type scriptPhase struct {
	title string
	lines []line
}

// phases splits the script of a txtar archive.
func phases(lines []line) ([]scriptPhase, error) {
	var all []scriptPhase
	inComment := false
	for _, l := range lines {
		if isMarker(l.text) {
			break
		}
		comment := strings.HasPrefix(l.text, "#")
		if comment && !inComment {
			all = append(all, scriptPhase{title: strings.TrimSpace(strings.TrimPrefix(l.text, "#"))})
		}
		inComment = comment
		if len(all) > 0 {
			all[len(all)-1].lines = append(all[len(all)-1].lines, l)
		} else if l.text != "" {
			return nil, errors.New("a command before the first phase; begin with a comment line, like # set-up")
		}
	}
	return all, nil
}

// titles returns the titles in a selector of phases, nil if it is another one.
func titles(selector string) []string {
	if len(selector) < 2 || selector[0] != '"' || selector[len(selector)-1] != '"' {
		return nil
	}
	return strings.Split(selector[1:len(selector)-1], `" "`)
}

// phasesByTitle returns phases, and an empty line between two.
func phasesByTitle(lines []line, titles []string) ([]line, error) {
	all, err := phases(lines)
	if err != nil {
		return nil, err
	}
	found := map[string][]scriptPhase{}
	for _, p := range all {
		found[p.title] = append(found[p.title], p)
	}
	var out []line
	for _, title := range titles {
		if n := len(found[title]); n != 1 {
			return nil, fmt.Errorf("%d phases %q; it has to be one", n, title)
		}
		out = join(out, trim(found[title][0].lines))
	}
	return out, nil
}

// join appends a part to a text, with an empty line between them.
func join(text, part []line) []line {
	if len(text) > 0 {
		text = append(text, line{"", part[0].n})
	}
	return append(text, part...)
}
