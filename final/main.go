// Command cloud-controller-manager connects a Kubernetes cluster to Hetzner Cloud.
package main

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info metric
	"k8s.io/klog/v2"

	"example.com/ccm-from-scratch/final/ccm"
)

func main() {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.ErrorS(err, "Unable to initialize command options")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}

	// Our defaults. A flag of the same name overrides each of them.
	opts.KubeCloudShared.CloudProvider.Name = ccm.ProviderName
	opts.Generic.ClientConnection.Kubeconfig = os.Getenv("KUBECONFIG")
	// One replica needs no election, and a restart does not wait for the old lease to expire.
	opts.Generic.LeaderElection.LeaderElect = false
	// The range of all pod CIDRs. Routes to other destinations are not ours.
	opts.KubeCloudShared.ClusterCIDR = "10.244.0.0/16"
	// Each pass costs at least two requests. The library's default is 10 seconds.
	opts.KubeCloudShared.RouteReconciliationPeriod.Duration = 30 * time.Second

	command := app.NewCloudControllerManagerCommand(
		opts,
		ccm.NewCloudProvider,
		app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(),
		cliflag.NamedFlagSets{},
		genericapiserver.SetupSignalHandler(),
	)
	command.PreRunE = func(*cobra.Command, []string) error { return checkCluster(opts) }

	os.Exit(cli.Run(command))
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
