package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/cloud-provider/service/helpers"

	"example.com/ccm-from-scratch/final/api"
	"example.com/ccm-from-scratch/final/config"
	"example.com/ccm-from-scratch/final/events"
	"example.com/ccm-from-scratch/final/loadbalancer"
)

// AddCommands gives the cloud-controller-manager what people run by hand: the
// flag --dry-run, and the command leaks. Both need the same environment.
func AddCommands(command *cobra.Command) {
	dryRun := command.Flags().Bool("dry-run", false, "print what would be done to load balancers, and exit")
	run := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if !*dryRun {
			return run(cmd, args)
		}
		kubeconfig, err := cmd.Flags().GetString("kubeconfig")
		if err != nil {
			return err
		}
		return plan(cmd, kubeconfig)
	}
	command.AddCommand(leaksCommand())
}

// snapshot is the cluster as it is at one moment, with a Reconciler to look at
// the cloud with.
type snapshot struct {
	reconciler *loadbalancer.Reconciler
	cluster    kubernetes.Interface
	services   []corev1.Service
	nodes      []*corev1.Node
}

func takeSnapshot(ctx context.Context, kubeconfig string) (*snapshot, error) {
	c, err := config.Load(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	client := api.New(api.Options{Endpoint: c.Endpoint, Token: c.Token, TokenFile: c.TokenFile, Registry: prometheus.NewRegistry()})
	c.NetworkAttachedCheck = false
	network, err := checkAccess(ctx, client, c)
	if err != nil {
		return nil, err
	}
	rest, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cluster, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, err
	}
	services, err := cluster.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	nodes, err := cluster.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	system, err := cluster.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("find out which cluster this is: %w", err)
	}
	s := &snapshot{cluster: cluster, services: services.Items}
	for i := range nodes.Items {
		if node := &nodes.Items[i]; loadbalancer.Targetable(node) {
			s.nodes = append(s.nodes, node)
		}
	}
	s.reconciler = loadbalancer.New(loadbalancer.Options{
		Client:   client,
		Network:  network,
		Defaults: loadBalancerDefaults(c.LoadBalancers),
		Events:   events.NewRecorder(nil),
		Cluster:  func(context.Context) (string, error) { return string(system.UID), nil },
		Owner:    s.owner,
		Current: func(service *corev1.Service, nodes []*corev1.Node) (*corev1.Service, []*corev1.Node) {
			return service, nodes
		},
		Secret: func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
			return cluster.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Again: func(*corev1.Service, time.Duration) {},
	})
	return s, nil
}

func (s *snapshot) owner(uid types.UID) (string, bool) {
	for i := range s.services {
		if service := &s.services[i]; service.UID == uid && loadbalancer.Wanted(service) {
			return service.Namespace + "/" + service.Name, true
		}
	}
	return "", false
}

// live lists the Services as they are now, with those whose load balancer the
// controller is about to let go.
func (s *snapshot) live(ctx context.Context) (map[types.UID]bool, error) {
	services, err := s.cluster.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	uids := map[types.UID]bool{}
	for i := range services.Items {
		if service := &services.Items[i]; loadbalancer.Wanted(service) || helpers.HasLBFinalizer(service) {
			uids[service.UID] = true
		}
	}
	return uids, nil
}

// plan prints what a pass would do to the load balancer of each Service, and what
// keeps it from that.
func plan(cmd *cobra.Command, kubeconfig string) error {
	s, err := takeSnapshot(cmd.Context(), kubeconfig)
	if err != nil {
		return err
	}
	failed := 0
	for i := range s.services {
		service := &s.services[i]
		if !loadbalancer.Wanted(service) || service.DeletionTimestamp != nil {
			continue
		}
		name := service.Namespace + "/" + service.Name
		lines, err := s.reconciler.Plan(cmd.Context(), service, s.nodes)
		if err != nil {
			lines = append(lines, "error: "+err.Error())
			failed++
		}
		for _, line := range lines {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", name, line)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d Services have errors", failed)
	}
	return nil
}

// leaksCommand lists what is left in the cloud, and deletes it only if told to.
func leaksCommand() *cobra.Command {
	var remove bool
	var kubeconfig, pods string
	cmd := &cobra.Command{
		Use:   "leaks",
		Short: "List load balancers, certificates, and routes of this cluster that nothing needs any more, with their price",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cidr, err := netip.ParsePrefix(pods)
			if err != nil {
				return fmt.Errorf("--cluster-cidr: %w", err)
			}
			s, err := takeSnapshot(cmd.Context(), kubeconfig)
			if err != nil {
				return err
			}
			leaks, err := s.reconciler.Leaks(cmd.Context(), cidr, s.live)
			if err != nil {
				return err
			}
			return report(cmd, leaks, remove)
		},
	}
	cmd.Flags().BoolVar(&remove, "delete", false, "delete what is certainly this cluster's")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "path of the kubeconfig file")
	cmd.Flags().StringVar(&pods, "cluster-cidr", "10.244.0.0/16", "range of all pod CIDRs")
	return cmd
}

func report(cmd *cobra.Command, leaks []loadbalancer.Leak, remove bool) error {
	var errs []error
	for _, leak := range leaks {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s (%s)\n", leak.What, leak.Why, leak.Price)
		if !remove || leak.Remove == nil {
			continue
		}
		if err := leak.Remove(cmd.Context()); err != nil {
			errs = append(errs, fmt.Errorf("delete %s: %w", leak.What, err))
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: deleted\n", leak.What)
	}
	return errors.Join(errs...)
}
