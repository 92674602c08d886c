package providerid

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		in      string
		want    int64
		wantErr string
	}{
		{in: "hcloud://1", want: 1},
		{in: "hcloud://9223372036854775807", want: 9223372036854775807},
		{in: "", wantErr: "does not have the form"},
		{in: "1", wantErr: "does not have the form"},
		{in: "hcloud://", wantErr: "does not have the form"},
		{in: "hcloud://0", wantErr: "does not have the form"},
		{in: "hcloud://-1", wantErr: "does not have the form"},
		{in: "hcloud://01", wantErr: "does not have the form"},
		{in: "hcloud://1x", wantErr: "does not have the form"},
		{in: "hcloud:///1", wantErr: "does not have the form"},
		{in: "HCLOUD://1", wantErr: "does not have the form"},
		{in: "hcloud://9223372036854775808", wantErr: "does not have the form"},
		{in: "k3s://worker-1", wantErr: "does not have the form"},
		{in: "talos://hcloud/10.0.0.78", wantErr: "does not have the form"},
		{in: "aws:///eu-1/i-1", wantErr: "does not have the form"},
		{in: "hrobot://4711", wantErr: "Robot is not supported"},
		{in: "hcloud://bm-4711", wantErr: "Robot is not supported"},
	}
	for _, test := range tests {
		t.Run(test.in, func(t *testing.T) {
			got, err := Parse(test.in)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error = %v, want one with %q", err, test.wantErr)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("Parse = %d, %v; want %d", got, err, test.want)
			}
			if back := Format(got); back != test.in {
				t.Errorf("Format = %q, want %q", back, test.in)
			}
		})
	}
}
