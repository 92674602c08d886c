// Package stack puts the lab together: an emulated Hetzner Cloud, a real control
// plane, and a simulated kubelet on each server.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"k8s.io/client-go/kubernetes"

	"example.com/ccm-from-scratch/lab/cloud"
	"example.com/ccm-from-scratch/lab/cloud/openapi"
	"example.com/ccm-from-scratch/lab/cloudctl"
	"example.com/ccm-from-scratch/lab/cluster"
	"example.com/ccm-from-scratch/lab/kubelet"
)

// What every lab starts with.
const (
	Project = "lab"
	Network = "lab" // 10.0.0.0/8, with the subnet 10.0.0.0/24

	// Token has the length of a real one; official programs warn otherwise.
	Token = "labtokenlabtokenlabtokenlabtokenlabtokenlabtokenlabtokenlabtoken"
)

// Options configure a Stack. The zero value is fit for tests.
type Options struct {
	Log     io.Writer     // what we wait for; nil means nobody wants to know
	Profile cloud.Profile // how long actions run; empty means cloud.Instant
	Grace   time.Duration // see kubelet.Options
	Audit   string        // see cluster.Options

	// Beside is a lab whose cloud this one uses, too, as a second cluster in the same
	// network. It must outlive this one. The kubelets of servers are the first one's.
	Beside *Stack

	// RealPeriods leaves the CCMs at their own periods, minutes in some cases.
	// Otherwise the lab tells them to look at everything every other second.
	RealPeriods bool
}

// Stack is a running lab.
type Stack struct {
	Cloud    *cloud.Cloud
	Cluster  *cluster.Cluster
	Endpoint string // URL of the emulated API

	options    Options
	servers    int        // that AddServers has created
	violations chan error // what the API's answers have against its document
	stop       []func() error
}

// Start starts a lab with an empty cluster, and a project with nothing but a
// network. Stop must be called even if the context ends.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	s := &Stack{options: o, violations: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()

	if o.Beside != nil {
		s.Cloud, s.Endpoint = o.Beside.Cloud, o.Beside.Endpoint
	} else if err := s.startCloud(ctx, o); err != nil {
		return nil, fmt.Errorf("start the emulated cloud: %w", err)
	}

	s.Cluster, err = cluster.Start(ctx, cluster.Options{Log: o.Log, Audit: o.Audit})
	if err != nil {
		return nil, err
	}
	s.stop = append(s.stop, s.Cluster.Stop)
	if o.Beside != nil {
		return s, nil
	}

	client, err := kubernetes.NewForConfig(s.Cluster.Config())
	if err != nil {
		return nil, err
	}
	changed, unsubscribe := s.Cloud.Subscribe()
	ctx, cancel := context.WithCancel(ctx)
	wait, err := kubelet.Start(ctx, kubelet.Options{
		Client:  client,
		Servers: func() []schema.Server { return s.Cloud.Servers(Project) },
		Changed: changed,
		Grace:   o.Grace,
	})
	s.stop = append(s.stop, func() error {
		cancel()
		unsubscribe()
		if wait != nil {
			wait()
		}
		return nil
	})
	return s, err
}

// startCloud starts a cloud with a network.
func (s *Stack) startCloud(ctx context.Context, o Options) error {
	s.Cloud = cloud.New(cloud.Config{Profile: o.Profile})
	s.Cloud.AddToken(Token, Project, cloud.ReadWrite)

	var handler http.Handler = s.Cloud
	spec, err := openapi.FromEnvironment()
	if err != nil {
		return err
	}
	if spec != nil {
		handler = spec.Wrap(handler, func(err error) {
			select {
			case s.violations <- err:
			default: // one is enough
			}
		})
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	s.Endpoint = "http://" + listener.Addr().String() + "/v1"
	s.stop = append(s.stop, func() error {
		s.Cloud.Close()
		return server.Close()
	})
	if err := s.CloudCommand(ctx, io.Discard, "network", "create", "--name", Network, "--ip-range", "10.0.0.0/8"); err != nil {
		return err
	}
	return s.CloudCommand(ctx, io.Discard, "network", "add-subnet", Network, "--type", "cloud", "--network-zone", "eu-central", "--ip-range", "10.0.0.0/24")
}

// AddServers creates n servers of the same kind, named worker-1 and so on, each
// a member of the networks, and waits until they run. It is not for concurrent use.
func (s *Stack) AddServers(ctx context.Context, n int, networks ...string) error {
	client := s.Client()
	opts := hcloud.ServerCreateOpts{
		ServerType: &hcloud.ServerType{Name: "cx23"},
		Image:      &hcloud.Image{Name: "ubuntu-24.04"},
		Location:   &hcloud.Location{Name: "fsn1"},
	}
	for _, name := range networks {
		network, _, err := client.Network.GetByName(ctx, name)
		if err != nil {
			return err
		}
		if network == nil {
			return fmt.Errorf("no network %q", name)
		}
		opts.Networks = append(opts.Networks, network)
	}
	var actions []*hcloud.Action
	for range n {
		s.servers++
		opts.Name = fmt.Sprintf("worker-%d", s.servers)
		created, _, err := client.Server.Create(ctx, opts)
		if err != nil {
			return fmt.Errorf("create server %s: %w", opts.Name, err)
		}
		actions = append(append(actions, created.Action), created.NextActions...)
	}
	return client.Action.WaitFor(ctx, actions...)
}

// Client returns a client for those who arrange or watch the scene: its requests
// are not in the journal, use up no rate limit, and meet no fault.
func (s *Stack) Client() *hcloud.Client {
	return hcloud.NewClient(
		hcloud.WithEndpoint(strings.TrimSuffix(s.Endpoint, "/v1")+"/_lab/v1"),
		hcloud.WithToken(Token),
		hcloud.WithPollOpts(hcloud.PollOpts{BackoffFunc: hcloud.ConstantBackoff(10 * time.Millisecond)}),
	)
}

// Stop ends everything that Start began, in the reverse order. It returns an
// error also if an answer of the emulated API did not match its document.
func (s *Stack) Stop() error {
	var errs []error
	for _, stop := range slices.Backward(s.stop) {
		errs = append(errs, stop())
	}
	s.stop = nil
	select {
	case err := <-s.violations:
		errs = append(errs, fmt.Errorf("the emulated API broke its contract: %w", err))
	default:
	}
	return errors.Join(errs...)
}

// Environ returns the variables, as KEY=VALUE, that a stage needs to run against
// this lab. The PATH in it finds the lab's kubectl first.
func (s *Stack) Environ() []string {
	return []string{
		"KUBECONFIG=" + s.Cluster.Kubeconfig(),
		"HCLOUD_TOKEN=" + Token,
		"HCLOUD_ENDPOINT=" + s.Endpoint,
		"HCLOUD_NETWORK=" + Network,
		"PATH=" + filepath.Dir(s.Cluster.Binaries().Kubectl) + string(os.PathListSeparator) + os.Getenv("PATH"),
	}
}

// CloudCommand runs one command of the hcloud CLI's grammar against this lab.
func (s *Stack) CloudCommand(ctx context.Context, out io.Writer, args ...string) error {
	cmd := cloudctl.NewCommand(func() (string, string, error) { return s.Endpoint, Token, nil })
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(out)
	cmd.SilenceErrors = true
	if err := cmd.ExecuteContext(ctx); err != nil {
		return fmt.Errorf("cloud %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
