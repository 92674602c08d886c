// Package events tells people what is wrong, on the object that they look at.
package events

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// Component is the source of all events.
const Component = "hcloud-ccm"

// silence is how long the same event of the same object is not repeated: the
// controllers try again every few seconds, and what is wrong stays wrong.
const silence = 10 * time.Minute

// Reason is one kind of event.
type Reason struct {
	Name    string
	Object  string // kind of the objects that have it
	Meaning string
	Remedy  string
}

// All kinds of events, each a warning.
var (
	ServerNotFound = Reason{
		"ServerNotFound", "Node",
		"A new Node waits for a server of its name, and there is none.",
		"Give server and Node the same name, which must match exactly, or let the kubelet set the provider ID. A Node that is no cloud server needs a provider ID of another form.",
	}
	UnknownProviderID = Reason{
		"UnknownProviderIDPrefix", "Node",
		"A new Node has a provider ID that is not one of a cloud server.",
		"If it is a cloud server, let nothing else set provider IDs. Otherwise its own cloud provider must initialize it.",
	}
	NodeIPUnknown = Reason{
		"NodeIPUnknown", "Node",
		"The kubelet was told to use an IP that the Node's server does not have, or not where we look.",
		"The event says where the server has the IP, and which setting brings it to the Node.",
	}
	ServerReplaced = Reason{
		"ServerReplaced", "Node",
		"The Node's server is gone, and there is another one with its name.",
		"Delete the Node object. The kubelet registers it again, with the new server's ID.",
	}
	WrongProject = Reason{
		"WrongProject", "Node",
		"A Node is not Ready, its server is not found, and nor is any other server of this cluster. No Node is deleted.",
		"Check that HCLOUD_TOKEN is a token of the project with the servers.",
	}
	ClusterCIDRMisconfigured = Reason{
		"ClusterCIDRMisconfigured", "Node",
		"The Node's pod CIDR is not within --cluster-cidr. It gets a route that will never be removed.",
		"Set --cluster-cidr to the range of all pods.",
	}
	RouteConflict = Reason{
		"RouteConflict", "Node",
		"The Node's pod CIDR is routed to a server that is none of this cluster's Nodes. The route is left alone.",
		"Two clusters must not have the same pods' range in one network. If the route is a leftover, delete it.",
	}
)

// Reasons lists all kinds of events, in the order of the reference page.
var Reasons = []Reason{
	ServerNotFound, UnknownProviderID, NodeIPUnknown, ServerReplaced, WrongProject,
	ClusterCIDRMisconfigured, RouteConflict,
}

// Markdown is the table of all events for the reference page.
func Markdown() string {
	var b strings.Builder
	fmt.Fprintln(&b, "| reason | object | meaning | what to do |")
	fmt.Fprintln(&b, "| --- | --- | --- | --- |")
	for _, r := range Reasons {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, r.Object, r.Meaning, r.Remedy)
	}
	return b.String()
}

// Recorder records events. It is safe for concurrent use.
type Recorder struct {
	recorder record.EventRecorder

	mu   sync.Mutex
	told map[event]time.Time
}

type event struct {
	object  types.UID
	reason  string
	message string
}

// NewRecorder returns a recorder that passes events on. nil drops them.
func NewRecorder(recorder record.EventRecorder) *Recorder {
	return &Recorder{recorder: recorder, told: map[event]time.Time{}}
}

// Warn records a warning, unless it has just been given. The object must come
// from the API server: without its UID, kubectl describe does not find the event.
func (r *Recorder) Warn(object runtime.Object, reason Reason, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	accessor, err := meta.Accessor(object)
	if r.recorder == nil || err != nil || !r.due(event{accessor.GetUID(), reason.Name, message}) {
		return
	}
	r.recorder.Event(object, corev1.EventTypeWarning, reason.Name, message)
}

// due tells whether an event has not been told for a while, and notes that it is now.
func (r *Recorder) due(e event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for old, at := range r.told {
		if now.Sub(at) >= silence {
			delete(r.told, old)
		}
	}
	if _, told := r.told[e]; told {
		return false
	}
	r.told[e] = now
	return true
}
