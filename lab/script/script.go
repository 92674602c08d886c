// Package script runs testscript files against a lab of their own and the
// cloud-controller-manager under test.
package script

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"example.com/ccm-from-scratch/lab/stack"
)

// T lets a script run as a part of a Go test.
type T struct{ *testing.T }

// Run implements [testscript.T].
func (t T) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(T{t}) })
}

// Verbose implements [testscript.T].
func (t T) Verbose() bool { return testing.Verbose() }

// Options say how to run scripts.
type Options struct {
	Root    string    // of the repository
	CCM     string    // the stage or binary under test
	Log     io.Writer // what we wait for
	Narrate io.Writer // show every command and its output; nil for not at all

	// Within is how long eventually waits unless a script says otherwise; 0 means 30 s.
	Within time.Duration
}

// Runner runs scripts on one CCM.
type Runner struct {
	options Options
	binary  string
}

// NewRunner builds the CCM if it is a stage.
func NewRunner(ctx context.Context, o Options) (*Runner, error) {
	binary, err := stack.BuildCCM(ctx, o.Root, o.CCM, o.Log)
	if err != nil {
		return nil, err
	}
	return &Runner{options: o, binary: binary}, nil
}

type sessionKey struct{}

// Run runs one script as a part of t.
func (r *Runner) Run(ctx context.Context, t testscript.T, file string) {
	narrated := file
	if r.options.Narrate != nil {
		var err error
		if narrated, err = withTitles(file); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(filepath.Dir(narrated))
	}
	testscript.RunT(&reporter{T: t}, testscript.Params{
		Files:              []string{narrated},
		Setup:              func(env *testscript.Env) error { return r.setup(ctx, env) },
		Cmds:               r.commands(ctx),
		Condition:          r.condition,
		RequireUniqueNames: true,
	})
}

// setup starts the script's own lab.
func (r *Runner) setup(ctx context.Context, env *testscript.Env) error {
	s, err := stack.Start(ctx, stack.Options{Log: r.options.Log, Audit: filepath.Join(env.WorkDir, "audit.log")})
	if err != nil {
		return err
	}
	session := &session{
		stack:   s,
		binary:  r.binary,
		logPath: filepath.Join(env.WorkDir, "ccm.log"),
		narrate: r.options.Narrate,
		within:  cmp.Or(r.options.Within, defaultWithin),
	}
	t := env.T()
	env.Defer(func() {
		if err := session.close(); err != nil {
			t.Fatal(err)
		}
	})
	if t, ok := t.(*reporter); ok {
		t.session = session
	}
	for _, variable := range s.Environ() {
		key, value, _ := strings.Cut(variable, "=")
		env.Setenv(key, value)
	}
	// The sources of the stage, for scripts about its files.
	env.Setenv("STAGE", filepath.Join(r.options.Root, r.options.CCM))
	env.Values[sessionKey{}] = session
	return nil
}

// condition makes [ccm:part1-skeleton] true if that is the CCM under test.
func (r *Runner) condition(condition string) (bool, error) {
	if name, ok := strings.CutPrefix(condition, "ccm:"); ok {
		return name == r.options.CCM, nil
	}
	return false, fmt.Errorf("unknown condition %q", condition)
}

// commands makes testscript commands of the verbs.
func (r *Runner) commands(ctx context.Context) map[string]func(*testscript.TestScript, bool, []string) {
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for _, verb := range (&session{}).verbs() {
		name := verb.Name()
		commands[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			s := ts.Value(sessionKey{}).(*session)
			s.workDir = func() string { return ts.MkAbs(".") }
			s.printed = func() string { return ts.ReadFile("stdout") }
			s.setenv = ts.Setenv

			var out, errOut bytes.Buffer
			s.tell(name, args)
			err := s.run(ctx, &out, &errOut, append([]string{name}, args...)...)
			s.tellOutput(name, args, out.String()+errOut.String())

			_, _ = ts.Stdout().Write(out.Bytes())
			_, _ = ts.Stderr().Write(errOut.Bytes())
			switch {
			case err != nil && !neg:
				ts.Fatalf("%s: %v", name, err)
			case err != nil:
				fmt.Fprintln(ts.Stderr(), err)
			case neg:
				ts.Fatalf("%s succeeded, but should have failed", name)
			}
		}
	}
	return commands
}

// tell shows a command to whoever watches, in the form that works in a shell of
// theirs. What a verb waits for is shown as if it had been there at once.
func (s *session) tell(name string, args []string) {
	if s.narrate == nil {
		return
	}
	if name == "eventually" || name == "never" {
		i := slices.IndexFunc(args, func(arg string) bool { return slices.Contains(waitable, arg) })
		name, args = args[i], args[i+1:]
	}
	switch name {
	case "cloud":
		fmt.Fprintf(s.narrate, "$ go run ./lab cloud %s\n", shellJoin(args))
	case "kubectl":
		fmt.Fprintf(s.narrate, "$ kubectl %s\n", shellJoin(args))
	case "ccm":
		fmt.Fprintf(s.narrate, "(ccm %s)\n", shellJoin(args))
	}
}

// tellOutput shows what a command printed, unless that is a whole log.
func (s *session) tellOutput(name string, args []string, out string) {
	if s.narrate == nil || (name == "ccm" && slices.Contains(args, "log")) {
		return
	}
	fmt.Fprint(s.narrate, out)
}

var plainArgument = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellJoin quotes arguments so that they can be pasted into a shell.
func shellJoin(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		if !plainArgument.MatchString(arg) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		quoted[i] = arg
	}
	return strings.Join(quoted, " ")
}

// withTitles returns a copy of a script in which the verb show replaces the
// comment of each phase, on the same line.
func withTitles(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	script, archive, _ := bytes.Cut(text, []byte("\n-- "))
	lines := strings.Split(string(script), "\n")
	for i, line := range lines {
		if title, ok := strings.CutPrefix(line, "# "); ok {
			lines[i] = "show '" + strings.ReplaceAll(title, "'", "''") + "'"
		}
	}
	titled := strings.Join(lines, "\n")
	if len(archive) > 0 {
		titled += "\n-- " + string(archive)
	}
	dir, err := os.MkdirTemp("", "ccm-lab-script-")
	if err != nil {
		return "", err
	}
	copied := filepath.Join(dir, filepath.Base(file))
	return copied, os.WriteFile(copied, []byte(titled), 0o644)
}

// reporter adds the session's report to the log of a script that fails.
type reporter struct {
	testscript.T
	session *session
	report  strings.Builder
}

func (r *reporter) Run(name string, f func(testscript.T)) {
	r.T.Run(name, func(t testscript.T) { f(&reporter{T: t}) })
}

// Parallel does nothing: each script has a control plane of its own, and several
// of them at once make all of them slow.
func (r *reporter) Parallel() {}

// FailNow makes the report at once: afterwards the lab is stopped.
func (r *reporter) FailNow() {
	if r.session != nil && r.report.Len() == 0 {
		r.session.report(&r.report)
	}
	r.T.FailNow()
}

func (r *reporter) Log(args ...any) {
	r.T.Log(append(args, r.report.String())...)
}

// RunFiles runs scripts outside of go test, and says on out how each of them
// went. It returns an error if one has failed.
func (r *Runner) RunFiles(ctx context.Context, out io.Writer, files []string) error {
	var failed []string
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t := &plainT{out: out}
		start := time.Now()
		t.Run(file, func(t testscript.T) { r.Run(ctx, t, file) })
		verdict := "ok"
		if t.failed {
			verdict = "FAIL"
			failed = append(failed, file)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%.1fs\n", verdict, r.options.CCM, file, time.Since(start).Seconds())
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed on %s: %s", r.options.CCM, strings.Join(failed, " "))
	}
	return nil
}

// plainT implements testscript.T outside of go test.
type plainT struct {
	out    io.Writer
	failed bool
}

var errFailNow = errors.New("FailNow")

func (t *plainT) Skip(args ...any)  { t.Fatal(append([]any{"SKIP: "}, args...)...) }
func (t *plainT) Fatal(args ...any) { t.Log(args...); t.FailNow() }
func (t *plainT) Parallel()         {}
func (t *plainT) Verbose() bool     { return false }
func (t *plainT) FailNow()          { panic(errFailNow) }

// Log prints nothing of a script that has passed: testscript logs as it ends.
func (t *plainT) Log(args ...any) {
	if text := fmt.Sprint(args...); !strings.HasSuffix(strings.TrimSpace(text), "PASS") {
		fmt.Fprintln(t.out, strings.TrimSuffix(text, "\n"))
	}
}

func (t *plainT) Run(_ string, f func(testscript.T)) {
	defer func() {
		if r := recover(); r == any(errFailNow) {
			t.failed = true
		} else if r != nil {
			panic(r)
		}
	}()
	f(t)
}
