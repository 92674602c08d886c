// Package kubelet simulates the kubelets of the emulated servers: a server that
// runs has a Node, with a lease and a Ready condition that are kept up; one that
// is off or gone has a Node that becomes NotReady. No pod ever runs.
//
// It also does what kube-controller-manager would do for these Nodes: it gives
// each a pod CIDR, marks the lost ones, and turns conditions into taints.
package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// StayOutLabel on a server, with the value "false", keeps its kubelet from
// running: the server is no node of the cluster, or its kubelet has died.
const StayOutLabel = "lab/node"

const (
	// DefaultGrace is how long a kubelet may be silent before its Node is
	// NotReady. Real clusters wait for 40 to 50 seconds.
	DefaultGrace = 2 * time.Second

	leaseSeconds  = 40
	renewInterval = 10 * time.Second
	workers       = 8
)

// DefaultClusterCIDR holds the pod CIDRs, one /24 for each Node.
var DefaultClusterCIDR = netip.MustParsePrefix("10.244.0.0/16")

// Options say where the kubelets are and whom they talk to.
type Options struct {
	Client  kubernetes.Interface
	Servers func() []schema.Server // all servers of the project, as they are now
	Changed <-chan struct{}        // signals that Servers has news
	Grace   time.Duration          // 0 means DefaultGrace
}

// Fleet is all kubelets together.
type Fleet struct {
	options Options
	queue   workqueue.TypedRateLimitingInterface[int64]
	cidrs   *cidrAllocator

	mu       sync.Mutex
	kubelets map[int64]*kubelet
}

// kubelet is the state of one server's kubelet. One worker at a time handles it,
// but Fleet.observe writes to it as well: Fleet.mu guards all fields.
type kubelet struct {
	node    string
	nodeIP  string // the first private IP, what --node-ip would be; may be empty
	running bool
	since   time.Time // of the last change of running
	settled bool      // the Node shows the current value of running
}

// Start runs the fleet until ctx ends, and returns a function that waits for its end.
func Start(ctx context.Context, o Options) (wait func(), err error) {
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	f := &Fleet{
		options:  o,
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[int64]()),
		cidrs:    &cidrAllocator{prefix: DefaultClusterCIDR, used: map[netip.Prefix]string{}},
		kubelets: map[int64]*kubelet{},
	}

	factory := informers.NewSharedInformerFactory(o.Client, 0)
	taints, err := newTaintController(o.Client, factory.Core().V1().Nodes(), f.cidrs)
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	var wg sync.WaitGroup
	wg.Go(func() { f.watchServers(ctx) })
	for range workers {
		wg.Go(func() { f.work(ctx) })
		wg.Go(func() { taints.work(ctx) })
	}
	context.AfterFunc(ctx, taints.queue.ShutDown)
	return wg.Wait, nil
}

// watchServers observes the servers at start and after each change.
func (f *Fleet) watchServers(ctx context.Context) {
	defer f.queue.ShutDown()
	for {
		f.observe(f.options.Servers())
		select {
		case <-ctx.Done():
			return
		case <-f.options.Changed:
		}
	}
}

// observe starts and stops kubelets so that they match the servers.
func (f *Fleet) observe(servers []schema.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()

	up := map[int64]bool{}
	for _, server := range servers {
		k := f.kubelets[server.ID]
		wanted := server.Status == "running" && server.Labels[StayOutLabel] != "false"
		if !wanted || (k == nil && server.Locked) {
			continue // off, or still being set up
		}
		up[server.ID] = true
		if k == nil {
			k = &kubelet{}
			f.kubelets[server.ID] = k
		}
		if !k.running {
			*k = kubelet{node: server.Name, running: true, since: time.Now()}
			if len(server.PrivateNet) > 0 {
				k.nodeIP = server.PrivateNet[0].IP
			}
			f.queue.Add(server.ID)
		}
	}
	for id, k := range f.kubelets {
		if k.running && !up[id] {
			k.running, k.since, k.settled = false, time.Now(), false
			f.queue.AddAfter(id, f.options.Grace)
		}
	}
}

func (f *Fleet) work(ctx context.Context) {
	for {
		id, shutdown := f.queue.Get()
		if shutdown {
			return
		}
		if err := f.sync(ctx, id); err != nil && ctx.Err() == nil {
			f.queue.AddRateLimited(id)
		} else {
			f.queue.Forget(id)
		}
		f.queue.Done(id)
	}
}

// sync makes the Node of one server show whether its kubelet runs.
func (f *Fleet) sync(ctx context.Context, id int64) error {
	f.mu.Lock()
	k := *f.kubelets[id]
	f.mu.Unlock()

	if !k.running {
		if silent := time.Since(k.since); silent < f.options.Grace {
			f.queue.AddAfter(id, f.options.Grace-silent)
			return nil
		}
		if k.settled {
			return nil
		}
		if err := SetReady(ctx, f.options.Client, k.node, corev1.ConditionUnknown); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return f.settle(id, k)
	}

	if k.settled {
		f.queue.AddAfter(id, renewInterval)
		return f.renewLease(ctx, k.node)
	}
	if err := f.join(ctx, k); err != nil {
		return err
	}
	// Kubelets that join together do not renew together for ever after.
	f.queue.AddAfter(id, rand.N(renewInterval))
	return f.settle(id, k)
}

// settle notes that the Node shows the state seen, unless the kubelet was
// started or stopped in the meantime.
func (f *Fleet) settle(id int64, seen kubelet) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.kubelets[id]; k.running == seen.running && k.since.Equal(seen.since) {
		k.settled = true
	} else {
		f.queue.Add(id)
	}
	return nil
}

// join registers the Node, or takes over the Node object that an earlier
// kubelet of that name left, and reports it Ready.
func (f *Fleet) join(ctx context.Context, k kubelet) error {
	podCIDR, err := f.cidrs.allocate(k.node)
	if err != nil {
		return err
	}
	node := NewNode(k.node, k.nodeIP)
	node.Spec.PodCIDR, node.Spec.PodCIDRs = podCIDR, []string{podCIDR}
	_, err = f.options.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := SetReady(ctx, f.options.Client, k.node, corev1.ConditionTrue); err != nil {
		return err
	}
	if err := f.createLease(ctx, k.node); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return f.renewLease(ctx, k.node)
}

func (f *Fleet) renewLease(ctx context.Context, node string) error {
	leases := f.options.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := leases.Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return f.createLease(ctx, node)
	}
	return err
}

func (f *Fleet) createLease(ctx context.Context, node string) error {
	seconds, now := int32(leaseSeconds), metav1.NowMicro()
	_, err := f.options.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, metav1.CreateOptions{})
	return err
}

// NewNode returns a Node as a kubelet with --cloud-provider=external registers
// it: uninitialized, with the IP of its --node-ip flag unless that is empty.
func NewNode(name, nodeIP string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
			},
			Annotations: map[string]string{},
		},
		Spec: corev1.NodeSpec{
			Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			NodeInfo:  corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
	if nodeIP != "" {
		node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr] = nodeIP
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: nodeIP})
	}
	return node
}

// SetReady sets the Ready condition of a Node: True as its kubelet would,
// Unknown as kube-controller-manager would once the kubelet is silent.
func SetReady(ctx context.Context, client kubernetes.Interface, node string, status corev1.ConditionStatus) error {
	condition := corev1.NodeCondition{
		Type:               corev1.NodeReady,
		Status:             status,
		Reason:             "KubeletReady",
		Message:            "simulated kubelet is posting ready status",
		LastHeartbeatTime:  metav1.Now(),
		LastTransitionTime: metav1.Now(),
	}
	if status != corev1.ConditionTrue {
		condition.Reason, condition.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
