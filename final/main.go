// Command cloud-controller-manager connects a Kubernetes cluster to Hetzner Cloud.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info metric
	"k8s.io/controller-manager/pkg/features"
	"k8s.io/klog/v2"

	"example.com/ccm-from-scratch/final/ccm"
	"example.com/ccm-from-scratch/final/config"
	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/health"
	"example.com/ccm-from-scratch/final/loadbalancer"
)

func main() {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.ErrorS(err, "Unable to initialize command options")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	setDefaults(opts)

	controllers := maps.Clone(app.DefaultInitFuncConstructors)
	controllers[health.Name] = health.Constructor

	command := app.NewCloudControllerManagerCommand(
		opts,
		ccm.NewCloudProvider,
		controllers,
		names.CCMControllerAliases(),
		cliflag.NamedFlagSets{},
		genericapiserver.SetupSignalHandler(),
	)
	command.Long = "Connects a Kubernetes cluster to Hetzner Cloud.\n\n" + config.Usage()
	command.PreRunE = func(*cobra.Command, []string) error {
		retryRoutes(command, opts)
		return checkCluster(opts)
	}
	command.AddCommand(referenceCommand())
	ccm.AddCommands(command)

	os.Exit(cli.Run(command))
}

// setDefaults sets our defaults. A flag of the same name overrides each of them.
func setDefaults(opts *options.CloudControllerManagerOptions) {
	opts.KubeCloudShared.CloudProvider.Name = ccm.ProviderName
	opts.Generic.ClientConnection.Kubeconfig = os.Getenv("KUBECONFIG")
	// Every other cloud-controller-manager has the library's name for its lease: two
	// different ones would keep each other from working.
	opts.Generic.LeaderElection.ResourceName = events.Component
	// The range of all pod CIDRs. Routes to other destinations are not ours.
	opts.KubeCloudShared.ClusterCIDR = "10.244.0.0/16"
	// Each pass costs a request. The library's default is 10 seconds.
	opts.KubeCloudShared.RouteReconciliationPeriod.Duration = 30 * time.Second

	// Each Node that joins costs the API server three requests. With the library's
	// limits, made for a shared controller manager, 300 Nodes take 45 seconds.
	opts.Generic.ClientConnection.QPS = 200
	opts.Generic.ClientConnection.Burst = 400
	opts.NodeController.ConcurrentNodeSyncs = 10
	// One load balancer that is stuck must not hold up the others.
	opts.ServiceController.ConcurrentServiceSyncs = 10
	// Nothing listens there: there are no webhooks.
	opts.WebhookServing.BindPort = 0
}

// retryPeriod is the least time between two passes of the route controller in
// which nothing has happened, if it watches Nodes instead of looking regularly.
const retryPeriod = 2 * time.Minute

// retryRoutes makes the route controller try again what has failed. If it watches
// Nodes, it takes a pass in which a route could not be made for a success, and
// makes the next one when a Node changes, or at the informers' resync: in 12 to
// 24 hours, unless a flag says otherwise.
func retryRoutes(command *cobra.Command, opts *options.CloudControllerManagerOptions) {
	watches := utilfeature.DefaultFeatureGate.Enabled(features.CloudControllerManagerWatchBasedRoutesReconciliation)
	if watches && !command.Flags().Changed("min-resync-period") {
		opts.Generic.MinResyncPeriod.Duration = retryPeriod
	}
}

// checkCluster returns an error if nothing says which API server to use. Left
// to itself, client-go would report that in three lines about its own fallbacks.
func checkCluster(opts *options.CloudControllerManagerOptions) error {
	inCluster := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	if opts.Generic.ClientConnection.Kubeconfig == "" && opts.Master == "" && !inCluster {
		return errors.New("no Kubernetes cluster given: set KUBECONFIG, pass --kubeconfig, or run in a pod")
	}
	return nil
}

// referenceCommand prints the tables of the reference pages.
func referenceCommand() *cobra.Command {
	tables := map[string]func() string{
		"configuration": config.Markdown, "events": events.Markdown, "annotations": loadbalancer.Markdown, "policy": loadbalancer.Policy,
	}
	return &cobra.Command{
		Use:       "reference configuration|events|annotations|policy",
		Short:     "Print a table of all variables, events, or annotations, in Markdown, or the admission policy for annotations",
		ValidArgs: slices.Sorted(maps.Keys(tables)),
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), tables[args[0]]())
			return err
		},
	}
}
