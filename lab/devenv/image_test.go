package devenv

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const basePlatform = "linux/" + runtime.GOARCH

// koPrograms builds ko, and the program of the folder image, which has ko inside.
var koPrograms = sync.OnceValues(func() (string, error) {
	// In a folder that stays: to link them takes longer than all that they do.
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "ccm-from-scratch", "ko")
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), ".", "github.com/google/ko")
	build.Dir = "image"
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ko: %w\n%s", err, out)
	}
	return dir, nil
})

func ko(t *testing.T) string {
	t.Helper()
	dir, err := koPrograms()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "ko")
}

// baseImage serves an image without a file in it, as a registry does, and returns
// its name.
func baseImage(t *testing.T) string {
	t.Helper()
	blobs := map[string]string{}
	blob := func(text string) string {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
		blobs[digest] = text
		return digest
	}
	const kind = "application/vnd.oci.image.manifest.v1+json"
	config := fmt.Sprintf(`{"architecture":%q,"os":"linux","config":{"User":"65532"},"rootfs":{"type":"layers","diff_ids":[]}}`, runtime.GOARCH)
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[]}`,
		kind, blob(config), len(config))
	latest := blob(manifest)

	// https://github.com/opencontainers/distribution-spec, what is needed to pull.
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/{$}", func(http.ResponseWriter, *http.Request) {})
	serve := func(w http.ResponseWriter, r *http.Request) {
		digest := strings.Replace(r.PathValue("reference"), "latest", latest, 1)
		text, found := blobs[digest]
		if !found {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Docker-Content-Digest", digest)
		_, _ = io.WriteString(w, text)
	}
	mux.HandleFunc("GET /v2/base/manifests/{reference}", serve)
	mux.HandleFunc("GET /v2/base/blobs/{reference}", serve)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/base:latest"
}

// layoutFolder is an image in the form of an OCI layout.
type layoutFolder string

func (l layoutFolder) decode(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(l), path))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func blobPath(digest string) string {
	return filepath.Join("blobs", strings.Replace(digest, ":", string(filepath.Separator), 1))
}

// TestImage: the last stage becomes an image that needs nothing but its one file.
func TestImage(t *testing.T) {
	t.Parallel()
	all := stages(t)
	stage := all[len(all)-1]
	layout := layoutFolder(t.TempDir())
	cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(ko(t)), "image"),
		"-base", baseImage(t), "-dir", filepath.Join("../..", stage), "-out", string(layout))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	type descriptor struct{ Digest string }
	var index struct{ Manifests []descriptor }
	layout.decode(t, "index.json", &index)
	if len(index.Manifests) != 1 {
		t.Fatalf("%d images, want 1", len(index.Manifests))
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	layout.decode(t, blobPath(index.Manifests[0].Digest), &manifest)
	type configuration struct {
		OS, Architecture string
		Config           struct {
			User       string
			Entrypoint []string
		}
	}
	var got, want configuration
	layout.decode(t, blobPath(manifest.Config.Digest), &got)
	want.OS, want.Architecture = "linux", runtime.GOARCH
	want.Config.User = "65532" // as the Deployment says
	want.Config.Entrypoint = []string{"/ko-app/" + stage}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}

	program := layout.extract(t, manifest.Layers[len(manifest.Layers)-1].Digest, want.Config.Entrypoint[0])
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if section := file.Section(".interp"); section != nil {
		t.Error("the program wants a dynamic linker, and the base image has none")
	}
	if runtime.GOOS == "linux" {
		if out, err := exec.CommandContext(t.Context(), program, "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "cloud-controller-manager") {
			t.Errorf("--help: %v\n%s", err, out)
		}
	}
}

// extract returns the path of a copy of a file in a layer.
func (l layoutFolder) extract(t *testing.T, layer, name string) string {
	t.Helper()
	file, err := os.Open(filepath.Join(string(l), blobPath(layer)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if err != nil {
			t.Fatalf("no %s in the image's last layer: %v", name, err)
		}
		if filepath.Join("/", header.Name) != name {
			continue
		}
		path := filepath.Join(t.TempDir(), "program")
		out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(out, archive); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
}
