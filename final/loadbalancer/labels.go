package loadbalancer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/apimachinery/pkg/types"
)

// Labels of load balancers and certificates. They are all that we remember.
const (
	ServiceLabel = "hcloud-ccm/service-uid" // UID of the Service that it was made for, as the official CCM has it
	AdoptedLabel = "hcloud-ccm/adopted"     // instead of that, UID of the Service that uses what others have made
	ClusterLabel = "hcloud-ccm/cluster"     // identity of the Service's cluster

	rdnsLabel = "hcloud-ccm/rdns" // which reverse DNS entries we have set

	// On an adopted load balancer: our listeners, and the servers that are our
	// targets. One label holds a few numbers; there are as many as it takes.
	portsLabel   = "hcloud-ccm/ports"
	serversLabel = "hcloud-ccm/servers"
)

// ownerOf returns the UID of the Service that has a load balancer, empty if no
// label tells.
func ownerOf(labels map[string]string) types.UID {
	return types.UID(cmp.Or(labels[ServiceLabel], labels[AdoptedLabel]))
}

// managed tells whether a label is ours to set and remove.
func managed(key string) bool {
	for _, prefix := range []string{portsLabel, serversLabel} {
		if key == prefix || strings.HasPrefix(key, prefix+"-") {
			return true
		}
	}
	return slices.Contains([]string{ServiceLabel, ClusterLabel, AdoptedLabel, rdnsLabel}, key)
}

// withoutOurs returns the labels that are not ours.
func withoutOurs(labels map[string]string) map[string]string {
	others := map[string]string{}
	for key, value := range labels {
		if !managed(key) {
			others[key] = value
		}
	}
	return others
}

// maxLabelValue is the length of a label's value. API reference, labels.
const maxLabelValue = 63

// writeDown writes numbers into labels, as many labels as it takes.
func writeDown[T int | int64](labels map[string]string, prefix string, numbers map[T]bool) {
	key, value := prefix, ""
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		text := strconv.FormatInt(int64(n), 10)
		if value != "" && len(value)+1+len(text) > maxLabelValue {
			key, value = nextKey(prefix, key), ""
		}
		if value != "" {
			value += "."
		}
		value += text
		labels[key] = value
	}
}

func nextKey(prefix, key string) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(key, prefix+"-"))
	return fmt.Sprintf("%s-%d", prefix, max(n, 1)+1)
}

// recorded reads what writeDown has written.
func recorded[T int | int64](labels map[string]string, prefix string) map[T]bool {
	numbers := map[T]bool{}
	for key, value := range labels {
		if key != prefix && !strings.HasPrefix(key, prefix+"-") {
			continue
		}
		for text := range strings.SplitSeq(value, ".") {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				numbers[T(n)] = true
			}
		}
	}
	return numbers
}

// holdings is what on a load balancer is ours: everything, or what the labels of
// an adopted one say.
type holdings struct {
	all     bool
	ports   map[int]bool
	servers map[int64]bool
}

func holdingsOf(lb *hcloud.LoadBalancer, adopted bool) holdings {
	return holdings{!adopted, recorded[int](lb.Labels, portsLabel), recorded[int64](lb.Labels, serversLabel)}
}

func (h holdings) port(n int) bool     { return h.all || h.ports[n] }
func (h holdings) server(n int64) bool { return h.all || h.servers[n] }

// target tells whether a target is ours. Only servers are.
func (h holdings) target(t hcloud.LoadBalancerTarget) bool {
	if t.Type == hcloud.LoadBalancerTargetTypeServer {
		return h.server(t.Server.Server.ID)
	}
	return false
}
