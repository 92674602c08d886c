package ccm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
)

// serviceUIDLabel on a load balancer names the Service that it belongs to. It is
// the only thing by which we find a load balancer again: names are for people.
const serviceUIDLabel = "hcloud-ccm/service-uid"

// actionTimeout bounds the wait for one action. The service controller has one
// worker and sets no deadline: an action that never ends must not hold it up.
const actionTimeout = time.Minute

// LoadBalancers keeps a load balancer for each Service of that type.
type LoadBalancers struct {
	client   *hcloud.Client
	network  *hcloud.Network // to attach load balancers to; nil if none is configured
	defaults loadBalancerDefaults
}

var _ cloudprovider.LoadBalancer = &LoadBalancers{}

// GetLoadBalancerName returns the name that a new load balancer gets.
func (l *LoadBalancers) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// GetLoadBalancer is called before a load balancer is deleted. If it does not
// exist, the controller lets the Service go.
func (l *LoadBalancers) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	lb, err := l.find(ctx, service)
	if err != nil || lb == nil {
		return nil, false, err
	}
	return loadBalancerStatus(lb), true, nil
}

// EnsureLoadBalancer is called when the controller starts and when a Service
// changes. The controller copies the answer to the Service's status. On an error
// it records an event, keeps the status and tries again, after 5 to 300 seconds.
func (l *LoadBalancers) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	wanted, err := wantLoadBalancer(service, nodes, l.defaults, l.network)
	if err != nil {
		return nil, err
	}
	lb, err := l.find(ctx, service)
	if err != nil {
		return nil, err
	}
	if lb == nil {
		lb, err = l.create(ctx, wanted)
	} else {
		lb, err = l.update(ctx, lb, wanted)
	}
	if err != nil {
		return nil, err
	}
	return loadBalancerStatus(lb), nil
}

// UpdateLoadBalancer is called for every Service when the set of nodes changes.
// There is no status to return, so it does not replace a lost load balancer:
// nobody would learn of the new IPs.
func (l *LoadBalancers) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	wanted, err := wantLoadBalancer(service, nodes, l.defaults, l.network)
	if err != nil {
		return err
	}
	lb, err := l.find(ctx, service)
	if err != nil || lb == nil {
		return err
	}
	_, err = l.update(ctx, lb, wanted)
	return err
}

// EnsureLoadBalancerDeleted is called when a Service is deleted or changes its
// type. The Service stays until there is no error.
func (l *LoadBalancers) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	lb, err := l.find(ctx, service)
	if err != nil || lb == nil {
		return err
	}
	result, _, err := l.client.LoadBalancer.DeleteWithResult(ctx, lb)
	if hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
		return nil
	}
	if err := l.await(ctx, result.Action, err); err != nil {
		return fmt.Errorf("delete load balancer %d: %w", lb.ID, err)
	}
	klog.FromContext(ctx).Info("Deleted load balancer", "service", klog.KObj(service), "loadBalancer", lb.ID)
	return nil
}

// find returns the load balancer of a Service, nil if it has none.
func (l *LoadBalancers) find(ctx context.Context, service *corev1.Service) (*hcloud.LoadBalancer, error) {
	selector := fmt.Sprintf("%s=%s", serviceUIDLabel, service.UID)
	lbs, err := l.client.LoadBalancer.AllWithOpts(ctx, hcloud.LoadBalancerListOpts{
		ListOpts: hcloud.ListOpts{LabelSelector: selector},
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("look up load balancer by label %s: %w", selector, err)
	case len(lbs) > 1:
		return nil, fmt.Errorf("%d load balancers have the label %s: remove it from all but one", len(lbs), selector)
	case len(lbs) == 0:
		return nil, nil
	}
	return lbs[0], nil
}

// create makes a load balancer with all that it needs, in one request. If the
// answer is lost, the next try finds it by its label.
func (l *LoadBalancers) create(ctx context.Context, wanted *wantedLoadBalancer) (*hcloud.LoadBalancer, error) {
	result, _, err := l.client.LoadBalancer.Create(ctx, wanted.createOpts())
	if err := l.await(ctx, result.Action, err); err != nil {
		return nil, fmt.Errorf("create load balancer %s: %w", wanted.Name, err)
	}
	klog.FromContext(ctx).Info("Created load balancer", "name", wanted.Name, "loadBalancer", result.LoadBalancer.ID)
	return l.reload(ctx, result.LoadBalancer.ID)
}

// update makes an existing load balancer what is wanted. One step that fails
// does not keep the others from being made.
func (l *LoadBalancers) update(ctx context.Context, lb *hcloud.LoadBalancer, wanted *wantedLoadBalancer) (*hcloud.LoadBalancer, error) {
	steps := compare(wanted, lb)
	if len(steps) == 0 {
		return lb, nil
	}
	var errs []error
	for _, step := range steps {
		action, err := step.apply(ctx, l.client.LoadBalancer, lb)
		if err := l.await(ctx, action, err); err != nil {
			errs = append(errs, fmt.Errorf("load balancer %d: %s: %w", lb.ID, step, err))
			continue
		}
		klog.FromContext(ctx).Info("Changed load balancer", "loadBalancer", lb.ID, "step", step.String())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return l.reload(ctx, lb.ID)
}

func (l *LoadBalancers) reload(ctx context.Context, id int64) (*hcloud.LoadBalancer, error) {
	lb, _, err := l.client.LoadBalancer.GetByID(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("look up load balancer %d: %w", id, err)
	}
	if lb == nil {
		return nil, fmt.Errorf("load balancer %d has vanished", id)
	}
	return lb, nil
}

// await waits for the action that a request has returned, unless the request
// has failed.
func (l *LoadBalancers) await(ctx context.Context, action *hcloud.Action, err error) error {
	if err != nil || action == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	return l.client.Action.WaitFor(ctx, action)
}

// loadBalancerStatus lists the public IPs of a load balancer. The IP mode says
// that packets arrive with these IPs as destination; were it missing, the
// controller would take each answer for a change.
func loadBalancerStatus(lb *hcloud.LoadBalancer) *corev1.LoadBalancerStatus {
	status := &corev1.LoadBalancerStatus{}
	if !lb.PublicNet.Enabled {
		return status
	}
	mode := corev1.LoadBalancerIPModeVIP
	if ip := lb.PublicNet.IPv4.IP; ip != nil {
		status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: &mode})
	}
	if ip := lb.PublicNet.IPv6.IP; ip != nil {
		status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: &mode})
	}
	return status
}
