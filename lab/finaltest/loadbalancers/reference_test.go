package loadbalancers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/ccm-from-scratch/lab/stack"
)

// TestReferencePage compares the page of all annotations with the table that the
// binary has.
func TestReferencePage(t *testing.T) {
	t.Parallel()
	binary, err := stack.BuildCCM(t.Context(), root(t), stage, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	want, err := exec.CommandContext(t.Context(), binary, "reference", "annotations").Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "final-annotations.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(page), "\n\n"+string(want)) {
		t.Error("docs/final-annotations.md does not end with what `go run ./final reference annotations` prints")
	}
}
