package cloudctl

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"example.com/ccm-from-scratch/lab/cloud"
	"example.com/ccm-from-scratch/lab/cloud/openapi"
)

const token = "secret"

// lab is an emulated cloud, and its address as HCLOUD_ENDPOINT has it.
func lab(t *testing.T) (endpoint string) {
	t.Helper()
	c := cloud.New(cloud.Config{})
	c.AddToken(token, "test", cloud.ReadWrite)
	var handler http.Handler = c
	spec, err := openapi.FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	if spec != nil {
		handler = spec.Wrap(c, func(err error) { t.Errorf("response differs from the document: %v", err) })
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		c.Close()
		server.Close()
	})
	return server.URL + "/v1"
}

// run runs a command line, whose arguments contain no spaces.
func run(t *testing.T, endpoint, line string) (stdout string, err error) {
	t.Helper()
	cmd := NewCommand(func() (string, string, error) { return endpoint, token, nil })
	var out, errOut bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs(strings.Fields(line))
	err = cmd.ExecuteContext(t.Context())
	if want := ""; err != nil {
		want = "Error: " + err.Error() + "\n"
		if errOut.String() != want {
			t.Errorf("%s: stderr is %q, want %q", line, errOut.String(), want)
		}
	} else if errOut.String() != want {
		t.Errorf("%s: stderr is %q, want none", line, errOut.String())
	}
	return out.String(), err
}

// step is a command line, and what it is to print or how it is to fail.
type step struct {
	line    string
	want    string
	wantErr string // part of the error
}

func play(t *testing.T, endpoint string, steps []step) {
	t.Helper()
	for _, s := range steps {
		got, err := run(t, endpoint, s.line)
		if s.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), s.wantErr) {
				t.Errorf("cloud %s: error is %v, want %q", s.line, err, s.wantErr)
			}
		} else if err != nil {
			t.Fatalf("cloud %s: %v", s.line, err)
		}
		if diff := cmp.Diff(s.want, got); diff != "" {
			t.Errorf("cloud %s (-want +got):\n%s", s.line, diff)
		}
	}
}

// realistic are the settings after the profile has changed to that.
const realistic = `{
  "profile": "realistic",
  "rate_limit": 3600,
  "rate_remaining": 3600,
  "limits": {
    "servers": 10000,
    "load_balancers": 10000,
    "network_members": 100,
    "network_subnets": 50,
    "network_routes": 100
  },
  "strict_routes": false
}
`

func TestCommands(t *testing.T) {
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGTKVtB0hwyDAnBT1M0T8Zq0m0QVnJ0m3uUj6X2VJ3Qm"
	tests := []struct {
		name  string
		steps []step
	}{
		{"servers", []step{
			{line: "server list", want: "ID   NAME   STATUS   IPV4   IPV6   PRIVATE NET   LOCATION\n"},
			{line: "server create --name a", want: "Server 3000001 created\nIPv4: 203.0.113.1\nIPv6: 2001:db8:0:1::/64\n"},
			{
				line: "server create --name b --type cax11 --location hel1 --without-ipv4 --without-ipv6 --start-after-create=false --label x=y --label z=",
				want: "Server 3000002 created\n",
			},
			{line: "server list", want: "" +
				"ID        NAME   STATUS    IPV4          IPV6                PRIVATE NET   LOCATION\n" +
				"3000001   a      running   203.0.113.1   2001:db8:0:1::/64   -             fsn1\n" +
				"3000002   b      off       -             -                   -             hel1\n"},
			{line: "server list -o noheader -o columns=name,type,labels -l x=y", want: "b   cax11   x=y, z=\n"},
			{line: "server list -o columns=nonsense", wantErr: "invalid value for output option columns: nonsense"},
			{line: "server list -o yaml", wantErr: "invalid output option: yaml"},
			{line: "server list -o format={{.Name}}", want: "a\nb\n"},
			{line: "server create --name a", wantErr: "server name is already used (uniqueness_error"},
			{line: "server create", wantErr: `required flag(s) "name" not set`},
			{line: "server create --name c --type nope", wantErr: "server type not found: nope"},
			{line: "server create --name c --image nope", wantErr: "image not found: nope"},
			{line: "server create --name c --location nope", wantErr: "location not found: nope"},
			{line: "server create --name c --network nope", wantErr: "network not found: nope"},
			{line: "server create --name c --ssh-key nope", wantErr: "SSH key not found: nope"},
			{line: "server create --name no_such_name", wantErr: "(invalid_input"},
			{line: "server poweroff a", want: "Server 3000001 stopped\n"},
			{line: "server describe 3000001 -o noheader -o columns=status", want: "off\n"},
			{line: "server change-type a cpx32", want: "Server 3000001 changed to type cpx32\n"},
			{line: "server poweron a b", want: "Server 3000001 started\nServer 3000002 started\n"},
			{line: "server reboot a", want: "Server 3000001 rebooted\n"},
			{line: "server reset a", want: "Server 3000001 reset\n"},
			{line: "server shutdown b", want: "Server 3000002 asked to shut down\n"},
			{line: "server change-type a cx23", wantErr: "(server_not_stopped"},
			{line: "server update a --name c", want: "Server a updated\n"},
			{line: "server describe a", wantErr: "server not found: a"},
			{line: "server describe c -o columns=name,type", want: "name:   c\ntype:   cpx32\n"},
			{line: "server delete c 3000002", want: "Server c deleted\nServer 3000002 deleted\n"},
			{line: "server delete c", wantErr: "server not found: c"},
			{line: "server list -o noheader"},
		}},
		{"several servers", []step{
			{line: "server create --name w-%d --count 2 --without-ipv6", want: "Server 3000001 created\nIPv4: 203.0.113.1\nServer 3000002 created\nIPv4: 203.0.113.2\n"},
			{line: "server list -o noheader -o columns=name,status", want: "w-1   running\nw-2   running\n"},
			{line: "server create --name w --count 2", wantErr: `--count needs one %d in --name, not "w"`},
			{line: "server create --name w-%d%s --count 2", wantErr: "--count needs one %d"},
		}},
		{"labels", []step{
			{line: "server create --name a --label x=y --without-ipv4 --without-ipv6", want: "Server 3000001 created\n"},
			{line: "server add-label a k=v l=", want: "Label k added to server 3000001\nLabel l added to server 3000001\n"},
			{line: "server add-label a k=w", wantErr: "label k on server 3000001 already exists"},
			{line: "server add-label --overwrite a k=w", want: "Label k added to server 3000001\n"},
			{line: "server add-label a nonsense", wantErr: `label "nonsense" is not of the form KEY=VALUE`},
			{line: "server list -o noheader -o columns=labels", want: "k=w, l=, x=y\n"},
			{line: "server remove-label a x", want: "Label x removed from server 3000001\n"},
			{line: "server remove-label a x", wantErr: "label x on server 3000001 does not exist"},
			{line: "server remove-label a", wantErr: "either keys or --all"},
			{line: "server remove-label a --all", want: "All labels removed from server 3000001\n"},
			{line: "server list -o noheader -o columns=labels", want: "-\n"},
			{line: "network create --name n", want: "Network 2000001 created\n"},
			{line: "network add-label n k=v", want: "Label k added to network 2000001\n"},
			{line: "network list -o noheader -o columns=name,labels", want: "n   k=v\n"},
		}},
		{"networks", []step{
			{line: "network create --name net --ip-range 10.0.0.0/16", want: "Network 2000001 created\n"},
			{line: "network add-subnet net --type cloud --network-zone eu-central --ip-range 10.0.1.0/24", want: "Subnet added to network 2000001\n"},
			{line: "network add-subnet net", want: "Subnet added to network 2000001\n"},
			{line: "server create --name a --network net --without-ipv4 --without-ipv6", want: "Server 3000001 created\nPrivate Networks: 10.0.1.1 (net)\n"},
			{line: "network add-route net --destination 10.0.128.0/24 --gateway 10.0.1.1", want: "Route added to network 2000001\n"},
			{line: "network add-route net --destination 10.0.128.0/24 --gateway 10.0.1.1", wantErr: "overlaps"},
			{line: "network add-route net --destination nonsense --gateway 10.0.1.1", wantErr: `invalid argument "nonsense"`},
			{line: "network list", want: "" +
				"ID        NAME   IP RANGE      SUBNETS                    SERVERS   ROUTES\n" +
				"2000001   net    10.0.0.0/16   10.0.1.0/24, 10.0.0.0/24   1         10.0.128.0/24 via 10.0.1.1\n"},
			{line: "network remove-route net --destination 10.0.128.0/24 --gateway 10.0.1.1", want: "Route removed from network 2000001\n"},
			{line: "network remove-subnet net --ip-range 10.0.1.0/24", wantErr: "cannot remove subnet because servers are attached to it"},
			{line: "network delete-subnet net --ip-range 10.0.0.0/24", want: "Subnet removed from network 2000001\n"},
			{line: "server change-alias-ips a --network net --alias-ips 10.0.1.8,10.0.1.9", want: "Alias IPs changed for server 3000001 in network 2000001\n"},
			{line: "server list -o noheader -o columns=private_net,alias_ips", want: "10.0.1.1 (net)   10.0.1.8, 10.0.1.9\n"},
			{line: "server change-alias-ips a --network net --clear", want: "Alias IPs changed for server 3000001 in network 2000001\n"},
			{line: "server list -o noheader -o columns=alias_ips", want: "-\n"},
			{line: "server change-alias-ips a --network net", wantErr: "at least one of the flags in the group [alias-ips clear] is required"},
			{line: "server detach-from-network a --network net", want: "Server 3000001 detached from network 2000001\n"},
			{line: "server attach-to-network a -n net --ip 10.0.1.7", want: "Server 3000001 attached to network 2000001\n"},
			{line: "server attach-to-network a --network nope", wantErr: "network not found: nope"},
			{line: "server list -o noheader -o columns=private_net", want: "10.0.1.7 (net)\n"},
			{line: "network update net --name net2", want: "Network net updated\n"},
			{line: "network describe net2 -o noheader -o columns=name,servers,subnets,routes", want: "net2\n1\n10.0.1.0/24\n-\n"},
			{line: "network delete net2", want: "Network net2 deleted\n"},
			{line: "network describe net2", wantErr: "network not found: net2"},
		}},
		{"load balancers", []step{
			{line: "load-balancer-type list", want: "" +
				"ID   NAME   MAX SERVICES   MAX CONNECTIONS   MAX TARGETS\n" +
				"1    lb11   5              10000             25\n" +
				"2    lb21   15             20000             75\n" +
				"3    lb31   30             40000             150\n"},
			{line: "network create --name net", want: "Network 2000001 created\n"},
			{line: "network add-subnet net --ip-range 10.0.0.0/24", want: "Subnet added to network 2000001\n"},
			{line: "server create --name w-%d --count 2 --network net --without-ipv6 --label role=worker", want: "" +
				"Server 3000001 created\nIPv4: 203.0.113.1\nPrivate Networks: 10.0.0.2 (net)\n" +
				"Server 3000002 created\nIPv4: 203.0.113.2\nPrivate Networks: 10.0.0.3 (net)\n"},
			{line: "load-balancer create --name lb --label a=b", want: "Load balancer 4000001 created\nIPv4: 203.0.113.3\nIPv6: 2001:db8:0:1::1\n"},
			{line: "load-balancer create --name lb", wantErr: "name is already used (uniqueness_error"},
			{line: "load-balancer create --name x --location fsn1 --network-zone eu-central", wantErr: "[location network-zone] were all set"},
			{line: "load-balancer create --name x --type nope", wantErr: "load balancer type not found: nope"},
			{line: "load-balancer create --name x --algorithm-type nope", wantErr: "algorithm.type must be one of round_robin, least_connections"},
			{line: "load-balancer list", want: "" +
				"ID        NAME   HEALTH   IPV4          IPV6              PRIVATE NET   TYPE   LOCATION\n" +
				"4000001   lb     -        203.0.113.3   2001:db8:0:1::1   -             lb11   fsn1\n"},
			{line: "load-balancer attach-to-network lb --network net --ip 10.0.0.9", want: "Load balancer 4000001 attached to network 2000001\n"},
			{line: "load-balancer attach-to-network lb --network net", wantErr: "(load_balancer_already_attached"},
			{line: "load-balancer add-service lb", wantErr: `required flag(s) "protocol" not set`},
			{line: "load-balancer add-service lb --protocol tcp --listen-port 80 --destination-port 30080", want: "Service added to load balancer 4000001\n"},
			{line: "load-balancer add-service lb --protocol tcp --listen-port 80 --destination-port 30080", wantErr: "(source_port_already_used"},
			{line: "load-balancer add-service lb --protocol http --listen-port 81 --http-sticky-sessions --http-cookie-lifetime 60s --health-check-interval 20s", want: "Service added to load balancer 4000001\n"},
			{line: "load-balancer update-service lb --listen-port 81 --proxy-protocol --health-check-protocol http --health-check-http-path /healthz --health-check-http-status-codes 200,204", want: "Service of load balancer 4000001 updated\n"},
			{line: "load-balancer add-target lb", wantErr: "at least one of the flags in the group [server label-selector ip] is required"},
			{line: "load-balancer add-target lb --ip 192.0.2.9 --use-private-ip", wantErr: "--use-private-ip is not for --ip"},
			{line: "load-balancer add-target lb --server w-1 --use-private-ip", want: "Target added to load balancer 4000001\n"},
			{line: "load-balancer add-target lb --server w-1", wantErr: "(target_already_defined"},
			{line: "load-balancer add-target lb --label-selector role=worker", want: "Target added to load balancer 4000001\n"},
			{line: "load-balancer add-target lb --ip 192.0.2.9", want: "Target added to load balancer 4000001\n"},
		}},
		{"changes of load balancers", []step{
			{line: "load-balancer create --name lb --network-zone us-east", want: "Load balancer 4000001 created\nIPv4: 203.0.113.1\nIPv6: 2001:db8:0:1::1\n"},
			{line: "load-balancer list -o noheader -o columns=location,public,protected", want: "ash   true   false\n"},
			{line: "load-balancer update lb --name other", want: "Load balancer lb updated\n"},
			{line: "load-balancer add-label other a=b", want: "Label a added to load balancer 4000001\n"},
			{line: "load-balancer list -l a=b -o noheader -o columns=name,labels", want: "other   a=b\n"},
			{line: "load-balancer remove-label other a", want: "Label a removed from load balancer 4000001\n"},
			{line: "load-balancer change-algorithm other --algorithm-type least_connections", want: "Algorithm of load balancer 4000001 changed\n"},
			{line: "load-balancer change-type other lb31", want: "Load balancer 4000001 changed to type lb31\n"},
			{line: "load-balancer disable-public-interface other", wantErr: "(load_balancer_not_attached_to_network"},
			{line: "load-balancer enable-public-interface other", want: "Public interface of load balancer 4000001 enabled\n"},
			{line: "load-balancer list -o noheader -o columns=type,algorithm", want: "lb31   least_connections\n"},
			{line: "load-balancer delete-service other --listen-port 80", wantErr: "service with listen port 80 for load balancer with ID 4000001 not found"},
			{line: "load-balancer remove-target other --ip 192.0.2.9", wantErr: "load balancer target not found"},
			{line: "load-balancer remove-target other --server nope", wantErr: "server not found: nope"},
			{line: "load-balancer enable-protection other", wantErr: `enable-protection needs a load balancer, and "delete" as the protection`},
			{line: "load-balancer enable-protection other delete", want: "Resource protection enabled for load balancer 4000001\n"},
			{line: "load-balancer delete other", wantErr: "load balancer is protected from deletion"},
			{line: "load-balancer disable-protection other delete", want: "Resource protection disabled for load balancer 4000001\n"},
			{line: "load-balancer delete other", want: "Load balancer other deleted\n"},
			{line: "load-balancer list -o noheader"},
			{line: "action list -o noheader -o columns=command,resources", want: "" +
				"create_load_balancer        load_balancer 4000001\n" +
				"change_algorithm            load_balancer 4000001\n" +
				"change_load_balancer_type   load_balancer 4000001\n" +
				"enable_public_interface     load_balancer 4000001\n" +
				"change_protection           load_balancer 4000001\n" +
				"change_protection           load_balancer 4000001\n" +
				"delete_load_balancer        load_balancer 4000001\n"},
			{line: "network create --name net", want: "Network 2000001 created\n"},
			{line: "network enable-protection net delete", want: "Resource protection enabled for network 2000001\n"},
			{line: "network delete net", wantErr: "network is protected from deletion"},
		}},
		{"certificates", []step{
			{line: "certificate create --name c --type managed --domain example.com,www.example.com --label a=b", want: "Certificate 6000001 created\n"},
			{line: "certificate create --name d", wantErr: "missing field [Certificate]"},
			{line: "certificate create --name d --cert-file /no/such/file", wantErr: "/no/such/file"},
			{line: "load-balancer create --name lb", want: "Load balancer 4000001 created\nIPv4: 203.0.113.1\nIPv6: 2001:db8:0:1::1\n"},
			{line: "load-balancer add-service lb --protocol https --http-certificates c --http-redirect-http", want: "Service added to load balancer 4000001\n"},
			{line: "load-balancer add-service lb --protocol https --http-certificates nope", wantErr: "certificate not found: nope"},
			{
				line: "load-balancer describe lb -o noheader -o columns=services",
				want: "https 443 -> 80, certificate 6000001, redirect HTTP, idle timeout 50s, check tcp 80 (interval 15s, timeout 10s, retries 3)\n",
			},
			{line: "certificate list", want: "" +
				"ID        NAME   TYPE      DOMAIN NAMES                   STATUS      USED BY\n" +
				"6000001   c      managed   example.com, www.example.com   completed   load_balancer 4000001\n"},
			{line: "certificate delete c", wantErr: "(resource_in_use"},
			{line: "load-balancer delete-service lb --listen-port 443", want: "Service deleted from load balancer 4000001\n"},
			{line: "certificate delete c", want: "Certificate c deleted\n"},
		}},
		{"primary IPs", []step{
			{line: "primary-ip create --name ip --label a=b", want: "Primary IP 5000001 created\nIP: 203.0.113.1\n"},
			{line: "primary-ip create --name ip6 --type ipv6 --location nbg1 --auto-delete", want: "Primary IP 5000002 created\nIP: 2001:db8:0:1::/64\n"},
			{line: "server create --name a --without-ipv6", want: "Server 3000001 created\nIPv4: 203.0.113.2\n"},
			{line: "primary-ip list", want: "" +
				"ID        TYPE   NAME                 IP                  ASSIGNEE         AUTO DELETE   LOCATION\n" +
				"5000001   ipv4   ip                   203.0.113.1         -                false         fsn1\n" +
				"5000002   ipv6   ip6                  2001:db8:0:1::/64   -                true          nbg1\n" +
				"5000003   ipv4   primary_ip-5000003   203.0.113.2         server 3000001   true          fsn1\n"},
			{line: "primary-ip delete 5000003", wantErr: "(must_be_unassigned"},
			{line: "primary-ip delete ip ip6", want: "Primary IP ip deleted\nPrimary IP ip6 deleted\n"},
		}},
		{"catalog", []step{
			{line: "location describe hel1 -o columns=name,network_zone", want: "name:           hel1\nnetwork zone:   eu-central\n"},
			{line: "location list -o noheader -o columns=name", want: "fsn1\nnbg1\nhel1\nash\nhil\nsin\n"},
			{line: "server-type describe cx23 -o noheader -o columns=cores,memory,disk,architecture", want: "2\n4.0 GB\n40 GB\nx86\n"},
			{line: "image list -o columns=name,architecture -l nothing=here", want: "NAME   ARCHITECTURE\n"},
		}},
		{"actions", []step{
			{line: "server create --name a --start-after-create=false --without-ipv4 --without-ipv6", want: "Server 3000001 created\n"},
			{line: "settings --profile realistic", want: realistic},
			{line: "server poweron a --no-wait", want: "Server 3000001 started\n"},
			{line: "action list", want: "" +
				"ID        COMMAND         STATUS    PROGRESS   RESOURCES        ERROR\n" +
				"9000001   create_server   success   100%       server 3000001   -\n" +
				"9000002   start_server    running   0%         server 3000001   -\n"},
			{line: "action describe 9000001 -o noheader -o columns=command,status", want: "create_server\nsuccess\n"},
			{line: "action describe 9000003", wantErr: "action not found: 9000003"},
			{line: "action describe start_server", wantErr: `action "start_server" has no name`},
		}},
		{"faults", []step{
			{line: "server create --name a", want: "Server 3000001 created\nIPv4: 203.0.113.1\nIPv6: 2001:db8:0:1::/64\n"},
			{line: "fault add GET /servers", wantErr: "at least one of the flags in the group [status hide late hang reset truncate html drop empty stuck fail] is required"},
			{line: "fault add GET /servers --hang --drop", wantErr: "[drop hang] were all set"},
			{line: "fault add GET servers --hang", wantErr: "path must start with /"},
			{line: "fault add GET /servers** --hang", wantErr: "path may have * for whole segments only"},
			{line: "fault add GET /servers --hide nope", wantErr: "server not found: nope"},
			{line: "fault add GET /servers --status 503 --code unavailable --message later --count 3 --for 30s", want: "Fault 1 added\n"},
			{line: "fault add GET /servers --hide a", want: "Fault 2 added\n"},
			{line: "fault add GET /servers --hide 3000001", want: "Fault 3 added\n"},
			{line: "fault add * /servers/** --late 2s", want: "Fault 4 added\n"},
			{line: "fault add POST /servers --fail --message no", want: "Fault 5 added\n"},
			{line: "fault list", want: "" +
				"ID   METHOD   PATH          EFFECT   HITS   COUNT   DURATION\n" +
				"1    GET      /servers      status   0      3       30s\n" +
				"2    GET      /servers      hide     0      -       -\n" +
				"3    GET      /servers      hide     0      -       -\n" +
				"4    *        /servers/**   late     0      -       -\n" +
				"5    POST     /servers      fail     0      -       -\n"},
			{line: "fault list -o noheader -o columns=effect,status,code,message,resource_id,delay", want: "" +
				"status   503   unavailable   later   -         -\n" +
				"hide     -     -             -       3000001   -\n" +
				"hide     -     -             -       3000001   -\n" +
				"late     -     -             -       -         2s\n" +
				"fail     -     -             no      -         -\n"},
			{line: "fault clear 2 4"},
			{line: "fault clear 2", wantErr: "fault with ID 2 not found"},
			{line: "fault clear all", wantErr: `id of a fault: strconv.ParseInt: parsing "all"`},
			{line: "fault list -o noheader -o columns=id", want: "1\n3\n5\n"},
			{line: "fault clear"},
			{line: "fault list -o noheader"},
		}},
		{"SSH keys", []step{
			{line: "ssh-key create --name k", wantErr: `required flag(s) "public-key" not set`},
			{line: "ssh-key list", want: "ID   NAME   FINGERPRINT\n"},
			{line: "ssh-key delete k", wantErr: "SSH key not found: k"},
		}},
		{"nonsense", []step{
			{line: "server frobnicate", wantErr: `unknown command "frobnicate" for "cloud server"`},
			{line: "frobnicate", wantErr: `unknown command "frobnicate" for "cloud"`},
			{line: "requests frobnicate", wantErr: `unknown command "frobnicate" for "cloud requests"`},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { play(t, lab(t), test.steps) })
	}

	t.Run("SSH key", func(t *testing.T) {
		endpoint := lab(t)
		cmd := NewCommand(func() (string, string, error) { return endpoint, token, nil })
		cmd.SetArgs([]string{"ssh-key", "create", "--name", "k", "--public-key", key, "--label", "a=b"})
		cmd.SetOut(&bytes.Buffer{})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		play(t, endpoint, []step{
			{line: "ssh-key list -o noheader", want: "1000001   k   a8:1f:45:df:20:b6:bc:32:19:11:27:65:78:df:68:c6\n"},
			{line: "server create --name a --ssh-key k --without-ipv4 --without-ipv6", want: "Server 3000001 created\n"},
			{line: "ssh-key delete k", want: "SSH key k deleted\n"},
		})
	})
}

// TestLoadBalancerDescription is about what scripts look for.
func TestLoadBalancerDescription(t *testing.T) {
	endpoint := lab(t)
	for _, line := range []string{
		"network create --name net",
		"network add-subnet net --ip-range 10.0.0.0/24",
		"server create --name w-%d --count 2 --network net --label role=worker",
		"server poweroff w-2",
		"server add-label w-1 lab/health-8080=unhealthy",
		"load-balancer create --name lb --network net",
		"load-balancer add-service lb --protocol tcp --listen-port 80 --destination-port 30080 --proxy-protocol",
		"load-balancer add-service lb --protocol http --listen-port 81 --destination-port 8080 --http-sticky-sessions" +
			" --http-cookie-name C --http-cookie-lifetime 60s --health-check-protocol http --health-check-http-path /up",
		"load-balancer add-target lb --server w-1 --use-private-ip",
		"load-balancer add-target lb --server w-2",
		"load-balancer add-target lb --label-selector role=worker",
		"load-balancer add-target lb --ip 192.0.2.9",
	} {
		if _, err := run(t, endpoint, line); err != nil {
			t.Fatalf("cloud %s: %v", line, err)
		}
	}
	const want = `name:          lb
private net:   10.0.0.4 (net)
services:      tcp 80 -> 30080, proxy protocol, check tcp 30080 (interval 15s, timeout 10s, retries 3)
               http 81 -> 8080, sticky sessions (C, 1m0s), idle timeout 50s, check http 8080 /up for 2?? 3?? (interval 15s, timeout 10s, retries 3)
targets:       server w-1 private: 80 healthy, 81 unhealthy (unexpected_http_status)
               server w-2 public: 80 unhealthy (layer4_timeout), 81 unhealthy (layer4_timeout)
               label_selector role=worker public
                 server w-1 public: 80 healthy, 81 unhealthy (unexpected_http_status)
                 server w-2 public: 80 unhealthy (layer4_timeout), 81 unhealthy (layer4_timeout)
               ip 192.0.2.9: 80 healthy, 81 healthy
health:        mixed
`
	got := ""
	for range 1000 { // until the health checks have been made
		var err error
		if got, err = run(t, endpoint, "load-balancer describe lb -o columns=name,private_net,services,targets,health"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, "unknown") {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("description differs (-want +got):\n%s", diff)
	}
	play(t, endpoint, []step{
		{line: "load-balancer list -o noheader -o format={{.Name}}", want: "lb\n"},
		{line: "load-balancer list -o noheader -o columns=name,health", want: "lb   mixed\n"},
		{line: "load-balancer remove-target lb --label-selector role=worker", want: "Target removed from load balancer 4000001\n"},
		{line: "load-balancer remove-target lb --ip 192.0.2.9", want: "Target removed from load balancer 4000001\n"},
		{line: "load-balancer detach-from-network lb --network net", want: "Load balancer 4000001 detached from network 2000001\n"},
		{line: "load-balancer list -o noheader -o columns=targets", want: "server w-2 public: 80 unhealthy (layer4_timeout), 81 unhealthy (layer4_timeout)\n"},
		{line: "load-balancer delete-service lb --listen-port 81", want: "Service deleted from load balancer 4000001\n"},
		{line: "network describe net -o noheader -o columns=load_balancers", want: "0\n"},
	})
	json, err := run(t, endpoint, "load-balancer describe lb -o json")
	if err != nil || !strings.Contains(json, `"listen_port": 80`) {
		t.Errorf("JSON: %s, %v", json, err)
	}
}

// TestRequests checks that the journal shows clients, and not this command.
func TestRequests(t *testing.T) {
	endpoint := lab(t)
	play(t, endpoint, []step{
		{line: "server create --name a --without-ipv4 --without-ipv6", want: "Server 3000001 created\n"},
		{line: "requests"},
		{line: "fault add GET /servers --status 503 --count 1", want: "Fault 1 added\n"},
	})
	client := hcloud.NewClient(hcloud.WithEndpoint(endpoint), hcloud.WithToken(token),
		hcloud.WithPollOpts(hcloud.PollOpts{BackoffFunc: hcloud.ConstantBackoff(20 * time.Millisecond)}))
	if _, err := client.Server.All(t.Context()); !hcloud.IsError(err, hcloud.ErrorCode("unavailable")) {
		t.Fatalf("a list of servers under a fault: %v, want unavailable", err)
	}
	server, _, err := client.Server.Get(t.Context(), "3000001")
	if err != nil {
		t.Fatal(err)
	}
	action, _, err := client.Server.Poweroff(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Action.WaitFor(t.Context(), action); err != nil {
		t.Fatal(err)
	}
	play(t, endpoint, []step{
		{line: "requests", want: "" +
			"GET /servers?page=1&per_page=50 503\n" +
			"GET /servers/3000001 200\n" +
			"POST /servers/3000001/actions/poweroff 201\n" +
			"GET /actions?id=9000003&page=1&sort=status&sort=id 200\n"},
		{line: "requests list --kind write", want: "POST /servers/3000001/actions/poweroff 201\n"},
		{line: "requests --path /servers/*", want: "GET /servers/3000001 200\n"},
		{line: "requests --path /servers/**  --method GET --count", want: "2\n"},
		{line: "requests --kind poll --count", want: "1\n"},
		{line: "requests -o yaml", wantErr: "invalid output option: yaml"},
		{line: "requests clear"},
		{line: "requests list --count", want: "0\n"},
	})
}

// TestWait checks that a command waits for its action and tells its failure.
func TestWait(t *testing.T) {
	endpoint := lab(t)
	play(t, endpoint, []step{{line: "server create --name a --without-ipv4 --without-ipv6", want: "Server 3000001 created\n"}})
	for range 20 {
		play(t, endpoint, []step{
			{line: "server poweroff a", want: "Server 3000001 stopped\n"},
			{line: "server list -o noheader -o columns=status,locked", want: "off   false\n"},
			{line: "server poweron a", want: "Server 3000001 started\n"},
			{line: "server list -o noheader -o columns=status,locked", want: "running   false\n"},
		})
	}
}

func TestSettings(t *testing.T) {
	endpoint := lab(t)
	play(t, endpoint, []step{
		{line: "settings --profile slow", wantErr: "profile must be instant or realistic"},
		{line: "settings --profile realistic --rate-limit 100 --rate-remaining 7 --limits network_routes=2 --strict-routes", want: `{
  "profile": "realistic",
  "rate_limit": 100,
  "rate_remaining": 7,
  "limits": {
    "servers": 10000,
    "load_balancers": 10000,
    "network_members": 100,
    "network_subnets": 50,
    "network_routes": 2
  },
  "strict_routes": true
}
`},
		{line: "settings --profile instant --rate-remaining 0 --strict-routes=false", want: `{
  "profile": "instant",
  "rate_limit": 100,
  "rate_remaining": 0,
  "limits": {
    "servers": 10000,
    "load_balancers": 10000,
    "network_members": 100,
    "network_subnets": 50,
    "network_routes": 2
  },
  "strict_routes": false
}
`},
		// The rate limit is not for this command.
		{line: "network list -o noheader"},
	})
	got, err := run(t, endpoint, "settings")
	if err != nil || !strings.Contains(got, `"rate_limit": 100`) {
		t.Errorf("settings: %q, %v", got, err)
	}
}

func TestConnection(t *testing.T) {
	tests := []struct {
		name, endpoint string
		err            error
		want           string
	}{
		{"no lab", "", errors.New("no lab is running"), "no lab is running"},
		{"no version", "http://127.0.0.1:1/", nil, `endpoint "http://127.0.0.1:1/" does not end with /v1`},
	}
	for _, test := range tests {
		for _, line := range []string{"server list", "fault list"} {
			t.Run(test.name+"/"+line, func(t *testing.T) {
				cmd := NewCommand(func() (string, string, error) { return test.endpoint, token, test.err })
				cmd.SetArgs(strings.Fields(line))
				cmd.SetErr(&bytes.Buffer{})
				if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != test.want {
					t.Errorf("error is %v, want %q", err, test.want)
				}
			})
		}
	}
	t.Run("trailing slash", func(t *testing.T) {
		play(t, lab(t)+"/", []step{{line: "server list -o noheader"}})
	})
}
