// Package repo gives the commands what they share: the repository's files, and
// one way to say what is wrong in them.
package repo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Repo is a working tree.
type Repo struct {
	Root  string   // absolute path of the folder with go.work
	Files []string // what git tracks or would add: sorted, relative to Root, with slashes
}

// Open finds the repository around the working directory.
func Open() (*Repo, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return nil, errors.New("no go.work here or above; run this inside the repository")
		}
	}
	r := &Repo{Root: dir}
	// Git knows which files are part of the work: a Terraform state or a
	// binary beside the source is ignored there, so it is here.
	out, err := r.Git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if _, err := os.Lstat(r.Path(name)); name != "" && err == nil {
			r.Files = append(r.Files, name)
		}
	}
	slices.Sort(r.Files)
	return r, nil
}

// Git runs git in the root and returns its standard output.
func (r *Repo) Git(args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stderr = r.Root, &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("git %s: %w\n%s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// Path returns the path of a file for the operating system.
func (r *Repo) Path(name string) string {
	return filepath.Join(r.Root, filepath.FromSlash(name))
}

// Read returns a file's content.
func (r *Repo) Read(name string) ([]byte, error) {
	return os.ReadFile(r.Path(name))
}

// Write makes data the content of a file, and its folder if need be. A file
// that has this content and mode already is not touched.
func (r *Repo) Write(name string, data []byte, exec bool) (changed bool, err error) {
	file, mode := r.Path(name), os.FileMode(0o644)
	if exec {
		mode = 0o755
	}
	old, err := os.ReadFile(file)
	if info, statErr := os.Stat(file); err == nil && statErr == nil && bytes.Equal(old, data) && info.Mode()&0o111 == mode&0o111 {
		return false, nil
	}
	return true, errors.Join(
		os.MkdirAll(filepath.Dir(file), 0o755),
		os.WriteFile(file, data, mode),
		os.Chmod(file, mode), // of a file that was there
	)
}

// Under returns the files of a folder, with their paths relative to it.
func (r *Repo) Under(dir string) []string {
	var names []string
	for _, name := range r.Files {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			names = append(names, rest)
		}
	}
	return names
}

// Lines splits a text into its lines, without their ends.
func Lines(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// FirstDiff returns the number of the first line, counted from 1, that differs
// between two texts, and this line in both ("" beyond the end); 0 if none does.
func FirstDiff(a, b []string) (line int, inA, inB string) {
	for i := range max(len(a), len(b)) {
		inA, inB = "", ""
		if i < len(a) {
			inA = a[i]
		}
		if i < len(b) {
			inB = b[i]
		}
		if inA != inB || i >= len(a) || i >= len(b) {
			return i + 1, inA, inB
		}
	}
	return 0, "", ""
}

// Problems collects everything that is wrong, so that a run reports all of it.
type Problems []string

// Add notes what is wrong at a line of a file, and what to do about it.
func (p *Problems) Add(file string, line int, format string, args ...any) {
	*p = append(*p, fmt.Sprintf("%s:%d: %s", file, line, fmt.Sprintf(format, args...)))
}

// Err returns nil if there are no problems.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Error gives each problem a line.
func (p Problems) Error() string { return strings.Join(p, "\n") }

// Run executes a command line and ends the process, with status 1 after an error.
func Run(cmd *cobra.Command) {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.CompletionOptions.DisableDefaultCmd = true
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
