package loadbalancer

import (
	"slices"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
)

// reasonPrefix makes a reason for a port's status one of ours.
const reasonPrefix = Prefix

// Status is what a Service shows of its load balancer: the host name alone if
// there is one; else public IPv4, public IPv6, and private IP. The IP mode tells
// kube-proxy that traffic within the cluster has to go through the load balancer,
// because the targets expect what only that adds: the PROXY protocol. It is
// always set: were it missing, the controller would take each status for a change.
//
// failed are ports without a listener, and why. If there are any, every port has
// its own status.
func Status(service *corev1.Service, s *Settings, lb *hcloud.LoadBalancer, failed map[corev1.ServicePort]string) *corev1.LoadBalancerStatus {
	status := &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{}}
	if s.Hostname != "" {
		status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{Hostname: s.Hostname})
	} else {
		mode := corev1.LoadBalancerIPModeVIP
		if slices.ContainsFunc(lb.Services, func(l hcloud.LoadBalancerService) bool { return l.Proxyprotocol && hasPort(service, l.ListenPort) }) {
			mode = corev1.LoadBalancerIPModeProxy
		}
		for _, ip := range addresses(s, lb) {
			status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{IP: ip, IPMode: &mode})
		}
	}
	if ports := portStatuses(service, failed); ports != nil {
		for i := range status.Ingress {
			status.Ingress[i].Ports = ports
		}
	}
	return status
}

func hasPort(service *corev1.Service, port int) bool {
	return slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == port })
}

func addresses(s *Settings, lb *hcloud.LoadBalancer) (ips []string) {
	if lb.PublicNet.Enabled {
		if ip := lb.PublicNet.IPv4.IP; ip != nil {
			ips = append(ips, ip.String())
		}
		if ip := lb.PublicNet.IPv6.IP; ip != nil && !s.IPv6Disabled {
			ips = append(ips, ip.String())
		}
	}
	if !s.DisablePrivateIngress {
		for _, net := range lb.PrivateNet {
			ips = append(ips, net.IP.String())
		}
	}
	return ips
}

func portStatuses(service *corev1.Service, failed map[corev1.ServicePort]string) []corev1.PortStatus {
	if len(failed) == 0 {
		return nil
	}
	var ports []corev1.PortStatus
	for _, port := range service.Spec.Ports {
		status := corev1.PortStatus{Port: port.Port, Protocol: port.Protocol}
		if reason, ok := failed[port]; ok {
			reason = reasonPrefix + reason
			status.Error = &reason
		}
		ports = append(ports, status)
	}
	return ports
}
