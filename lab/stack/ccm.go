package stack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is how long a CCM may take to end after SIGTERM.
const stopTimeout = 10 * time.Second

// CCM is a running cloud-controller-manager.
type CCM struct {
	URL string // of its secure port

	cmd    *exec.Cmd
	log    *os.File
	exited chan struct{} // closed after exitErr is set
	err    error
}

// Stages returns the stages that stages.txt declares in the repository at root,
// in order. There is at least one.
func Stages(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "stages.txt"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllSubmatch(text, -1) {
		names = append(names, string(match[1]))
	}
	if len(names) == 0 {
		return nil, errors.New("stages.txt declares no stage")
	}
	return names, nil
}

// builds has a function for each stage that this process builds, which does so
// once: many tests at a time may want it.
var builds sync.Map

// BuildCCM returns the binary to run for a stage of the repository at root, or
// for the path of a binary. A stage is built first.
func BuildCCM(ctx context.Context, root, stageOrBinary string, log io.Writer) (string, error) {
	if _, err := os.Stat(filepath.Join(root, stageOrBinary, "main.go")); err != nil {
		path, err := exec.LookPath(stageOrBinary)
		if err != nil {
			return "", fmt.Errorf("%q is neither a stage in %s nor an executable: %w", stageOrBinary, root, err)
		}
		return filepath.Abs(path)
	}
	binary := filepath.Join(root, ".lab", "bin", stageOrBinary)
	build, _ := builds.LoadOrStore(binary, sync.OnceValue(func() error {
		fmt.Fprintf(log, "building %s\n", stageOrBinary)
		// Without debug information, linking takes half the time.
		build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", binary, "./"+stageOrBinary)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", stageOrBinary, err, out)
		}
		return nil
	}))
	return binary, build.(func() error)()
}

// ccmFlags are understood by every CCM that is made from k8s.io/cloud-provider.
// They let it run in the lab's cluster, beside others.
func ccmFlags(kubeconfig string, port int) []string {
	return []string{
		"--cloud-provider=hcloud",
		"--kubeconfig=" + kubeconfig,
		"--cluster-cidr=10.244.0.0/16",
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--webhook-secure-port=0",
		"--authorization-always-allow-paths=/healthz,/metrics",
	}
}

// fastFlags make a CCM look at everything more often than anyone would want in
// a real cluster, so that nobody waits for it.
var fastFlags = []string{
	"--node-monitor-period=1s",
	"--node-status-update-frequency=2s",
	"--route-reconciliation-period=2s",
}

// CCMEnviron returns the environment of a CCM in this lab, which env is added to.
func (s *Stack) CCMEnviron(env ...string) []string {
	return slices.Concat(os.Environ(), s.Environ(), []string{
		// The official CCM asks the metadata service of the server it runs on whether
		// that is attached to the network. A laptop has none.
		"HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK=true",
		// Nor does it tell of IPv6 unless it is asked to. The stages always do, and
		// their scripts ask everybody for it.
		"HCLOUD_INSTANCES_ADDRESS_FAMILY=dualstack",
	}, env)
}

// StartCCM starts a CCM against this lab, with env added to its environment and
// args to its flags. Its log is appended to the file logPath.
func (s *Stack) StartCCM(binary, logPath, kubeconfig string, env, args []string) (*CCM, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	flags := ccmFlags(kubeconfig, port)
	if !s.options.RealPeriods {
		flags = append(flags, fastFlags...)
	}
	c := &CCM{
		URL:    "https://127.0.0.1:" + strconv.Itoa(port),
		cmd:    exec.Command(binary, append(flags, args...)...),
		log:    log,
		exited: make(chan struct{}),
	}
	c.cmd.Env = s.CCMEnviron(env...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	// A group of its own: Ctrl-C in a terminal reaches it through us alone.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	s.Cluster.Guard(c.cmd.Process)
	go func() {
		c.err = c.cmd.Wait()
		s.Cluster.Unguard(c.cmd.Process)
		_ = log.Close()
		close(c.exited)
	}()
	return c, nil
}

// freePort returns a TCP port of the loopback address that nobody listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// Stop asks the CCM to end with SIGTERM and returns its exit code, -1 if a
// signal ended it. It is an error if the process does not end by itself in time.
func (c *CCM) Stop() (exitCode int, err error) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended already
	select {
	case <-c.exited:
		return c.cmd.ProcessState.ExitCode(), nil
	case <-time.After(stopTimeout):
		_ = c.cmd.Process.Kill()
		<-c.exited
		return -1, fmt.Errorf("the CCM still ran %s after SIGTERM", stopTimeout)
	}
}

// Kill ends the CCM as a crash of its machine would.
func (c *CCM) Kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// PID is the ID of the CCM's process.
func (c *CCM) PID() int { return c.cmd.Process.Pid }

// Exited tells whether the process has ended, and with which exit code.
func (c *CCM) Exited() (exitCode int, exited bool) {
	select {
	case <-c.exited:
		return c.cmd.ProcessState.ExitCode(), true
	default:
		return 0, false
	}
}

// Get requests a path such as /healthz from the CCM's secure port and returns
// the body. Any other status than 200 is an error.
func (c *CCM) Get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{
		Timeout: 5 * time.Second,
		// The CCM makes itself a certificate at each start.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
	}
	return string(body), nil
}
