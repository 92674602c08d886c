package devenv

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/ccm-from-scratch/lab/cloud"
	"example.com/ccm-from-scratch/lab/cloud/openapi"
	"example.com/ccm-from-scratch/lab/stack"
)

// devEnv is the folder under test.
var devEnv = func() string {
	dir, err := filepath.Abs("../../part2-devenv/dev-env")
	if err != nil {
		panic(err)
	}
	return dir
}()

// cleanEnv is the environment without what belongs to the person who runs the
// tests: tokens, clusters, and settings of the programs under test.
func cleanEnv() []string {
	var env []string
	for _, variable := range os.Environ() {
		switch name, _, _ := strings.Cut(variable, "="); {
		case strings.HasPrefix(name, "TF_"), strings.HasPrefix(name, "HCLOUD_"), strings.HasPrefix(name, "SKAFFOLD_"),
			strings.HasPrefix(name, "KO_"), name == "KUBECONFIG", name == "PATH":
		default:
			env = append(env, variable)
		}
	}
	return env
}

// recorder puts a program into bin that stands for one that is not here, or has
// no servers to work with. It writes its arguments and its input to the file log.
func recorder(t *testing.T, bin, name, log string) {
	t.Helper()
	program(t, bin, name, fmt.Sprintf("echo \"%s $*\" >> '%s'\n[ -t 0 ] || cat >> '%s'\n", name, log, log))
}

// program writes a shell script into bin, in place of what has its name there.
func program(t *testing.T, bin, name, script string) {
	t.Helper()
	path := filepath.Join(bin, name)
	if err := os.RemoveAll(path); err != nil { // or a link would be followed
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
}

// stages returns the stages that stages.txt declares, in order.
func stages(t *testing.T) []string {
	t.Helper()
	names, err := stack.Stages("../..")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// publicKey makes an SSH key that differs from others by one byte.
func publicKey(last byte) string {
	kind := "ssh-ed25519"
	blob := append([]byte{0, 0, 0, byte(len(kind))}, kind...)
	blob = append(blob, 0, 0, 0, 32)
	blob = append(blob, make([]byte, 31)...)
	return kind + " " + base64.StdEncoding.EncodeToString(append(blob, last))
}

// newCloud starts an emulated cloud with the lab's project, and returns the URL of
// its API, whose answers are checked.
func newCloud(t *testing.T) string {
	t.Helper()
	document, err := openapi.FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	api := cloud.New(cloud.Config{})
	api.AddToken(stack.Token, stack.Project, cloud.ReadWrite)
	var handler http.Handler = api
	if document != nil {
		handler = document.Wrap(api, func(err error) { t.Errorf("response differs from the document: %v", err) })
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(api.Close)
	return server.URL + "/v1"
}
