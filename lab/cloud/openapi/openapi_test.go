package openapi_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/ccm-from-scratch/lab/cloud/openapi"
)

// small is a document in the manner of Hetzner's, so that the checks
// themselves are tested without it.
const small = `{
  "openapi": "3.1.2",
  "paths": {
    "/servers": {"get": {"responses": {
      "200": {"content": {"application/json": {"schema": {"type": "object", "required": ["servers"]}}}},
      "4xx": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/error"}}}}
    }}},
    "/servers/{id}": {
      "get": {"responses": {
        "200": {"content": {"application/json": {"schema": {"type": "object", "properties": {
          "id": {"type": "integer", "minimum": 1},
          "ip": {"type": ["string", "null"], "format": "ipv4"},
          "created": {"type": "string", "format": "date-time"}
        }, "required": ["id"], "additionalProperties": false}}}},
        "4xx": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/error"}}}}
      }},
      "delete": {"responses": {"204": {"description": "deleted"}}}
    },
    "/servers/actions": {"get": {"responses": {
      "200": {"content": {"application/json": {"schema": {"type": "object", "required": ["actions"]}}}}
    }}}
  },
  "components": {"schemas": {"error": {"type": "object", "properties": {"error": {"type": "object", "required": ["code"]}}, "required": ["error"]}}}
}`

func load(t *testing.T) *openapi.Spec {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spec.json")
	if err := os.WriteFile(path, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	spec, err := openapi.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestCheck(t *testing.T) {
	spec := load(t)
	for name, test := range map[string]struct {
		method, path      string
		status            int
		contentType, body string
		want              string // part of the error; empty for none
	}{
		"right":                     {"GET", "/v1/servers/1", 200, "application/json", `{"id":1}`, ""},
		"right, all fields":         {"GET", "/v1/servers/1", 200, "application/json", `{"id":1,"ip":"192.0.2.1","created":"2026-10-05T00:00:00Z"}`, ""},
		"right, null":               {"GET", "/v1/servers/1", 200, "application/json", `{"id":1,"ip":null}`, ""},
		"right with charset":        {"GET", "/v1/servers/1", 200, "application/json; charset=utf-8", `{"id":1}`, ""},
		"right without base":        {"GET", "/servers/1", 200, "application/json", `{"id":1}`, ""},
		"right below lab":           {"GET", "/_lab/v1/servers/1", 200, "application/json", `{"id":1}`, ""},
		"error in range":            {"GET", "/v1/servers/1", 404, "application/json", `{"error":{"code":"x"}}`, ""},
		"no body":                   {"DELETE", "/v1/servers/1", 204, "", ``, ""},
		"literal before parameter":  {"GET", "/v1/servers/actions", 200, "application/json", `{"actions":[]}`, ""},
		"unknown path":              {"GET", "/v1/nonsense", 404, "application/json", `{"error":{"code":"not_found"}}`, ""},
		"unknown method":            {"PATCH", "/v1/servers", 405, "application/json", `{"error":{"code":"x"}}`, ""},
		"the lab's own":             {"GET", "/_lab/faults", 200, "application/json", `{"anything":1}`, ""},
		"missing field":             {"GET", "/v1/servers/1", 200, "application/json", `{}`, "missing propert"},
		"unknown field":             {"GET", "/v1/servers/1", 200, "application/json", `{"id":1,"x":2}`, "additional propert"},
		"too small":                 {"GET", "/v1/servers/1", 200, "application/json", `{"id":0}`, "minimum"},
		"wrong format of IP":        {"GET", "/v1/servers/1", 200, "application/json", `{"id":1,"ip":"x"}`, "ipv4"},
		"wrong format of time":      {"GET", "/v1/servers/1", 200, "application/json", `{"id":1,"created":"today"}`, "date-time"},
		"not JSON":                  {"GET", "/v1/servers/1", 200, "application/json", `<p>`, "not JSON"},
		"not said to be JSON":       {"GET", "/v1/servers/1", 200, "text/html", `{"id":1}`, "content type"},
		"unknown status":            {"GET", "/v1/servers/1", 201, "application/json", `{"id":1}`, "status is not"},
		"unknown class of status":   {"GET", "/v1/servers/1", 503, "application/json", `{"error":{"code":"x"}}`, "status is not"},
		"malformed error":           {"GET", "/v1/servers/1", 404, "application/json", `{"error":{}}`, "missing propert"},
		"body where there is none":  {"DELETE", "/v1/servers/1", 204, "", `{}`, "body where"},
		"answer to unknown path":    {"GET", "/v1/nonsense", 200, "application/json", `{}`, "path is not"},
		"answer to unknown method":  {"PATCH", "/v1/servers", 200, "application/json", `{}`, "method is not"},
		"malformed unknown path":    {"GET", "/v1/nonsense", 404, "application/json", `{}`, "missing propert"},
		"malformed unknown method":  {"PATCH", "/v1/servers", 405, "application/json", `{}`, "missing propert"},
		"name where a number goes":  {"GET", "/v1/servers/one", 200, "application/json", `{"id":1}`, "path is not"},
		"base is not just a prefix": {"GET", "/v1servers/1", 200, "application/json", `{"id":1}`, "path is not"},
	} {
		t.Run(name, func(t *testing.T) {
			err := spec.Check(test.method, test.path, test.status, test.contentType, []byte(test.body))
			switch {
			case test.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestWrap(t *testing.T) {
	spec := load(t)
	errs := make(chan error, 10)
	mux := http.NewServeMux()
	answer := func(pattern, body string, faulty bool) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if faulty {
				w.Header().Set(openapi.FaultHeader, "x")
			}
			_, _ = io.WriteString(w, body)
		})
	}
	answer("/v1/servers/1", `{"id":1}`, false)
	answer("/v1/servers/2", `{"id":"two"}`, false)
	answer("/_lab/v1/servers/3", `{"id":"three"}`, false)
	answer("/v1/servers/4", `{"id":"four"}`, true)
	answer("/other", `{"id":"five"}`, false)
	mux.HandleFunc("/v1/servers/6", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		_ = conn.Close()
	})
	srv := httptest.NewServer(spec.Wrap(mux, func(err error) { errs <- err }))
	defer srv.Close()
	for path, test := range map[string]struct {
		body  string
		wrong bool
	}{
		"/v1/servers/1":      {`{"id":1}`, false},
		"/v1/servers/2":      {`{"id":"two"}`, true},
		"/_lab/v1/servers/3": {`{"id":"three"}`, true},
		"/v1/servers/4":      {`{"id":"four"}`, false},
		"/other":             {`{"id":"five"}`, false},
		"/v1/servers/6":      {`hi`, false},
	} {
		t.Run(path, func(t *testing.T) {
			res, err := http.Get(srv.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			if err != nil || string(body) != test.body {
				t.Errorf("body %s, %v, want %s", body, err, test.body)
			}
			if got := res.Header.Get(openapi.FaultHeader); got != "" {
				t.Errorf("%s: %s gets through", openapi.FaultHeader, got)
			}
		})
	}
	srv.Close() // waits for handlers
	close(errs)
	got := []string{}
	for err := range errs {
		got = append(got, err.Error())
	}
	if len(got) != 2 {
		t.Errorf("reports %q, want those of servers 2 and 3", got)
	}
}

func TestLoad(t *testing.T) {
	for name, text := range map[string]string{"not JSON": "{", "without paths": "{}", "an array": "[]"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "spec.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := openapi.Load(path); err == nil {
				t.Error("no error")
			}
		})
	}
	if _, err := openapi.Load(filepath.Join(t.TempDir(), "missing.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want not exist", err)
	}
}
