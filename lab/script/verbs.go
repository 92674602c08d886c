package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"example.com/ccm-from-scratch/lab/cloudctl"
	"example.com/ccm-from-scratch/lab/kubelet"
	"example.com/ccm-from-scratch/lab/stack"
)

const (
	defaultWithin = 30 * time.Second
	defaultFor    = 3 * time.Second
	pollInterval  = 300 * time.Millisecond
)

// verbs returns the commands that a script has beyond those of testscript. They
// are made anew for each use: a cobra command remembers its flags.
func (s *session) verbs() []*cobra.Command {
	return []*cobra.Command{
		cloudctl.NewCommand(func() (string, string, error) { return s.stack.Endpoint, stack.Token, nil }),
		s.node(),
		s.ccm(),
		s.kubectl(),
		s.eventually(),
		s.never(),
		s.show(),
		s.keep(),
	}
}

// run runs one verb with its arguments.
func (s *session) run(ctx context.Context, out, errOut io.Writer, args ...string) error {
	for _, verb := range s.verbs() {
		if verb.Name() == args[0] {
			verb.SetArgs(args[1:])
			verb.SetOut(out)
			verb.SetErr(errOut)
			verb.SilenceErrors, verb.SilenceUsage = true, true
			return verb.ExecuteContext(ctx)
		}
	}
	return fmt.Errorf("unknown verb %q", args[0])
}

// output runs one verb and returns all that it printed, and its error as the last line.
func (s *session) output(ctx context.Context, args []string) (string, error) {
	var out bytes.Buffer
	err := s.run(ctx, &out, &out, args...)
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String(), err
}

func (s *session) node() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Act as a kubelet, where a server alone does not do it",
	}

	var providerID, nodeIP, podCIDR string
	var initialized, notReady bool
	add := &cobra.Command{
		Use:   "add NAME",
		Short: "Register a Node that has no server behind it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := kubernetes.NewForConfig(s.stack.Cluster.Config())
			if err != nil {
				return err
			}
			node := kubelet.NewNode(args[0], nodeIP)
			node.Spec.ProviderID = providerID
			if podCIDR != "" {
				node.Spec.PodCIDR, node.Spec.PodCIDRs = podCIDR, []string{podCIDR}
			}
			if initialized {
				node.Spec.Taints = nil
			}
			if _, err := client.CoreV1().Nodes().Create(cmd.Context(), node, metav1.CreateOptions{}); err != nil {
				return err
			}
			status := corev1.ConditionTrue
			if notReady {
				status = corev1.ConditionUnknown
			}
			return kubelet.SetReady(cmd.Context(), client, node.Name, status)
		},
	}
	add.Flags().StringVar(&providerID, "provider-id", "", "provider `ID` that the kubelet sets itself")
	add.Flags().StringVar(&nodeIP, "node-ip", "", "`IP` of the kubelet's --node-ip flag")
	add.Flags().StringVar(&podCIDR, "pod-cidr", "", "pod `CIDR` of the Node")
	add.Flags().BoolVar(&initialized, "initialized", false, "without the taint "+cloudproviderapi.TaintExternalCloudProvider)
	add.Flags().BoolVar(&notReady, "not-ready", false, "with the condition Ready=Unknown")

	stop := &cobra.Command{
		Use:   "stop SERVER",
		Short: "Stop the kubelet of a server that goes on running",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd.Context(), io.Discard, io.Discard, "cloud", "server", "add-label", args[0], kubelet.StayOutLabel+"=false")
		},
	}
	start := &cobra.Command{
		Use:   "start SERVER",
		Short: "Start the kubelet of a server again",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd.Context(), io.Discard, io.Discard, "cloud", "server", "remove-label", args[0], kubelet.StayOutLabel)
		},
	}
	cmd.AddCommand(add, stop, start)
	return cmd
}

func (s *session) ccm() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ccm",
		Short: "Run the cloud-controller-manager under test",
	}

	var serviceAccount string
	start := func(cmd *cobra.Command, args []string) error {
		var flags []string
		kubeconfig := s.stack.Cluster.Kubeconfig()
		if serviceAccount != "" {
			namespace, name, ok := strings.Cut(serviceAccount, "/")
			if !ok {
				return fmt.Errorf("--service-account %q is not NAMESPACE/NAME", serviceAccount)
			}
			var err error
			if kubeconfig, err = s.stack.Cluster.ServiceAccountKubeconfig(cmd.Context(), namespace, name); err != nil {
				return err
			}
			// In a pod these come from the pod's ServiceAccount too.
			flags = append(flags, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
		}
		env, more := splitArguments(args)
		return s.startCCM(kubeconfig, env, append(flags, more...))
	}
	startCmd := &cobra.Command{
		Use:   "start [KEY=VALUE...] [-- FLAG...]",
		Short: "Start it, with more environment and flags if given",
		RunE:  start,
	}
	restartCmd := &cobra.Command{
		Use:   "restart [KEY=VALUE...] [-- FLAG...]",
		Short: "Stop and start it",
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := s.stopCCM(); err != nil {
				return err
			}
			return start(cmd, args)
		},
	}
	for _, c := range []*cobra.Command{startCmd, restartCmd} {
		c.Flags().StringVar(&serviceAccount, "service-account", "", "act as the ServiceAccount `NAMESPACE/NAME` instead of an admin")
	}

	var kill bool
	stopCmd := &cobra.Command{
		Use:   "stop",
		Short: "Send SIGTERM, wait for the end, and print the exit code",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kill {
				return s.killCCM()
			}
			code, err := s.stopCCM()
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "exit code", code)
			}
			return err
		},
	}
	stopCmd.Flags().BoolVar(&kill, "kill", false, "send SIGKILL instead")

	logCmd := &cobra.Command{
		Use:   "log",
		Short: "Print its log since the last start, and its exit code if it has ended",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := s.ccmLog()
			fmt.Fprint(cmd.OutOrStdout(), log)
			return err
		},
	}
	getCmd := &cobra.Command{
		Use:   "get PATH",
		Short: "Request a path, such as /healthz, from its secure port",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.ccmProcess == nil {
				return errNoCCM
			}
			body, err := s.ccmProcess.Get(cmd.Context(), args[0])
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSuffix(body, "\n"))
			}
			return err
		},
	}
	runCmd := &cobra.Command{
		Use:   "run [KEY=VALUE...] [-- ARG...]",
		Short: "Run it to its end with these arguments alone, beside the one that runs",
		RunE: func(cmd *cobra.Command, args []string) error {
			env, arguments := splitArguments(args)
			ccm := exec.CommandContext(cmd.Context(), s.binary, arguments...)
			ccm.Env = s.stack.CCMEnviron(env...)
			ccm.Stdout, ccm.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return ccm.Run()
		},
	}
	cmd.AddCommand(startCmd, stopCmd, restartCmd, runCmd, logCmd, getCmd)
	return cmd
}

// splitArguments tells the variables from the arguments of the CCM.
func splitArguments(args []string) (env, arguments []string) {
	for _, arg := range args {
		if strings.Contains(arg, "=") && !strings.HasPrefix(arg, "-") {
			env = append(env, arg)
		} else {
			arguments = append(arguments, arg)
		}
	}
	return env, arguments
}

func (s *session) kubectl() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl ...",
		Short:              "The real kubectl, as an admin of the cluster",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			kubectl := exec.CommandContext(cmd.Context(), s.stack.Cluster.Binaries().Kubectl, args...)
			kubectl.Env = append(os.Environ(), "KUBECONFIG="+s.stack.Cluster.Kubeconfig(), "HOME="+s.stack.Cluster.Dir())
			kubectl.Dir = s.workDir()
			kubectl.Stdout, kubectl.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return kubectl.Run()
		},
	}
}

func (s *session) eventually() *cobra.Command {
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "eventually [!] REGEXP VERB ARGS...",
		Short: "Repeat a verb until what it prints matches",
		Long: "Repeat a verb until what it prints, errors included, matches the regular expression.\n" +
			"With `!`, until it succeeds and what it prints does not match.",
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := parseExpectation(args)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), within)
			defer cancel()
			for {
				code, exited := s.unexpectedExit()
				out, met := want.check(cmd.Context(), s)
				if met {
					fmt.Fprint(cmd.OutOrStdout(), out)
					return nil
				}
				if exited { // nothing will change any more
					return fmt.Errorf("the CCM has ended with exit code %d; %s was last:\n%s", code, want, out)
				}
				select {
				case <-ctx.Done():
					return fmt.Errorf("not within %s: %s was last:\n%s", within, want, out)
				case <-time.After(pollInterval):
				}
			}
		},
	}
	cmd.Flags().DurationVar(&within, "within", s.within, "give up after this `duration`")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func (s *session) never() *cobra.Command {
	var lasting time.Duration
	cmd := &cobra.Command{
		Use:   "never [!] REGEXP VERB ARGS...",
		Short: "Repeat a verb and fail once what it prints matches",
		Long: "Repeat a verb, which must succeed, and fail once what it prints matches the regular expression.\n" +
			"With `!`, fail once it does not match: what it says must hold all the time.",
		RunE: func(cmd *cobra.Command, args []string) error {
			bad, err := parseExpectation(args)
			if err != nil {
				return err
			}
			for end := time.Now().Add(lasting); time.Now().Before(end); {
				out, err := s.output(cmd.Context(), bad.args)
				if err != nil {
					return fmt.Errorf("%s: %s", bad, out)
				}
				if bad.matches(out) {
					return fmt.Errorf("it did happen: %s was:\n%s", bad, out)
				}
				select {
				case <-cmd.Context().Done():
					return cmd.Context().Err()
				case <-time.After(pollInterval):
				}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&lasting, "for", defaultFor, "watch for this `duration`")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func (s *session) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show TEXT",
		Short: "Print a line of text to whoever watches the script run",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if s.narrate != nil {
				fmt.Fprintf(s.narrate, "\n%s\n", args[0])
			}
			return nil
		},
	}
}

func (s *session) keep() *cobra.Command {
	return &cobra.Command{
		Use:   "keep NAME",
		Short: "Keep what the last command printed, as the variable NAME",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			value := strings.TrimSpace(s.printed())
			if value == "" {
				return errors.New("the last command printed nothing")
			}
			s.setenv(args[0], value)
			return nil
		},
	}
}

// waitable lists the verbs that eventually and never can repeat.
var waitable = []string{"cloud", "ccm", "kubectl"}

// expectation is the common part of eventually and never.
type expectation struct {
	not    bool
	regexp *regexp.Regexp
	args   []string
}

func parseExpectation(args []string) (expectation, error) {
	var e expectation
	if len(args) > 0 && args[0] == "!" {
		e.not, args = true, args[1:]
	}
	if len(args) < 2 {
		return e, errors.New("want a regular expression and a verb")
	}
	if strings.HasPrefix(args[0], "-") {
		return e, fmt.Errorf("unknown flag %s", args[0])
	}
	var err error
	if e.regexp, err = regexp.Compile("(?m)" + args[0]); err != nil {
		return e, err
	}
	e.args = args[1:]
	if !slices.Contains(waitable, e.args[0]) {
		return e, fmt.Errorf("%q cannot be waited for: want one of %s", e.args[0], strings.Join(waitable, ", "))
	}
	return e, nil
}

// matches tells whether out is what the expectation describes.
func (e expectation) matches(out string) bool {
	return e.regexp.MatchString(out) != e.not
}

func (e expectation) check(ctx context.Context, s *session) (out string, met bool) {
	out, err := s.output(ctx, e.args)
	return out, e.matches(out) && (err == nil || !e.not)
}

func (e expectation) String() string {
	verb := "matching"
	if e.not {
		verb = "not matching"
	}
	return fmt.Sprintf("%s, %s %q,", strings.Join(e.args, " "), verb, strings.TrimPrefix(e.regexp.String(), "(?m)"))
}
