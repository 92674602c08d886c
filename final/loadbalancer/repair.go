package loadbalancer

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"example.com/ccm-from-scratch/final/events"
)

// Repair makes passes that the service controller does not ask for: when a load
// balancer was changed or deleted in the cloud, when labels of Nodes change, when
// a Secret changes that a Service names, and when the cloud was busy with
// something. It also makes those for which the service controller would wait.
type Repair struct {
	Reconciler *Reconciler
	Services   corelisters.ServiceLister
	Nodes      corelisters.NodeLister
	Client     coreclient.CoreV1Interface // for the status, and Secrets
	Period     time.Duration              // between two looks at all load balancers, more or less

	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	watched map[types.NamespacedName]bool // Secrets
}

// repairWorkers is how many passes run at once, so that one that is stuck holds
// up no other.
const repairWorkers = 10

// NewRepair returns a Repair that can be asked, and works once it runs.
func NewRepair(reconciler *Reconciler, services corelisters.ServiceLister, nodes corelisters.NodeLister, period time.Duration) *Repair {
	r := &Repair{Reconciler: reconciler, Services: services, Nodes: nodes, Period: period, watched: map[types.NamespacedName]bool{}}
	r.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Second, 5*time.Minute))
	reconciler.Again, reconciler.Secret = r.Again, r.Secret
	return r
}

// Run works until the context ends. Only one replica may, and only when it has
// heard of all Services and Nodes: before, it would take them for gone.
func (r *Repair) Run(ctx context.Context) {
	for range repairWorkers {
		go func() {
			for r.next(ctx) {
			}
		}()
	}
	go func() {
		timer := time.NewTimer(wait.Jitter(r.Period, 0.2)) // the controller begins with a pass of its own
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				r.queue.ShutDown()
				return
			case <-timer.C:
				r.all(func(s *corev1.Service) bool { return !r.optedOut(s) })
				timer.Reset(wait.Jitter(r.Period, 0.2))
			}
		}
	}()
}

// Again asks for a pass for a Service after a while.
func (r *Repair) Again(service *corev1.Service, after time.Duration) {
	r.queue.AddAfter(types.NamespacedName{Namespace: service.Namespace, Name: service.Name}, after)
}

// NodeChanged asks for passes for all Services that choose Nodes by labels, if
// those have changed. The service controller does not look at labels.
func (r *Repair) NodeChanged(before, now *corev1.Node) {
	if !maps.Equal(before.Labels, now.Labels) {
		r.all(func(s *corev1.Service) bool { return s.Annotations[Prefix+"node-selector"] != "" })
	}
}

// all asks for passes for some of the Services.
func (r *Repair) all(some func(*corev1.Service) bool) {
	services, err := r.Services.List(labels.Everything())
	if err != nil {
		klog.Background().Error(err, "Unable to list Services")
		return
	}
	for _, s := range services {
		if Wanted(s) && some(s) {
			r.Again(s, 0)
		}
	}
}

func (r *Repair) optedOut(service *corev1.Service) bool {
	s, _ := Parse(service, r.Reconciler.Defaults)
	return s.NoRepair
}

// Wanted tells whether the Service has a load balancer that is for us to keep:
// others have those with a class.
func Wanted(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil
}

func (r *Repair) next(ctx context.Context) bool {
	key, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(key)
	service, err := r.Services.Services(key.Namespace).Get(key.Name)
	if err != nil || !Wanted(service) || service.DeletionTimestamp != nil {
		r.queue.Forget(key) // it has none
		return true
	}
	if !helpers.HasLBFinalizer(service) { // the controller has not got to it yet, or we have not heard of it
		r.queue.AddRateLimited(key)
		return true
	}
	if err := r.pass(ctx, service); err != nil {
		klog.FromContext(ctx).Error(err, "Unable to repair load balancer", "service", key)
		r.Reconciler.Events.Tell(service, events.SyncLoadBalancerFailed, "%s", err.Error())
		r.queue.AddRateLimited(key)
		return true
	}
	r.queue.Forget(key)
	return true
}

func (r *Repair) pass(ctx context.Context, service *corev1.Service) error {
	nodes, err := TargetNodes(r.Nodes)
	if err != nil {
		return err
	}
	status, err := r.Reconciler.Repair(ctx, service, nodes)
	if status == nil || helpers.LoadBalancerStatusEqual(&service.Status.LoadBalancer, status) {
		return err
	}
	updated := service.DeepCopy()
	updated.Status.LoadBalancer = *status
	_, refused := helpers.PatchService(r.Client, service, updated)
	return joinErrors(err, refused)
}

// TargetNodes lists the Nodes that are Targetable.
func TargetNodes(lister corelisters.NodeLister) ([]*corev1.Node, error) {
	all, err := lister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var nodes []*corev1.Node
	for _, node := range all {
		if Targetable(node) {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// Targetable tells whether the service controller would hand over a Node: unless
// it is being deleted, or carries the excluding label or the autoscaler's taint.
// Whether it is ready is for the health checks to say. See
// stableNodeSetPredicates in k8s.io/cloud-provider.
func Targetable(node *corev1.Node) bool {
	return node.DeletionTimestamp == nil && !excluded(node) && !leaving(node)
}

func excluded(node *corev1.Node) bool {
	value, ok := node.Labels[corev1.LabelNodeExcludeBalancers]
	exclude, err := strconv.ParseBool(value)
	return ok && (err != nil || exclude)
}

func leaving(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == "ToBeDeletedByClusterAutoscaler" {
			return true
		}
	}
	return false
}
