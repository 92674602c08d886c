package devenv

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"

	"example.com/ccm-from-scratch/lab/stack"
)

// replay sends requests as the hcloud provider does, and keeps what is answered.
type replay struct {
	t     *testing.T
	url   string
	names map[string]string // what {name} in a path or body stands for
}

// answer is what the provider reads of one.
type answer struct {
	SSHKey      schema.SSHKey       `json:"ssh_key"`
	Network     schema.Network      `json:"network"`
	Networks    []schema.Network    `json:"networks"`
	Server      schema.Server       `json:"server"`
	ServerTypes []schema.ServerType `json:"server_types"`
	Images      []schema.Image      `json:"images"`
	Action      *schema.Action      `json:"action"`
	NextActions []schema.Action     `json:"next_actions"`
	Actions     []schema.Action     `json:"actions"`
	Failure     schema.Error        `json:"error"`
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// send expects a status, and waits for the actions of an answer.
func (r *replay) send(want int, method, path, body string) answer {
	r.t.Helper()
	fill := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(name string) string { return r.names[strings.Trim(name, "{}")] })
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+fill(path), strings.NewReader(fill(body)))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+stack.Token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if res.StatusCode != want {
		r.t.Fatalf("%s %s: status %d, want %d: %s", method, path, res.StatusCode, want, text)
	}
	var a answer
	if len(text) > 0 {
		if err := json.Unmarshal(text, &a); err != nil {
			r.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	actions := a.NextActions
	if a.Action != nil {
		actions = append(actions, *a.Action)
	}
	for _, action := range actions {
		for action.Status == "running" {
			list := r.send(http.StatusOK, "GET", fmt.Sprintf("/actions?id=%d&page=1&per_page=50&sort=status&sort=id", action.ID), "")
			if len(list.Actions) != 1 {
				r.t.Fatalf("%d actions for one ID", len(list.Actions))
			}
			action = list.Actions[0]
		}
		if action.Status != "success" {
			r.t.Fatalf("%s %s: action %s: %+v", method, path, action.Command, action.Error)
		}
	}
	return a
}

// TestContract: the emulated API satisfies the hcloud provider in an apply of this
// configuration, the refresh after it, and a destroy. The requests are those of
// version 1.68; the provider itself is run by TestProvider.
func TestContract(t *testing.T) {
	t.Parallel()
	endpoint := newCloud(t)
	key := publicKey(1)
	r := &replay{t: t, url: endpoint, names: map[string]string{
		"key": key, "labels": `{"ccm-from-scratch/dev-env":"alice"}`,
	}}
	labels := map[string]string{"ccm-from-scratch/dev-env": "alice"}
	id := func(name string, id int64) { r.names[name] = fmt.Sprint(id) }

	// Apply.
	id("sshKey", r.send(201, "POST", "/ssh_keys", `{"name":"alice","public_key":"{key}\n","labels":{labels}}`).SSHKey.ID)
	id("network", r.send(201, "POST", "/networks", `{"name":"alice","ip_range":"10.0.0.0/8","labels":{labels},"expose_routes_to_vswitch":false}`).Network.ID)
	r.send(201, "POST", "/networks/{network}/actions/add_subnet", `{"type":"cloud","ip_range":"10.0.0.0/24","network_zone":"eu-central"}`)
	types := r.send(200, "GET", "/server_types?name=cx23", "").ServerTypes
	if len(types) != 1 || len(types[0].Locations) == 0 {
		t.Fatalf("server types %+v: want one with its locations", types)
	}
	r.names["architecture"] = types[0].Architecture
	images := r.send(200, "GET", "/images?architecture={architecture}&include_deprecated=true&name=ubuntu-24.04", "").Images
	if len(images) != 1 {
		t.Fatalf("%d images for one name and architecture", len(images))
	}
	id("image", images[0].ID)
	r.send(200, "GET", "/ssh_keys/{sshKey}", "")
	created := r.send(201, "POST", "/servers", `{"name":"alice-control","server_type":"cx23","image":{image},"location":"fsn1","ssh_keys":[{sshKey}],"labels":{labels},"start_after_create":true}`)
	id("server", created.Server.ID)
	r.send(201, "POST", "/servers/{server}/actions/attach_to_network", `{"network":{network},"ip_range":"10.0.0.0/24"}`)

	// Refresh: whatever differs from the configuration would be the next plan's work.
	t.Run("refresh", func(t *testing.T) {
		gotKey := r.send(200, "GET", "/ssh_keys/{sshKey}", "").SSHKey
		gotKey.PublicKey = strings.TrimSpace(gotKey.PublicKey) // so does the provider
		wantKey := schema.SSHKey{ID: gotKey.ID, Created: gotKey.Created, Fingerprint: gotKey.Fingerprint, Name: "alice", PublicKey: key, Labels: labels}
		if diff := cmp.Diff(wantKey, gotKey); diff != "" {
			t.Errorf("SSH key (-want +got):\n%s", diff)
		}
		gotNetwork := r.send(200, "GET", "/networks/{network}", "").Network
		wantNetwork := schema.Network{
			ID: gotNetwork.ID, Created: gotNetwork.Created, Servers: []int64{created.Server.ID}, LoadBalancers: gotNetwork.LoadBalancers,
			Name: "alice", IPRange: "10.0.0.0/8", Labels: labels, Routes: []schema.NetworkRoute{},
			Subnets: []schema.NetworkSubnet{{Type: "cloud", IPRange: "10.0.0.0/24", NetworkZone: "eu-central", Gateway: "10.0.0.1"}},
		}
		if diff := cmp.Diff(wantNetwork, gotNetwork); diff != "" {
			t.Errorf("network (-want +got):\n%s", diff)
		}
		type attachment struct{ IP, AliasIPs string }
		type facts struct {
			Name, Type, Image, Location, Status string
			Labels                              map[string]string
			Backups, Rescue, Protected          bool
			PublicIPv4, PublicIPv6              bool
			Networks                            []attachment
		}
		s := r.send(200, "GET", "/servers/{server}", "").Server
		got := facts{
			Name: s.Name, Type: s.ServerType.Name, Image: *s.Image.Name, Location: s.Location.Name, Status: s.Status,
			Labels: s.Labels, Backups: s.BackupWindow != nil, Rescue: s.RescueEnabled, Protected: s.Protection.Delete || s.Protection.Rebuild,
			PublicIPv4: s.PublicNet.IPv4.IP != "", PublicIPv6: s.PublicNet.IPv6.IP != "",
		}
		for _, n := range s.PrivateNet {
			if n.MACAddress == "" {
				t.Error("an attachment without a MAC address")
			}
			got.Networks = append(got.Networks, attachment{n.IP, strings.Join(n.AliasIPs, " ")})
		}
		want := facts{
			Name: "alice-control", Type: "cx23", Image: "ubuntu-24.04", Location: "fsn1", Status: "running",
			Labels: labels, PublicIPv4: true, PublicIPv6: true, Networks: []attachment{{"10.0.0.2", ""}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("server (-want +got):\n%s", diff)
		}
	})

	// What the provider has to recognize, by code and by words.
	if code := r.send(422, "POST", "/servers/{server}/actions/attach_to_network", `{"network":{network}}`).Failure.Code; code != "server_already_attached" {
		t.Errorf("attached twice: %s", code)
	}
	used := r.send(422, "POST", "/networks/{network}/actions/delete_subnet", `{"ip_range":"10.0.0.0/24"}`).Failure
	if used.Code != "service_error" || !strings.Contains(used.Message, "servers are attached") && !strings.Contains(used.Message, "network has attached resources") {
		t.Errorf("a subnet in use: %+v", used)
	}

	// Destroy.
	r.send(201, "POST", "/servers/{server}/actions/detach_from_network", `{"network":{network}}`)
	if gone := r.send(200, "DELETE", "/servers/{server}", ""); gone.Action == nil {
		t.Error("the deletion of a server has no action to wait for")
	}
	r.send(201, "POST", "/networks/{network}/actions/delete_subnet", `{"ip_range":"10.0.0.0/24"}`)
	r.send(204, "DELETE", "/networks/{network}", "")
	r.send(204, "DELETE", "/ssh_keys/{sshKey}", "")
	for _, path := range []string{"/servers/{server}", "/networks/{network}", "/ssh_keys/{sshKey}"} {
		for _, method := range []string{"GET", "DELETE"} {
			if code := r.send(404, method, path, "").Failure.Code; code != "not_found" {
				t.Errorf("%s %s: %s", method, path, code)
			}
		}
	}
	if left := r.send(200, "GET", "/networks?name={network}", "").Networks; len(left) != 0 {
		t.Errorf("a network's ID is taken for a name: %+v", left)
	}
}
