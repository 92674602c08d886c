// Package ccm implements the cloudprovider interfaces for Hetzner Cloud.
package ccm

import (
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
)

// ProviderName is the value of --cloud-provider and the scheme of our provider
// IDs. The CSI driver and the cluster autoscaler look for the same word.
const ProviderName = "hcloud"

// CloudProvider tells the controllers which parts of the cloud we support.
// They ask once, at start. The second result of each getter decides: false
// means that the controller behind it does not run.
type CloudProvider struct{}

var _ cloudprovider.Interface = &CloudProvider{}

// NewCloudProvider is called once, after flags are parsed and before any
// controller starts. It cannot return an error: what must not start exits here.
func NewCloudProvider(*config.CompletedConfig) cloudprovider.Interface {
	return &CloudProvider{}
}

// Initialize hands us a Kubernetes client and a channel that is closed on
// shutdown. It is called before the controllers start, so it must not block.
func (c *CloudProvider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer serves the service controller.
func (c *CloudProvider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return nil, false
}

// Instances is the predecessor of InstancesV2. Nothing asks for it where
// InstancesV2 is supported.
func (c *CloudProvider) Instances() (cloudprovider.Instances, bool) {
	return nil, false
}

// InstancesV2 serves the node and the node lifecycle controllers.
func (c *CloudProvider) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return nil, false
}

// Zones is deprecated: InstancesV2 reports zone and region.
func (c *CloudProvider) Zones() (cloudprovider.Zones, bool) {
	return nil, false
}

// Clusters is not used by any controller of the cloud-controller-manager.
func (c *CloudProvider) Clusters() (cloudprovider.Clusters, bool) {
	return nil, false
}

// Routes serves the route controller.
func (c *CloudProvider) Routes() (cloudprovider.Routes, bool) {
	return nil, false
}

// ProviderName must equal the value of --cloud-provider.
func (c *CloudProvider) ProviderName() string {
	return ProviderName
}

// HasClusterID reports whether the cloud's resources are tagged with the
// cluster they belong to. Only a provider's own start-up code asks.
func (c *CloudProvider) HasClusterID() bool {
	return true
}
