package bench

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"example.com/ccm-from-scratch/lab/stack"
)

// A Scenario is something that happens in clusters, and what a CCM should make of it.
type Scenario struct {
	Name  string
	Short string

	run func(context.Context, *run) error
}

// Scenarios returns all scenarios in the order in which they are run.
func Scenarios() []Scenario {
	return []Scenario{
		{"join-10", "10 Nodes wait for the CCM when it starts", join(cluster{nodes: 10, network: true})},
		{"join-50", "50 Nodes wait for the CCM when it starts", join(cluster{nodes: 50, network: true})},
		{"join-200", "200 Nodes, without a private network, wait for the CCM when it starts", join(cluster{nodes: 200})},
		{"idle", "nothing happens in a cluster of 10 Nodes with routes", idle},
		{"service", "a Service of 3 ports is created in a cluster of 10 Nodes", service},
		{"no-op", "a label and an annotation that mean nothing are set on that Service", noOp},
		{"scale", "an eleventh Node joins a cluster with 20 Services", scale},
		{"routes-50", "50 Nodes wait for the CCM, and for routes, when it starts", routes},
	}
}

func find(name string) (Scenario, error) {
	for _, scenario := range Scenarios() {
		if scenario.Name == name {
			return scenario, nil
		}
	}
	return Scenario{}, fmt.Errorf("no scenario %q", name)
}

// cluster is where a CCM starts.
type cluster struct {
	nodes   int
	network bool // the servers are members of the network, and the CCM knows it
	routes  bool // the route controller may run
}

var smallCluster = cluster{nodes: 10, network: true}

func join(c cluster) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if err := r.startIn(ctx, c); err != nil {
			return err
		}
		return r.settle(ctx, r.uninitialized)
	}
}

func idle(ctx context.Context, r *run) error {
	if err := join(cluster{nodes: 10, network: true, routes: true})(ctx, r); err != nil {
		return err
	}
	if err := r.wait(ctx, r.options.Deadline, func(context.Context) string { return r.unrest() }); err != nil {
		return err
	}
	r.start()
	r.taken = r.options.Idle
	return r.wait(ctx, 2*r.options.Idle, func(context.Context) string {
		if time.Since(r.begin) < r.options.Idle {
			return "there is time left"
		}
		return ""
	})
}

func service(ctx context.Context, r *run) error {
	if err := join(smallCluster)(ctx, r); err != nil {
		return err
	}
	r.start()
	if err := r.createService(ctx, "bench", 80, 443, 8080); err != nil {
		return err
	}
	return r.settle(ctx, r.unbalanced)
}

func noOp(ctx context.Context, r *run) error {
	if err := service(ctx, r); err != nil {
		return err
	}
	r.start()
	patch := []byte(`{"metadata": {"labels": {"team": "a"}, "annotations": {"example.com/owner": "a"}}}`)
	if _, err := r.client.CoreV1().Services(metav1.NamespaceDefault).Patch(ctx, "bench", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := r.wait(ctx, r.options.Deadline, func(context.Context) string { return r.noise(r.begin) }); err != nil {
		return err
	}
	r.taken = max(0, r.lastRequest().Sub(r.begin))
	return nil
}

func scale(ctx context.Context, r *run) error {
	if err := join(smallCluster)(ctx, r); err != nil {
		return err
	}
	for n := range 20 {
		if err := r.createService(ctx, fmt.Sprintf("bench-%d", n+1), 80); err != nil {
			return err
		}
	}
	if err := r.settle(ctx, r.unbalanced); err != nil {
		return err
	}
	r.start()
	if err := r.addNodes(ctx, 1, stack.Network); err != nil {
		return err
	}
	return r.settle(ctx, func(ctx context.Context) string {
		if missing := r.uninitialized(ctx); missing != "" {
			return missing
		}
		return r.unbalanced(ctx)
	})
}

func routes(ctx context.Context, r *run) error {
	if err := r.startIn(ctx, cluster{nodes: 50, network: true, routes: true}); err != nil {
		return err
	}
	return r.settle(ctx, r.unrouted)
}

// startIn begins the measurement with the start of the CCM, when all kubelets
// have registered their Nodes.
func (r *run) startIn(ctx context.Context, c cluster) error {
	var networks, env, flags []string
	if c.network {
		networks = append(networks, stack.Network)
	} else {
		env = append(env, "HCLOUD_NETWORK=")
	}
	if !c.routes {
		flags = append(flags, "--configure-cloud-routes=false")
	}
	if err := r.addNodes(ctx, c.nodes, networks...); err != nil {
		return err
	}
	r.start()
	return r.startCCM(ctx, env, flags)
}

// addNodes creates servers and returns when their kubelets have registered them.
func (r *run) addNodes(ctx context.Context, n int, networks ...string) error {
	before, err := r.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	if err := r.stack.AddServers(ctx, n, networks...); err != nil {
		return err
	}
	return r.wait(ctx, time.Minute, func(context.Context) string {
		nodes, err := r.nodes.List(labels.Everything())
		if err != nil {
			return err.Error()
		}
		ready := 0
		for _, node := range nodes {
			if condition(node, corev1.NodeReady) == corev1.ConditionTrue {
				ready++
			}
		}
		return count(len(before)+n-ready, len(before)+n, "Nodes are not Ready")
	})
}

// createService creates a Service of the type LoadBalancer. The annotation
// tells the official CCM, and those that follow it, where.
func (r *run) createService(ctx context.Context, name string, ports ...int32) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"load-balancer.hetzner.cloud/location": "fsn1"},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	for _, port := range ports {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("port-%d", port), Port: port})
	}
	_, err := r.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// From here on the Service is expected to have an IP.
	return r.wait(ctx, time.Minute, func(context.Context) string {
		if _, err := r.services.Services(metav1.NamespaceDefault).Get(name); err != nil {
			return err.Error()
		}
		return ""
	})
}

// uninitialized is empty once all Nodes are initialized. What a kubelet cannot
// know, and therefore a CCM must have set, is the ExternalIP.
func (r *run) uninitialized(context.Context) string {
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		return err.Error()
	}
	waiting := 0
	for _, node := range nodes {
		if tainted(node) || !hasExternalIP(node) {
			waiting++
		}
	}
	return count(waiting, len(nodes), "Nodes are not initialized")
}

// unrouted is empty once the network has a route to the pods of each Node, and
// each Node says so.
func (r *run) unrouted(ctx context.Context) string {
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		return err.Error()
	}
	network, _, err := r.cloud.Network.GetByName(ctx, stack.Network)
	if err != nil {
		return err.Error()
	}
	routed := map[string]bool{}
	for _, route := range network.Routes {
		routed[route.Destination.String()] = true
	}
	withoutRoute, unavailable := 0, 0
	for _, node := range nodes {
		if !routed[node.Spec.PodCIDR] {
			withoutRoute++
		}
		if condition(node, corev1.NodeNetworkUnavailable) != corev1.ConditionFalse {
			unavailable++
		}
	}
	return cmp.Or(
		count(withoutRoute, len(nodes), "Nodes have no route to their pods"),
		count(unavailable, len(nodes), "Nodes have no network"),
	)
}

// unbalanced is empty once each Service of the type LoadBalancer has an IP, and
// the load balancer with that IP has its listeners and all Nodes as targets.
func (r *run) unbalanced(ctx context.Context) string {
	all, err := r.services.List(labels.Everything())
	if err != nil {
		return err.Error()
	}
	var services []*corev1.Service
	waiting := 0
	for _, service := range all {
		if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
			services = append(services, service)
			if len(service.Status.LoadBalancer.Ingress) == 0 {
				waiting++
			}
		}
	}
	if waiting > 0 {
		return count(waiting, len(services), "Services have no IP")
	}

	balancers, err := r.cloud.LoadBalancer.All(ctx)
	if err != nil {
		return err.Error()
	}
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		return err.Error()
	}
	for _, service := range services {
		if !isBalanced(service, balancers, len(nodes)) {
			waiting++
		}
	}
	return count(waiting, len(services), "Services have no load balancer with all their listeners and targets")
}

func isBalanced(service *corev1.Service, balancers []*hcloud.LoadBalancer, nodes int) bool {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		for _, balancer := range balancers {
			if hasIP(balancer, net.ParseIP(ingress.IP)) {
				return hasListeners(balancer, service.Spec.Ports) && len(targets(balancer.Targets)) == nodes
			}
		}
	}
	return false
}

func hasIP(balancer *hcloud.LoadBalancer, ip net.IP) bool {
	for _, private := range balancer.PrivateNet {
		if private.IP.Equal(ip) {
			return true
		}
	}
	return balancer.PublicNet.IPv4.IP.Equal(ip) || balancer.PublicNet.IPv6.IP.Equal(ip)
}

func hasListeners(balancer *hcloud.LoadBalancer, ports []corev1.ServicePort) bool {
	listeners := map[int]int{}
	for _, listener := range balancer.Services {
		listeners[listener.ListenPort] = listener.DestinationPort
	}
	for _, port := range ports {
		if listeners[int(port.Port)] != int(port.NodePort) {
			return false
		}
	}
	return len(listeners) == len(ports)
}

// targets returns the distinct servers and IPs behind targets of any type.
func targets(all []hcloud.LoadBalancerTarget) map[any]bool {
	distinct := map[any]bool{}
	for _, target := range all {
		switch target.Type {
		case hcloud.LoadBalancerTargetTypeServer:
			distinct[target.Server.Server.ID] = true
		case hcloud.LoadBalancerTargetTypeIP:
			distinct[target.IP.IP] = true
		case hcloud.LoadBalancerTargetTypeLabelSelector:
			for selected := range targets(target.Targets) {
				distinct[selected] = true
			}
		}
	}
	return distinct
}

// count says how many of all are in a state, and nothing if none is.
func count(n, all int, state string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d %s", n, all, state)
}

func tainted(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return true
		}
	}
	return false
}

func hasExternalIP(node *corev1.Node) bool {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeExternalIP {
			return true
		}
	}
	return false
}

// condition returns the status of a Node's condition, an empty one if there is none.
func condition(node *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return ""
}
