package loadbalancer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"example.com/ccm-from-scratch/final/events"
)

// Fit leaves out of d what a load balancer has no room for, and says so. What is
// there already stays first, then what has the lowest number: the choice is the
// same each time. actual is nil before there is a load balancer.
//
// A smaller type must not cost what is there: without room for all of it, the
// load balancer keeps its type.
func Fit(d *Desired, actual *hcloud.LoadBalancer, typ *hcloud.LoadBalancerType) (left []Listener, warnings []Warning) {
	targets, ports := map[int64]bool{}, map[int]bool{}
	foreignTargets, foreignListeners := 0, 0
	if actual != nil {
		ours := holdingsOf(actual, d.Labels[AdoptedLabel] != "")
		for _, t := range actual.Targets {
			if ours.target(t) {
				targets[t.Server.Server.ID] = true
			} else {
				foreignTargets++
			}
		}
		for _, s := range actual.Services {
			if ours.port(s.ListenPort) {
				ports[s.ListenPort] = true
			} else {
				foreignListeners++
			}
		}
		full := len(d.Targets)+foreignTargets > typ.MaxTargets || len(d.Listeners)+foreignListeners > typ.MaxServices
		if shrinks(typ, actual.LoadBalancerType) && (full || !ours.all) {
			why := fmt.Sprintf("it has room for %d targets and %d ports", typ.MaxTargets, typ.MaxServices)
			if !full {
				why = "others may need the room"
			}
			warnings = append(warnings, Warning{events.NotApplied, fmt.Sprintf("annotation %stype: %s is not applied, the load balancer stays %s: %s", Prefix, typ.Name, actual.LoadBalancerType.Name, why)})
			typ = actual.LoadBalancerType
			d.Type = typ.Name
		}
	}
	roomForTargets, roomForListeners := typ.MaxTargets-foreignTargets, typ.MaxServices-foreignListeners
	if n := len(d.Targets) - max(roomForTargets, 0); n > 0 {
		slices.SortStableFunc(d.Targets, func(a, b Target) int { return present(targets[a.Server], targets[b.Server]) })
		var names []string
		for _, t := range d.Targets[max(roomForTargets, 0):] {
			names = append(names, t.Node)
		}
		d.Targets = d.Targets[:max(roomForTargets, 0)]
		slices.SortFunc(d.Targets, func(a, b Target) int { return cmp.Compare(a.Server, b.Server) })
		warnings = append(warnings, Warning{events.TooManyTargets, fmt.Sprintf("type %s has room for %d targets: set annotation %stype to a larger one, or %[3]snode-selector; no target: Node %s", typ.Name, typ.MaxTargets, Prefix, join(names))})
	}
	if n := len(d.Listeners) - max(roomForListeners, 0); n > 0 {
		slices.SortStableFunc(d.Listeners, func(a, b Listener) int { return present(ports[a.Port], ports[b.Port]) })
		left = slices.Clone(d.Listeners[max(roomForListeners, 0):])
		d.Listeners = d.Listeners[:max(roomForListeners, 0)]
		slices.SortFunc(d.Listeners, func(a, b Listener) int { return cmp.Compare(a.Port, b.Port) })
		var numbers []int
		for _, l := range left {
			numbers = append(numbers, l.Port)
		}
		warnings = append(warnings, Warning{events.TooManyPorts, fmt.Sprintf("type %s has room for %d ports: set annotation %stype to a larger one; not served: %v", typ.Name, typ.MaxServices, Prefix, numbers)})
	}
	return left, warnings
}

// present sorts what is there before what is not.
func present(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return 0
}
