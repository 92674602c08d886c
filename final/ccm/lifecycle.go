package ccm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/metrics"
	"example.com/ccm-from-scratch/final/providerid"
	"example.com/ccm-from-scratch/final/servers"
)

// InstanceExists is called for every Node that is not Ready. On false, the node
// lifecycle controller deletes the Node object. On an error the Node stays, and
// the controller asks again five seconds later.
//
// A Node's server counts as gone if the API says so for the ID in the Node's
// provider ID, and still finds the server of another Node of this cluster. A Node
// without such an ID may be new, or belong to another cloud; that we find no
// server for it proves nothing.
func (i *InstancesV2) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	i.metrics.Operation("InstanceExists")
	ctx = metrics.Instances.In(ctx)
	id, err := providerid.Parse(node.Spec.ProviderID)
	if err != nil {
		return true, nil // not one of ours to judge
	}
	age := i.servers.Patience(unready(node))
	_, err = i.servers.Glance(ctx, id, age)
	if errors.Is(err, servers.ErrNotFound) {
		var gone bool
		gone, err = i.gone(ctx, id, age)
		if errors.Is(err, servers.ErrDoubt) {
			i.events.Warn(node, events.WrongProject, "server %d is not in this project, and nor is any other server of this cluster: the API token may be that of another project. No Node is deleted", id)
		}
		if err == nil {
			return !gone, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("confirm that server %d is gone: %w", id, err)
	}
	return true, nil
}

// gone asks whether a server is gone, with the servers of all Nodes as witnesses.
func (i *InstancesV2) gone(ctx context.Context, id int64, age time.Duration) (bool, error) {
	others, err := serverIDs(i.nodes)
	if err != nil {
		return false, err
	}
	return i.servers.Gone(ctx, id, others, age)
}

// serverIDs lists the servers behind Nodes.
func serverIDs(lister corelisters.NodeLister) ([]int64, error) {
	all, err := lister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, node := range all {
		if id, err := providerid.Parse(node.Spec.ProviderID); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// InstanceShutdown is called for every Node that is not Ready and exists. On
// true, the node lifecycle controller taints the Node, so that its pods are
// replaced and its volumes can be used elsewhere. It removes the taint when the
// Node is Ready again.
//
// A server that is starting, stopping or migrating is not shut down.
func (i *InstancesV2) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	i.metrics.Operation("InstanceShutdown")
	ctx = metrics.Instances.In(ctx)
	id, err := providerid.Parse(node.Spec.ProviderID)
	if err != nil {
		return false, nil // not one of ours to judge
	}
	server, err := i.servers.Glance(ctx, id, i.servers.Patience(unready(node)))
	if errors.Is(err, servers.ErrNotFound) {
		return false, fmt.Errorf("server with ID %d: %w", id, cloudprovider.InstanceNotFound)
	}
	if err != nil {
		return false, fmt.Errorf("look up server by ID %d: %w", id, err)
	}
	return server.Status == hcloud.ServerStatusOff, nil
}

// unready returns for how long a Node has not been Ready. The controller asks about
// it every five seconds all the time.
func unready(node *corev1.Node) time.Duration {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return time.Since(condition.LastTransitionTime.Time)
		}
	}
	return 0
}
