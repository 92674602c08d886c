package ccm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/metrics"
	"example.com/ccm-from-scratch/final/nodes"
	"example.com/ccm-from-scratch/final/providerid"
	"example.com/ccm-from-scratch/final/servers"
)

// InstancesV2 tells the node and node lifecycle controllers about the servers
// behind Nodes.
type InstancesV2 struct {
	servers    *servers.Servers
	policy     nodes.Policy
	nodes      corelisters.NodeLister
	events     *events.Recorder
	metrics    *metrics.Metrics
	kubernetes kubernetes.Interface // set before the controllers start
}

var _ cloudprovider.InstancesV2 = &InstancesV2{}

// InstanceMetadata describes the server behind a Node. The node controller
// copies the answer to a Node that has the uninitialized taint, and removes the
// taint. Afterwards it asks again every five minutes, for the addresses alone.
// On an error the taint stays and the controller retries with a backoff, and at
// once when the Node changes.
func (i *InstancesV2) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	i.metrics.Operation("InstanceMetadata")
	ctx = metrics.Instances.In(ctx)
	server, err := i.server(ctx, node)
	if err != nil {
		return nil, err
	}
	metadata := i.policy.Metadata(server, node)
	if !nodes.Uninitialized(node) {
		i.followType(ctx, node, metadata.InstanceType)
	} else if mismatch := i.policy.Mismatch(server, node); mismatch != "" {
		i.events.Warn(node, events.NodeIPUnknown, "%s", mismatch)
	}
	return metadata, nil
}

// server returns the server behind a Node: the one that its provider ID names,
// or, for a Node that has none yet, the one with the same name. It returns an
// error that wraps cloudprovider.InstanceNotFound if there is no such server, and
// tells whoever looks at the Node.
func (i *InstancesV2) server(ctx context.Context, node *corev1.Node) (*hcloud.Server, error) {
	if node.Spec.ProviderID == "" {
		server, err := i.servers.ByName(ctx, node.Name)
		if errors.Is(err, servers.ErrNotFound) {
			hint := ""
			if similar := i.servers.Similar(node.Name); len(similar) > 0 {
				hint = fmt.Sprintf(", but there is %q", strings.Join(similar, `", "`))
			}
			i.events.Warn(node, events.ServerNotFound, "there is no server with the name %q in this project%s: the Node waits for one, and names must match exactly", node.Name, hint)
			return nil, fmt.Errorf("server with name %q: %w", node.Name, cloudprovider.InstanceNotFound)
		}
		if err != nil {
			return nil, fmt.Errorf("look up server by name %q: %w", node.Name, err)
		}
		return server, nil
	}

	id, err := providerid.Parse(node.Spec.ProviderID)
	if err != nil {
		if nodes.Uninitialized(node) {
			i.events.Warn(node, events.UnknownProviderID, "%s: its own cloud provider must initialize the Node", err)
		}
		return nil, fmt.Errorf("node %q: %w", node.Name, err)
	}
	find := i.servers.ByID
	if !nodes.Uninitialized(node) {
		find = i.servers.Listed // it is asked for again in a while, for ever if need be
	}
	server, err := find(ctx, id, 0)
	if errors.Is(err, servers.ErrNotFound) {
		if other := i.servers.Named(node.Name); other != nil {
			i.events.Warn(node, events.ServerReplaced, "server %d not found, a server with the name %q has ID %d: if that is the Node's, delete the Node, and its kubelet will register it anew", id, node.Name, other.ID)
		}
		return nil, fmt.Errorf("server with ID %d: %w", id, cloudprovider.InstanceNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("look up server by ID %d: %w", id, err)
	}
	return server, nil
}

// followType updates the labels of a Node whose server has got another type. The
// node controller sets labels once, and never again. Region and zone cannot
// change, and other labels are not ours.
func (i *InstancesV2) followType(ctx context.Context, node *corev1.Node, instanceType string) {
	if instanceType == "" || node.Labels[corev1.LabelInstanceTypeStable] == instanceType {
		return
	}
	// The node controller copies the deprecated label to the other one.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{
		corev1.LabelInstanceType:       instanceType,
		corev1.LabelInstanceTypeStable: instanceType,
	}}})
	if err == nil {
		_, err = i.kubernetes.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Unable to update the instance type", "node", klog.KObj(node))
		return
	}
	klog.FromContext(ctx).Info("Updated the instance type", "node", klog.KObj(node), "type", instanceType)
}
