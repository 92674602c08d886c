// Package repo gives the commands what they share: the repository's files, and
// one way to say what is wrong in them.
package repo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Repo is a working tree, and what was found wrong in it.
type Repo struct {
	Files []string // what git tracks or would add: sorted paths from the root
	wrong []error
}

// Open makes the root of the repository the working directory, so that the
// path of a file from there opens it. Git knows which files are part of the
// work: a Terraform state or a binary beside the source is ignored.
func Open() (*Repo, error) {
	root, err := Run("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	if err := os.Chdir(strings.TrimSpace(root)); err != nil {
		return nil, err
	}
	names, err := Run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(strings.Split(names, "\x00"), func(name string) bool {
		_, err := os.Lstat(name)
		return err != nil // deleted, but still in the index
	})
	slices.Sort(files)
	return &Repo{Files: files}, nil
}

// Run runs a program and returns its standard output, after an error too.
func Run(name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), err
}

// Add notes what is wrong at a line of a file, and what to do about it.
func (r *Repo) Add(file string, line int, format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Errorf("%s:%d: "+format, append([]any{file, line}, args...)...))
}

// Err returns all that was found wrong, a line each; nil if there is nothing.
func (r *Repo) Err() error { return errors.Join(r.wrong...) }

// Read returns the text of a file. If there is none, that is noted as wrong.
func (r *Repo) Read(name string) string {
	data, err := os.ReadFile(name)
	if err != nil {
		r.Add(name, 1, "%w", err)
	}
	return string(data)
}

// Write makes text the content of a file. One that has it already is not
// touched. A failure is noted as wrong.
func (r *Repo) Write(name, text string) (changed bool) {
	if old, err := os.ReadFile(name); err == nil && string(old) == text {
		return false
	}
	if err := errors.Join(os.MkdirAll(path.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		r.Add(name, 1, "%w", err)
	}
	return true
}

// FirstDiff returns the number of the first line, counted from 1, that differs
// between two texts, and this line in both ("" beyond the end); 0 if none does.
func FirstDiff(a, b string) (line int, inA, inB string) {
	as, bs := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return i + 1, strings.TrimSuffix(as[i], "\n"), strings.TrimSuffix(bs[i], "\n")
		}
	}
	return 0, "", ""
}

// Main executes a command line and ends the process, with status 1 after an error.
func Main(cmd *cobra.Command) {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.CompletionOptions.DisableDefaultCmd = true
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
