// Package treetest runs scripts on small repositories. It serves tests only.
package treetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

// Run runs the scripts of a folder, each in a git repository of its own that
// holds the files of the archive testdata/tree.txtar, committed.
//
// A script has one more command: sub FILE OLD NEW replaces a text that has to
// be there exactly once.
func Run(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			tree, err := txtar.ParseFile(filepath.Join("testdata", "tree.txtar"))
			if err != nil {
				return err
			}
			if err := txtar.Write(tree, env.WorkDir); err != nil {
				return err
			}
			for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
				out, err := exec.Command("go", "env", name).Output()
				if err != nil {
					return err
				}
				env.Setenv(name, strings.TrimSpace(string(out)))
			}
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+who+"_NAME", "A Reader")
				env.Setenv("GIT_"+who+"_EMAIL", "reader@example.com")
			}
			env.Setenv("GOPROXY", "off")
			for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "a tree"}} {
				cmd := exec.Command("git", args...)
				cmd.Dir, cmd.Env = env.WorkDir, append(env.Vars, "PATH="+os.Getenv("PATH"))
				if out, err := cmd.CombinedOutput(); err != nil {
					env.T().Log(string(out))
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"sub": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 3 {
					ts.Fatalf("usage: sub FILE OLD NEW")
				}
				text := ts.ReadFile(args[0])
				if n := strings.Count(text, args[1]); n != 1 {
					ts.Fatalf("%s has %q %d times", args[0], args[1], n)
				}
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, args[1], args[2], 1)), 0o644))
			},
		},
	})
}
