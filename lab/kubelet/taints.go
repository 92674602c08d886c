package kubelet

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// conditionTaints lists the NoSchedule taints that kube-controller-manager sets
// while a condition has a status, and removes otherwise. The API server adds
// not-ready to each new Node by itself.
var conditionTaints = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	taint     string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
}

// withConditionTaints returns the Node's taints as its conditions ask for. A
// Node without a Ready condition counts as not ready.
func withConditionTaints(node *corev1.Node) []corev1.Taint {
	status := map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionFalse}
	for _, condition := range node.Status.Conditions {
		status[condition.Type] = condition.Status
	}
	taints := slices.Clone(node.Spec.Taints)
	for _, rule := range conditionTaints {
		i := slices.IndexFunc(taints, func(t corev1.Taint) bool {
			return t.Key == rule.taint && t.Effect == corev1.TaintEffectNoSchedule
		})
		switch wanted := status[rule.condition] == rule.status; {
		case wanted && i < 0:
			taints = append(taints, corev1.Taint{Key: rule.taint, Effect: corev1.TaintEffectNoSchedule})
		case !wanted && i >= 0:
			taints = slices.Delete(taints, i, i+1)
		}
	}
	return taints
}

// taintController keeps condition taints and the record of pod CIDRs in step
// with all Nodes of the cluster, simulated ones or not.
type taintController struct {
	client kubernetes.Interface
	nodes  corelisters.NodeLister
	queue  workqueue.TypedRateLimitingInterface[string]
}

func newTaintController(client kubernetes.Interface, nodes coreinformers.NodeInformer, cidrs *cidrAllocator) (*taintController, error) {
	c := &taintController{
		client: client,
		nodes:  nodes.Lister(),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	changed := func(obj any) {
		node := obj.(*corev1.Node)
		cidrs.reserve(node.Name, node.Spec.PodCIDR)
		c.queue.Add(node.Name)
	}
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				cidrs.release(name)
			}
		},
	})
	return c, err
}

// work handles Nodes until the queue is shut down. Any number of workers may run.
func (c *taintController) work(ctx context.Context) {
	for {
		name, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.sync(ctx, name); err != nil {
			c.queue.AddRateLimited(name)
		} else {
			c.queue.Forget(name)
		}
		c.queue.Done(name)
	}
}

func (c *taintController) sync(ctx context.Context, name string) error {
	node, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	taints := withConditionTaints(node)
	if slices.Equal(taints, node.Spec.Taints) {
		return nil
	}
	node = node.DeepCopy()
	node.Spec.Taints = taints
	_, err = c.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // what we have not seen yet is an event that queues the Node again
	}
	return err
}
