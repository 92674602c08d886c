package ccm

import "testing"

func TestParseProviderID(t *testing.T) {
	tests := []struct {
		providerID string
		want       int64 // 0 means an error
	}{
		{"hcloud://1", 1},
		{"hcloud://9223372036854775807", 1<<63 - 1},
		{"", 0},
		{"42", 0},
		{"hcloud://", 0},
		{"hcloud://0", 0},
		{"hcloud://-1", 0},
		{"hcloud://+1", 0},
		{"hcloud://01", 0},
		{"hcloud://1 ", 0},
		{"hcloud:///1", 0},
		{"hcloud://9223372036854775808", 0},
		{"hcloud://worker-1", 0},
		{"hcloud://bm-1", 0},
		{"HCLOUD://1", 0},
		{"hrobot://1", 0},
		{"k3s://worker-1", 0},
	}
	for _, test := range tests {
		t.Run(test.providerID, func(t *testing.T) {
			got, err := parseProviderID(test.providerID)
			if got != test.want || (err != nil) != (test.want == 0) {
				t.Errorf("parseProviderID(%q) = %d, %v; want %d", test.providerID, got, err, test.want)
			}
			if err == nil && providerID(got) != test.providerID {
				t.Errorf("providerID(%d) = %q, want %q", got, providerID(got), test.providerID)
			}
		})
	}
}
