package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// KubernetesVersion is the version of the API server and of kubectl.
const KubernetesVersion = "v1.37.2"

// Binaries are the paths of the control plane's programs.
type Binaries struct{ Etcd, KubeAPIServer, Kubectl string }

var binaryNames = []string{"etcd", "kube-apiserver", "kubectl"}

func binariesIn(dir string) Binaries {
	return Binaries{
		Etcd:          filepath.Join(dir, "etcd"),
		KubeAPIServer: filepath.Join(dir, "kube-apiserver"),
		Kubectl:       filepath.Join(dir, "kubectl"),
	}
}

// FindBinaries finds the control plane's programs, or gets them, which it
// reports to log. It looks in this order:
//
//  1. The folder that the environment variable KUBEBUILDER_ASSETS names, for
//     which its owner answers: it is an error if a program is missing there.
//  2. The user's cache folder, which step 3 or 4 has filled earlier.
//  3. A download by envtest, of the newest release in the series of
//     [KubernetesVersion]. The environment variable CCM_LAB_BINARIES=build
//     leaves it out.
//  4. A build from source, which takes minutes and about 3 GB in Go's build cache.
func FindBinaries(ctx context.Context, log io.Writer) (Binaries, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return Binaries{}, err
		}
		for _, name := range binaryNames {
			if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
				return Binaries{}, fmt.Errorf("KUBEBUILDER_ASSETS: %w", err)
			}
		}
		return binariesIn(dir), nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return Binaries{}, fmt.Errorf("find a place for the control plane's programs (KUBEBUILDER_ASSETS can name one): %w", err)
	}
	sources := []source{{"download", downloadFrom("")}, {"build", build}}
	if os.Getenv("CCM_LAB_BINARIES") == "build" {
		sources = sources[1:]
	}
	c := cache{
		dir:     filepath.Join(base, "ccm-from-scratch", KubernetesVersion+"-"+runtime.GOOS+"-"+runtime.GOARCH),
		version: KubernetesVersion,
		sources: sources,
	}
	return c.find(ctx, log)
}

// A source fills an empty folder with the programs.
type source struct {
	name string
	fill func(ctx context.Context, log io.Writer, dir string) error
}

// A cache is a folder with the programs and a manifest, which is written last.
// Any number of processes may use it at once.
type cache struct {
	dir     string
	version string
	sources []source // tried in this order
}

// A manifest says what is in a cache folder.
type manifest struct {
	Wanted string         `json:"wanted"` // the version that was asked for
	Got    string         `json:"got"`    // the version that the API server claims to be
	Source string         `json:"source"`
	Files  []manifestFile `json:"files"`
}

type manifestFile struct {
	Name    string    `json:"name"`
	Size    int64     `json:"size"` // bytes
	ModTime time.Time `json:"modTime"`
	SHA256  string    `json:"sha256"`
}

const manifestName = "manifest.json"

func (c cache) find(ctx context.Context, log io.Writer) (Binaries, error) {
	if c.check() == nil {
		return binariesIn(c.dir), nil
	}
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o755); err != nil {
		return Binaries{}, err
	}
	unlock, err := lock(ctx, c.dir+".lock", log)
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	switch err := c.check(); {
	case err == nil: // by the process that had the lock
		return binariesIn(c.dir), nil
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(log, "the control plane's programs (%s) are not in the cache yet\n", c.version)
	default:
		fmt.Fprintf(log, "the control plane's programs are gotten anew, because %v\n", err)
	}
	if err := c.fill(ctx, log); err != nil {
		return Binaries{}, fmt.Errorf("get the control plane's programs: %w", err)
	}
	return binariesIn(c.dir), nil
}

// check compares the folder with its manifest. It returns an error that wraps
// fs.ErrNotExist if nothing has been put there yet.
func (c cache) check() error {
	data, err := os.ReadFile(filepath.Join(c.dir, manifestName))
	if err != nil {
		return err
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("%s of %s: %w", manifestName, c.dir, err)
	}
	if m.Wanted != c.version {
		return fmt.Errorf("%s holds %s instead of %s", c.dir, m.Wanted, c.version)
	}
	if len(m.Files) != len(binaryNames) {
		return fmt.Errorf("%s of %s lists %d programs instead of %d", manifestName, c.dir, len(m.Files), len(binaryNames))
	}
	for i, want := range m.Files {
		path := filepath.Join(c.dir, binaryNames[i])
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return fmt.Errorf("%s is missing", path) // not ErrNotExist: something was here
		case info.Size() != want.Size:
			return fmt.Errorf("%s has %d bytes instead of %d", path, info.Size(), want.Size)
		case info.ModTime().Equal(want.ModTime):
			continue // reading 200 MB at every start would cost half a second
		}
		got, err := describe(path)
		if err != nil {
			return err
		}
		if got.SHA256 != want.SHA256 {
			return fmt.Errorf("%s has been changed", path)
		}
		_ = os.Chtimes(path, time.Time{}, want.ModTime) // spares the next one the reading
	}
	return nil
}

// fill puts a new folder in the place of c.dir, by the first source that can.
func (c cache) fill(ctx context.Context, log io.Writer) error {
	// Whoever holds the lock owns these; some are left by a process that was killed.
	pattern := filepath.Base(c.dir) + ".new-"
	leftovers, err := filepath.Glob(c.dir + ".new-*")
	if err != nil {
		return err
	}
	for _, old := range leftovers {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}

	var failures []error
	for i, source := range c.sources {
		dir, err := os.MkdirTemp(filepath.Dir(c.dir), pattern)
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		err = source.fill(ctx, log, dir)
		if err == nil {
			err = c.seal(ctx, source.name, dir)
		}
		if err == nil {
			// Processes that run the old programs keep them.
			return errors.Join(os.RemoveAll(c.dir), os.Rename(dir, c.dir))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failures = append(failures, fmt.Errorf("%s: %w", source.name, err))
		if i+1 < len(c.sources) {
			fmt.Fprintf(log, "no %s (%s), so the next means is tried: %s\n", source.name, firstLine(err), c.sources[i+1].name)
		}
	}
	return errors.Join(failures...)
}

// seal asks the programs in dir whether they run, and writes the manifest.
func (c cache) seal(ctx context.Context, source, dir string) error {
	out, err := exec.CommandContext(ctx, binariesIn(dir).KubeAPIServer, "--version").Output()
	if err != nil {
		return fmt.Errorf("run kube-apiserver --version: %w", err)
	}
	m := manifest{
		Wanted: c.version,
		Got:    strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes "),
		Source: source,
	}
	if series(m.Got) != series(c.version) {
		return fmt.Errorf("kube-apiserver is %s instead of %s", m.Got, c.version)
	}
	for _, name := range binaryNames {
		file, err := describe(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, file)
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestName), data, 0o644)
}

func describe(path string) (manifestFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return manifestFile{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return manifestFile{}, err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return manifestFile{}, err
	}
	return manifestFile{
		Name:    filepath.Base(path),
		Size:    info.Size(),
		ModTime: info.ModTime(),
		SHA256:  hex.EncodeToString(hash.Sum(nil)),
	}, nil
}

// series is the "1.37" of "v1.37.2".
func series(version string) string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major + "." + minor
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// lock takes the lock of the file at path and says so if that takes time. The
// kernel gives the lock back when its holder ends, however that happens.
func lock(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for begin, said := time.Now(), false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !said {
			fmt.Fprintln(log, "another process is getting the control plane's programs, waiting for it")
			said = true
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("wait %s for another process: %w", time.Since(begin).Round(time.Second), ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
