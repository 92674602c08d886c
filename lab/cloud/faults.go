package cloud

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// Effects of faults.
const (
	EffectStatus   = "status"   // answers with Status, Code and Message, or with Body
	EffectHTML     = "html"     // answers with an HTML page, as a proxy would
	EffectHang     = "hang"     // waits until the client goes or the fault ends, then serves the request
	EffectReset    = "reset"    // resets the TCP connection
	EffectTruncate = "truncate" // serves the request, cuts the answer's body short
	EffectDrop     = "drop"     // serves the request, closes the connection without an answer
	EffectLate     = "late"     // serves the request, answers after Delay
	EffectEmpty    = "empty"    // lists have no entries
	EffectHide     = "hide"     // lists lack the resource ResourceID
	EffectStuck    = "stuck"    // actions that the request starts stay running until the fault ends
	EffectFail     = "fail"     // actions that the request starts end in error, without effect
)

var effects = []string{
	EffectStatus, EffectHTML, EffectHang, EffectReset, EffectTruncate, EffectDrop,
	EffectLate, EffectEmpty, EffectHide, EffectStuck, EffectFail,
}

// Fault is a disturbance of matching requests. Of several matching faults the
// oldest counts.
type Fault struct {
	ID         int64  `json:"id"`
	Method     string `json:"method"` // * or empty for any
	Path       string `json:"path"`   // without /v1; * is one segment, ** at the end the rest; empty for any
	Effect     string `json:"effect"`
	Status     int    `json:"status,omitempty"`      // of status (required) and html (502)
	Code       string `json:"code,omitempty"`        // of status (by Status) and fail (action_failed)
	Message    string `json:"message,omitempty"`     // of status and fail
	Body       string `json:"body,omitempty"`        // of status and html, sent as it is
	Count      int    `json:"count"`                 // requests to hit; 0 for no limit
	Duration   string `json:"duration,omitempty"`    // how long the fault lasts, as "30s"; empty for no limit
	Delay      string `json:"delay,omitempty"`       // of late, required
	ResourceID int64  `json:"resource_id,omitempty"` // of hide, required
	Hits       int    `json:"hits"`                  // requests hit so far

	delay time.Duration
	ended chan struct{} // closed when the fault is removed or its duration is over
	stuck []*action     // actions that wait for the end
}

// AddFault orders a fault in a project and returns it with its ID. An error
// names the field that is wrong.
func (c *Cloud) AddFault(project string, f Fault) (Fault, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	added, err := c.addFault(c.project(project), f)
	if err != nil {
		return Fault{}, err
	}
	return *added, nil
}

// ClearFaults removes all faults of a project; what they hold up goes on.
func (c *Cloud) ClearFaults(project string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeFaults(c.project(project), func(*Fault) bool { return true })
}

func (c *Cloud) addFault(p *project, f Fault) (*Fault, error) {
	var duration time.Duration
	var err error
	if f.Duration != "" {
		if duration, err = time.ParseDuration(f.Duration); err != nil || duration <= 0 {
			return nil, invalid("duration", "must be a positive duration such as 30s")
		}
	}
	if f.Delay != "" || f.Effect == EffectLate {
		if f.delay, err = time.ParseDuration(f.Delay); err != nil || f.delay <= 0 {
			return nil, invalid("delay", "must be a positive duration such as 30s")
		}
	}
	if f.Effect == EffectHTML {
		f.Status = cmp.Or(f.Status, http.StatusBadGateway)
	}
	switch {
	case !slices.Contains(effects, f.Effect):
		return nil, invalid("effect", "must be one of %s", strings.Join(effects, ", "))
	case f.Path != "" && !strings.HasPrefix(f.Path, "/"):
		return nil, invalid("path", "must start with /")
	case strings.HasPrefix(f.Path+"/", "/v1/"):
		return nil, invalid("path", "must be without /v1")
	case slices.Contains(strings.Split(strings.TrimSuffix(f.Path, "/**"), "/"), "**"):
		return nil, invalid("path", "may have ** at the end only")
	case slices.ContainsFunc(strings.Split(f.Path, "/"), func(segment string) bool {
		return strings.Contains(segment, "*") && strings.Trim(segment, "*") != ""
	}):
		return nil, invalid("path", "may have * for whole segments only")
	case strings.ContainsFunc(f.Method, func(r rune) bool { return r != '*' && (r < 'A' || r > 'Z') }):
		return nil, invalid("method", "must be in upper case, or *")
	case (f.Effect == EffectStatus || f.Status != 0) && (f.Status < 200 || f.Status > 599):
		return nil, invalid("status", "must be from 200 to 599")
	case f.Effect == EffectHide && f.ResourceID == 0:
		return nil, invalid("resource_id", "is required")
	case f.Count < 0:
		return nil, invalid("count", "must not be negative")
	}
	f.ID = c.nextID("fault")
	f.Hits = 0
	f.ended = make(chan struct{})
	p.faults = append(p.faults, &f)
	if duration > 0 {
		c.after(duration, func() { c.endFault(p, &f) })
	}
	return &f, nil
}

// removeFaults reports whether there were any.
func (c *Cloud) removeFaults(p *project, which func(*Fault) bool) bool {
	n := len(p.faults)
	p.faults = slices.DeleteFunc(p.faults, func(f *Fault) bool {
		if which(f) {
			c.endFault(p, f)
			return true
		}
		return false
	})
	return len(p.faults) < n
}

// endFault lets go on what the fault held up.
func (c *Cloud) endFault(p *project, f *Fault) {
	if f.over() {
		return
	}
	close(f.ended)
	for _, a := range f.stuck {
		c.schedule(p, a)
	}
	f.stuck = nil
}

func (f *Fault) over() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

// is works on nil, for requests that no fault hit.
func (f *Fault) is(effects ...string) bool { return f != nil && slices.Contains(effects, f.Effect) }

// hit returns the fault that a request runs into, or nil.
func (p *project) hit(method, path, pattern string) *Fault {
	read := method == http.MethodGet
	list := read && !strings.HasSuffix(pattern, "{id}")
	for _, f := range p.faults {
		switch {
		case f.over() || f.Count > 0 && f.Hits == f.Count:
		case !matchesMethod(f.Method, method) || !matchesPath(f.Path, path):
		case f.is(EffectEmpty, EffectHide) && !list: // says nothing about other requests
		case f.is(EffectStuck, EffectFail) && read: // starts no action
		default:
			f.Hits++
			return f
		}
	}
	return nil
}

// answer is the response of the effects that do not serve the request.
func (f *Fault) answer() response {
	if f.Effect == EffectHTML {
		title := fmt.Sprintf("%d %s", f.Status, http.StatusText(f.Status))
		page := fmt.Sprintf("<html><head><title>%s</title></head><body><h1>%s</h1></body></html>\n", title, title)
		return response{f.Status, "text/html", []byte(cmp.Or(f.Body, page))}
	}
	code := cmp.Or(f.Code, codes[f.Status], "unknown_error")
	res := errorResponse(failure(f.Status, code, "%s", cmp.Or(f.Message, http.StatusText(f.Status), code)))
	res.body = []byte(cmp.Or(f.Body, string(res.body)))
	return res
}

// actionError is how actions end under the effect fail.
func (f *Fault) actionError() *schema.ActionError {
	return &schema.ActionError{
		Code:    cmp.Or(f.Code, "action_failed"),
		Message: cmp.Or(f.Message, "action failed"),
	}
}

func matchesMethod(pattern, method string) bool {
	return pattern == "" || pattern == "*" || pattern == method
}

// matchesPath compares segment by segment; * in the pattern is any one
// segment, ** at its end any number of them, and an empty pattern anything.
func matchesPath(pattern, path string) bool {
	if pattern == "" {
		return true
	}
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, segment := range want {
		if segment == "**" && i == len(want)-1 {
			return true
		}
		if i == len(have) || segment != "*" && segment != have[i] {
			return false
		}
	}
	return len(want) == len(have)
}

var faultRoutes = routes{
	"POST /faults":        {http.StatusCreated, createFault},
	"GET /faults":         {http.StatusOK, listFaults},
	"DELETE /faults":      {http.StatusNoContent, deleteFaults},
	"DELETE /faults/{id}": {http.StatusNoContent, deleteFault},
}

func createFault(r *request) (any, error) {
	var in Fault
	if err := r.decodeStrict(&in); err != nil {
		return nil, err
	}
	f, err := r.cloud.addFault(r.project, in)
	if err != nil {
		return nil, err
	}
	return object{"fault": f}, nil
}

func listFaults(r *request) (any, error) {
	return object{"faults": append([]*Fault{}, r.project.faults...)}, nil
}

func deleteFaults(r *request) (any, error) {
	r.cloud.removeFaults(r.project, func(*Fault) bool { return true })
	return nil, nil
}

func deleteFault(r *request) (any, error) {
	if !r.cloud.removeFaults(r.project, func(f *Fault) bool { return f.ID == r.id }) {
		return nil, notFound("fault", r.id)
	}
	return nil, nil
}
