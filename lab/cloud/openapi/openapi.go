// Package openapi checks HTTP responses against Hetzner's OpenAPI document.
//
// The document states no licence, so it is not part of this repository. Where
// it contradicts the API, it does so about requests; responses can be checked
// strictly.
package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// FaultHeader marks responses that are wrong on purpose. Wrap removes it and
// leaves such a response unchecked.
const FaultHeader = "Lab-Fault"

// Spec is a loaded document. It is safe for concurrent use.
type Spec struct {
	paths map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by location; compiling all at once is slow
}

// Variable names the environment variable with the path of the document.
const Variable = "HCLOUD_OPENAPI_SPEC"

// FromEnvironment loads the document that the environment names, once. Without
// one the result is nil, which is an error in CI: nothing would be checked.
var FromEnvironment = sync.OnceValues(func() (*Spec, error) {
	path := os.Getenv(Variable)
	switch {
	case path != "":
		return Load(path)
	case os.Getenv("CI") == "true":
		return nil, fmt.Errorf("%s is not set, so no response would be checked", Variable)
	}
	return nil, nil
})

// Load reads an OpenAPI 3.1 document in JSON.
func Load(path string) (*Spec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load OpenAPI document: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	root, _ := doc.(map[string]any)
	paths, ok := root["paths"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s has no paths", path)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020) // that is what OpenAPI 3.1 says of its schemas
	c.AssertFormat()
	if err := c.AddResource(resource, doc); err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return &Spec{paths: paths, compiler: c, schemas: map[string]*jsonschema.Schema{}}, nil
}

const resource = "https://docs.hetzner.cloud/cloud.spec.json" // where it is published; nothing is fetched

// Check validates a response to a request of method and path, which may start
// with /v1 or /_lab/v1. Verbs below /_lab that are not the API's are not
// checked. An endpoint that the document lacks is an error, except in two
// answers: a 404 to an unknown path, and errors to an unknown method.
func (s *Spec) Check(method, path string, status int, contentType string, body []byte) error {
	path, ok := apiPath(path)
	if !ok {
		return nil
	}
	at := func(err error) error { return fmt.Errorf("%s %s: status %d: %w", method, path, status, err) }

	template, verb := s.template(path), strings.ToLower(method)
	if template == "" {
		if status != http.StatusNotFound {
			return at(errors.New("path is not in the document"))
		}
		// The document cannot say how unknown paths are answered, but all its
		// errors look alike.
		template, verb = "/servers", "get"
	}
	operations := s.paths[template].(map[string]any)
	if _, ok := operations[verb]; !ok {
		if status < 400 || status > 499 {
			return at(errors.New("method is not in the document"))
		}
		for _, other := range []string{"get", "post", "put", "delete"} {
			if _, ok := operations[other]; ok {
				verb = other
			}
		}
	}

	responses := operations[verb].(map[string]any)["responses"].(map[string]any)
	key := fmt.Sprint(status)
	if _, ok := responses[key]; !ok {
		key = fmt.Sprintf("%dxx", status/100)
	}
	response, ok := responses[key].(map[string]any)
	if !ok {
		return at(errors.New("status is not in the document"))
	}
	content, _ := response["content"].(map[string]any)
	if len(content) == 0 {
		if len(body) > 0 {
			return at(errors.New("body where the document has none"))
		}
		return nil
	}
	const media = "application/json"
	if contentType != media && !strings.HasPrefix(contentType, media+";") {
		return at(fmt.Errorf("content type %q is not %s", contentType, media))
	}
	schema, err := s.schema("paths", template, verb, "responses", key, "content", media, "schema")
	if err != nil {
		return at(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return at(fmt.Errorf("body is not JSON: %w", err))
	}
	if err := schema.Validate(value); err != nil {
		return at(err)
	}
	return nil
}

// apiPath cuts the base off a path. It is not ok for the lab's own verbs.
func apiPath(path string) (string, bool) {
	rest, lab := strings.CutPrefix(path, "/_lab")
	if rest, ok := strings.CutPrefix(rest, "/v1"); ok && (rest == "" || rest[0] == '/') {
		return rest, true
	}
	return path, !lab
}

// template finds the path of the document that a request's path fits, or "".
// Of several the one with fewest parameters counts, as /servers/actions
// before /servers/{id}.
func (s *Spec) template(path string) string {
	best := ""
	for template := range s.paths {
		if fits(template, path) && (best == "" || strings.Count(template, "{") < strings.Count(best, "{")) {
			best = template
		}
	}
	return best
}

// fits requires numbers for IDs, as all parameters of the document's cloud
// resources are. DNS zones, which may be named, are the exception.
func fits(template, path string) bool {
	return slices.EqualFunc(strings.Split(template, "/"), strings.Split(path, "/"), func(t, p string) bool {
		if !strings.HasPrefix(t, "{") {
			return t == p
		}
		named := t == "{id_or_name}" || t == "{rr_name}" || t == "{rr_type}"
		return p != "" && (named || strings.Trim(p, "0123456789") == "")
	})
}

// schema compiles the schema at a place in the document.
func (s *Spec) schema(place ...string) (*jsonschema.Schema, error) {
	pointer := ""
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	for _, key := range place {
		pointer += "/" + escape.Replace(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if schema, ok := s.schemas[pointer]; ok {
		return schema, nil
	}
	schema, err := s.compiler.Compile(resource + "#" + pointer)
	if err != nil {
		return nil, err
	}
	s.schemas[pointer] = schema
	return schema, nil
}

// Wrap returns a handler that serves as next does, and reports every response
// below /v1 and /_lab/v1 that the document does not allow. Responses marked
// with FaultHeader, and connections that next takes over, are let through.
func (s *Spec) Wrap(next http.Handler, report func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		next.ServeHTTP(rec, r)
		if !rec.wrote || rec.faulty {
			return
		}
		_, api := strings.CutPrefix(strings.TrimPrefix(r.URL.Path, "/_lab"), "/v1/")
		if !api {
			return
		}
		err := s.Check(r.Method, r.URL.Path, rec.status, rec.Header().Get("Content-Type"), rec.body.Bytes())
		if err != nil {
			report(err)
		}
	})
}

// recorder passes a response on and keeps a copy.
type recorder struct {
	http.ResponseWriter
	wrote  bool
	status int
	faulty bool
	body   bytes.Buffer
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if !r.wrote && status >= 200 {
		r.wrote = true
		r.status = status
		r.faulty = r.Header().Get(FaultHeader) != ""
		r.Header().Del(FaultHeader)
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if !r.wrote {
		r.WriteHeader(http.StatusOK)
	}
	r.body.Write(b)
	return r.ResponseWriter.Write(b)
}
