package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// victimEnv turns this test binary into a program that starts a cluster and
// waits to be killed.
const victimEnv = "CLUSTER_TEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		if err := beVictim(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// logWriter is the log of a test as an io.Writer.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

func startCluster(t *testing.T, o Options) *Cluster {
	t.Helper()
	o.Log = logWriter{t}
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		begin := time.Now()
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		t.Logf("stopped in %.1fs", time.Since(begin).Seconds())
	})
	return c
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func clientFrom(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return clientFor(t, config)
}

func TestCluster(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.log")
	c := startCluster(t, Options{Audit: audit})
	admin := clientFor(t, c.Config())

	t.Run("version", func(t *testing.T) {
		version, err := admin.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if series(version.GitVersion) != series(KubernetesVersion) {
			t.Errorf("server is %s, want the series of %s", version.GitVersion, KubernetesVersion)
		}
	})

	t.Run("kubectl", func(t *testing.T) {
		cmd := exec.Command(c.Binaries().Kubectl, "get", "namespaces", "-o", "name")
		cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		want := "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n"
		if diff := cmp.Diff(want, string(out)); diff != "" {
			t.Errorf("namespaces (-want +got):\n%s", diff)
		}
	})

	t.Run("whom a CCM's own server trusts", func(t *testing.T) {
		got, err := admin.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"client-ca-file", "requestheader-client-ca-file"} {
			if !strings.Contains(got.Data[key], "BEGIN CERTIFICATE") {
				t.Errorf("%s is %q, want a certificate", key, got.Data[key])
			}
			delete(got.Data, key)
		}
		want := map[string]string{
			"requestheader-allowed-names":        `["front-proxy-client"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
			"requestheader-group-headers":        `["X-Remote-Group"]`,
			"requestheader-username-headers":     `["X-Remote-User"]`,
		}
		if diff := cmp.Diff(want, got.Data); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
	})

	t.Run("a Pod is admitted", func(t *testing.T) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		got, err := admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Spec.ServiceAccountName != "default" {
			t.Errorf("service account is %q, want %q", got.Spec.ServiceAccountName, "default")
		}
	})

	t.Run("users are subject to RBAC", func(t *testing.T) {
		path, err := c.KubeconfigFor("jane:doe", "watchers", "others")
		if err != nil {
			t.Fatal(err)
		}
		checkRBAC(t, admin, clientFrom(t, path), rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "watchers"})
	})

	t.Run("service accounts are subject to RBAC", func(t *testing.T) {
		if _, err := c.ServiceAccountKubeconfig(t.Context(), "kube-system", "ccm"); !apierrors.IsNotFound(err) {
			t.Fatalf("without the service account: %v, want not found", err)
		}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "ccm"}}
		if _, err := admin.CoreV1().ServiceAccounts("kube-system").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		path, err := c.ServiceAccountKubeconfig(t.Context(), "kube-system", "ccm")
		if err != nil {
			t.Fatal(err)
		}
		checkRBAC(t, admin, clientFrom(t, path), rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: "ccm"})
	})

	t.Run("audit log", func(t *testing.T) {
		want := map[string]bool{
			"jane:doe list nodes forbid":                               true,
			"jane:doe list nodes allow":                                true,
			"system:serviceaccount:kube-system:ccm list nodes forbid":  true,
			"system:serviceaccount:kube-system:ccm list nodes allow":   true,
			"admin create serviceaccounts/token kube-system/ccm allow": true,
		}
		got := map[string]bool{}
		for _, line := range auditLines(t, audit) {
			if want[line] {
				got[line] = true
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("audit log (-want +got):\n%s", diff)
		}
	})
}

// checkRBAC checks that client, which is subject, may list nodes once a
// binding says so, and not before.
func checkRBAC(t *testing.T, admin, client kubernetes.Interface, subject rbacv1.Subject) {
	t.Helper()
	ctx := t.Context()
	if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("list nodes without a binding: %v, want forbidden", err)
	}
	name := "view-nodes-" + strings.ToLower(subject.Kind)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{subject},
	}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "listing nodes with a binding", func() error {
		_, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
}

// auditLines reduces each event of an audit log to "user verb
// resource[/subresource] [namespace/name] decision".
func auditLines(t *testing.T, path string) (lines []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for events := bufio.NewScanner(file); events.Scan(); {
		var e struct {
			Verb        string
			User        struct{ Username string }
			ObjectRef   struct{ Resource, Subresource, Namespace, Name string }
			Annotations map[string]string
		}
		if err := json.Unmarshal(events.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		fields := []string{e.User.Username, e.Verb, e.ObjectRef.Resource}
		if e.ObjectRef.Subresource != "" {
			fields[2] += "/" + e.ObjectRef.Subresource
		}
		if e.ObjectRef.Namespace != "" {
			fields = append(fields, e.ObjectRef.Namespace+"/"+e.ObjectRef.Name)
		}
		lines = append(lines, strings.Join(append(fields, e.Annotations["authorization.k8s.io/decision"]), " "))
	}
	return lines
}

func TestTwoClusters(t *testing.T) {
	first, second := startCluster(t, Options{}), startCluster(t, Options{})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "only-first"}}
	if _, err := clientFor(t, first.Config()).CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := clientFor(t, second.Config()).CoreV1().Namespaces().Get(t.Context(), "only-first", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the namespace of the first in the second: %v, want not found", err)
	}
}

func TestStop(t *testing.T) {
	c := startCluster(t, Options{})
	guarded, unguarded := sleeper(t), sleeper(t)
	c.Guard(guarded.Process)
	c.Guard(unguarded.Process)
	c.Unguard(unguarded.Process)
	pids := listed(t, c)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the processes", func() error { return allGone(pids) })
	if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Dir after Stop: %v, want it removed", err)
	}
	if err := guarded.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the guarded process: %v, want it killed", err)
	}
	if err := unguarded.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process that is not guarded any more: %v, want it running", err)
	}
}

func TestStartGivenUp(t *testing.T) {
	tests := []struct {
		name string
		when func(tmp string) bool
	}{
		{"before the first process", func(string) bool { return true }},
		{"while the API server starts", func(tmp string) bool {
			logs, _ := filepath.Glob(filepath.Join(tmp, "ccm-lab-*", "kube-apiserver.log"))
			if len(logs) == 0 {
				return false
			}
			log, _ := os.ReadFile(logs[0])
			return len(log) > 0
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			go func() {
				for !test.when(tmp) && ctx.Err() == nil {
					<-tick.C
				}
				cancel()
			}()
			c, err := Start(ctx, Options{Log: onLine(func(line string) {
				if strings.HasPrefix(line, "starting etcd") && test.when(tmp) {
					cancel()
				}
			})})
			if err == nil {
				t.Fatalf("the start of a cluster that nobody waits for succeeded, Stop: %v", c.Stop())
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Start: %v, want %v", err, context.Canceled)
			}
			if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	tests := []struct {
		name, says string
		wantStarts int // of etcd
	}{
		{"no luck", "no luck", 1},
		{"ports are taken again and again", "listen tcp 127.0.0.1:1: bind: address already in use", 5},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tmp, assets := t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", tmp)
			t.Setenv("KUBEBUILDER_ASSETS", assets)
			starts := filepath.Join(assets, "starts")
			script := fmt.Sprintf("#!/bin/sh\n[ $1 = --help ] || { echo >>%s; echo '%s'; exit 1; }\n", starts, test.says)
			for _, name := range binaryNames {
				if err := os.WriteFile(filepath.Join(assets, name), []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Start(t.Context(), Options{Log: logWriter{t}})
			if err == nil || !strings.Contains(err.Error(), "last lines of etcd:\n"+test.says) {
				t.Errorf("Start: %v, want the last words of etcd", err)
			}
			lines, err := os.ReadFile(starts)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(string(lines), "\n"); got != test.wantStarts {
				t.Errorf("etcd was started %d times, want %d", got, test.wantStarts)
			}
			if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestKilled kills a program that has a cluster, in the way that leaves it no
// time to stop anything.
func TestKilled(t *testing.T) {
	tmp := t.TempDir()
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), victimEnv+"=1", "TMPDIR="+tmp)
	victim.Stderr = os.Stderr
	stdout, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	// The victim says what it has, and then nothing.
	said, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(errors.Join(err, victim.Wait()))
	}
	pids := strings.Fields(said)
	if len(pids) < 3 {
		t.Fatalf("the victim has processes %v, want etcd, kube-apiserver and a guarded one", pids)
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Fatalf("process %s is not alive before the kill", pid)
		}
	}
	begin := time.Now()
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	eventually(t, "the end of the processes", func() error { return allGone(pids) })
	eventually(t, "an empty temporary folder", func() error {
		if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) != 0 {
			return fmt.Errorf("left behind: %v", left)
		}
		return nil
	})
	t.Logf("all gone %.2fs after the kill", time.Since(begin).Seconds())
}

// beVictim starts a cluster, prints the IDs of its processes, and waits.
func beVictim() error {
	c, err := Start(context.Background(), Options{Log: os.Stderr})
	if err != nil {
		return err
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		return err
	}
	c.Guard(cmd.Process)
	// The watchdog takes this one on its list too, but later.
	for {
		pids, err := listedIn(c.Dir())
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if pid == strconv.Itoa(cmd.Process.Pid) {
				fmt.Println(strings.Join(pids, " "))
				select {}
			}
		}
	}
}

// listed returns the IDs of the running processes on the watchdog's list.
func listed(t *testing.T, c *Cluster) []string {
	t.Helper()
	pids, err := listedIn(c.Dir())
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func listedIn(dir string) (pids []string, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, "listed"))
	for _, entry := range entries {
		// The programs were also asked for their flags, by processes that ended.
		if alive(entry.Name()) {
			pids = append(pids, entry.Name())
		}
	}
	return pids, err
}

// alive says whether the process runs; one that ended but was not waited for
// by its parent does not.
func alive(pid string) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
	return err == nil && !strings.HasPrefix(string(state), "Z")
}

func allGone(pids []string) error {
	for _, pid := range pids {
		if alive(pid) {
			return fmt.Errorf("process %s is alive", pid)
		}
	}
	return nil
}

// sleeper starts a process that does nothing, and ends it with the test.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// eventually tries f until it succeeds, for at most half a minute.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}
