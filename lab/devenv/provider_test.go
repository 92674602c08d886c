//go:build devtest

package devenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"example.com/ccm-from-scratch/lab/stack"
)

// TestProvider applies what the real hcloud provider makes, on the emulated cloud,
// and expects that a second plan finds nothing to do. It needs the providers, so
// it is not a part of `make test`: `make dev-test` runs it. An installation that
// TF_CLI_CONFIG_FILE describes is respected.
func TestProvider(t *testing.T) {
	endpoint := newCloud(t)
	client := hcloud.NewClient(hcloud.WithEndpoint(endpoint), hcloud.WithToken(stack.Token))
	path, err := findTerraform()
	if err != nil {
		t.Fatal(err)
	}
	tf := &terraform{dir: t.TempDir(), program: path}
	if err := os.CopyFS(tf.dir, os.DirFS(devEnv)); err != nil {
		t.Fatal(err)
	}
	tf.env = append(cleanEnv(),
		"PATH="+os.Getenv("PATH"), "TF_CLI_CONFIG_FILE="+os.Getenv("TF_CLI_CONFIG_FILE"), "HCLOUD_ENDPOINT="+endpoint,
		"TF_VAR_name=alice", "TF_VAR_hcloud_token="+stack.Token)
	targets := []string{"-target=hcloud_server_network.node", "-target=local_sensitive_file.ssh", "-input=false"}

	tf.run(t, "init", "-input=false")
	tf.run(t, append([]string{"apply", "-auto-approve"}, targets...)...)
	servers, err := client.Server.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(servers) != 2 {
		t.Errorf("%d servers, want 2", len(servers))
	}
	for _, s := range servers {
		if s.Status != hcloud.ServerStatusRunning || len(s.PrivateNet) != 1 {
			t.Errorf("server %s is %s and in %d networks", s.Name, s.Status, len(s.PrivateNet))
		}
	}
	out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-y", "-f", filepath.Join(tf.dir, ".dev-env.ssh")).CombinedOutput()
	if err != nil {
		t.Errorf("ssh does not want the key: %v\n%s", err, out)
	}
	// 0: nothing to do, 1: error, 2: something.
	tf.run(t, append([]string{"plan", "-detailed-exitcode"}, targets...)...)
	tf.run(t, append([]string{"destroy", "-auto-approve"}, targets...)...)
	if left := inventory(t, client); len(left) != 0 {
		t.Errorf("left after destroy: %v", left)
	}
}
