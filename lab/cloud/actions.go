package cloud

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// resource is what actions need to know of the thing that they change.
type resource struct {
	schema.ActionResourceReference
	running int // actions that hold it
}

// busy reports whether an action holds the resource against other changes.
func (r *resource) busy() bool { return r.running > 0 }

// action is a change that takes time.
type action struct {
	schema.Action
	held *resource

	begin func()    // run when it begins, unless the effect fail spoils it; may be nil
	done  func()    // run at its success; may be nil
	undo  func()    // run at its end in an error; may be nil
	next  []*action // begin after its success

	quick bool // is born finished
	fault *Fault
}

// durations of actions in the profile Realistic: roughly what users' logs
// show. Others take a second.
var durations = map[string]time.Duration{
	"create_server":       8 * time.Second,
	"start_server":        7 * time.Second,
	"stop_server":         3 * time.Second,
	"reset_server":        3 * time.Second,
	"shutdown":            5 * time.Second, // from the signal to the server being off
	"change_server_type":  30 * time.Second,
	"attach_to_network":   3 * time.Second,
	"detach_from_network": 3 * time.Second,
}

func (p *project) duration(command string) time.Duration {
	switch d, ok := durations[command]; {
	case p.settings.Profile == Instant:
		return 2 * time.Millisecond
	case ok:
		return d
	default:
		return time.Second
	}
}

// start begins an action on resources, and holds the first of them until the
// action ends.
func (r *request) start(a *action, on ...*resource) *action {
	r.prepare(a, on...)
	switch {
	case a.quick && !a.fault.is(EffectFail, EffectStuck):
		a.run()
		r.cloud.finish(r.project, a)
	case a.fault.is(EffectStuck) && !a.fault.over():
		a.run()
		a.fault.stuck = append(a.fault.stuck, a)
	default:
		r.cloud.schedule(r.project, a)
	}
	return a
}

// prepare registers an action that begins later, as the next of another one.
func (r *request) prepare(a *action, on ...*resource) *action {
	a.ID = r.cloud.nextID("action")
	a.Status = "running"
	a.Started = now()
	for _, res := range on {
		a.Resources = append(a.Resources, res.ActionResourceReference)
	}
	a.fault = r.fault
	a.held = on[0]
	a.held.running++
	r.project.actions[a.ID] = a
	return a
}

// run makes an action begin, once.
func (a *action) run() {
	if a.begin != nil && !a.fault.is(EffectFail) {
		a.begin()
	}
	a.begin = nil
}

func (c *Cloud) schedule(p *project, a *action) {
	a.run()
	c.after(p.duration(a.Command), func() { c.finish(p, a) })
}

func (c *Cloud) finish(p *project, a *action) {
	t := now()
	a.Finished = &t
	a.held.running--
	if a.fault.is(EffectFail) {
		a.Status = "error"
		a.Error = a.fault.actionError()
		if a.undo != nil {
			a.undo()
		}
		for _, next := range a.next {
			c.finish(p, next)
		}
		return
	}
	a.Status = "success"
	a.Progress = 100
	if a.done != nil {
		a.done()
	}
	for _, next := range a.next {
		c.schedule(p, next)
	}
}

// actionList is how all lists of actions can be asked for.
// API reference, actions of a resource.
var actionList = collection[schema.Action]{
	key: "actions",
	id:  func(a schema.Action) int64 { return a.ID },
	filters: map[string]func(schema.Action) string{
		"id":     func(a schema.Action) string { return strconv.FormatInt(a.ID, 10) },
		"status": func(a schema.Action) string { return a.Status },
	},
	sorts: map[string]func(a, b schema.Action) int{
		"id":      by(func(a schema.Action) int64 { return a.ID }),
		"command": by(func(a schema.Action) string { return a.Command }),
		"status":  by(func(a schema.Action) string { return a.Status }),
		"started": by(func(a schema.Action) int64 { return a.Started.Unix() }),
		"finished": by(func(a schema.Action) int64 {
			if a.Finished == nil {
				return 0
			}
			return a.Finished.Unix()
		}),
	},
}

var actionRoutes = routes{
	"GET /actions":      {http.StatusOK, listActions},
	"GET /actions/{id}": {http.StatusOK, getAction},
}

// listActions has one entry for each ID asked for, also after the resource is
// gone: hcloud-go polls the deletion of servers. That unknown IDs are left out
// is a guess.
//
// Without an ID it was removed on 2025-01-30; that the answer is a 410 is a
// guess from the code's description.
func listActions(r *request) (any, error) {
	ids := r.URL.Query()["id"]
	if len(ids) == 0 {
		err := failure(http.StatusGone, "deprecated_api_endpoint", "API functionality was removed")
		err.Details = object{"announcement": "https://docs.hetzner.cloud/changelog#2025-01-30-listing-arbitrary-actions-in-the-actions-list-endpoint-is-removed"}
		return nil, err
	}
	asked := map[int64]schema.Action{}
	for _, text := range ids {
		if id, err := strconv.ParseInt(text, 10, 64); err == nil && r.project.actions[id] != nil {
			asked[id] = r.project.actions[id].Action
		}
	}
	return actionList.list(r, byID(asked))
}

func getAction(r *request) (any, error) {
	a, ok := r.project.actions[r.id]
	if !ok {
		return nil, notFound("action", r.id)
	}
	return object{"action": a.Action}, nil
}

// actionsOn returns the actions on a resource, or on all resources of a kind if
// id is 0.
func (p *project) actionsOn(kind string, id int64) []schema.Action {
	actions := []schema.Action{}
	for _, a := range byID(p.actions) {
		if slices.ContainsFunc(a.Resources, func(ref schema.ActionResourceReference) bool {
			return ref.Type == kind && (id == 0 || ref.ID == id)
		}) {
			actions = append(actions, a.Action)
		}
	}
	return actions
}

// actionRoutesOf are the lists of actions that every resource with actions
// has. find tells whether the resource exists.
// API reference, actions of a resource.
func actionRoutesOf(path, kind string, find func(*request) error) routes {
	one := func(actions []schema.Action, id int64) (any, error) {
		i := slices.IndexFunc(actions, func(a schema.Action) bool { return a.ID == id })
		if i < 0 {
			return nil, notFound("action", id)
		}
		return object{"action": actions[i]}, nil
	}
	return routes{
		"GET " + path + "/actions": {http.StatusOK, func(r *request) (any, error) {
			return actionList.list(r, r.project.actionsOn(kind, 0))
		}},
		"GET " + path + "/actions/{id}": {http.StatusOK, func(r *request) (any, error) {
			return one(r.project.actionsOn(kind, 0), r.id)
		}},
		"GET " + path + "/{id}/actions": {http.StatusOK, func(r *request) (any, error) {
			if err := find(r); err != nil {
				return nil, err
			}
			return actionList.list(r, r.project.actionsOn(kind, r.id))
		}},
		// Deprecated, but alive.
		"GET " + path + "/{id}/actions/{id}": {http.StatusOK, func(r *request) (any, error) {
			if err := find(r); err != nil {
				return nil, err
			}
			return one(r.project.actionsOn(kind, r.id), r.actionID)
		}},
	}
}
