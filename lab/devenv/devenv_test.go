package devenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// devEnv is the folder under test.
var devEnv = func() string {
	dir, err := filepath.Abs("../../part2-devenv/dev-env")
	if err != nil {
		panic(err)
	}
	return dir
}()

// cleanEnv is the environment without what belongs to the person who runs the
// tests: tokens, clusters, and settings of the programs under test.
func cleanEnv() []string {
	var env []string
	for _, variable := range os.Environ() {
		switch name, _, _ := strings.Cut(variable, "="); {
		case strings.HasPrefix(name, "TF_"), strings.HasPrefix(name, "HCLOUD_"), strings.HasPrefix(name, "SKAFFOLD_"),
			strings.HasPrefix(name, "KO_"), name == "KUBECONFIG", name == "PATH":
		default:
			env = append(env, variable)
		}
	}
	return env
}

// recorder puts a program into bin that stands for one that is not here, or has
// no servers to work with. It writes its arguments and its input to the file log.
func recorder(t *testing.T, bin, name, log string) {
	t.Helper()
	script := fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >> '%s'\n[ -t 0 ] || cat >> '%s'\n", name, log, log)
	if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
}
