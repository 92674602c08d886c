package cloud

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds request bodies, which the real API does as well: user_data
// alone may have 32 KiB. How much it takes is a guess.
const maxBody = 1 << 20

// faultHeader marks answers that a fault made up, with the effect as value. No
// real answer has it. Checks of responses use it to look away.
const faultHeader = "Lab-Fault"

// routes maps "METHOD /path" to how it is answered. A number in a path is
// written {id}.
type routes map[string]route

type route struct {
	status int // of success
	handle func(*request) (any, error)
}

// table is routes by path, then by method.
type table map[string]map[string]route

// api is everything below /v1. A new resource adds its routes here.
var api = newTable(
	actionRoutes,
	certificateRoutes,
	imageRoutes,
	loadBalancerRoutes,
	loadBalancerTypeRoutes,
	locationRoutes,
	networkRoutes,
	primaryIPRoutes,
	serverRoutes,
	serverTypeRoutes,
	sshKeyRoutes,
)

// lab is everything below /_lab.
var lab = newTable(faultRoutes, journalRoutes, settingsRoutes)

func newTable(all ...routes) table {
	t := table{}
	for _, rs := range all {
		for key, r := range rs {
			method, path, _ := strings.Cut(key, " ")
			if t[path] == nil {
				t[path] = map[string]route{}
			}
			t[path][method] = r
		}
	}
	return t
}

func merge(all ...routes) routes {
	merged := routes{}
	for _, rs := range all {
		maps.Copy(merged, rs)
	}
	return merged
}

// request is an authenticated request on its way through the cloud.
type request struct {
	*http.Request
	cloud        *Cloud
	project      *project
	id, actionID int64 // the numbers in the path
	body         []byte
	fault        *Fault      // that hit the request, or nil
	header       http.Header // of the response
}

type response struct {
	status      int
	contentType string
	body        []byte
}

// ServeHTTP answers a request to the API or to the lab's own verbs.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	// Seen live; clients append the ID to error texts.
	w.Header().Set("X-Correlation-Id", rand.Text())

	routes, path, public := lookup(req.URL.Path)
	pattern, ids := generalize(path)
	methods := routes[pattern]
	secret := ""
	if text, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer "); ok {
		secret = text
	}

	c.mu.Lock()
	token, known := c.tokens[secret]
	entry := &Request{}
	limit := &c.anonymous
	if known {
		limit = &token.project.bucket
		if public {
			entry = token.project.record(req, path, secret)
		}
	}
	limited := false
	if public {
		limited = !limit.take()
		limit.setHeaders(w.Header())
	}
	var refusal *apiError
	switch {
	// Struck live: an unknown path is told even without a token, a wrong
	// method is not. (That the limit comes in between is a guess.)
	case methods == nil:
		refusal = failure(http.StatusNotFound, "not_found", "api route not found")
	case limited:
		refusal = limit.exceeded()
	case secret == "":
		refusal = failure(http.StatusUnauthorized, "unauthorized", "token is required")
	case !known:
		refusal = failure(http.StatusUnauthorized, "unauthorized", "the token you have provided is invalid")
	}
	c.mu.Unlock()

	answer := func(res response) {
		c.mu.Lock()
		entry.Status = res.status
		c.mu.Unlock()
		res.write(w)
	}
	if refusal != nil {
		answer(errorResponse(refusal))
		return
	}

	// Faults wait with the body read, because only then does net/http notice
	// that the client has gone.
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		answer(errorResponse(unreadable(err)))
		return
	}

	r := &request{Request: req, cloud: c, project: token.project, body: body, header: w.Header()}
	r.id, r.actionID = ids[0], ids[1]
	if public {
		c.mu.Lock()
		if r.fault = r.project.hit(req.Method, path, pattern); r.fault != nil {
			entry.Fault = r.fault.Effect
			c.changed()
		}
		c.mu.Unlock()
	}

	switch {
	case r.fault.is(EffectStatus, EffectHTML):
		w.Header().Set(faultHeader, r.fault.Effect)
		answer(r.fault.answer())
		return
	case r.fault.is(EffectReset):
		cut(w, true)
		return
	case r.fault.is(EffectHang):
		select {
		case <-req.Context().Done():
			return
		case <-r.fault.ended:
		case <-c.done:
		}
	}

	res := r.serve(methods, token.access)

	switch {
	case r.fault.is(EffectDrop), r.fault.is(EffectTruncate) && len(res.body) == 0:
		cut(w, false)
		return
	case r.fault.is(EffectTruncate):
		w.Header().Set(faultHeader, r.fault.Effect)
		w.Header().Set("Content-Length", strconv.Itoa(len(res.body)))
		res.body = res.body[:len(res.body)/2]
	case r.fault.is(EffectLate):
		timer := time.NewTimer(r.fault.delay)
		defer timer.Stop()
		select {
		case <-req.Context().Done():
			return
		case <-timer.C:
		case <-c.done:
		}
	}
	answer(res)
}

// serve runs the handler with c.mu held, and turns its result into bytes
// before anything can change.
func (r *request) serve(methods map[string]route, access Access) response {
	r.cloud.mu.Lock()
	defer r.cloud.mu.Unlock()
	route, ok := methods[r.Method]
	if !ok {
		// API reference, error codes. The message is a guess.
		return errorResponse(failure(http.StatusMethodNotAllowed, "method_not_allowed", "method not allowed"))
	}
	if access == ReadOnly && r.Method != http.MethodGet {
		// Changelog 2026-10-05: forbidden, before that token_readonly. The message is a guess.
		return errorResponse(failure(http.StatusForbidden, "forbidden", "insufficient permissions for this request"))
	}
	body, err := route.handle(r)
	if err != nil {
		return errorResponse(err)
	}
	if r.Method != http.MethodGet {
		r.cloud.changed()
	}
	if body == nil {
		return response{status: route.status}
	}
	return jsonResponse(route.status, body)
}

// lookup finds the table that answers a path, the path below its base, and
// whether the request is a public one, which the journal, faults, and rate
// limit know.
func lookup(full string) (t table, rest string, public bool) {
	if rest, ok := strings.CutPrefix(full, "/v1/"); ok {
		return api, "/" + rest, true
	}
	if rest, ok := strings.CutPrefix(full, "/_lab/v1/"); ok {
		return api, "/" + rest, false
	}
	if rest, ok := strings.CutPrefix(full, "/_lab/"); ok {
		return lab, "/" + rest, false
	}
	return nil, full, false
}

// generalize writes {id} for the numbers of a path and returns the first two.
// It stands in for http.ServeMux, which refuses the API's own pair
// /servers/actions/{id} and /servers/{id}/actions as ambiguous; that only
// numbers are IDs resolves it. A number that no ID can have becomes 0, which
// no resource has.
func generalize(path string) (pattern string, ids [2]int64) {
	segments, n := strings.Split(path, "/"), 0
	for i, segment := range segments {
		if segment == "" || strings.Trim(segment, "0123456789") != "" {
			continue
		}
		segments[i] = "{id}"
		if id, err := strconv.ParseInt(segment, 10, 64); err == nil && n < len(ids) {
			ids[n] = id
		}
		n++
	}
	return strings.Join(segments, "/"), ids
}

// decode reads the body into in.
//
// Hetzner's document allows no unknown fields in some bodies, but clients send
// them and succeed: hcloud-go before 2.28 sends "gateway" in add_subnet.
func (r *request) decode(in any) error {
	return decode(json.NewDecoder(bytes.NewReader(r.body)), in)
}

// decodeStrict reads the body of a verb of the lab's own, where an unknown
// field is a typing error.
func (r *request) decodeStrict(in any) error {
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.DisallowUnknownFields()
	return decode(d, in)
}

func decode(d *json.Decoder, in any) error {
	err := d.Decode(in)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = errors.New("more than one value")
	}
	if wrongType := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrongType) && wrongType.Field != "" {
		return invalid(jsonPath(wrongType.Field), "must not be of type %s", wrongType.Value)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return invalid(strings.Trim(name, `"`), "is unknown")
	}
	// API reference, error codes. The message is a guess.
	return failure(http.StatusBadRequest, "json_error", "invalid JSON input: %s", err)
}

// jsonPath leaves the names of embedded Go types out of an error's field.
func jsonPath(field string) string {
	names := strings.Split(field, ".")
	names = slices.DeleteFunc(names, func(name string) bool { return name != strings.ToLower(name) })
	return strings.Join(names, ".")
}

// unreadable is a guess.
func unreadable(err error) *apiError {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return failure(http.StatusRequestEntityTooLarge, "invalid_input", "request body is larger than %d bytes", tooLarge.Limit)
	}
	return failure(http.StatusBadRequest, "json_error", "request body cannot be read")
}

func jsonResponse(status int, body any) response {
	b, err := json.Marshal(body)
	if err != nil {
		return errorResponse(fmt.Errorf("encode response: %w", err))
	}
	return response{status, "application/json", b}
}

func errorResponse(err error) response {
	answer := (*apiError)(nil)
	if !errors.As(err, &answer) {
		answer = failure(http.StatusInternalServerError, "server_error", "%s", err)
	}
	return jsonResponse(answer.status, object{"error": answer})
}

func (res response) write(w http.ResponseWriter) {
	if res.contentType != "" {
		w.Header().Set("Content-Type", res.contentType)
	}
	w.WriteHeader(res.status)
	_, _ = w.Write(res.body) // a client that has gone needs no answer
}

// cut ends the connection without an answer, by a TCP reset if so wanted. Where
// the connection cannot be had (HTTP/2, a recorder) the answer is a 502.
func cut(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		w.Header().Set(faultHeader, EffectReset)
		errorResponse(failure(http.StatusBadGateway, "bad_gateway", "connection cut by a fault")).write(w)
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
