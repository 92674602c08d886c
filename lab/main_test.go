package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/rogpeppe/go-internal/testscript"

	"example.com/ccm-from-scratch/lab/script"
)

// TestMain puts two programs, which are this test binary, in front of the PATH.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lab": main, "foreign-ccm": foreignCCM})
}

// foreignCCM is a CCM that sends one request, says so, and waits for its end.
func foreignCCM() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client := hcloud.NewClient(hcloud.WithEndpoint(os.Getenv("HCLOUD_ENDPOINT")), hcloud.WithToken(os.Getenv("HCLOUD_TOKEN")))
	servers, _, err := client.Server.List(ctx, hcloud.ServerListOpts{Name: "worker-9"})
	fmt.Println("somebody else's CCM:", len(servers), err)
	<-ctx.Done()
}

func TestUp(t *testing.T) {
	root := newRoot(t)
	first := startLab(t, root)
	env := first.env(t)

	t.Run("env", func(t *testing.T) {
		got := slices.Sorted(maps.Keys(env))
		want := []string{"HCLOUD_ENDPOINT", "HCLOUD_NETWORK", "HCLOUD_TOKEN", "KUBECONFIG", "PATH"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("variables (-want +got):\n%s", diff)
		}
		nodes := sourced(t, first.envFile, root, `
			i=0
			until [ "$(kubectl get nodes -o name | wc -l)" -eq 2 ] || [ $((i += 1)) -gt 300 ]; do :; done
			kubectl get nodes -o name`).wait(t, 0)
		if want := "node/worker-1\nnode/worker-2\n"; nodes != want {
			t.Errorf("kubectl get nodes: %q, want %q", nodes, want)
		}
	})

	t.Run("cloud", func(t *testing.T) {
		elsewhere := t.TempDir()
		const list = "lab cloud server list -o noheader -o columns=name"
		want := "worker-1\nworker-2\n"
		if got := sourced(t, first.envFile, elsewhere, list).wait(t, 0); got != want {
			t.Errorf("with the lab's variables: %q, want %q", got, want)
		}
		if got := run(t, root, "sh", "-c", list).wait(t, 0); got != want {
			t.Errorf("in the lab's repository: %q, want %q", got, want)
		}
		if got, want := run(t, newRoot(t), "sh", "-c", list).wait(t, 1), "no lab is running here"; !strings.Contains(got, want) {
			t.Errorf("in another repository: %q, want %q in it", got, want)
		}
	})

	t.Run("the first stage", func(t *testing.T) { testFirstStage(t, first.envFile) })

	t.Run("the same folder again", func(t *testing.T) {
		got := run(t, root, "lab", "up").wait(t, 1)
		if want := fmt.Sprintf("a lab runs already (process %d)", first.cmd.Process.Pid); !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
		if diff := cmp.Diff(env, first.env(t)); diff != "" {
			t.Errorf("the variables of the lab that runs (-before +now):\n%s", diff)
		}
	})

	t.Run("another folder, and SIGKILL", func(t *testing.T) {
		second := startLab(t, root, "--dir", filepath.Join(t.TempDir(), "other"))
		if second.env(t)["HCLOUD_ENDPOINT"] == env["HCLOUD_ENDPOINT"] {
			t.Error("both labs have the same cloud")
		}
		second.checkProcesses(t)
		if err := second.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		second.checkGone(t)
		first.checkProcesses(t)
	})

	t.Run("Ctrl-C", func(t *testing.T) {
		if err := first.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		first.wait(t, 0)
		if _, err := os.Stat(first.envFile); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file with the variables: %v, want it removed", err)
		}
		first.checkGone(t)
	})
}

// testFirstStage runs a stage as a reader does: with the lab's variables and nothing else.
func testFirstStage(t *testing.T, envFile string) {
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	const stage = "go run ./part1-skeleton"
	ccm := sourced(t, envFile, repository, "exec "+stage)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	ccm.eventually(t, "an answer of /healthz", func() error {
		response, err := client.Get("https://127.0.0.1:10258/healthz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && string(body) != "ok" {
			return fmt.Errorf("%s: %s", response.Status, body)
		}
		return err
	})
	ccm.eventually(t, "four controllers that are skipped", func() error {
		got := map[string]int{}
		for _, match := range regexp.MustCompile(`(Skipping|Started) "?([a-z-]+)`).FindAllStringSubmatch(ccm.output(), -1) {
			got[match[1]+" "+match[2]]++
		}
		want := map[string]int{
			"Skipping cloud-node-controller":           1,
			"Skipping cloud-node-lifecycle-controller": 1,
			"Skipping service-lb-controller":           1,
			"Skipping node-route-controller":           1,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("controllers (-want +got):\n%s", diff)
		}
		return nil
	})
	// Ctrl-C in a terminal reaches `go run` and the stage.
	if err := syscall.Kill(-ccm.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	ccm.wait(t, 1) // `go run` says so whatever the stage does
	if err := syscall.Kill(-ccm.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a signal to the stage: %v, want no process left", err)
	}

	got := run(t, repository, "sh", "-c", "unset KUBECONFIG; exec "+stage).wait(t, 1)
	lines := strings.Split(strings.TrimSuffix(got, "\nexit status 1\n"), "\n") // the last line is from `go run`
	if len(lines) != 1 || !strings.Contains(lines[0], "set KUBECONFIG, pass --kubeconfig, or run in a pod") {
		t.Errorf("without a kubeconfig: %q, want one line that says what to do", lines)
	}
}

func TestScript(t *testing.T) {
	root := newRoot(t)
	write(t, root, "pass.txtar", "ccm start\neventually '^somebody else.s CCM: 0 <nil>' ccm log\n")
	write(t, root, "fail.txtar", "ccm start\neventually CCM ccm log\ncloud server list\nstdout worker-1\n")

	t.Run("pass", func(t *testing.T) {
		got := run(t, root, "lab", "script", "--ccm", "foreign-ccm", "pass.txtar").wait(t, 0)
		if want := "ok\tforeign-ccm\tpass.txtar"; !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
	})
	t.Run("fail", func(t *testing.T) {
		got := run(t, root, "lab", "script", "--ccm", "foreign-ccm", "fail.txtar").wait(t, 1)
		for _, want := range []string{
			"fail.txtar:4: no match for `worker-1` found in stdout",
			"The last lines of the CCM's log (ccm.log):\nsomebody else's CCM: 0 <nil>\n",
			"The last requests to the cloud:\n",
			" GET /servers?name=worker-9 200\n",
			"FAIL\tforeign-ccm\tfail.txtar",
			"Error: failed on foreign-ccm: fail.txtar\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in:\n%s", want, got)
			}
		}
	})
	t.Run("no such CCM", func(t *testing.T) {
		got := run(t, root, "lab", "script", "--ccm", "part0", "pass.txtar").wait(t, 1)
		if want := `"part0" is neither a stage in ` + root + ` nor an executable`; !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
	})
}

func TestBench(t *testing.T) {
	root := newRoot(t)
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--scenario", "join-7"}, `--scenario "join-7": want one of join-10, `},
		{[]string{"-o", "xml"}, `--output "xml": want text or json`},
		{[]string{"--ccm", "part0", "-o", "json"}, "[]\n"}, // what there is, and then the error
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			got := run(t, root, "lab", append([]string{"bench"}, test.args...)...).wait(t, 1)
			if !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q in it", got, test.want)
			}
		})
	}
}

func TestDocs(t *testing.T) {
	root := newRoot(t)
	write(t, root, "docs/scripts.md", "")
	run(t, root, "lab", "docs").wait(t, 0)
	run(t, root, "lab", "docs", "--check").wait(t, 0)

	lines := bytes.SplitAfter(script.Docs(), []byte("\n"))
	lines[6] = []byte("changed by hand\n")
	write(t, root, "docs/scripts.md", string(bytes.Join(lines, nil)))
	got := run(t, root, "lab", "docs", "--check").wait(t, 1)
	if want := "docs/scripts.md:7: differs"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q in it", got, want)
	}
}

// newRoot returns a folder that looks like the root of the repository.
func newRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir()) // as os.Getwd would say
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "go.work", "")
	return root
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// process is a program that runs.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu  sync.Mutex
	out bytes.Buffer // all that it printed
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// run starts a program in a process group of its own, which ends with the test
// at the latest. It has our environment without the variables of any lab.
func run(t *testing.T, dir, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Dir = dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "HCLOUD_TOKEN=") && !strings.HasPrefix(variable, "HCLOUD_ENDPOINT=") &&
			!strings.HasPrefix(variable, "HCLOUD_NETWORK=") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			p.cmd.Env = append(p.cmd.Env, variable)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		select {
		case <-p.done:
		default:
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.done
		}
	})
	return p
}

// sourced runs a shell command with the variables of a lab.
func sourced(t *testing.T, envFile, dir, command string) *process {
	t.Helper()
	return run(t, dir, "sh", "-c", `. "$0" && `+command, envFile)
}

// wait waits for the end of the process and returns all that it printed.
func (p *process) wait(t *testing.T, exitCode int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		t.Fatalf("%s has not ended:\n%s", p.cmd, p.output())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != exitCode {
		t.Errorf("%s: exit code %d, want %d:\n%s", p.cmd, got, exitCode, p.output())
	}
	return p.output()
}

// eventually tries f until it succeeds, for at most a minute, as long as the process runs.
func (p *process) eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("%s: %v; %s has ended:\n%s", what, err, p.cmd, p.output())
		case <-deadline:
			t.Fatalf("%s: %v:\n%s", what, err, p.output())
		case <-tick.C:
		}
	}
}

// labProcess is a running `lab up`.
type labProcess struct {
	*process
	envFile    string
	clusterDir string // is in the command lines of etcd and kube-apiserver
}

// startLab starts `lab up` with two servers and waits until it is ready.
func startLab(t *testing.T, root string, args ...string) *labProcess {
	t.Helper()
	p := run(t, root, "lab", append([]string{"up", "--servers", "2"}, args...)...)
	p.eventually(t, "the message that it is up", func() error {
		if !strings.Contains(p.output(), "Ctrl-C ends it.") {
			return errors.New("there is none")
		}
		return nil
	})
	said := regexp.MustCompile(`The lab is up after [\d.]+ s: 2 servers, network "lab".*\n\n +source (\S+)`).FindStringSubmatch(p.output())
	if said == nil {
		t.Fatalf("the message does not say what to source:\n%s", p.output())
	}
	l := &labProcess{process: p, envFile: said[1]}
	if !filepath.IsAbs(l.envFile) {
		l.envFile = filepath.Join(root, l.envFile)
	}
	l.clusterDir = filepath.Dir(l.env(t)["KUBECONFIG"])
	return l
}

func (l *labProcess) env(t *testing.T) map[string]string {
	t.Helper()
	env, err := readEnv(l.envFile)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// processes returns the command lines of the lab's control plane.
func (l *labProcess) processes(t *testing.T) (running []string) {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-ww", "-o", "command=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, l.clusterDir) {
			running = append(running, line)
		}
	}
	return running
}

func (l *labProcess) checkProcesses(t *testing.T) {
	t.Helper()
	running := strings.Join(l.processes(t), "")
	for _, name := range []string{"/etcd ", "/kube-apiserver "} {
		if !strings.Contains(running, name) {
			t.Errorf("no process %s in:\n%s", name, running)
		}
	}
}

// checkGone checks that the lab ends, and leaves no process and no folder behind.
func (l *labProcess) checkGone(t *testing.T) {
	t.Helper()
	select {
	case <-l.done:
	case <-time.After(time.Minute):
		t.Fatal("the lab has not ended")
	}
	gone := &process{done: make(chan struct{})}
	gone.eventually(t, "the end of the control plane", func() error {
		if running := l.processes(t); len(running) > 0 {
			return fmt.Errorf("left behind:\n%s", strings.Join(running, ""))
		}
		if _, err := os.Stat(l.clusterDir); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the folder %s: %w", l.clusterDir, err)
		}
		return nil
	})
}
