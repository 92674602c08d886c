package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// downloadFrom has envtest download the programs that an index of releases
// lists; empty means envtest's own index. Only the Start of an Environment does
// that, so it gets arguments with which it then starts nothing.
func downloadFrom(index string) func(ctx context.Context, log io.Writer, dir string) error {
	return func(ctx context.Context, log io.Writer, dir string) error {
		fmt.Fprintf(log, "downloading the control plane's programs (%s, about 100 MB)\n", series(KubernetesVersion))
		ctrllog.SetLogger(logr.Discard()) // of what Start says about its arguments
		env := &envtest.Environment{
			UseExistingCluster:           new(false),
			DownloadBinaryAssets:         true,
			DownloadBinaryAssetsVersion:  series(KubernetesVersion), // not every patch release is published
			DownloadBinaryAssetsIndexURL: index,
			BinaryAssetsDirectory:        dir,
			ControlPlane:                 envtest.ControlPlane{Etcd: &envtest.Etcd{Args: []string{"{{"}}}, //nolint:staticcheck // Configure cannot fail
		}
		done := make(chan error, 1)
		go func() {
			_, err := env.Start()
			done <- err
		}()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-done:
			path := env.ControlPlane.GetAPIServer().Path
			if path == "" {
				return err
			}
			for _, name := range binaryNames {
				if err := os.Rename(filepath.Join(filepath.Dir(path), name), filepath.Join(dir, name)); err != nil {
					return err
				}
			}
			return os.RemoveAll(filepath.Dir(path))
		}
	}
}

// build builds the programs from their modules.
func build(ctx context.Context, log io.Writer, dir string) error {
	module, err := binariesModule()
	if err != nil {
		return err
	}
	fmt.Fprintln(log, "building the control plane's programs from source: about 8 minutes on two processors, once per version")
	number := strings.Split(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	ldflags := "-s -w"
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, variable := range []string{
			"gitVersion=" + KubernetesVersion, "gitMajor=" + number[0], "gitMinor=" + number[1],
			"gitCommit=unknown", "gitTreeState=clean",
		} {
			ldflags += " -X " + pkg + "." + variable
		}
	}
	for i, pkg := range []string{"go.etcd.io/etcd/server/v3", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kubectl"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", ldflags, "-o", filepath.Join(dir, binaryNames[i]), pkg)
		cmd.Dir = module
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
		if err := runWithProgress(cmd, log, fmt.Sprintf("building %s (%d of %d)", binaryNames[i], i+1, len(binaryNames))); err != nil {
			return err
		}
	}
	return nil
}

// runWithProgress runs cmd and says every 15 seconds that it still does.
func runWithProgress(cmd *exec.Cmd, log io.Writer, what string) error {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begin := time.Now()
	fmt.Fprintf(log, "%s ...\n", what)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ticker := time.NewTicker(15 * time.Second)
	defer ticker.Stop()
	for {
		elapsed := func() time.Duration { return time.Since(begin).Round(time.Second) }
		select {
		case <-ticker.C:
			fmt.Fprintf(log, "%s ... %s\n", what, elapsed())
		case err := <-done:
			switch {
			case err == nil:
				fmt.Fprintf(log, "%s: done in %s\n", what, elapsed())
				return nil
			case strings.Contains(stderr.String(), "no space left on device"):
				return fmt.Errorf("%s: the disk is full: Go's build cache (go env GOCACHE) needs about 3 GB and the user's cache folder 250 MB: %w", what, err)
			default:
				return fmt.Errorf("%s: %w\n%s", what, err, stderr.String())
			}
		}
	}
}

// binariesModule finds the folder of the module that names the programs and
// their versions. It is source, so it is beside this file, or, if this program
// has been moved to another machine, in the clone that it is run in.
func binariesModule() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok {
		dir := filepath.Join(filepath.Dir(file), "binaries")
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for root := here; ; root = filepath.Dir(root) {
		dir := filepath.Join(root, "lab", "cluster", "binaries")
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if root == filepath.Dir(root) {
			return "", errors.New("no lab/cluster/binaries above " + here + ": run this inside a clone, or let KUBEBUILDER_ASSETS name a folder with " + strings.Join(binaryNames, ", "))
		}
	}
}
