// Package cloudctl is the command "cloud": the grammar of the hcloud CLI for
// the emulated Hetzner Cloud, and verbs that the real cloud does not have.
//
// It uses a mirror of the API that is outside of the journal, faults, and the
// rate limit, so that a script can look at the cloud without disturbing what
// it observes.
package cloudctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/spf13/cobra"
)

// NewCommand returns the command "cloud". It asks conn for the address of the
// API as in HCLOUD_ENDPOINT, http://127.0.0.1:PORT/v1, and a token each time
// that it runs. It writes to the command's own outputs and leaves it to cobra
// to print an error.
func NewCommand(conn func() (endpoint, token string, err error)) *cobra.Command {
	c := &ctl{conn: conn}
	cmd := group("cloud", "Look at the emulated Hetzner Cloud, change it, disturb it",
		serverCommand(c),
		networkCommand(c),
		loadBalancerCommand(c),
		certificateCommand(c),
		primaryIPCommand(c),
		sshKeyCommand(c),
		locationCommand(c),
		serverTypeCommand(c),
		loadBalancerTypeCommand(c),
		imageCommand(c),
		actionCommand(c),
		faultCommand(c),
		requestsCommand(c),
		settingsCommand(c),
	)
	cmd.PersistentFlags().BoolVar(&c.noWait, "no-wait", false, "Do not wait for actions to finish")
	silenceUsage(cmd)
	return cmd
}

func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		// Without these, cobra answers a mistyped command with help and success.
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// silenceUsage keeps an error from being followed by a page of help. Cobra asks
// the command that ran, not its parents.
func silenceUsage(cmd *cobra.Command) {
	cmd.SilenceUsage = true
	for _, child := range cmd.Commands() {
		silenceUsage(child)
	}
}

// ctl is what the commands of one NewCommand share.
type ctl struct {
	conn   func() (endpoint, token string, err error)
	noWait bool
}

// client returns a client for the path below the server's root.
func (c *ctl) client(path string) (*hcloud.Client, error) {
	endpoint, token, err := c.conn()
	if err != nil {
		return nil, err
	}
	root, ok := strings.CutSuffix(strings.TrimSuffix(endpoint, "/"), "/v1")
	if !ok {
		return nil, fmt.Errorf("endpoint %q does not end with /v1", endpoint)
	}
	return hcloud.NewClient(
		hcloud.WithEndpoint(root+path),
		hcloud.WithToken(token),
		hcloud.WithApplication("cloud", ""),
		hcloud.WithPollOpts(hcloud.PollOpts{BackoffFunc: hcloud.ConstantBackoff(5 * time.Millisecond)}),
		// Conflicts end as soon as the other change does.
		hcloud.WithRetryOpts(hcloud.RetryOpts{BackoffFunc: hcloud.ConstantBackoff(20 * time.Millisecond), MaxRetries: 250}),
	), nil
}

// run is a cobra RunE that gets a client of the mirror.
func (c *ctl) run(f func(cmd *cobra.Command, api *hcloud.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		api, err := c.client("/_lab/v1")
		if err != nil {
			return err
		}
		return explain(f(cmd, api, args))
	}
}

// await waits for actions to succeed, unless the user does not want to.
func (c *ctl) await(ctx context.Context, api *hcloud.Client, actions ...*hcloud.Action) error {
	if c.noWait {
		return nil
	}
	return api.Action.WaitFor(ctx, actions...)
}

// call sends a request to one of the laboratory's own verbs and decodes the
// answer into out, unless that is nil.
func (c *ctl) call(ctx context.Context, method, path string, in, out any) error {
	lab, err := c.client("/_lab")
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	request, err := lab.NewRequest(ctx, method, path, &body)
	if err != nil {
		return err
	}
	_, err = lab.Do(request, out)
	return explain(err)
}

// explain adds what is wrong with each field to an error about the input.
func explain(err error) error {
	e, _ := errors.AsType[hcloud.Error](err)
	if details, ok := e.Details.(hcloud.ErrorDetailsInvalidInput); ok {
		for _, field := range details.Fields {
			err = fmt.Errorf("%w: %s %s", err, field.Name, strings.Join(field.Messages, ", "))
		}
	}
	return err
}

// say writes to the command's output, for which cobra's own means take stderr
// unless it has been set.
func say(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.OutOrStdout(), format, args...)
}
