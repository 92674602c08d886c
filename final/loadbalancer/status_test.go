package loadbalancer

import (
	"net"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
)

func TestS29Status(t *testing.T) {
	vip, proxy := corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy
	const v4, v6, private = "203.0.113.1", "2001:db8::1", "10.0.0.9"
	ips := func(mode corev1.LoadBalancerIPMode, ips ...string) []corev1.LoadBalancerIngress {
		all := []corev1.LoadBalancerIngress{}
		for _, ip := range ips {
			all = append(all, corev1.LoadBalancerIngress{IP: ip, IPMode: &mode})
		}
		return all
	}
	tests := []struct {
		name        string
		annotations map[string]string
		public      bool
		proxy       bool
		want        []corev1.LoadBalancerIngress
	}{
		{name: "all, in order", public: true, want: ips(vip, v4, v6, private)},
		{name: "S28 PROXY protocol", public: true, proxy: true, want: ips(proxy, v4, v6, private)},
		{name: "no IPv6", public: true, annotations: map[string]string{"ipv6-disabled": "true"}, want: ips(vip, v4, private)},
		{name: "no private IP", public: true, annotations: map[string]string{"disable-private-ingress": "true"}, want: ips(vip, v4, v6)},
		{name: "not public", want: ips(vip, private)},
		{name: "nothing left", annotations: map[string]string{"disable-private-ingress": "true"}, want: ips(vip)},
		{name: "S28 a host name is alone", public: true, proxy: true, annotations: map[string]string{"hostname": "lb.example.org"}, want: []corev1.LoadBalancerIngress{{Hostname: "lb.example.org"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			service := web(test.annotations, 80)
			s, err := Parse(service, Defaults{})
			if err != nil {
				t.Fatal(err)
			}
			lb := &hcloud.LoadBalancer{
				PublicNet: hcloud.LoadBalancerPublicNet{
					Enabled: test.public,
					IPv4:    hcloud.LoadBalancerPublicNetIPv4{IP: net.ParseIP(v4)},
					IPv6:    hcloud.LoadBalancerPublicNetIPv6{IP: net.ParseIP(v6)},
				},
				PrivateNet: []hcloud.LoadBalancerPrivateNet{{IP: net.ParseIP(private)}},
				Services:   []hcloud.LoadBalancerService{{ListenPort: 80, Proxyprotocol: test.proxy}},
			}
			if diff := cmp.Diff(test.want, Status(service, s, lb, nil).Ingress); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPolicyIsUpToDate(t *testing.T) {
	got, err := os.ReadFile("../deploy/optional/admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Policy(), string(got)); diff != "" {
		t.Errorf("deploy/optional/admission.yaml (-want +got):\n%s", diff)
	}
}
