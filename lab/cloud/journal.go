package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// Kinds of requests in the journal.
const (
	Read  = "read"
	Write = "write"
	Poll  = "poll" // a GET of actions
)

// Request is an entry of the journal.
type Request struct {
	Time      time.Time `json:"time"`
	Method    string    `json:"method"`
	Path      string    `json:"path"` // without /v1
	Query     string    `json:"query"`
	Status    int       `json:"status"` // 0 while, or if, there is no answer
	UserAgent string    `json:"user_agent"`
	Token     string    `json:"token"` // a fingerprint, never the token
	Kind      string    `json:"kind"`
	Fault     string    `json:"fault"` // the effect of the fault that hit it, or empty
}

// journalSize bounds the memory of a lab that runs for days.
const journalSize = 100_000

// Requests returns the journal of a project, oldest first: every request below
// /v1 that came with one of its tokens, in the order of arrival.
func (c *Cloud) Requests(project string) []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.project(project).requests()
}

func (p *project) requests() []Request {
	requests := make([]Request, len(p.journal))
	for i, r := range p.journal {
		requests[i] = *r
	}
	return requests
}

func (p *project) record(req *http.Request, path, token string) *Request {
	hash := sha256.Sum256([]byte(token))
	entry := &Request{
		Time:      time.Now().UTC(),
		Method:    req.Method,
		Path:      path,
		Query:     req.URL.RawQuery,
		UserAgent: req.UserAgent(),
		Token:     hex.EncodeToString(hash[:4]),
		Kind:      kindOf(req.Method, path),
	}
	if len(p.journal) == journalSize {
		p.journal = append(p.journal[:0:0], p.journal[journalSize/2:]...)
	}
	p.journal = append(p.journal, entry)
	return entry
}

func kindOf(method, path string) string {
	switch {
	case method != http.MethodGet && method != http.MethodHead:
		return Write
	case strings.Contains(path+"/", "/actions/"):
		return Poll
	default:
		return Read
	}
}

var journalRoutes = routes{
	"GET /requests":    {http.StatusOK, listRequests},
	"DELETE /requests": {http.StatusNoContent, deleteRequests},
}

func listRequests(r *request) (any, error) {
	query := r.URL.Query()
	kind, method, pattern := query.Get("kind"), query.Get("method"), query.Get("path")
	requests := []Request{}
	for _, entry := range r.project.requests() {
		if (kind == "" || kind == entry.Kind) && matchesMethod(method, entry.Method) && matchesPath(pattern, entry.Path) {
			requests = append(requests, entry)
		}
	}
	return object{"requests": requests}, nil
}

func deleteRequests(r *request) (any, error) {
	r.project.journal = nil
	return nil, nil
}
