package cloud_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"example.com/ccm-from-scratch/lab/cloud"
)

// TestCatalogue asks for what others rely on, by ID and by name.
func TestCatalogue(t *testing.T) {
	client, ctx := newLab(t, cloud.Config{}).client(), t.Context()
	describe := map[string]func(string) (string, error){
		"location": func(ref string) (string, error) {
			l, _, err := client.Location.Get(ctx, ref)
			if err != nil || l == nil {
				return "none", err
			}
			return fmt.Sprintf("%d %s %s %s", l.ID, l.Name, l.Description, l.NetworkZone), nil
		},
		"server type": func(ref string) (string, error) {
			s, _, err := client.ServerType.Get(ctx, ref)
			if err != nil || s == nil {
				return "none", err
			}
			return fmt.Sprintf("%s %s %s %d/%g/%d in %d", s.Name, s.Architecture, s.CPUType, s.Cores, s.Memory, s.Disk, len(s.Locations)), nil
		},
		"image": func(ref string) (string, error) {
			i, _, err := client.Image.GetForArchitecture(ctx, ref, hcloud.ArchitectureX86)
			if err != nil || i == nil {
				return "none", err
			}
			return fmt.Sprintf("%d %s %s", i.ID, i.Name, i.Architecture), nil
		},
		"load balancer type": func(ref string) (string, error) {
			t, _, err := client.LoadBalancerType.Get(ctx, ref)
			if err != nil || t == nil {
				return "none", err
			}
			return fmt.Sprintf("%d %s %d/%d/%d/%d in %d", t.ID, t.Name, t.MaxServices, t.MaxTargets, t.MaxAssignedCertificates, t.MaxConnections, len(t.Pricings)), nil
		},
	}
	for _, test := range []struct{ kind, ref, want string }{
		{"load balancer type", "1", "1 lb11 5/25/10/10000 in 6"},
		{"load balancer type", "lb21", "2 lb21 15/75/25/20000 in 6"},
		{"load balancer type", "lb31", "3 lb31 30/150/50/40000 in 6"},
		{"load balancer type", "lb41", "none"},
		{"location", "1", "1 fsn1 Falkenstein DC Park 1 eu-central"},
		{"location", "ash", "4 ash Ashburn, VA us-east"},
		{"location", "7", "none"},
		{"location", "fsn9", "none"},
		{"server type", "109", "cpx22 x86 shared 2/4/80 in 4"},
		{"server type", "cx23", "cx23 x86 shared 2/4/40 in 3"},
		{"server type", "cax11", "cax11 arm shared 2/4/40 in 3"},
		{"server type", "ccx13", "ccx13 x86 dedicated 2/8/80 in 6"},
		{"server type", "1", "none"},
		{"image", "161547269", "161547269 ubuntu-24.04 x86"},
		{"image", "ubuntu-24.04", "161547269 ubuntu-24.04 x86"},
		{"image", "debian-12", "114690387 debian-12 x86"},
		{"image", "1", "none"},
	} {
		t.Run(test.kind+" "+test.ref, func(t *testing.T) {
			got, err := describe[test.kind](test.ref)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s differs (-want +got):\n%s", test.kind, diff)
			}
		})
	}
}

func TestSSHKeys(t *testing.T) {
	l := newLab(t, cloud.Config{})
	const public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	key := l.ok(t, "POST", "/v1/ssh_keys", fmt.Sprintf(`{"name":"me","public_key":%q,"labels":{"a":"b"}}`, public)).SSHKey
	path := fmt.Sprintf("/v1/ssh_keys/%d", key.ID)
	if diff := cmp.Diff(key, l.ok(t, "GET", path, "").SSHKey); diff != "" {
		t.Errorf("key differs (-want +got):\n%s", diff)
	}

	key.Name = "you"
	if diff := cmp.Diff(key, l.ok(t, "PUT", path, `{"name":"you"}`).SSHKey); diff != "" {
		t.Errorf("renamed key differs (-want +got):\n%s", diff)
	}
	key.Labels = map[string]string{}
	if diff := cmp.Diff(key, l.ok(t, "PUT", path, `{"labels":{}}`).SSHKey); diff != "" {
		t.Errorf("key without labels differs (-want +got):\n%s", diff)
	}
	found, _, err := l.client().SSHKey.GetByFingerprint(t.Context(), key.Fingerprint)
	if err != nil || found == nil || found.ID != key.ID {
		t.Errorf("key by fingerprint: %v, %v", found, err)
	}

	if got := l.do(t, "DELETE", path, ""); got.status != 204 {
		t.Errorf("deletion: %d %s", got.status, got.text)
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		refused{404, "not_found", "SSH key with ID", ""}.check(t, l.do(t, method, path, "{}"))
	}
}
