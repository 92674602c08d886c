package ccm

import (
	"context"
	"fmt"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// InstancesV2 tells the node and node lifecycle controllers about the servers
// behind Nodes.
type InstancesV2 struct {
	client  *hcloud.Client
	network *hcloud.Network // source of InternalIPs; nil if none is configured
}

var _ cloudprovider.InstancesV2 = &InstancesV2{}

// InstanceMetadata describes the server behind a Node. The node controller
// copies the answer to a Node that has the uninitialized taint, and removes the
// taint. Afterwards it asks again every five minutes, for the addresses alone.
// On an error the taint stays and the controller retries with a backoff.
func (i *InstancesV2) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	server, err := i.server(ctx, node)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    providerID(server.ID),
		InstanceType:  server.ServerType.Name,
		NodeAddresses: nodeAddresses(server, i.network),
		Region:        server.Location.Name,
		Zone:          server.Location.Name,
	}, nil
}

// server returns the server behind a Node: the one that its provider ID names,
// or, for a Node that has none yet, the one with the same name. It returns an
// error that wraps cloudprovider.InstanceNotFound if there is no such server.
func (i *InstancesV2) server(ctx context.Context, node *corev1.Node) (*hcloud.Server, error) {
	if node.Spec.ProviderID == "" {
		server, _, err := i.client.Server.GetByName(ctx, node.Name)
		if err != nil {
			return nil, fmt.Errorf("look up server by name %q: %w", node.Name, err)
		}
		if server == nil {
			return nil, fmt.Errorf("server with name %q: %w", node.Name, cloudprovider.InstanceNotFound)
		}
		return server, nil
	}

	id, err := parseProviderID(node.Spec.ProviderID)
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", node.Name, err)
	}
	server, _, err := i.client.Server.GetByID(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("look up server by ID %d: %w", id, err)
	}
	if server == nil {
		return nil, fmt.Errorf("server with ID %d: %w", id, cloudprovider.InstanceNotFound)
	}
	return server, nil
}
