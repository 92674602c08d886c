// Package ccm implements the cloudprovider interfaces for Hetzner Cloud. Its
// methods are thin: what they decide is decided in the packages beside it.
package ccm

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	cloudprovider "k8s.io/cloud-provider"
	cloudconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"example.com/ccm-from-scratch/final/api"
	"example.com/ccm-from-scratch/final/config"
	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/metrics"
	"example.com/ccm-from-scratch/final/nodes"
	"example.com/ccm-from-scratch/final/routes"
	"example.com/ccm-from-scratch/final/servers"
)

// ProviderName is the value of --cloud-provider and the scheme of our provider
// IDs. The CSI driver and the cluster autoscaler look for the same word.
const ProviderName = "hcloud"

// CloudProvider tells the controllers which parts of the cloud we support.
// They ask once, at start. The second result of each getter decides: false
// means that the controller behind it does not run.
type CloudProvider struct {
	instances     *InstancesV2
	loadBalancers *LoadBalancers // nil if they are switched off
	routes        *Routes        // nil without a network, or if they are switched off
}

var _ cloudprovider.Interface = &CloudProvider{}

// NewCloudProvider is called once, after flags are parsed and before any
// controller starts. It cannot return an error: what must not start exits here.
func NewCloudProvider(config *cloudconfig.CompletedConfig) cloudprovider.Interface {
	cloud, err := newCloudProvider(context.Background(), config, legacyregistry.Registerer())
	if err != nil {
		klog.ErrorS(err, "Unable to set up the cloud provider")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	return cloud
}

// newCloudProvider reads the environment, and gives each part what it needs of
// it. cluster is what the library knows: the flags, and the cluster's Nodes.
func newCloudProvider(ctx context.Context, cluster *cloudconfig.CompletedConfig, registry prometheus.Registerer) (*CloudProvider, error) {
	c, err := config.Load(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	for _, warning := range c.Warnings {
		klog.FromContext(ctx).Info("Warning: " + warning)
	}
	counters := metrics.New(registry)
	if c.MetricsEnabled {
		metrics.Serve(ctx, c.MetricsAddress)
	}

	var debug io.Writer
	if c.Debug {
		debug = os.Stderr
	}
	client := api.New(api.Options{Endpoint: c.Endpoint, Token: c.Token, TokenFile: c.TokenFile, Debug: debug, Registry: registry})
	network, err := checkAccess(ctx, client, c)
	if err != nil {
		return nil, err
	}

	informer := cluster.SharedInformers.Core().V1().Nodes()
	metrics.Nodes(registry, informer.Lister())
	recorder := events.NewRecorder(nil)
	if cluster.EventBroadcaster != nil {
		recorder = events.NewRecorder(cluster.EventBroadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: events.Component}))
	}
	shared := servers.New(client, servers.Options{
		Mode:    servers.Mode(c.ServerCacheMode),
		MaxAge:  c.ServerCacheAge,
		Observe: counters.ServerLookup(string(c.ServerCacheMode)),
	})

	cloud := &CloudProvider{instances: &InstancesV2{
		servers: shared,
		policy:  nodes.Policy{Network: network, Family: c.AddressFamily, ZoneLabel: c.ZoneLabel},
		nodes:   informer.Lister(),
		events:  recorder,
		metrics: counters,
	}}
	if c.LoadBalancers.Enabled {
		cloud.loadBalancers = newLoadBalancers(client, network, c.LoadBalancers, cluster.SharedInformers, shared, recorder, counters)
	}
	if c.RoutesEnabled {
		cloud.routes = &Routes{
			table:       routes.NewTable(client, network),
			servers:     shared,
			network:     network,
			nodes:       informer.Lister(),
			nodesSynced: informer.Informer().HasSynced,
			events:      recorder,
			metrics:     counters,
		}
		if cloud.routes.clusterCIDRs, err = parseCIDRs(cluster.ComponentConfig.KubeCloudShared.ClusterCIDR); err != nil {
			return nil, err
		}
	}
	return cloud, cloud.checkControllers(cluster.ComponentConfig.Generic.Controllers)
}

// checkControllers returns an error if somebody has asked for a controller by its
// name, and it would not run. With the usual "*", it is no more than skipped.
func (c *CloudProvider) checkControllers(asked []string) error {
	if c.routes == nil && slices.Contains(asked, names.NodeRouteController) {
		return fmt.Errorf("--controllers names %s: it needs HCLOUD_NETWORK, and HCLOUD_NETWORK_ROUTES_ENABLED must not be false", names.NodeRouteController)
	}
	if c.loadBalancers == nil && slices.Contains(asked, names.ServiceLBController) {
		return fmt.Errorf("--controllers names %s: HCLOUD_LOAD_BALANCERS_ENABLED must not be false", names.ServiceLBController)
	}
	return nil
}

// Initialize hands us a Kubernetes client and a channel that is closed on
// shutdown. It is called before the controllers start, so it must not block.
func (c *CloudProvider) Initialize(builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	c.instances.kubernetes = builder.ClientOrDie(events.Component)
	if c.loadBalancers != nil {
		c.loadBalancers.start(c.instances.kubernetes, stop)
	}
}

// LoadBalancer serves the service controller.
func (c *CloudProvider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.loadBalancers, c.loadBalancers != nil
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

// checkAccess asks the API for the configured network, or, if there is none, for
// something small. It returns the network. An API that does not answer is fatal
// only if there is a network: nothing can be said of a Node without it.
func checkAccess(ctx context.Context, client *hcloud.Client, c *config.Config) (*hcloud.Network, error) {
	endpoint := cmp.Or(c.Endpoint, hcloud.Endpoint)
	if c.Network == "" {
		_, _, err := client.Location.List(ctx, hcloud.LocationListOpts{})
		if hcloud.IsError(err, hcloud.ErrorCodeUnauthorized, hcloud.ErrorCodeForbidden) {
			return nil, fmt.Errorf("HCLOUD_TOKEN is refused by %s: %w", endpoint, err)
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "The API does not answer yet", "endpoint", endpoint)
		}
		return nil, nil
	}

	network, _, err := client.Network.Get(ctx, c.Network)
	switch {
	case hcloud.IsError(err, hcloud.ErrorCodeUnauthorized, hcloud.ErrorCodeForbidden):
		return nil, fmt.Errorf("HCLOUD_TOKEN is refused by %s: %w", endpoint, err)
	case err != nil:
		return nil, fmt.Errorf("look up HCLOUD_NETWORK %q at %s: %w", c.Network, endpoint, err)
	case network == nil:
		return nil, fmt.Errorf("HCLOUD_NETWORK %q is neither the name nor the ID of a network in this project", c.Network)
	}
	if c.NetworkAttachedCheck {
		return network, checkAttached(ctx, network)
	}
	return network, nil
}
