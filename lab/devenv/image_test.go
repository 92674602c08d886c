package devenv

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const basePlatform = "linux/" + runtime.GOARCH

// koPrograms builds ko, and the registry of the folder image.
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

// startRegistry starts a registry that ends with the test, and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(ko(t)), "image"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// baseImage returns the name of an image without a file in it, in a registry.
func baseImage(t *testing.T) string {
	t.Helper()
	return startRegistry(t) + "/base:latest"
}

// repository is what a registry has of an image.
type repository string // URL

// get requests a blob, or what has a digest or a tag, and reads it.
func (r repository) get(t *testing.T, path string) []byte {
	t.Helper()
	response, err := http.Get(string(r) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s%s: %s %v", r, path, response.Status, err)
	}
	return content
}

func (r repository) decode(t *testing.T, path string, into any) {
	t.Helper()
	if err := json.Unmarshal(r.get(t, path), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

type (
	descriptor struct {
		Digest    string
		MediaType string
		Platform  struct{ OS, Architecture string }
	}
	manifest struct {
		Config      descriptor
		Layers      []descriptor
		Annotations map[string]string
	}
)

// koBuild does what a person does in a folder, and returns the digest of the image.
func koBuild(t *testing.T, dir, registry, repository string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), ko(t), "build", ".", "--bare")
	cmd.Dir = dir
	// Somebody may want the state of the repository in all programs.
	cmd.Env = append(cleanEnv(), "PATH="+os.Getenv("PATH"), "GOFLAGS=-buildvcs=true", "KO_DOCKER_REPO="+registry+"/"+repository, "KO_DEFAULTBASEIMAGE="+registry+"/base:latest")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	_, digest, _ := strings.Cut(strings.TrimSpace(string(out)), "@")
	return digest
}

// TestImage: what `ko build` makes of the last stage is the same everywhere, and is
// one file that says what is in it.
func TestImage(t *testing.T) {
	t.Parallel()
	all := stages(t)
	stage := all[len(all)-1]
	registry := startRegistry(t)

	// In a repository, and without one, in a folder of another name, and later.
	committed, elsewhere := filepath.Join(t.TempDir(), stage), filepath.Join(t.TempDir(), "deeper", "copy")
	for _, dir := range []string{committed, elsewhere} {
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("../..", stage))); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"init", "add .", "-c user.name=test -c user.email=test@example.com commit --message all"} {
		git := exec.CommandContext(t.Context(), "git", strings.Fields(args)...)
		git.Dir = committed
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	digest := koBuild(t, committed, registry, stage)
	if again := koBuild(t, elsewhere, registry, "again"); again != digest {
		t.Errorf("the same files gave %s, and then %s", digest, again)
	}

	image := repository("http://" + registry + "/v2/" + stage)
	var index struct{ Manifests []descriptor }
	image.decode(t, "/manifests/"+digest, &index)
	var platforms []string
	for _, m := range index.Manifests {
		platforms = append(platforms, m.Platform.OS+"/"+m.Platform.Architecture)
	}
	if diff := cmp.Diff(koPlatforms(t, stage), platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	for _, m := range index.Manifests {
		t.Run(m.Platform.Architecture, func(t *testing.T) { checkImage(t, image, m, stage) })
	}
}

// koPlatforms returns the platforms that a stage's .ko.yaml names.
func koPlatforms(t *testing.T, stage string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", stage, ".ko.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		DefaultPlatforms []string `json:"defaultPlatforms"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.DefaultPlatforms
}

func checkImage(t *testing.T, image repository, d descriptor, stage string) {
	t.Helper()
	var m manifest
	image.decode(t, "/manifests/"+d.Digest, &m)
	type configuration struct {
		Created          time.Time
		OS, Architecture string
		Config           struct {
			User       string
			Entrypoint []string
			Labels     map[string]string
		}
	}
	var got, want configuration
	image.decode(t, "/blobs/"+m.Config.Digest, &got)
	want.OS, want.Architecture = d.Platform.OS, d.Platform.Architecture
	want.Config.User = "65532" // as the Deployment says
	want.Config.Entrypoint = []string{"/ko-app/" + stage}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}

	files := map[string][]byte{}
	for _, layer := range m.Layers {
		unpack(t, image.get(t, "/blobs/"+layer.Digest), files)
	}
	binary := files[want.Config.Entrypoint[0]]
	if len(files) != 1 || binary == nil {
		t.Fatalf("%d files, and none of them or not only %s", len(files), want.Config.Entrypoint[0])
	}
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if section := file.Section(".interp"); section != nil {
		t.Error("the program wants a dynamic linker, and the base image has none")
	}
	checkSBOM(t, image, d.Digest, binary)

	if d.Platform.OS == runtime.GOOS && d.Platform.Architecture == runtime.GOARCH {
		program := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(program, binary, 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), program, "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "cloud-controller-manager") {
			t.Errorf("--help: %v\n%s", err, out)
		}
	}
}

// unpack adds the files of a layer to files, by their paths.
func unpack(t *testing.T, layer []byte, files map[string][]byte) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Typeflag != tar.TypeReg || header.Mode&0o6222 != 0 {
			t.Errorf("%s is of type %c and has the mode %o", header.Name, header.Typeflag, header.Mode)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[path.Join("/", header.Name)] = content
	}
}

// checkSBOM compares the list of what is in an image with what the program in it
// says. The list has the image's digest as its tag, as cosign expects it.
func checkSBOM(t *testing.T, image repository, digest string, binary []byte) {
	t.Helper()
	var m manifest
	image.decode(t, "/manifests/"+strings.Replace(digest, ":", "-", 1)+".sbom", &m)
	if len(m.Layers) != 1 || m.Layers[0].MediaType != "text/spdx+json" {
		t.Fatalf("%+v is not one list in SPDX", m.Layers)
	}
	var document struct {
		SPDXVersion string
		Packages    []struct{ Name, VersionInfo string }
	}
	image.decode(t, "/blobs/"+m.Layers[0].Digest, &document)
	if document.SPDXVersion == "" {
		t.Error("the list does not say which SPDX it is")
	}
	listed := map[string]string{}
	for _, p := range document.Packages {
		listed[p.Name] = p.VersionInfo
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) == 0 {
		t.Error("the program does not say what it is made of")
	}
	for _, module := range info.Deps {
		if listed[module.Path] != module.Version {
			t.Errorf("the list has %s %q, and the program %s", module.Path, listed[module.Path], module.Version)
		}
	}
}
