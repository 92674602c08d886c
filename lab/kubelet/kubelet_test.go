package kubelet

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestCIDRAllocator(t *testing.T) {
	allocator := &cidrAllocator{prefix: netip.MustParsePrefix("10.244.0.0/23"), used: map[netip.Prefix]string{}}
	allocate := func(node string) string {
		t.Helper()
		cidr, err := allocator.allocate(node)
		if err != nil {
			t.Fatal(err)
		}
		return cidr
	}

	got := []string{allocate("a"), allocate("b"), allocate("a")}
	allocator.release("a")
	allocator.reserve("foreign", "10.244.0.0/24")
	allocator.reserve("foreign", "fd00::/64") // of another family, and no obstacle
	got = append(got, allocate("c"))
	allocator.release("b")
	got = append(got, allocate("d"))

	want := []string{
		"10.244.0.0/24", // a
		"10.244.1.0/24", // b
		"10.244.0.0/24", // a again
		"10.244.2.0/24", // c: behind the prefix, which is full
		"10.244.1.0/24", // d: what b had
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pod CIDRs (-want +got):\n%s", diff)
	}

	if next := next(netip.MustParsePrefix("255.255.255.0/24")); next.IsValid() {
		t.Errorf("there is %s behind the last /24", next)
	}
}

func TestWithConditionTaints(t *testing.T) {
	noSchedule := func(key string) corev1.Taint {
		return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}
	}
	other := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
	ready := func(status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeReady, Status: status}
	}

	tests := []struct {
		name       string
		conditions []corev1.NodeCondition
		taints     []corev1.Taint
		want       []corev1.Taint
	}{
		{
			name: "no condition yet",
			want: []corev1.Taint{noSchedule(corev1.TaintNodeNotReady)},
		},
		{
			name:       "becomes ready",
			conditions: []corev1.NodeCondition{ready(corev1.ConditionTrue)},
			taints:     []corev1.Taint{noSchedule(corev1.TaintNodeNotReady), other},
			want:       []corev1.Taint{other},
		},
		{
			name:       "is lost",
			conditions: []corev1.NodeCondition{ready(corev1.ConditionUnknown)},
			taints:     []corev1.Taint{noSchedule(corev1.TaintNodeNotReady)},
			want:       []corev1.Taint{noSchedule(corev1.TaintNodeUnreachable)},
		},
		{
			name: "has no network",
			conditions: []corev1.NodeCondition{
				ready(corev1.ConditionTrue),
				{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue},
			},
			want: []corev1.Taint{noSchedule(corev1.TaintNodeNetworkUnavailable)},
		},
		{
			name:       "nothing to do",
			conditions: []corev1.NodeCondition{ready(corev1.ConditionTrue)},
			taints:     []corev1.Taint{other},
			want:       []corev1.Taint{other},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := &corev1.Node{
				Spec:   corev1.NodeSpec{Taints: test.taints},
				Status: corev1.NodeStatus{Conditions: test.conditions},
			}
			if diff := cmp.Diff(test.want, withConditionTaints(node)); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
}
