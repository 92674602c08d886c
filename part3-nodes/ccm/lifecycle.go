package ccm

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// InstanceExists is called for every Node that is not Ready. On false, the node
// lifecycle controller deletes the Node object.
func (i *InstancesV2) InstanceExists(context.Context, *corev1.Node) (bool, error) {
	return true, nil
}

// InstanceShutdown is called for every Node that is not Ready and exists. On
// true, the node lifecycle controller taints the Node.
func (i *InstancesV2) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	return false, nil
}
