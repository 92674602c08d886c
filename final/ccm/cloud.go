// Package ccm implements the cloudprovider interfaces for Hetzner Cloud.
package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"
)

// ProviderName is the value of --cloud-provider and the scheme of our provider
// IDs. The CSI driver and the cluster autoscaler look for the same word.
const ProviderName = "hcloud"

// CloudProvider tells the controllers which parts of the cloud we support.
// They ask once, at start. The second result of each getter decides: false
// means that the controller behind it does not run.
type CloudProvider struct {
	instances     *InstancesV2
	loadBalancers *LoadBalancers
	routes        *Routes // nil if no network is configured
}

var _ cloudprovider.Interface = &CloudProvider{}

// NewCloudProvider is called once, after flags are parsed and before any
// controller starts. It cannot return an error: what must not start exits here.
func NewCloudProvider(config *config.CompletedConfig) cloudprovider.Interface {
	cloud, err := newCloudProvider(context.Background(), config)
	if err != nil {
		klog.ErrorS(err, "Unable to set up the cloud provider")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	return cloud
}

// requestTimeout bounds one request to the API. The controllers set no deadline
// of their own: a request that hangs would hold up all nodes behind it.
const requestTimeout = 15 * time.Second

// newCloudProvider reads the configuration from the environment:
//
//   - HCLOUD_TOKEN: the API token. Required.
//   - HCLOUD_ENDPOINT: the URL of the API, if it is not the public one.
//   - HCLOUD_NETWORK: the name or ID of the network that holds the nodes' InternalIPs.
//   - HCLOUD_LOAD_BALANCERS_*: see loadBalancerDefaultsFromEnv.
//
// config adds what the library knows: the cluster's CIDR, and its Nodes.
func newCloudProvider(ctx context.Context, config *config.CompletedConfig) (*CloudProvider, error) {
	token := strings.TrimSpace(os.Getenv("HCLOUD_TOKEN"))
	if token == "" {
		return nil, errors.New("HCLOUD_TOKEN is not set: it must hold an API token of the project with the servers")
	}
	opts := []hcloud.ClientOption{
		hcloud.WithToken(token),
		hcloud.WithApplication("ccm-from-scratch", ""),
		hcloud.WithHTTPClient(&http.Client{Timeout: requestTimeout}),
	}
	if endpoint := os.Getenv("HCLOUD_ENDPOINT"); endpoint != "" {
		opts = append(opts, hcloud.WithEndpoint(endpoint))
	}
	client := hcloud.NewClient(opts...)

	network, err := configuredNetwork(ctx, client)
	if err != nil {
		return nil, err
	}
	defaults, err := loadBalancerDefaultsFromEnv()
	if err != nil {
		return nil, err
	}
	cloud := &CloudProvider{
		instances:     &InstancesV2{client: client, network: network},
		loadBalancers: &LoadBalancers{client: client, network: network, defaults: defaults},
	}
	if network != nil {
		clusterCIDR := config.ComponentConfig.KubeCloudShared.ClusterCIDR
		cloud.routes, err = newRoutes(client, network, clusterCIDR, config.SharedInformers.Core().V1().Nodes())
		if err != nil {
			return nil, err
		}
	}
	return cloud, nil
}

// configuredNetwork returns the network that HCLOUD_NETWORK names, nil if it names none.
func configuredNetwork(ctx context.Context, client *hcloud.Client) (*hcloud.Network, error) {
	nameOrID := strings.TrimSpace(os.Getenv("HCLOUD_NETWORK"))
	if nameOrID == "" {
		return nil, nil
	}
	network, _, err := client.Network.Get(ctx, nameOrID)
	if err != nil {
		return nil, fmt.Errorf("look up HCLOUD_NETWORK %q: %w", nameOrID, err)
	}
	if network == nil {
		return nil, fmt.Errorf("HCLOUD_NETWORK %q is neither the name nor the ID of a network in this project", nameOrID)
	}
	return network, nil
}

// Initialize hands us a Kubernetes client and a channel that is closed on
// shutdown. It is called before the controllers start, so it must not block.
func (c *CloudProvider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer serves the service controller.
func (c *CloudProvider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.loadBalancers, true
}

// Instances is the predecessor of InstancesV2. Nothing asks for it where
// InstancesV2 is supported.
func (c *CloudProvider) Instances() (cloudprovider.Instances, bool) {
	return nil, false
}

// InstancesV2 serves the node and the node lifecycle controllers.
func (c *CloudProvider) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return c.instances, true
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
	return c.routes, c.routes != nil
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
