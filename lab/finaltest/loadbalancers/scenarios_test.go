// Package loadbalancers tests the load balancers of final from the outside: the
// built binary, a real API server, an emulated cloud.
package loadbalancers

import (
	"path/filepath"
	"strings"
	"testing"

	"example.com/ccm-from-scratch/lab/script"
)

// stage is the CCM under test.
const stage = "final"

func root(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestScenarios runs the scripts in testdata, which are named for the public bug
// report that they tell again.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	runner, err := script.NewRunner(t.Context(), script.Options{Root: root(t), CCM: stage, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			runner.Run(t.Context(), script.T{T: t}, file)
		})
	}
}
