package loadbalancers

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/ccm-from-scratch/lab/cloud"
	"example.com/ccm-from-scratch/lab/stack"
)

// TestL01 swaps the token for one of another project, where no network is asked
// for at the start. There nothing is made or adopted, and a Service stays until
// the right token lets its load balancer go.
func TestL01(t *testing.T) {
	t.Parallel()
	f := start(t, 0)
	if err := f.AddServers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "token")
	use := func(token string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	use(stack.Token)
	f.startCCM("HCLOUD_TOKEN=", "HCLOUD_TOKEN_FILE="+path, "HCLOUD_NETWORK=", "HCLOUD_INSTANCES_ADDRESS_FAMILY=dualstack", "HCLOUD_LOAD_BALANCERS_REPAIR_PERIOD=1s")
	f.initialized(1)
	web := f.service("web", 1, nil)
	gone := f.service("gone", 1, map[string]string{"name": "gone"})
	f.ready(2, 1)

	const other, project = "rwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrwrw", "other"
	f.Cloud.AddToken(other, project, cloud.ReadWrite)
	use(other)
	const doubt = "no server of this cluster's Nodes is in this project: the API token may be that of another project"
	f.told(web, "SyncLoadBalancerFailed", doubt)
	if err := f.kubernetes.CoreV1().Services("default").Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.told(gone, "SyncLoadBalancerFailed", "load balancer not found: "+doubt)
	late := f.service("late", 1, map[string]string{"node-selector": "none=here"})
	f.told(late, "SyncLoadBalancerFailed", doubt)
	for _, r := range f.Cloud.Requests(project) {
		if r.Method != http.MethodGet && r.Status < 300 {
			t.Errorf("in the other project: %s %s %d", r.Method, r.Path, r.Status)
		}
	}

	use(stack.Token)
	f.eventually("the Service is gone", time.Minute, func() (bool, string) {
		_, err := f.kubernetes.CoreV1().Services("default").Get(t.Context(), "gone", metav1.GetOptions{})
		return err != nil, fmt.Sprint(err)
	})
	if names := f.cloud("load-balancer", "list", "-o", "format={{.Name}};"); strings.Contains(names, "gone;") {
		t.Errorf("left behind: %s", names)
	}
}
