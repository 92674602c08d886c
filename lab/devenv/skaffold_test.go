package devenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// The part of Skaffold's configuration that we use. Skaffold refuses a file with a
// field that it does not know, and so do these, which are compared with its
// reference: https://skaffold.dev/docs/references/yaml/?version=v4beta13
type (
	skaffoldFile struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		skaffoldPipeline
		Profiles []skaffoldProfile `json:"profiles"`
	}
	skaffoldPipeline struct {
		Build struct {
			Artifacts []struct {
				Image       string `json:"image"`
				RuntimeType string `json:"runtimeType"`
				Ko          *struct {
					FromImage string   `json:"fromImage"`
					Main      string   `json:"main"`
					Flags     []string `json:"flags"`
					Ldflags   []string `json:"ldflags"`
				} `json:"ko"`
			} `json:"artifacts"`
			Platforms          []string `json:"platforms"`
			InsecureRegistries []string `json:"insecureRegistries"`
		} `json:"build"`
		Manifests struct {
			RawYaml []string `json:"rawYaml"`
		} `json:"manifests"`
		Deploy struct {
			Kubectl struct {
				DefaultNamespace string `json:"defaultNamespace"`
				Hooks            struct {
					Before []skaffoldHook `json:"before"`
					After  []skaffoldHook `json:"after"`
				} `json:"hooks"`
			} `json:"kubectl"`
		} `json:"deploy"`
		PortForward []struct {
			ResourceType string `json:"resourceType"`
			ResourceName string `json:"resourceName"`
			Namespace    string `json:"namespace"`
			Port         int    `json:"port"`
		} `json:"portForward"`
	}
	skaffoldHook struct {
		Host struct {
			Command []string `json:"command"`
		} `json:"host"`
	}
	skaffoldProfile struct {
		Name       string `json:"name"`
		Activation []struct {
			Command string `json:"command"`
		} `json:"activation"`
		Patches []struct {
			Op   string `json:"op"`
			Path string `json:"path"`
		} `json:"patches"`
		skaffoldPipeline
	}
)

func TestSkaffold(t *testing.T) {
	t.Parallel()
	found := 0
	for _, stage := range stages(t) {
		text, err := os.ReadFile(filepath.Join("../..", stage, "skaffold.yaml"))
		if err != nil {
			continue // stages before the one that adds it
		}
		found++
		t.Run(stage, func(t *testing.T) {
			var file skaffoldFile
			if err := yaml.UnmarshalStrict(text, &file); err != nil {
				t.Fatal(err)
			}
			if file.APIVersion != "skaffold/v4beta13" || file.Kind != "Config" || len(file.Build.Artifacts) != 1 {
				t.Fatalf("%s %s with %d artifacts", file.APIVersion, file.Kind, len(file.Build.Artifacts))
			}
			artifact := file.Build.Artifacts[0]
			if artifact.Ko == nil || artifact.RuntimeType != "go" {
				t.Error("Skaffold takes an artifact without ko for one with a Dockerfile, and debug wants a runtime type")
			}
			if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, file.Build.Platforms); diff != "" {
				t.Errorf("platforms (-want +got):\n%s", diff)
			}
			if got := file.Deploy.Kubectl.DefaultNamespace; got != "kube-system" {
				t.Errorf("namespace %s", got)
			}

			// Skaffold puts the image's digest where it finds the artifact's name.
			var deployment appsv1.Deployment
			for _, pattern := range file.Manifests.RawYaml {
				files, err := filepath.Glob(filepath.Join("../..", stage, pattern))
				if err != nil || len(files) == 0 {
					t.Errorf("%s matches no file: %v", pattern, err)
				}
				for _, name := range files {
					if filepath.Base(name) != "deployment.yaml" {
						continue
					}
					text, err := os.ReadFile(name)
					if err != nil {
						t.Fatal(err)
					}
					if err := yaml.UnmarshalStrict(text, &deployment); err != nil {
						t.Fatal(err)
					}
				}
			}
			pod := deployment.Spec.Template.Spec
			if len(pod.Containers) != 1 || pod.Containers[0].Image != artifact.Image {
				t.Errorf("the Deployment has not the image %s", artifact.Image)
			}
			if len(file.Profiles) != 2 {
				t.Fatalf("%d profiles, want debug and laptop", len(file.Profiles))
			}
			checkDebug(t, file.Profiles[0], deployment)
			checkLaptop(t, file.Profiles[1], deployment, stage, text)
		})
	}
	if found == 0 {
		t.Error("no stage has a skaffold.yaml")
	}
}

func checkDebug(t *testing.T, p skaffoldProfile, deployment appsv1.Deployment) {
	t.Helper()
	if p.Name != "debug" || len(p.Activation) != 1 || p.Activation[0].Command != "debug" {
		t.Errorf("profile %s is not the one of skaffold debug", p.Name)
	}
	if len(p.PortForward) != 1 {
		t.Fatalf("%d ports forwarded", len(p.PortForward))
	}
	// https://skaffold.dev/docs/workflows/debug/: delve listens on 56268.
	if f := p.PortForward[0]; f.ResourceType != "deployment" || f.ResourceName != deployment.Name || f.Namespace != deployment.Namespace || f.Port != 56268 {
		t.Errorf("port forward %+v", f)
	}
}

func checkLaptop(t *testing.T, p skaffoldProfile, deployment appsv1.Deployment, stage string, text []byte) {
	t.Helper()
	if p.Name != "laptop" {
		t.Errorf("profile %s", p.Name)
	}
	var document map[string]any
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for _, patch := range p.Patches {
		var node any = document
		for _, key := range strings.Split(strings.TrimPrefix(patch.Path, "/"), "/") {
			inner, _ := node.(map[string]any)
			node = inner[key]
		}
		if patch.Op != "remove" || node == nil {
			t.Errorf("%s %s, which is not there", patch.Op, patch.Path)
		}
	}
	if diff := cmp.Diff([]string{"deploy/rbac.yaml"}, p.Manifests.RawYaml); diff != "" {
		t.Errorf("manifests (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join("../..", stage, "deploy/rbac.yaml")); err != nil {
		t.Error(err)
	}
	var commands []string
	for _, hook := range append(p.Deploy.Kubectl.Hooks.Before, p.Deploy.Kubectl.Hooks.After...) {
		commands = append(commands, strings.Join(hook.Host.Command, " "))
	}
	want := []string{"kubectl delete deployment " + deployment.Name + " --namespace=" + deployment.Namespace + " --ignore-not-found", "go run ."}
	if diff := cmp.Diff(want, commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}
