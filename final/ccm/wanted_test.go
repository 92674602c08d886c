package ccm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWantLoadBalancer(t *testing.T) {
	network := &hcloud.Network{ID: 7}
	tcp80 := corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}
	tcp443 := corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 443, NodePort: 30443}
	udp53 := corev1.ServicePort{Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053}
	noNodePort := corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 80}

	fsn1 := loadBalancerDefaults{Location: "fsn1", Type: "lb11"}
	base := wantedLoadBalancer{
		Name:      "a4711",
		Labels:    map[string]string{serviceUIDLabel: "4711"},
		Type:      "lb11",
		Location:  "fsn1",
		Listeners: []listener{{Port: 80, NodePort: 30080}},
	}
	with := func(change func(*wantedLoadBalancer)) *wantedLoadBalancer {
		wanted := base
		change(&wanted)
		return &wanted
	}

	tests := []struct {
		name        string
		annotations map[string]string
		ports       []corev1.ServicePort
		providerIDs []string
		defaults    loadBalancerDefaults
		network     *hcloud.Network
		want        *wantedLoadBalancer
		wantErr     string
	}{
		{
			name:     "defaults",
			ports:    []corev1.ServicePort{tcp80},
			defaults: fsn1,
			want:     &base,
		},
		{
			name:     "listeners are in order",
			ports:    []corev1.ServicePort{tcp443, tcp80},
			defaults: fsn1,
			want: with(func(w *wantedLoadBalancer) {
				w.Listeners = []listener{{Port: 80, NodePort: 30080}, {Port: 443, NodePort: 30443}}
			}),
		},
		{
			name:        "nodes that are no targets do not disturb",
			ports:       []corev1.ServicePort{tcp80},
			providerIDs: []string{"hcloud://3", "", "k3s://worker", "hcloud://1", "hcloud://x"},
			defaults:    fsn1,
			want:        with(func(w *wantedLoadBalancer) { w.Targets = []int64{1, 3} }),
		},
		{
			name:        "annotations win",
			annotations: map[string]string{annotationNetworkZone: "eu-central", annotationType: "lb21", annotationUsePrivateIP: "true"},
			ports:       []corev1.ServicePort{tcp80},
			defaults:    fsn1,
			network:     network,
			want: with(func(w *wantedLoadBalancer) {
				w.Location, w.NetworkZone, w.Type, w.UsePrivateIP, w.Network = "", "eu-central", "lb21", true, network
			}),
		},
		{
			name:        "an annotation can say no",
			annotations: map[string]string{annotationUsePrivateIP: "false"},
			ports:       []corev1.ServicePort{tcp80},
			defaults:    loadBalancerDefaults{Location: "fsn1", Type: "lb11", UsePrivateIP: true},
			network:     network,
			want:        with(func(w *wantedLoadBalancer) { w.Network = network }),
		},
		{
			name:     "no place",
			ports:    []corev1.ServicePort{tcp80},
			defaults: loadBalancerDefaults{Type: "lb11"},
			wantErr:  envLocation,
		},
		{
			name:        "two places",
			annotations: map[string]string{annotationLocation: "fsn1", annotationNetworkZone: "eu-central"},
			ports:       []corev1.ServicePort{tcp80},
			defaults:    fsn1,
			wantErr:     "both set",
		},
		{
			name:        "not a boolean",
			annotations: map[string]string{annotationUsePrivateIP: "yes"},
			ports:       []corev1.ServicePort{tcp80},
			defaults:    fsn1,
			wantErr:     annotationUsePrivateIP + `: "yes"`,
		},
		{
			name:        "private without a network",
			annotations: map[string]string{annotationUsePrivateIP: "true"},
			ports:       []corev1.ServicePort{tcp80},
			defaults:    fsn1,
			wantErr:     "set HCLOUD_NETWORK",
		},
		{
			name:     "UDP",
			ports:    []corev1.ServicePort{tcp80, udp53},
			defaults: fsn1,
			wantErr:  "port 53/UDP",
		},
		{
			name:     "no node port",
			ports:    []corev1.ServicePort{noNodePort},
			defaults: fsn1,
			wantErr:  "allocateLoadBalancerNodePorts",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			service := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{UID: "4711", Annotations: test.annotations},
				Spec:       corev1.ServiceSpec{Ports: test.ports},
			}
			var nodes []*corev1.Node
			for _, id := range test.providerIDs {
				nodes = append(nodes, &corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}})
			}
			got, err := wantLoadBalancer(service, nodes, test.defaults, test.network)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("wantLoadBalancer (-want +got):\n%s", diff)
			}
			if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Errorf("error = %v, want one with %q", err, test.wantErr)
			}
		})
	}
}

func TestLoadBalancerDefaultsFromEnv(t *testing.T) {
	tests := []struct {
		name    string
		env     map[string]string
		want    loadBalancerDefaults
		wantErr string
	}{
		{name: "nothing set", want: loadBalancerDefaults{Type: "lb11"}},
		{
			name: "all set",
			env:  map[string]string{envLocation: "fsn1", envType: "lb31", envUsePrivateIP: "true"},
			want: loadBalancerDefaults{Location: "fsn1", Type: "lb31", UsePrivateIP: true},
		},
		{name: "two places", env: map[string]string{envLocation: "fsn1", envNetworkZone: "eu-central"}, wantErr: "both set"},
		{name: "not a boolean", env: map[string]string{envUsePrivateIP: "maybe"}, wantErr: envUsePrivateIP + ` "maybe"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range []string{envLocation, envNetworkZone, envType, envUsePrivateIP} {
				t.Setenv(name, test.env[name])
			}
			got, err := loadBalancerDefaultsFromEnv()
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error = %v, want one with %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
		})
	}
}
