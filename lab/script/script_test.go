package script

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"example.com/ccm-from-scratch/lab/stack"
)

// redWithin is how long a script may wait for what will not happen.
const redWithin = 4 * time.Second

func root(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// stages returns the stages that stages.txt declares.
func stages(t *testing.T) []string {
	t.Helper()
	names, err := stack.Stages(root(t))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func newRunner(t *testing.T, o Options) *Runner {
	t.Helper()
	o.Log = t.Output()
	if o.Root == "" {
		o.Root = root(t)
	}
	runner, err := NewRunner(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// TestScripts runs the scripts of each stage on that stage and on the last one,
// and sees them fail at their checkpoint on the stage before. With
// CCM_LAB_MATRIX=full they run on all stages in between as well, and the last
// stage in a bigger cluster.
func TestScripts(t *testing.T) {
	t.Parallel()
	full := os.Getenv("CCM_LAB_MATRIX") == "full"
	names := stages(t)
	for i, stage := range names {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			main := filepath.Join(root(t), "docs", stage+".txtar")
			scripts, err := filepath.Glob(filepath.Join(root(t), "docs", stage+"*.txtar"))
			if err != nil || len(scripts) == 0 {
				t.Fatalf("no scripts of %s: %v", stage, err)
			}
			for j, ccm := range names[i:] {
				if j > 0 && i+j < len(names)-1 && !full {
					continue
				}
				t.Run("on "+ccm, func(t *testing.T) {
					t.Parallel()
					runner := newRunner(t, Options{CCM: ccm})
					for _, script := range scripts {
						t.Run(filepath.Base(script), func(t *testing.T) {
							t.Parallel()
							runner.Run(t.Context(), T{t}, script)
						})
					}
				})
			}
			if i == len(names)-1 && full {
				t.Run("scale", func(t *testing.T) {
					t.Parallel()
					newRunner(t, Options{CCM: stage}).Run(t.Context(), T{t}, "testdata/scale.txtar")
				})
			}
			if i > 0 {
				t.Run("red on "+names[i-1], func(t *testing.T) {
					t.Parallel()
					red(t, names[i-1], main)
				})
			}
		})
	}
}

// red checks that a script fails on a CCM, in the phase that is its checkpoint,
// and that the page of the script shows what it prints then.
func red(t *testing.T, ccm, script string) {
	runner := newRunner(t, Options{CCM: ccm, Within: redWithin})
	var out bytes.Buffer
	plain := &plainT{out: &out}
	plain.Run(script, func(pt testscript.T) { runner.Run(t.Context(), pt, script) })
	if !plain.failed {
		t.Fatalf("%s passes on %s", filepath.Base(script), ccm)
	}

	log := regexp.MustCompile(` \(\d+\.\d+s\)`).ReplaceAllString(out.String(), "")
	log = strings.ReplaceAll(log, root(t)+string(filepath.Separator), "")
	phases := regexp.MustCompile(`(?m)^# .*`).FindAllString(log, -1)
	if len(phases) == 0 || !strings.HasPrefix(phases[len(phases)-1], "# checkpoint: ") {
		t.Errorf("%s fails on %s outside of its checkpoint:\n%s", filepath.Base(script), ccm, log)
	}

	page := strings.TrimSuffix(script, ".txtar") + ".md"
	for _, line := range redLines(t, page) {
		_, rest, found := strings.Cut(log, line+"\n")
		if !found {
			t.Errorf("%s shows %q, which the failing script does not print here:\n%s", filepath.Base(page), line, log)
			break
		}
		log = rest
	}
}

// redLines returns the lines in the fence below <!-- red STAGE --> of a page.
func redLines(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	fence := regexp.MustCompile("(?s)<!-- red [a-z0-9-]+ -->\n```text\n(.*?)\n```\n").FindSubmatch(text)
	if fence == nil {
		t.Fatalf("%s does not show how its script fails on the stage before: no <!-- red STAGE --> above a text fence", page)
	}
	return strings.Split(string(fence[1]), "\n")
}

// TestAnswers applies the answer to each exercise to its stage, and runs the
// answer's script on the result.
func TestAnswers(t *testing.T) {
	t.Parallel()
	answers, err := filepath.Glob(filepath.Join(root(t), "docs", "answers", "*.patch"))
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range stages(t) {
		for n := 1; n <= 3; n++ {
			patch := filepath.Join(root(t), "docs", "answers", fmt.Sprintf("%s-%d.patch", stage, n))
			t.Run(strings.TrimSuffix(filepath.Base(patch), ".patch"), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if err := os.CopyFS(filepath.Join(dir, stage), os.DirFS(filepath.Join(root(t), stage))); err != nil {
					t.Fatal(err)
				}
				work := fmt.Sprintf("go 1.26.0\n\nuse ./%s\n", stage)
				if err := os.WriteFile(filepath.Join(dir, "go.work"), []byte(work), 0o644); err != nil {
					t.Fatal(err)
				}
				command(t, filepath.Join(dir, stage), "git", "apply", patch)
				if out := command(t, filepath.Join(dir, stage), "gofmt", "-l", "."); out != "" {
					t.Errorf("not formatted: %s", out)
				}
				runner := newRunner(t, Options{Root: dir, CCM: stage})
				runner.Run(t.Context(), T{t}, strings.TrimSuffix(patch, ".patch")+".txtar")
			})
		}
	}
	if want := 3 * len(stages(t)); len(answers) != want {
		t.Errorf("docs/answers has %d patches, want %d: three for each stage", len(answers), want)
	}
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestParseExpectation(t *testing.T) {
	tests := []struct {
		args    []string
		out     string
		want    bool // out is what the expectation describes
		wantErr bool
	}{
		{args: []string{"^b$", "ccm", "log"}, out: "a\nb\n", want: true},
		{args: []string{"^c$", "ccm", "log"}, out: "a\nb\n", want: false},
		{args: []string{"!", "^c$", "ccm", "log"}, out: "a\nb\n", want: true},
		{args: []string{"!", "^b$", "ccm", "log"}, out: "a\nb\n", want: false},
		{args: []string{"x"}, wantErr: true},
		{args: []string{"!", "x"}, wantErr: true},
		{args: []string{"(", "ccm", "log"}, wantErr: true},
		{args: []string{"x", "eventually", "ccm"}, wantErr: true},
		{args: []string{"--witin", "5s", "x", "ccm", "log"}, wantErr: true},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			e, err := parseExpectation(test.args)
			if (err != nil) != test.wantErr {
				t.Fatalf("error = %v, want one: %t", err, test.wantErr)
			}
			if err == nil && e.matches(test.out) != test.want {
				t.Errorf("%s: matches(%q) = %t", e, test.out, !test.want)
			}
		})
	}
}

// TestPlainT checks that a failing script fails outside of go test as well.
func TestPlainT(t *testing.T) {
	for _, test := range []struct {
		name   string
		f      func(testscript.T)
		failed bool
	}{
		{"passes", func(testscript.T) {}, false},
		{"FailNow", func(t testscript.T) { t.FailNow() }, true},
		{"Fatal", func(t testscript.T) { t.Fatal("reason") }, true},
		{"Skip", func(t testscript.T) { t.Skip("reason") }, true},
		{"below", func(t testscript.T) { t.Run("below", func(t testscript.T) { t.FailNow() }) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			plain := &plainT{out: t.Output()}
			plain.Run(test.name, test.f)
			if plain.failed != test.failed {
				t.Errorf("failed = %t, want %t", plain.failed, test.failed)
			}
		})
	}
	t.Run("panics", func(t *testing.T) {
		defer func() {
			if r := recover(); r == nil {
				t.Error("a panic was taken for a failure")
			}
		}()
		(&plainT{out: t.Output()}).Run("panics", func(testscript.T) { panic(errors.New("a bug")) })
	})
}
