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

// Reason is one kind of event. Only this package can make one, and what it makes
// is in the table of the reference page.
type Reason struct {
	name    string
	object  string // kind of the objects that have it
	class   string // Warning, or Normal
	meaning string
	remedy  string
}

var ours, librarys []Reason

func warning(object, name, meaning, remedy string) Reason {
	return declare(&ours, Reason{name, object, corev1.EventTypeWarning, meaning, remedy})
}

func normal(object, name, meaning string) Reason {
	return declare(&ours, Reason{name, object, corev1.EventTypeNormal, meaning, "Nothing."})
}

// library declares a kind of event of the controllers that we use.
func library(object, class, name, meaning, remedy string) Reason {
	return declare(&librarys, Reason{name, object, class, meaning, remedy})
}

func declare(table *[]Reason, r Reason) Reason {
	*table = append(*table, r)
	return r
}

// Kinds of events of Nodes.
var (
	ServerNotFound = warning("Node", "ServerNotFound",
		"A new Node waits for a server of its name, and there is none.",
		"Give server and Node the same name, which must match exactly, or let the kubelet set the provider ID. A Node that is no cloud server needs a provider ID of another form.")
	UnknownProviderID = warning("Node", "UnknownProviderIDPrefix",
		"A new Node has a provider ID that is not one of a cloud server.",
		"If it is a cloud server, let nothing else set provider IDs. Otherwise its own cloud provider must initialize it.")
	NodeIPUnknown = warning("Node", "NodeIPUnknown",
		"The kubelet was told to use an IP that the Node's server does not have, or not where we look.",
		"The event says where the server has the IP, and which setting brings it to the Node.")
	ServerReplaced = warning("Node", "ServerReplaced",
		"The Node's server is gone, and there is another one with its name.",
		"Delete the Node object. The kubelet registers it again, with the new server's ID.")
	WrongProject = warning("Node", "WrongProject",
		"A Node is not Ready, its server is not found, and nor is any other server of this cluster. No Node is deleted.",
		"Check that HCLOUD_TOKEN is a token of the project with the servers.")
	ClusterCIDRMisconfigured = warning("Node", "ClusterCIDRMisconfigured",
		"The Node's pod CIDR is not within --cluster-cidr. It gets a route that will never be removed.",
		"Set --cluster-cidr to the range of all pods.")
	RouteConflict = warning("Node", "RouteConflict",
		"The Node's pod CIDR is routed to a server that is none of this cluster's Nodes. The route is left alone.",
		"Two clusters must not have the same pods' range in one network. If the route is a leftover, delete it.")
)

// Kinds of events of Services.
var (
	ChangedLoadBalancer = normal("Service", "ChangedLoadBalancer",
		"One thing about the load balancer was changed. The event says what, and how it was before.")
	CreatedCertificate = normal("Service", "CreatedCertificate",
		"A certificate was created in the cloud: from a Secret, or one that Hetzner has issued.")
	DeletedCertificate = normal("Service", "DeletedCertificate",
		"A certificate that we have created was deleted, because nothing uses it.")
	LoadBalancerIncomplete = warning("Service", "LoadBalancerIncomplete",
		"The load balancer is there, and so is the Service's address, but a part could not be made.",
		"The event says which part, and what to do. It is tried again by itself.")
	LoadBalancerLeft = warning("Service", "LoadBalancerLeft",
		"The Service is gone, and its load balancer is protected against deletion, or has lost its labels. It stays, and costs.",
		"Delete it in the cloud, or give it to a Service by the annotation name. On one of somebody else's, delete the Service's listeners and targets.")
	AnnotationWithoutEffect = warning("Service", "AnnotationWithoutEffect",
		"An annotation is unknown, or does nothing beside the others.",
		"Correct the name, or remove the annotation.")
	NotApplied = warning("Service", "NotApplied",
		"An annotation is not applied: it counts at creation only, or would harm what is there, or concerns what is others'. The load balancer stays what it is.",
		"Set it back, or do what the event says. A new Service gets all that it asks for, and other IPs.")
	LoadBalancerTypeDeprecated = warning("Service", "LoadBalancerTypeDeprecated",
		"The load balancer's type is deprecated. The load balancer works on, for now.",
		"Set the annotation type to another one with room for all ports and Nodes.")
	SpecNotSupported = warning("Service", "SpecNotSupported",
		"A field of the Service's spec has no effect, because no load balancer of this cloud can do that.",
		"Remove the field, or use what the event names. For loadBalancerSourceRanges see the annotation refuse-source-ranges.")
	PortNotServed = warning("Service", "PortNotServed",
		"A port has no listener: it is not TCP, or it has no node port.",
		"Put ports that are not TCP into another Service, or set allocateLoadBalancerNodePorts to true.")
	TooManyPorts = warning("Service", "TooManyPorts",
		"The load balancer's type has no room for all ports. Those that are served stay served.",
		"Set the annotation type to a larger one.")
	TooManyTargets = warning("Service", "TooManyTargets",
		"The load balancer's type has no room for all Nodes. Those that are targets stay targets.",
		"Set the annotation type to a larger one, or choose Nodes with the annotation node-selector.")
	NoTargets = warning("Service", "NoTargets",
		"The annotation node-selector matches no Node, so nobody answers.",
		"Correct the selector, or label Nodes. Targets follow by themselves.")
	NodeNotInitialized = warning("Service", "NodeNotInitialized",
		"A Node is no target yet, because it has no provider ID yet.",
		"Nothing, if the Node is new. Otherwise look at the Node's events.")
	NodeOfOtherProvider = warning("Service", "NodeOfOtherProvider",
		"A Node is no target, because its provider ID is not one of a cloud server.",
		"Exclude it by the annotation node-selector, or by the label node.kubernetes.io/exclude-from-external-load-balancers.")
	CertificatePending = warning("Service", "CertificatePending",
		"A managed certificate is being issued. Until then a new https listener is missing, and an old one has its old certificate.",
		"Nothing, for some minutes.")
	CertificateFailed = warning("Service", "CertificateFailed",
		"A managed certificate could not be issued. The event has the reason. It is tried again after 20 minutes, and then ever more rarely, up to 6 hours.",
		"Let the domains be served by the DNS of the same project, and correct what the event says.")
)

// Kinds of events that the library's controllers record. Of these, ours have
// their own: what fails in a pass that the service controller did not ask for.
var (
	_ = library("Node", corev1.EventTypeNormal, "Synced",
		"A new Node is initialized: it has provider ID, labels, and addresses.", "Nothing.")
	_ = library("Node", corev1.EventTypeNormal, "DeletingNode",
		"The Node is deleted, because its server is gone.", "Nothing.")
	_ = library("Node", corev1.EventTypeWarning, "DeletingNodeFailed",
		"The Node's server is gone, but the Node could not be deleted.", "The event has the API server's reason.")
	_ = library("Node", corev1.EventTypeWarning, "FailedToCreateRoute",
		"The Node's pod CIDR has no route yet.", "The event says what is wrong. It is tried again.")
	_ = library("Service", corev1.EventTypeNormal, "EnsuringLoadBalancer",
		"A pass begins, because the Service has changed, or the program has started.", "Nothing.")
	_ = library("Service", corev1.EventTypeNormal, "EnsuredLoadBalancer",
		"The pass has ended well.", "Nothing.")
	_ = library("Service", corev1.EventTypeNormal, "UpdatedLoadBalancer",
		"The Nodes have changed, and a pass for the Service is due. What it does has its own events.", "Nothing.")
	_ = library("Service", corev1.EventTypeWarning, "UnAvailableLoadBalancer",
		"There is no Node that could be a target.", "Look at labels and taints of the Nodes.")
	SyncLoadBalancerFailed = library("Service", corev1.EventTypeWarning, "SyncLoadBalancerFailed",
		"Something about the Service is wrong, or could not be done. What was there stays as it was.",
		"The event says what: each annotation with its value and what would be right, or the API's answer. It is tried again.")
	_ = library("Service", corev1.EventTypeNormal, "DeletingLoadBalancer",
		"The Service goes, or needs no load balancer any more.", "Nothing.")
	_ = library("Service", corev1.EventTypeNormal, "DeletedLoadBalancer",
		"The load balancer is gone, or let go.", "Nothing.")
	_ = library("Service", corev1.EventTypeWarning, "DeleteLoadBalancerFailed",
		"The load balancer could not be deleted. The Service stays until it is.", "The event says why. It is tried again.")
)

// Markdown is the tables of all events for the reference page.
func Markdown() string {
	return table(ours) + `
## Events of the library

The controllers that we use record these. Only their words are ours.

` + table(librarys)
}

func table(reasons []Reason) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| reason | object | type | meaning | what to do |")
	fmt.Fprintln(&b, "| --- | --- | --- | --- | --- |")
	for _, r := range reasons {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.name, r.object, r.class, r.meaning, r.remedy)
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

// Warn records an event, unless it has just been given. The object must come
// from the API server: without its UID, kubectl describe does not find the event.
func (r *Recorder) Warn(object runtime.Object, reason Reason, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	accessor, err := meta.Accessor(object)
	if err != nil || !r.due(event{accessor.GetUID(), reason.name, message}) {
		return
	}
	r.Tell(object, reason, "%s", message)
}

// Tell records an event each time, for callers that know what they have told.
func (r *Recorder) Tell(object runtime.Object, reason Reason, format string, args ...any) {
	if r.recorder != nil {
		r.recorder.Eventf(object, reason.class, reason.name, format, args...)
	}
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
