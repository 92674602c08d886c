package ccm

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/metadata"
)

func TestCheckAttached(t *testing.T) {
	tests := []struct {
		name    string
		status  int
		body    string
		wantErr bool
	}{
		{"attached", 200, "- ip: 192.168.0.2\n  network_id: 4\n- ip: 10.0.0.2\n  network_id: 7\n", false},
		{"attached to others", 200, "- ip: 10.0.0.2\n  network_id: 77\n", true},
		{"attached to none", 200, "", true},
		{"no metadata service", 404, "not found", false},
		{"something else answers", 200, "<html><body>log in</body></html>", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer service.Close()
			err := checkAttached(t.Context(), &hcloud.Network{ID: 7}, metadata.WithEndpoint(service.URL))
			if (err != nil) != test.wantErr {
				t.Errorf("error = %v, want one: %t", err, test.wantErr)
			}
		})
	}
}
