package ccm

import (
	"context"
	"fmt"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// InstanceExists is called for every Node that is not Ready. On false, the node
// lifecycle controller deletes the Node object. On an error the Node stays, and
// the controller asks again five seconds later.
//
// Only one thing makes a Node's server count as gone: the API says so for the ID
// in the Node's provider ID. A Node without such an ID may be new, or belong to
// another cloud; that we find no server for it proves nothing.
func (i *InstancesV2) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	id, err := parseProviderID(node.Spec.ProviderID)
	if err != nil {
		return true, nil // not one of ours to judge
	}
	server, _, err := i.client.Server.GetByID(ctx, id)
	if err != nil {
		return false, fmt.Errorf("look up server by ID %d: %w", id, err)
	}
	if server != nil {
		return true, nil
	}

	// The client reports the "not found" of a wrong URL in the same way. But only
	// the API itself can list servers.
	if _, _, err := i.client.Server.List(ctx, hcloud.ServerListOpts{Name: node.Name}); err != nil {
		return false, fmt.Errorf("confirm that server %d is gone: %w", id, err)
	}
	return false, nil
}

// InstanceShutdown is called for every Node that is not Ready and exists. On
// true, the node lifecycle controller taints the Node, so that its pods are
// replaced and its volumes can be used elsewhere. It removes the taint when the
// Node is Ready again.
//
// A server that is starting, stopping or migrating is not shut down.
func (i *InstancesV2) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	id, err := parseProviderID(node.Spec.ProviderID)
	if err != nil {
		return false, nil // not one of ours to judge
	}
	server, _, err := i.client.Server.GetByID(ctx, id)
	if err != nil {
		return false, fmt.Errorf("look up server by ID %d: %w", id, err)
	}
	if server == nil {
		return false, fmt.Errorf("server with ID %d: %w", id, cloudprovider.InstanceNotFound)
	}
	return server.Status == hcloud.ServerStatusOff, nil
}
