package repo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFirstDiff(t *testing.T) {
	type result struct {
		Line     int
		InA, InB string
	}
	tests := []struct {
		name, a, b string
		want       result
	}{
		{"the same", "a\nb\n", "a\nb\n", result{}},
		{"both empty", "", "", result{}},
		{"a line", "a\nb\n", "a\nc\n", result{2, "b", "c"}},
		{"longer", "a\n", "a\nb\n", result{2, "", "b"}},
		{"an empty line more", "a\n\n", "a\n", result{2, "", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got result
			got.Line, got.InA, got.InB = FirstDiff(tt.a, tt.b)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
