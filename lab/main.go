// Command lab is a Kubernetes control plane and an emulated Hetzner Cloud on a
// laptop: the place where every stage runs and is tested.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"example.com/ccm-from-scratch/lab/cloudctl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends us the hard way

	root := &cobra.Command{
		Use:          "lab",
		Short:        "A Kubernetes control plane and an emulated Hetzner Cloud on your laptop",
		SilenceUsage: true,
	}
	cloud := cloudctl.NewCommand(connection)
	cloud.Short += ", in the lab that `lab up` started"
	root.AddCommand(up(), scriptCommand(), demo(), benchCommand(), cloud, docs())
	root.CompletionOptions.HiddenDefaultCmd = true

	if err := root.ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

// connection returns the API of the lab whose variables the shell has, or else
// of the one that runs in this repository.
func connection() (endpoint, token string, err error) {
	if endpoint, token := os.Getenv("HCLOUD_ENDPOINT"), os.Getenv("HCLOUD_TOKEN"); endpoint != "" && token != "" {
		return endpoint, token, nil
	}
	root, err := repositoryRoot()
	if err != nil {
		return "", "", err
	}
	env, err := readEnv(filepath.Join(root, labDir, "env"))
	if err != nil {
		return "", "", fmt.Errorf("no lab is running here: start one with `go run ./lab up` (%w)", err)
	}
	return env["HCLOUD_ENDPOINT"], env["HCLOUD_TOKEN"], nil
}

// repositoryRoot returns the folder of go.work, at or above the current one.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.work here or above: run the lab inside a clone of the repository")
		}
		dir = parent
	}
}
