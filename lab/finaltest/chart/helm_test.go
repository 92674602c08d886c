package chart

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"example.com/ccm-from-scratch/lab/stack"
)

// Where things are, from this folder.
const (
	root     = "../../.."
	chartDir = root + "/final/chart"
	deploy   = root + "/final/deploy"
)

// image is where a user of the chart has pushed the image.
const image = "registry.example.com/ccm"

// findHelm builds Helm, once per user.
var findHelm = sync.OnceValues(func() (string, error) {
	module := filepath.Join(root, "tools/helm")
	mod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return "", err
	}
	version := regexp.MustCompile(`helm\.sh/helm/v4 (v\S+)`).FindSubmatch(mod)
	if version == nil {
		return "", fmt.Errorf("%s/go.mod does not require helm.sh/helm/v4", module)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "ccm-from-scratch", fmt.Sprintf("helm-%s-%s-%s", version[1], runtime.GOOS, runtime.GOARCH))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	fmt.Fprintln(os.Stderr, "building Helm, once, about four minutes on two processors")
	begin := time.Now()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path+".new", "helm.sh/helm/v4/cmd/helm")
	build.Dir = module
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build Helm: %w\n%s", err, out)
	}
	fmt.Fprintf(os.Stderr, "built Helm in %s\n", time.Since(begin).Round(time.Second))
	return path, os.Rename(path+".new", path) // at once, in case that others build, too
})

// helm runs Helm with nothing of the user's own, and values as its input.
func helm(t *testing.T, values string, args ...string) (string, error) {
	t.Helper()
	program, err := findHelm()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{"HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home}
	cmd.Stdin = strings.NewReader(values)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// render returns the text that the chart makes of values, which are YAML, for the
// release ccm in kube-system.
func render(t *testing.T, values string) string {
	t.Helper()
	out, err := helm(t, values, "template", "ccm", chartDir, "--namespace=kube-system", "--values=-", "--set=image.repository="+image)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// objects decodes manifests, and takes no field that does not exist.
func objects(t *testing.T, manifests string) []kruntime.Object {
	t.Helper()
	var all []kruntime.Object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		var content map[string]any
		if err := yaml.UnmarshalStrict(doc, &content); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if len(content) == 0 {
			continue // comments
		}
		object, _, err := strict.Decode(doc, nil, nil)
		if kruntime.IsNotRegisteredError(err) {
			object, err = &unstructured.Unstructured{Object: content}, nil
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		all = append(all, object)
	}
}

// get returns the only object of a type.
func get[T kruntime.Object](t *testing.T, all []kruntime.Object) T {
	t.Helper()
	var found []T
	for _, object := range all {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want one", len(found), *new(T))
	}
	return found[0]
}

// template returns the pod template of the Deployment or DaemonSet among objects.
func template(t *testing.T, all []kruntime.Object) *corev1.PodTemplateSpec {
	t.Helper()
	for _, object := range all {
		switch workload := object.(type) {
		case *appsv1.Deployment:
			return &workload.Spec.Template
		case *appsv1.DaemonSet:
			return &workload.Spec.Template
		}
	}
	t.Fatal("neither a Deployment nor a DaemonSet")
	return nil
}

// program returns the path of the last stage's program.
var program = sync.OnceValues(func() (string, error) {
	return stack.BuildCCM(context.Background(), root, "final", os.Stderr)
})
