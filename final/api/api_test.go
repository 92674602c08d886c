package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/prometheus/client_golang/prometheus"
)

// newAPI returns the URL of an API that knows one token at a time.
func newAPI(t *testing.T, token *string) string {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("RateLimit-Limit", "3600")
		w.Header().Set("RateLimit-Remaining", "3599")
		if r.Header.Get("Authorization") != "Bearer "+*token {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"code":"unauthorized","message":"the token you have provided is invalid"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"locations":[]}`))
	}))
	t.Cleanup(api.Close)
	return api.URL
}

// TestC01 replaces a token: the next request works, and nothing shows any token.
func TestC01(t *testing.T) {
	valid := "first-token"
	file := filepath.Join(t.TempDir(), "token")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(" first-token\r\n")

	var debug bytes.Buffer
	client := New(Options{Endpoint: newAPI(t, &valid), TokenFile: file, Debug: &debug, Registry: prometheus.NewRegistry()})
	if _, err := client.Location.All(t.Context()); err != nil {
		t.Fatal(err)
	}
	valid = "second-token"
	_, err := client.Location.All(t.Context())
	if !hcloud.IsError(err, hcloud.ErrorCodeUnauthorized) {
		t.Fatalf("error = %v, want unauthorized", err)
	}
	write("second-token\n")
	if _, err := client.Location.All(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, err = client.Location.All(t.Context())
	if err == nil || !strings.Contains(err.Error(), "read the API token") {
		t.Errorf("error = %v without the file", err)
	}
	if debug.Len() == 0 || strings.Contains(debug.String(), "-token") {
		t.Errorf("the dump is empty, or shows a token:\n%s", &debug)
	}
}

// TestPrivateKey uploads a certificate: the dump shows it, but not its key.
func TestPrivateKey(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"certificate":{"id":1}}`))
	}))
	defer api.Close()
	var dump bytes.Buffer
	client := New(Options{Endpoint: api.URL, Token: "token", Debug: &dump, Registry: prometheus.NewRegistry()})
	_, _, err := client.Certificate.Create(t.Context(), hcloud.CertificateCreateOpts{
		Name: "web", Type: hcloud.CertificateTypeUploaded,
		Certificate: "-----BEGIN CERTIFICATE-----", PrivateKey: "-----BEGIN \"secret\" KEY-----\nsecret\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`"certificate":"-----BEGIN CERTIFICATE`, `"private_key":"..."`, `"id":1`} {
		if !strings.Contains(dump.String(), text) {
			t.Errorf("the dump lacks %s", text)
		}
	}
	if strings.Contains(dump.String(), "secret") {
		t.Errorf("the dump shows the key:\n%s", &dump)
	}
}

// TestRefusal is answered with half of the token, which nobody gets to see.
func TestRefusal(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error":{"code":"rate_limit_exceeded","message":"Limit of '3600' requests per hour for token 'secret' reached."}}`))
	}))
	defer api.Close()
	client := &http.Client{Transport: &transport{base: http.DefaultTransport, token: "token", pace: newPace()}}
	response, err := client.Get(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(refusal, string(body)); diff != "" || response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status %d, body (-want +got):\n%s", response.StatusCode, diff)
	}
}

func TestMetrics(t *testing.T) {
	valid := "token"
	registry := prometheus.NewRegistry()
	client := New(Options{Endpoint: newAPI(t, &valid), Token: valid, Registry: registry})
	if _, err := client.Location.All(t.Context()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		got = append(got, family.GetName())
	}
	want := []string{
		"hcloud_api_in_flight_requests",
		"hcloud_api_rate_limit",
		"hcloud_api_rate_limit_remaining",
		"hcloud_api_request_duration_seconds",
		"hcloud_api_requests_total",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// TestO01 counts what is sent within a minute while the quota is in one state.
func TestO01(t *testing.T) {
	tests := []struct {
		name   string
		method string
		status int
		quota  quota
		min    int
		max    int
	}{
		{"plenty is left", http.MethodGet, 200, quota{3600, 3000}, 1000, 1000},
		{"few are left for reads", http.MethodGet, 200, quota{3600, 359}, 30, 32},
		{"few are left, and writes go on", http.MethodPost, 200, quota{3600, 359}, 1000, 1000},
		{"refused", http.MethodGet, 429, quota{3600, 0}, 11, 12},
		{"refused, writes too", http.MethodPost, 429, quota{3600, 0}, 11, 12},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPace()
				p.observe(test.status, test.quota, true)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()

				sent := 0
				results := make(chan error)
				for range 1000 {
					go func() { results <- p.wait(ctx, test.method) }()
				}
				for range 1000 {
					switch err := <-results; {
					case err == nil:
						sent++
					case !errors.Is(err, context.DeadlineExceeded):
						t.Error(err)
					}
				}
				if sent < test.min || sent > test.max {
					t.Errorf("%d requests in a minute, want %d to %d", sent, test.min, test.max)
				}
			})
		})
	}
}

// TestReserve lets writes go on while reads wait, and do no harm to their turns.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		p.observe(200, quota{3600, 100}, true)
		start := time.Now()
		for range 10 {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if err := p.wait(t.Context(), method); err != nil {
					t.Fatal(err)
				}
			}
		}
		if took, want := time.Since(start), 9*lowInterval; took != want {
			t.Errorf("ten reads and writes took %s, want %s", took, want)
		}
	})
}

// TestO01Proxy answers without headers after it has refused: nobody waits any more.
func TestO01Proxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		p.observe(200, quota{3600, 10}, true)
		p.observe(429, quota{}, false)
		for range 2 {
			if err := p.wait(t.Context(), http.MethodGet); err != nil {
				t.Fatal(err)
			}
			p.observe(200, quota{}, false)
		}
		start := time.Now()
		for range 100 {
			if err := p.wait(t.Context(), http.MethodGet); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("100 reads waited %s", waited)
		}
	})
}

// TestO01Recovery lets go all that wait as soon as the quota is there again.
func TestO01Recovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		p.observe(429, quota{3600, 0}, true)
		start := time.Now()
		results := make(chan error)
		for range 100 {
			go func() { results <- p.wait(t.Context(), http.MethodGet) }()
		}
		if err := <-results; err != nil { // the first has its turn
			t.Error(err)
		}
		p.observe(200, quota{3600, 3000}, true)
		for range 99 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took != refusedInterval {
			t.Errorf("all were sent after %s, want %s", took, refusedInterval)
		}
	})
}
