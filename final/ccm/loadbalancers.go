package ccm

import (
	"context"
	"errors"
	"sync"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"example.com/ccm-from-scratch/final/config"
	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/loadbalancer"
	"example.com/ccm-from-scratch/final/metrics"
	"example.com/ccm-from-scratch/final/servers"
)

// LoadBalancers keeps a load balancer for each Service of that type.
type LoadBalancers struct {
	reconciler *loadbalancer.Reconciler
	repair     *loadbalancer.Repair
	services   corelisters.ServiceLister
	nodes      cache.SharedIndexInformer
	kubernetes kubernetes.Interface // set before the controllers start
	servers    *servers.Servers
	metrics    *metrics.Metrics
	begin      func() // starts what the service controller does not do, once

	mu      sync.Mutex
	cluster *string // identity, once it is known
}

var _ cloudprovider.LoadBalancer = &LoadBalancers{}

// newLoadBalancers gives load balancers what they need of the configuration and
// the cluster.
func newLoadBalancers(client *hcloud.Client, network *hcloud.Network, c config.LoadBalancers, shared informers.SharedInformerFactory, known *servers.Servers, recorder *events.Recorder, counters *metrics.Metrics) *LoadBalancers {
	l := &LoadBalancers{
		services: shared.Core().V1().Services().Lister(),
		nodes:    shared.Core().V1().Nodes().Informer(),
		servers:  known,
		metrics:  counters,
	}
	l.reconciler = loadbalancer.New(loadbalancer.Options{
		Client:      client,
		Network:     network,
		Defaults:    loadBalancerDefaults(c),
		Events:      recorder,
		Cluster:     l.clusterID,
		Owner:       l.owner,
		Current:     l.current,
		SameProject: l.sameProject,
		Observe:     counters.LoadBalancer,
		TypeLookup:  counters.TypeLookup,
	})
	l.repair = loadbalancer.NewRepair(l.reconciler, l.services, shared.Core().V1().Nodes().Lister(), c.RepairPeriod)
	return l
}

func loadBalancerDefaults(c config.LoadBalancers) loadbalancer.Defaults {
	return loadbalancer.Defaults{
		Location:              c.Location,
		NetworkZone:           c.NetworkZone,
		Type:                  c.Type,
		Algorithm:             hcloud.LoadBalancerAlgorithmType(c.Algorithm),
		UsePrivateIP:          c.UsePrivateIP,
		DisablePrivateIngress: c.DisablePrivateIngress,
		IPv6Disabled:          c.DisableIPv6,
		DisablePublicNetwork:  c.DisablePublicNetwork != nil && *c.DisablePublicNetwork,
		PrivateSubnet:         c.PrivateSubnet,
		ProxyProtocol:         c.ProxyProtocol != nil && *c.ProxyProtocol,
		HealthInterval:        c.HealthCheckInterval,
		HealthTimeout:         c.HealthCheckTimeout,
		HealthRetries:         c.HealthCheckRetries,
	}
}

// start gets ready for what the service controller does not do. Only the replica
// that leads gets here.
//
// It begins with the controller's first call: a flag may leave the controller out,
// and before it calls, it has heard of all Services and Nodes. Who knows of no Node
// yet would remove all targets.
func (l *LoadBalancers) start(client kubernetes.Interface, stop <-chan struct{}) {
	l.kubernetes = client
	l.repair.Client = client.CoreV1()
	l.begin = sync.OnceFunc(func() {
		_, err := l.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, now any) {
			l.repair.NodeChanged(before.(*corev1.Node), now.(*corev1.Node))
		}})
		if err != nil {
			klog.Background().Error(err, "Unable to watch the labels of Nodes")
		}
		l.repair.Run(wait.ContextForChannel(stop))
	})
}

// clusterID is the UID of the namespace kube-system, which lives as long as the
// cluster. Who must not know it gets nothing, and nothing has the cluster's label.
func (l *LoadBalancers) clusterID(ctx context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cluster != nil {
		return *l.cluster, nil
	}
	namespace, err := l.kubernetes.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil && !apierrors.IsForbidden(err) {
		return "", err
	}
	var id string
	if err == nil {
		id = string(namespace.UID)
	} else {
		klog.FromContext(ctx).Error(err, "Load balancers get no label of the cluster")
	}
	l.cluster = &id
	return id, nil
}

// owner returns the Service with a UID, if it has a load balancer.
func (l *LoadBalancers) owner(uid types.UID) (string, bool) {
	all, err := l.services.List(labels.Everything())
	if err != nil {
		return "", false
	}
	for _, service := range all {
		if service.UID == uid && loadbalancer.Wanted(service) {
			return klog.KObj(service).String(), true
		}
	}
	return "", false
}

// current returns a Service and the Nodes as they are now, or as they were if
// nothing newer is known.
func (l *LoadBalancers) current(service *corev1.Service, nodes []*corev1.Node) (*corev1.Service, []*corev1.Node) {
	if now, err := l.services.Services(service.Namespace).Get(service.Name); err == nil && now.UID == service.UID && loadbalancer.Wanted(now) {
		service = now
	}
	if now, err := loadbalancer.TargetNodes(l.repair.Nodes); err == nil {
		nodes = now
	}
	return service, nodes
}

// sameProject returns an error if the cluster has servers, and the API finds none
// of them.
func (l *LoadBalancers) sameProject(ctx context.Context) error {
	ids, err := serverIDs(l.repair.Nodes)
	if err != nil {
		return err
	}
	err = l.servers.Witness(metrics.LoadBalancer.In(ctx), ids)
	if errors.Is(err, servers.ErrDoubt) {
		return errors.New("no server of this cluster's Nodes is in this project: the API token may be that of another project. If all servers are gone, delete the Nodes")
	}
	return err
}

// GetLoadBalancerName returns the name that a new load balancer gets.
func (l *LoadBalancers) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return l.reconciler.Name(service)
}

// GetLoadBalancer is called before a load balancer is deleted. If it does not
// exist, the controller lets the Service go, and does not call
// EnsureLoadBalancerDeleted. That one has more to look for, certificates for
// example, so it is for it to find out. Services of another class are others' to
// deal with.
func (l *LoadBalancers) GetLoadBalancer(_ context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	l.metrics.Operation("GetLoadBalancer")
	return &service.Status.LoadBalancer, service.Spec.LoadBalancerClass == nil, nil
}

// EnsureLoadBalancer is called when the controller starts and when a Service
// changes. The controller copies the answer to the Service's status. On an error
// it records an event, keeps the status and tries again, after 5 to 300 seconds.
func (l *LoadBalancers) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	l.metrics.Operation("EnsureLoadBalancer")
	l.begin()
	return l.reconciler.Ensure(ctx, service, nodes)
}

// UpdateLoadBalancer is called for every Service when the set of nodes changes.
// The controller looks at the next change only after all calls have ended, so
// one load balancer that is stuck would keep all others from getting new targets.
// So the pass is made elsewhere, which tries again by itself.
func (l *LoadBalancers) UpdateLoadBalancer(_ context.Context, _ string, service *corev1.Service, _ []*corev1.Node) error {
	l.metrics.Operation("UpdateLoadBalancer")
	l.begin()
	l.repair.Again(service, 0)
	return nil
}

// EnsureLoadBalancerDeleted is called when a Service is deleted or changes its
// type. The Service stays until there is no error.
func (l *LoadBalancers) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	l.metrics.Operation("EnsureLoadBalancerDeleted")
	return l.reconciler.Delete(ctx, service)
}
