// Package cluster starts a real control plane, etcd and kube-apiserver, on
// loopback, and leaves nothing of it behind.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout bounds the start of etcd, then that of the API server, then the
// wait for readiness. An idle laptop needs four seconds for all; a machine that
// compiles on every core needs many more.
const startTimeout = 2 * time.Minute

// Options say how a cluster is started. The zero value is a cluster without
// output and audit log.
type Options struct {
	// Log receives a line for everything that is waited for.
	Log io.Writer
	// Audit is the path of a log with a JSON line (audit.k8s.io/v1 Event) for
	// each request that the API server answered: user, verb, resource,
	// namespace, status and what the authorizer decided, but no contents.
	// Empty means none. The file outlives the cluster unless it is inside Dir.
	Audit string
}

// A Cluster is a running control plane without nodes, scheduler and controller
// manager. RBAC is in force and its users are real.
type Cluster struct {
	binaries   Binaries
	watchdog   *watchdog
	plane      *envtest.ControlPlane
	config     *rest.Config
	kubeconfig string
	stop       func() error
}

// Start starts a cluster with empty storage on free ports and returns when it
// is ready for use. If ctx ends before that, the start is given up; after
// that, ctx has no effect. A cluster that is not needed any more is ended by
// Stop; if this process dies without it, nothing is left behind either.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	binaries, err := FindBinaries(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	for tries := 1; ; tries++ {
		c, err := start(ctx, o, binaries)
		// Ports are chosen before they are used, so another process may be faster.
		if _, busy := errors.AsType[*portError](err); busy && tries < 5 {
			fmt.Fprintln(o.Log, "another process took the chosen port, starting once more")
			continue
		}
		return c, err
	}
}

func start(ctx context.Context, o Options, binaries Binaries) (_ *Cluster, err error) {
	begin := time.Now()
	dir, err := os.MkdirTemp("", "ccm-lab-")
	if err != nil {
		return nil, err
	}
	w, err := newWatchdog(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := &Cluster{binaries: binaries, watchdog: w, plane: &envtest.ControlPlane{}}
	c.stop = sync.OnceValue(func() error {
		// Nothing of the cluster is kept, so nothing is gained by ending it gently,
		// which takes a second if no client has a request under way, else more.
		err := w.end()
		_ = c.plane.Stop() // waits for the processes, and regrets to find no one to signal
		return errors.Join(err, os.RemoveAll(dir))
	})
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	// The processes have copies of these as long as they run.
	etcdLog, err := os.Create(filepath.Join(dir, "etcd.log"))
	if err != nil {
		return nil, err
	}
	defer etcdLog.Close()
	apiLog, err := os.Create(filepath.Join(dir, "kube-apiserver.log"))
	if err != nil {
		return nil, err
	}
	defer apiLog.Close()
	if err := c.configure(o, etcdLog, apiLog); err != nil {
		return nil, err
	}

	fmt.Fprintf(o.Log, "starting etcd and kube-apiserver in %s\n", dir)
	// envtest knows no context. Without its processes it gives up at once.
	running := context.AfterFunc(ctx, func() { _ = w.end() })
	err = c.plane.Start()
	if !running() {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, c.explain(err)
	}
	admin, err := c.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}},
		&rest.Config{QPS: 1000, Burst: 2000})
	if err != nil {
		return nil, err
	}
	c.config = admin.Config()
	if c.kubeconfig, err = c.writeKubeconfig("admin", c.config); err != nil {
		return nil, err
	}
	if err := c.waitReady(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(o.Log, "the API server is ready after %.1fs at %s\n", time.Since(begin).Seconds(), c.config.Host)
	return c, nil
}

// waitReady waits until the API server says that it is ready and what every
// cluster has is there.
func (c *Cluster) waitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		last = client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		for _, namespace := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			if last == nil {
				last = addDefaultServiceAccount(ctx, client, namespace)
			}
		}
		if last == nil {
			_, last = client.CoreV1().ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server to be ready: %w", errors.Join(err, last))
	}
	return nil
}

// addDefaultServiceAccount does what the controller manager would do for a new
// namespace: without its default ServiceAccount no Pod is admitted to it.
func addDefaultServiceAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// A portError is the failure of a process to listen on the port chosen for it.
type portError struct{ error }

func (e *portError) Unwrap() error { return e.error }

// explain adds to an error of envtest what the processes said last.
func (c *Cluster) explain(err error) error {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		log, readErr := os.ReadFile(filepath.Join(c.Dir(), name+".log"))
		if readErr != nil || len(log) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		err = fmt.Errorf("%w\nlast lines of %s:\n%s", err, name, strings.Join(lines[max(0, len(lines)-5):], "\n"))
		if strings.Contains(string(log), "address already in use") {
			err = &portError{err}
		}
	}
	return err
}

// Config is the administrator's configuration, with limits that no test reaches.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the path of the administrator's kubeconfig file.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Binaries are the programs that the cluster runs, and kubectl.
func (c *Cluster) Binaries() Binaries { return c.binaries }

// Dir is the cluster's own folder, which goes with the cluster.
func (c *Cluster) Dir() string { return c.watchdog.dir }

// Guard has p killed if this process ends without Stop, or by Stop if it still
// runs then. It takes effect even if this process dies right after the call.
func (c *Cluster) Guard(p *os.Process) { c.watchdog.tell("guard", p) }

// Unguard undoes Guard. It is called when p has been waited for.
func (c *Cluster) Unguard(p *os.Process) { c.watchdog.tell("unguard", p) }

// Stop ends the API server, etcd and what is still guarded, and removes Dir.
// It may be called more than once.
func (c *Cluster) Stop() error { return c.stop() }
