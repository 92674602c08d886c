package cluster

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// program is a program that claims to be an API server of that version.
func program(version string) []byte { return []byte("#!/bin/sh\necho Kubernetes " + version + "\n") }

// counted is a source of programs of that version, which counts its uses.
func counted(name, version string, uses *int) source {
	return source{name, func(_ context.Context, _ io.Writer, dir string) error {
		*uses++
		for _, name := range binaryNames {
			if err := os.WriteFile(filepath.Join(dir, name), program(version), 0o755); err != nil {
				return err
			}
		}
		return nil
	}}
}

func broken(name string) source {
	return source{name, func(context.Context, io.Writer, string) error { return errors.New("no luck\nat all") }}
}

func TestCache(t *testing.T) {
	editManifest := func(edit func(*manifest)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, manifestName)
			m := readManifest(t, dir)
			edit(&m)
			data, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Each test has a filled cache, does something to it, and looks for the
	// programs again.
	tests := []struct {
		name     string
		harm     func(t *testing.T, dir string)
		wantUses int    // of the source, the first filling included
		wantLog  string // in what the second search says; it says nothing if empty
	}{
		{"untouched", func(*testing.T, string) {}, 1, ""},
		{"touched", func(t *testing.T, dir string) {
			if err := os.Chtimes(filepath.Join(dir, "etcd"), time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}, 1, ""},
		{"cut short", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "kube-apiserver"), 3); err != nil {
				t.Fatal(err)
			}
		}, 2, "kube-apiserver has 3 bytes instead of 34"},
		{"changed", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "kubectl"), program("v9.99.9"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(dir, "kubectl"), time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}, 2, "kubectl has been changed"},
		{"missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "etcd")); err != nil {
				t.Fatal(err)
			}
		}, 2, "etcd is missing"},
		{"all gone", func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, 2, "not in the cache yet"},
		{"other version", editManifest(func(m *manifest) { m.Wanted = "v1.37.1" }), 2, "holds v1.37.1 instead of v1.37.2"},
		{"manifest of other programs", editManifest(func(m *manifest) { m.Files = m.Files[1:] }), 2, "lists 2 programs instead of 3"},
		{"manifest cut short", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, manifestName), 10); err != nil {
				t.Fatal(err)
			}
		}, 2, "unexpected end of JSON input"},
		{"left by a killed process", func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+".new-123"); err != nil {
				t.Fatal(err)
			}
		}, 2, "not in the cache yet"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			uses := 0
			c := cache{filepath.Join(t.TempDir(), "cache", "v1.37.2"), "v1.37.2", []source{counted("fake", "v1.37.2", &uses)}}
			if _, err := c.find(t.Context(), io.Discard); err != nil {
				t.Fatal(err)
			}
			test.harm(t, c.dir)
			var log bytes.Buffer
			got, err := c.find(t.Context(), &log)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(binariesIn(c.dir), got); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
			if uses != test.wantUses {
				t.Errorf("the source was used %d times, want %d", uses, test.wantUses)
			}
			if (log.Len() == 0) != (test.wantLog == "") || !strings.Contains(log.String(), test.wantLog) {
				t.Errorf("log is %q, want %q", log.String(), test.wantLog)
			}
			// Whatever it was, it is right now.
			if out, err := exec.Command(got.Kubectl).Output(); err != nil || string(out) != "Kubernetes v1.37.2\n" {
				t.Errorf("kubectl says %q, %v", out, err)
			}
			if err := c.check(); err != nil {
				t.Errorf("check: %v", err)
			}
			if left, _ := filepath.Glob(c.dir + ".new-*"); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func readManifest(t *testing.T, dir string) (m manifest) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSources(t *testing.T) {
	uses := 0
	tests := []struct {
		name       string
		sources    []source
		wantSource string
		wantGot    string
		wantLog    string
		wantErr    string
	}{
		{
			name:       "the first that can",
			sources:    []source{broken("download"), counted("build", "v1.37.2", &uses), broken("third")},
			wantSource: "build", wantGot: "v1.37.2",
			wantLog: "no download (no luck), so the next means is tried: build\n",
		},
		{
			name:       "another patch release of the series",
			sources:    []source{counted("download", "v1.37.0", &uses)},
			wantSource: "download", wantGot: "v1.37.0",
		},
		{
			name:    "another series",
			sources: []source{counted("download", "v1.36.2", &uses)},
			wantErr: "download: kube-apiserver is v1.36.2 instead of v1.37.2",
		},
		{
			name:    "a source without programs",
			sources: []source{{"download", func(context.Context, io.Writer, string) error { return nil }}},
			wantErr: "download: run kube-apiserver --version",
		},
		{
			name:    "none",
			sources: []source{broken("download"), broken("build")},
			wantErr: "get the control plane's programs: download: no luck\nat all\nbuild: no luck\nat all",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := cache{filepath.Join(t.TempDir(), "v1.37.2"), "v1.37.2", test.sources}
			var log bytes.Buffer
			_, err := c.find(t.Context(), &log)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("find: %v, want %q", err, test.wantErr)
				}
				if err := c.check(); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("check: %v, want nothing there", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), test.wantLog) {
				t.Errorf("log is %q, want %q", log.String(), test.wantLog)
			}
			m := readManifest(t, c.dir)
			if diff := cmp.Diff([]string{"v1.37.2", test.wantGot, test.wantSource}, []string{m.Wanted, m.Got, m.Source}); diff != "" {
				t.Errorf("manifest (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCacheAtOnce has one search wait while another fills the cache.
func TestCacheAtOnce(t *testing.T) {
	uses := 0
	fill := counted("fake", "v1.37.2", &uses).fill
	filling, waiting := make(chan bool), make(chan bool)
	c := cache{filepath.Join(t.TempDir(), "v1.37.2"), "v1.37.2", []source{{"slow", func(ctx context.Context, log io.Writer, dir string) error {
		close(filling)
		<-waiting
		return fill(ctx, log, dir)
	}}}}
	first := make(chan error)
	go func() {
		_, err := c.find(t.Context(), io.Discard)
		first <- err
	}()
	<-filling

	ctx, cancel := context.WithCancel(t.Context())
	if _, err := c.find(ctx, onLine(func(string) { cancel() })); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that is given up: %v, want %v", err, context.Canceled)
	}

	var said []string
	_, err := c.find(t.Context(), onLine(func(line string) {
		said = append(said, line)
		close(waiting)
	}))
	if err := errors.Join(err, <-first); err != nil {
		t.Fatal(err)
	}
	if uses != 1 {
		t.Errorf("the source was used %d times, want once", uses)
	}
	if diff := cmp.Diff([]string{"another process is getting the control plane's programs, waiting for it\n"}, said); diff != "" {
		t.Errorf("the second says (-want +got):\n%s", diff)
	}
}

// onLine is a writer that calls a function.
type onLine func(line string)

func (f onLine) Write(p []byte) (int, error) { f(string(p)); return len(p), nil }

func TestFindBinariesInKubebuilderAssets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err := FindBinaries(t.Context(), io.Discard)
	if err == nil || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "KUBEBUILDER_ASSETS") {
		t.Errorf("without kubectl: %v, want that it does not exist", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := FindBinaries(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(binariesIn(dir), got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestDownload(t *testing.T) {
	var archive bytes.Buffer
	zip := gzip.NewWriter(&archive)
	files := tar.NewWriter(zip)
	for _, name := range binaryNames {
		content := program("v1.37.0")
		if err := files.WriteHeader(&tar.Header{Name: "controller-tools/envtest/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("GET /archive", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive.Bytes()) })
	mux.HandleFunc("GET /index", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "releases:\n  v1.37.0:\n    envtest-v1.37.0-%s-%s.tar.gz:\n      hash: %x\n      selfLink: %s/archive\n",
			runtime.GOOS, runtime.GOARCH, sha512.Sum512(archive.Bytes()), server.URL)
	})

	c := cache{filepath.Join(t.TempDir(), "v1.37.2"), "v1.37.2", []source{{"download", downloadFrom(server.URL + "/index")}}}
	if _, err := c.find(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := readManifest(t, c.dir).Got; got != "v1.37.0" {
		t.Errorf("got version %q, want v1.37.0", got)
	}

	c = cache{filepath.Join(t.TempDir(), "v1.37.2"), "v1.37.2", []source{{"download", downloadFrom(server.URL + "/nothing")}}}
	if _, err := c.find(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("without an index: %v, want 404", err)
	}
}

func TestRunWithProgress(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"other failure", "echo this is wrong >&2; exit 3", "making: exit status 3\nthis is wrong\n"},
		{"full disk", "echo x: no space left on device >&2; exit 1", "making: the disk is full: Go's build cache (go env GOCACHE) needs about 3 GB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := runWithProgress(exec.Command("sh", "-c", test.script), io.Discard, "making")
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

// TestBinariesModule checks that the programs to build have the versions that
// this package promises.
func TestBinariesModule(t *testing.T) {
	dir, err := binariesModule()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != KubernetesVersion {
		t.Errorf("k8s.io/kubernetes is %s, want %s", got, KubernetesVersion)
	}
}
