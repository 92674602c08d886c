package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.com/ccm-from-scratch/lab/cloud"
	"example.com/ccm-from-scratch/lab/kubelet"
	"example.com/ccm-from-scratch/lab/stack"
)

// labDir is where a lab keeps its files, in the root of the repository.
const labDir = ".lab"

func up() *cobra.Command {
	var (
		options stack.Options
		profile string
		servers int
		dir     string
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a lab and keep it running until Ctrl-C",
		Long: "Start an emulated Hetzner Cloud and a real etcd and kube-apiserver on the loopback\n" +
			"interface, with a network and some servers, each of which joins the cluster as a Node.\n\n" +
			"The file .lab/env holds all that a stage needs to know about them.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				root, err := repositoryRoot()
				if err != nil {
					return err
				}
				dir = filepath.Join(root, labDir)
			}
			options.Log = cmd.ErrOrStderr()
			options.Profile = cloud.Profile(profile)
			return runLab(cmd.Context(), cmd.OutOrStdout(), dir, options, servers)
		},
	}
	cmd.Flags().IntVar(&servers, "servers", 3, "`number` of servers to begin with")
	cmd.Flags().StringVar(&profile, "profile", string(cloud.Instant), "how long actions of the cloud run: instant or realistic")
	cmd.Flags().DurationVar(&options.Grace, "grace", kubelet.DefaultGrace,
		"how long a kubelet may be silent before its Node is NotReady; a real cluster waits for 40 s or more")
	cmd.Flags().StringVar(&dir, "dir", "", "`folder` for the file env, one for each lab (default: .lab in the root of the repository)")
	cmd.Flags().StringVar(&options.Audit, "audit", "", "write an audit log of the API server to this `file`")
	return cmd
}

func runLab(ctx context.Context, out io.Writer, dir string, options stack.Options, servers int) (err error) {
	switch options.Profile {
	case cloud.Instant, cloud.Realistic:
	default:
		return fmt.Errorf("--profile %q: want %s or %s", options.Profile, cloud.Instant, cloud.Realistic)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()

	start := time.Now()
	s, err := stack.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()

	if err := s.AddServers(ctx, servers, stack.Network); err != nil {
		return err
	}
	envFile := filepath.Join(dir, "env")
	if err := writeEnv(envFile, s.Environ()); err != nil {
		return err
	}
	defer os.Remove(envFile)

	fmt.Fprintf(out, `The lab is up after %.1f s: %d servers, network %q. In another terminal:

  source %-27s # KUBECONFIG, HCLOUD_TOKEN, HCLOUD_ENDPOINT, HCLOUD_NETWORK, PATH
  kubectl get nodes                  # a NotReady Node appears %s after its server went (40 s or more in real life)
  go run ./lab cloud server list     # the other side: change it as you would with the hcloud CLI

Ctrl-C ends it.
`, time.Since(start).Seconds(), servers, stack.Network, shortPath(envFile), options.Grace)
	<-ctx.Done()
	fmt.Fprintln(out, "\nstopping")
	return nil
}

// shortPath returns path as a user would type it.
func shortPath(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(dir, path); err == nil && len(short) < len(path) {
		return short
	}
	return path
}

// lock makes sure that one lab at a time uses the folder. The kernel drops the
// lock with the process, however that ends.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid, _ := io.ReadAll(file)
		_ = file.Close()
		return nil, fmt.Errorf("a lab runs already (process %s): use that one, stop it with Ctrl-C, or start another one with --dir", pid)
	}
	if err := errors.Join(file.Truncate(0), fprint(file, os.Getpid())); err != nil {
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}

func fprint(w io.Writer, value any) error {
	_, err := fmt.Fprint(w, value)
	return err
}

// writeEnv writes variables in a form that a shell can source.
func writeEnv(path string, variables []string) error {
	var b strings.Builder
	for _, variable := range variables {
		key, value, _ := strings.Cut(variable, "=")
		if key == "PATH" { // keep what the shell has behind our part
			value, _, _ = strings.Cut(value, string(os.PathListSeparator))
			fmt.Fprintf(&b, "export PATH='%s':\"$PATH\"\n", value)
			continue
		}
		fmt.Fprintf(&b, "export %s='%s'\n", key, strings.ReplaceAll(value, "'", `'\''`))
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}

// readEnv reads what writeEnv wrote.
func readEnv(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		env[key] = strings.ReplaceAll(strings.Trim(value, "'"), `'\''`, "'")
	}
	return env, nil
}
