package cloudctl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/spf13/cobra"
)

var loadBalancerTypes = noun[hcloud.LoadBalancerType]{
	name: "load balancer type",
	get: func(ctx context.Context, api *hcloud.Client, idOrName string) (*hcloud.LoadBalancerType, *hcloud.Response, error) {
		return api.LoadBalancerType.Get(ctx, idOrName)
	},
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.LoadBalancerType, error) {
		return api.LoadBalancerType.AllWithOpts(ctx, hcloud.LoadBalancerTypeListOpts{ListOpts: o})
	},
	table: table[hcloud.LoadBalancerType]{
		shown: "id,name,max_services,max_connections,max_targets",
		columns: map[string]func(*hcloud.LoadBalancerType) string{
			"id":                        func(t *hcloud.LoadBalancerType) string { return strconv.FormatInt(t.ID, 10) },
			"name":                      func(t *hcloud.LoadBalancerType) string { return t.Name },
			"description":               func(t *hcloud.LoadBalancerType) string { return t.Description },
			"max_services":              func(t *hcloud.LoadBalancerType) string { return strconv.Itoa(t.MaxServices) },
			"max_connections":           func(t *hcloud.LoadBalancerType) string { return strconv.Itoa(t.MaxConnections) },
			"max_targets":               func(t *hcloud.LoadBalancerType) string { return strconv.Itoa(t.MaxTargets) },
			"max_assigned_certificates": func(t *hcloud.LoadBalancerType) string { return strconv.Itoa(t.MaxAssignedCertificates) },
		},
		schema: func(t *hcloud.LoadBalancerType) any { return hcloud.SchemaFromLoadBalancerType(t) },
	},
}

func loadBalancerTypeCommand(c *ctl) *cobra.Command {
	return group("load-balancer-type", "List load balancer types", loadBalancerTypes.listCommand(c), loadBalancerTypes.describeCommand(c))
}

var loadBalancers = noun[hcloud.LoadBalancer]{
	name: "load balancer",
	get: func(ctx context.Context, api *hcloud.Client, idOrName string) (*hcloud.LoadBalancer, *hcloud.Response, error) {
		lb, response, err := api.LoadBalancer.Get(ctx, idOrName)
		if lb != nil {
			err = nameReferences(ctx, api, lb)
		}
		return lb, response, err
	},
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.LoadBalancer, error) {
		all, err := api.LoadBalancer.AllWithOpts(ctx, hcloud.LoadBalancerListOpts{ListOpts: o})
		if err != nil {
			return nil, err
		}
		return all, nameReferences(ctx, api, all...)
	},
	table: table[hcloud.LoadBalancer]{
		shown: "id,name,health,ipv4,ipv6,private_net,type,location",
		columns: map[string]func(*hcloud.LoadBalancer) string{
			"id":     func(lb *hcloud.LoadBalancer) string { return strconv.FormatInt(lb.ID, 10) },
			"name":   func(lb *hcloud.LoadBalancer) string { return lb.Name },
			"health": health,
			"ipv4":   func(lb *hcloud.LoadBalancer) string { return lb.PublicNet.IPv4.IP.String() },
			"ipv6":   func(lb *hcloud.LoadBalancer) string { return lb.PublicNet.IPv6.IP.String() },
			"public": func(lb *hcloud.LoadBalancer) string { return strconv.FormatBool(lb.PublicNet.Enabled) },
			"private_net": func(lb *hcloud.LoadBalancer) string {
				var nets []string
				for _, n := range lb.PrivateNet {
					nets = append(nets, fmt.Sprintf("%s (%s)", n.IP, n.Network.Name))
				}
				return strings.Join(nets, ", ")
			},
			"type":      func(lb *hcloud.LoadBalancer) string { return lb.LoadBalancerType.Name },
			"location":  func(lb *hcloud.LoadBalancer) string { return lb.Location.Name },
			"algorithm": func(lb *hcloud.LoadBalancer) string { return string(lb.Algorithm.Type) },
			"services": func(lb *hcloud.LoadBalancer) string {
				var lines []string
				for _, s := range lb.Services {
					lines = append(lines, serviceLine(s))
				}
				return strings.Join(lines, "\n")
			},
			"targets": func(lb *hcloud.LoadBalancer) string {
				var lines []string
				for _, t := range lb.Targets {
					lines = append(lines, targetLine(t))
					for _, resolved := range t.Targets {
						lines = append(lines, "  "+targetLine(resolved))
					}
				}
				return strings.Join(lines, "\n")
			},
			"protected": func(lb *hcloud.LoadBalancer) string { return strconv.FormatBool(lb.Protection.Delete) },
			"labels":    func(lb *hcloud.LoadBalancer) string { return join(lb.Labels) },
			"created":   func(lb *hcloud.LoadBalancer) string { return lb.Created.Format(time.RFC3339) },
		},
		schema: func(lb *hcloud.LoadBalancer) any { return hcloud.SchemaFromLoadBalancer(lb) },
	},
	id:     func(lb *hcloud.LoadBalancer) int64 { return lb.ID },
	labels: func(lb *hcloud.LoadBalancer) map[string]string { return lb.Labels },
	rename: func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer, name string) error {
		_, _, err := api.LoadBalancer.Update(ctx, lb, hcloud.LoadBalancerUpdateOpts{Name: name})
		return err
	},
	relabel: func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer, labels map[string]string) error {
		_, _, err := api.LoadBalancer.Update(ctx, lb, hcloud.LoadBalancerUpdateOpts{Labels: labels})
		return err
	},
	remove: func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer) (*hcloud.Action, error) {
		result, _, err := api.LoadBalancer.DeleteWithResult(ctx, lb)
		return result.Action, err
	},
}

// nameReferences fills in the networks and servers of load balancers, which the
// API answers with their IDs only.
func nameReferences(ctx context.Context, api *hcloud.Client, all ...*hcloud.LoadBalancer) error {
	networks, err := api.Network.All(ctx)
	if err != nil {
		return err
	}
	networksByID := map[int64]*hcloud.Network{}
	for _, network := range networks {
		networksByID[network.ID] = network
	}
	servers, err := api.Server.All(ctx)
	if err != nil {
		return err
	}
	serversByID := map[int64]*hcloud.Server{}
	for _, server := range servers {
		serversByID[server.ID] = server
	}
	for _, lb := range all {
		for i, n := range lb.PrivateNet {
			if network := networksByID[n.Network.ID]; network != nil {
				lb.PrivateNet[i].Network = network
			}
		}
		targets := slices.Clone(lb.Targets)
		for _, t := range lb.Targets {
			targets = append(targets, t.Targets...)
		}
		for _, t := range targets {
			if t.Server != nil && serversByID[t.Server.Server.ID] != nil {
				t.Server.Server = serversByID[t.Server.Server.ID]
			}
		}
	}
	return nil
}

// health is one word for all targets and services, as the hcloud CLI has it.
func health(lb *hcloud.LoadBalancer) string {
	word := ""
	for _, t := range lb.Targets {
		for _, target := range append([]hcloud.LoadBalancerTarget{t}, t.Targets...) {
			for _, h := range target.HealthStatus {
				if word != "" && word != string(h.Status) {
					return "mixed"
				}
				word = string(h.Status)
			}
		}
	}
	return word
}

// serviceLine tells a service as in
// "tcp 80 -> 30080, check tcp 30080 (interval 15s, timeout 10s, retries 3)".
func serviceLine(s hcloud.LoadBalancerService) string {
	parts := []string{fmt.Sprintf("%s %d -> %d", s.Protocol, s.ListenPort, s.DestinationPort)}
	if s.Proxyprotocol {
		parts = append(parts, "proxy protocol")
	}
	if s.Protocol != hcloud.LoadBalancerServiceProtocolTCP {
		for _, cert := range s.HTTP.Certificates {
			parts = append(parts, fmt.Sprintf("certificate %d", cert.ID))
		}
		if s.HTTP.RedirectHTTP {
			parts = append(parts, "redirect HTTP")
		}
		if s.HTTP.StickySessions {
			parts = append(parts, fmt.Sprintf("sticky sessions (%s, %s)", s.HTTP.CookieName, s.HTTP.CookieLifetime))
		}
		parts = append(parts, fmt.Sprintf("idle timeout %s", s.HTTP.TimeoutIdle))
	}
	check := s.HealthCheck
	text := fmt.Sprintf("check %s %d", check.Protocol, check.Port)
	if http := check.HTTP; http != nil {
		text += fmt.Sprintf(" %s%s", http.Domain, http.Path)
		if http.TLS {
			text += " with TLS"
		}
		text += " for " + strings.Join(http.StatusCodes, " ")
		if http.Response != "" {
			text += fmt.Sprintf(" and %q", http.Response)
		}
	}
	return strings.Join(append(parts, text), ", ") + fmt.Sprintf(" (interval %s, timeout %s, retries %d)", check.Interval, check.Timeout, check.Retries)
}

// targetLine tells a target as in
// "server worker-1 private: 80 healthy, 443 unhealthy (layer4_timeout)".
func targetLine(t hcloud.LoadBalancerTarget) string {
	line := string(t.Type)
	switch {
	case t.Server != nil:
		line += " " + t.Server.Server.Name
		if t.Server.Server.Name == "" {
			line += strconv.FormatInt(t.Server.Server.ID, 10)
		}
	case t.LabelSelector != nil:
		line += " " + t.LabelSelector.Selector
	case t.IP != nil:
		line += " " + t.IP.IP
	}
	switch {
	case t.IP != nil:
	case t.UsePrivateIP:
		line += " private"
	default:
		line += " public"
	}
	var statuses []string
	for _, h := range t.HealthStatus {
		status := fmt.Sprintf("%d %s", h.ListenPort, h.Status)
		if h.Detail != nil {
			status += fmt.Sprintf(" (%s)", *h.Detail)
		}
		statuses = append(statuses, status)
	}
	if statuses == nil {
		return line
	}
	return line + ": " + strings.Join(statuses, ", ")
}

func loadBalancerCommand(c *ctl) *cobra.Command {
	cmd := group("load-balancer", "Manage load balancers",
		loadBalancers.listCommand(c),
		loadBalancers.describeCommand(c),
		loadBalancerCreateCommand(c),
		loadBalancers.deleteCommand(c),
		loadBalancers.updateCommand(c),
		loadBalancerAddServiceCommand(c),
		loadBalancerUpdateServiceCommand(c),
		loadBalancerDeleteServiceCommand(c),
		loadBalancerAddTargetCommand(c),
		loadBalancerRemoveTargetCommand(c),
		loadBalancerAttachCommand(c),
		loadBalancerDetachCommand(c),
		loadBalancerChangeAlgorithmCommand(c),
		loadBalancerChangeTypeCommand(c),
		loadBalancers.changeCommand(c, "enable-public-interface ID|NAME", "Enable the public interface of a load balancer", "Public interface of load balancer %d enabled",
			func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer) (*hcloud.Action, *hcloud.Response, error) {
				return api.LoadBalancer.EnablePublicInterface(ctx, lb)
			}),
		loadBalancers.changeCommand(c, "disable-public-interface ID|NAME", "Disable the public interface of a load balancer", "Public interface of load balancer %d disabled",
			func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer) (*hcloud.Action, *hcloud.Response, error) {
				return api.LoadBalancer.DisablePublicInterface(ctx, lb)
			}),
	)
	cmd.AddCommand(loadBalancers.labelCommands(c)...)
	cmd.AddCommand(loadBalancers.protectionCommands(c, func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer, on bool) (*hcloud.Action, *hcloud.Response, error) {
		return api.LoadBalancer.ChangeProtection(ctx, lb, hcloud.LoadBalancerChangeProtectionOpts{Delete: &on})
	})...)
	return cmd
}

func loadBalancerCreateCommand(c *ctl) *cobra.Command {
	var o hcloud.LoadBalancerCreateOpts
	var typ, location, zone, algorithm, network string
	cmd := &cobra.Command{
		Use:   "create --name NAME",
		Short: "Create a load balancer, of type lb11 in fsn1 unless told otherwise",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Name, "name", "", "Load balancer name (required)")
	flags.StringVar(&typ, "type", "lb11", "Load balancer type (ID or name)")
	flags.StringVar(&location, "location", "", "Location (ID or name) (default fsn1)")
	flags.StringVar(&zone, "network-zone", "", "Network zone")
	flags.StringVar(&algorithm, "algorithm-type", "round_robin", "Algorithm type name (round_robin or least_connections)")
	flags.StringVar(&network, "network", "", "ID or name of network to attach the load balancer to")
	flags.StringToStringVar(&o.Labels, "label", nil, "User-defined labels ('key=value') (can be specified multiple times)")
	must(cmd.MarkFlagRequired("name"))
	cmd.MarkFlagsMutuallyExclusive("location", "network-zone")

	cmd.RunE = c.run(func(cmd *cobra.Command, api *hcloud.Client, _ []string) (err error) {
		ctx := cmd.Context()
		if o.LoadBalancerType, err = loadBalancerTypes.find(ctx, api, typ); err != nil {
			return err
		}
		if location == "" && zone == "" {
			location = "fsn1"
		}
		o.NetworkZone = hcloud.NetworkZone(zone)
		if location != "" {
			if o.Location, err = locations.find(ctx, api, location); err != nil {
				return err
			}
		}
		if network != "" {
			if o.Network, err = networks.find(ctx, api, network); err != nil {
				return err
			}
		}
		o.Algorithm = &hcloud.LoadBalancerAlgorithm{Type: hcloud.LoadBalancerAlgorithmType(algorithm)}
		result, _, err := api.LoadBalancer.Create(ctx, o)
		if err != nil {
			return err
		}
		if err := c.await(ctx, api, result.Action); err != nil {
			return err
		}
		lb, err := loadBalancers.find(ctx, api, strconv.FormatInt(result.LoadBalancer.ID, 10))
		if err != nil {
			return err
		}
		say(cmd, "Load balancer %d created\nIPv4: %s\nIPv6: %s\n", lb.ID, lb.PublicNet.IPv4.IP, lb.PublicNet.IPv6.IP)
		if value := loadBalancers.table.columns["private_net"](lb); value != "" {
			say(cmd, "Private Networks: %s\n", value)
		}
		return nil
	})
	return cmd
}

// serviceFlags are the properties of a service. Those whose flag was not set
// are nil in the options.
type serviceFlags struct {
	cmd *cobra.Command

	protocol                    string
	listenPort, destinationPort int
	proxyProtocol               bool

	sticky, redirect        bool
	cookieName              string
	cookieLifetime, timeout time.Duration
	certificates            []string

	checkProtocol                         string
	checkPort, checkRetries               int
	checkInterval, checkTimeout           time.Duration
	checkDomain, checkPath, checkResponse string
	checkCodes                            []string
	checkTLS                              bool
}

func newServiceFlags(cmd *cobra.Command) *serviceFlags {
	f := &serviceFlags{cmd: cmd}
	flags := cmd.Flags()
	flags.StringVar(&f.protocol, "protocol", "", "Protocol of the service (tcp, http, or https)")
	flags.IntVar(&f.listenPort, "listen-port", 0, "Port that the load balancer listens on")
	flags.IntVar(&f.destinationPort, "destination-port", 0, "Port of the targets")
	flags.BoolVar(&f.proxyProtocol, "proxy-protocol", false, "Use the PROXY protocol")
	flags.BoolVar(&f.sticky, "http-sticky-sessions", false, "Use sticky sessions")
	flags.StringVar(&f.cookieName, "http-cookie-name", "", "Name of the cookie for sticky sessions")
	flags.DurationVar(&f.cookieLifetime, "http-cookie-lifetime", 0, "Lifetime of the cookie for sticky sessions")
	flags.DurationVar(&f.timeout, "http-timeout-idle", 0, "Time after which an idle connection is closed")
	flags.StringSliceVar(&f.certificates, "http-certificates", nil, "IDs or names of certificates")
	flags.BoolVar(&f.redirect, "http-redirect-http", false, "Redirect HTTP on port 80 to HTTPS")
	flags.StringVar(&f.checkProtocol, "health-check-protocol", "", "Protocol of the health check (tcp or http)")
	flags.IntVar(&f.checkPort, "health-check-port", 0, "Port of the health check")
	flags.DurationVar(&f.checkInterval, "health-check-interval", 0, "Time between health checks")
	flags.DurationVar(&f.checkTimeout, "health-check-timeout", 0, "Time until a health check has failed")
	flags.IntVar(&f.checkRetries, "health-check-retries", 0, "Failures in a row that make a target unhealthy")
	flags.StringVar(&f.checkDomain, "health-check-http-domain", "", "Domain that the health check asks for")
	flags.StringVar(&f.checkPath, "health-check-http-path", "", "Path that the health check asks for")
	flags.StringVar(&f.checkResponse, "health-check-http-response", "", "Text that must be in the answer")
	flags.StringSliceVar(&f.checkCodes, "health-check-http-status-codes", nil, "Status codes that mean healthy")
	flags.BoolVar(&f.checkTLS, "health-check-http-tls", false, "Use HTTPS for the health check")
	return f
}

// ifSet returns a pointer to the value of a flag that was set.
func ifSet[T any](f *serviceFlags, name string, value T) *T {
	if f.cmd.Flags().Changed(name) {
		return &value
	}
	return nil
}

// ifAny returns a pointer to options of which at least one is set.
func ifAny[T any](o T) *T {
	if reflect.ValueOf(o).IsZero() {
		return nil
	}
	return &o
}

func (f *serviceFlags) options(ctx context.Context, api *hcloud.Client) (o hcloud.LoadBalancerAddServiceOpts, err error) {
	var certs []*hcloud.Certificate
	for _, ref := range f.certificates {
		cert, err := certificates.find(ctx, api, ref)
		if err != nil {
			return o, err
		}
		certs = append(certs, cert)
	}
	return hcloud.LoadBalancerAddServiceOpts{
		Protocol:        hcloud.LoadBalancerServiceProtocol(f.protocol),
		ListenPort:      ifSet(f, "listen-port", f.listenPort),
		DestinationPort: ifSet(f, "destination-port", f.destinationPort),
		Proxyprotocol:   ifSet(f, "proxy-protocol", f.proxyProtocol),
		HTTP: ifAny(hcloud.LoadBalancerAddServiceOptsHTTP{
			CookieName:     ifSet(f, "http-cookie-name", f.cookieName),
			CookieLifetime: ifSet(f, "http-cookie-lifetime", f.cookieLifetime),
			Certificates:   certs,
			RedirectHTTP:   ifSet(f, "http-redirect-http", f.redirect),
			StickySessions: ifSet(f, "http-sticky-sessions", f.sticky),
			TimeoutIdle:    ifSet(f, "http-timeout-idle", f.timeout),
		}),
		HealthCheck: ifAny(hcloud.LoadBalancerAddServiceOptsHealthCheck{
			Protocol: hcloud.LoadBalancerServiceProtocol(f.checkProtocol),
			Port:     ifSet(f, "health-check-port", f.checkPort),
			Interval: ifSet(f, "health-check-interval", f.checkInterval),
			Timeout:  ifSet(f, "health-check-timeout", f.checkTimeout),
			Retries:  ifSet(f, "health-check-retries", f.checkRetries),
			HTTP: ifAny(hcloud.LoadBalancerAddServiceOptsHealthCheckHTTP{
				Domain:      ifSet(f, "health-check-http-domain", f.checkDomain),
				Path:        ifSet(f, "health-check-http-path", f.checkPath),
				Response:    ifSet(f, "health-check-http-response", f.checkResponse),
				StatusCodes: f.checkCodes,
				TLS:         ifSet(f, "health-check-http-tls", f.checkTLS),
			}),
		}),
	}, nil
}

func loadBalancerAddServiceCommand(c *ctl) *cobra.Command {
	var flags *serviceFlags
	cmd := loadBalancers.changeCommand(c, "add-service --protocol PROTOCOL ID|NAME", "Add a service to a load balancer", "Service added to load balancer %d",
		func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer) (*hcloud.Action, *hcloud.Response, error) {
			o, err := flags.options(ctx, api)
			if err != nil {
				return nil, nil, err
			}
			if o.HealthCheck != nil && o.HealthCheck.Protocol == "" {
				o.HealthCheck.Protocol = hcloud.LoadBalancerServiceProtocolTCP // which the API requires
			}
			return api.LoadBalancer.AddService(ctx, lb, o)
		})
	flags = newServiceFlags(cmd)
	must(cmd.MarkFlagRequired("protocol"))
	return cmd
}

func loadBalancerUpdateServiceCommand(c *ctl) *cobra.Command {
	var flags *serviceFlags
	cmd := loadBalancers.changeCommand(c, "update-service --listen-port PORT ID|NAME", "Change a service of a load balancer", "Service of load balancer %d updated",
		func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer) (*hcloud.Action, *hcloud.Response, error) {
			o, err := flags.options(ctx, api)
			if err != nil {
				return nil, nil, err
			}
			change := hcloud.LoadBalancerUpdateServiceOpts{
				Protocol:        o.Protocol,
				DestinationPort: o.DestinationPort,
				Proxyprotocol:   o.Proxyprotocol,
				HTTP:            (*hcloud.LoadBalancerUpdateServiceOptsHTTP)(o.HTTP),
			}
			if check := o.HealthCheck; check != nil {
				change.HealthCheck = &hcloud.LoadBalancerUpdateServiceOptsHealthCheck{
					Protocol: check.Protocol,
					Port:     check.Port,
					Interval: check.Interval,
					Timeout:  check.Timeout,
					Retries:  check.Retries,
					HTTP:     (*hcloud.LoadBalancerUpdateServiceOptsHealthCheckHTTP)(check.HTTP),
				}
			}
			return api.LoadBalancer.UpdateService(ctx, lb, flags.listenPort, change)
		})
	flags = newServiceFlags(cmd)
	must(cmd.MarkFlagRequired("listen-port"))
	return cmd
}

func loadBalancerDeleteServiceCommand(c *ctl) *cobra.Command {
	var port int
	cmd := loadBalancers.changeCommand(c, "delete-service --listen-port PORT ID|NAME", "Delete a service of a load balancer", "Service deleted from load balancer %d",
		func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer) (*hcloud.Action, *hcloud.Response, error) {
			return api.LoadBalancer.DeleteService(ctx, lb, port)
		})
	cmd.Flags().IntVar(&port, "listen-port", 0, "Port that the service listens on (required)")
	must(cmd.MarkFlagRequired("listen-port"))
	return cmd
}

// targetFlags say which target is meant.
type targetFlags struct {
	server, selector string
	ip               net.IP
}

func newTargetFlags(cmd *cobra.Command) *targetFlags {
	f := &targetFlags{}
	cmd.Flags().StringVar(&f.server, "server", "", "Server (ID or name)")
	cmd.Flags().StringVar(&f.selector, "label-selector", "", "Label selector")
	cmd.Flags().IPVar(&f.ip, "ip", nil, "IP address of a dedicated server")
	cmd.MarkFlagsMutuallyExclusive("server", "label-selector", "ip")
	cmd.MarkFlagsOneRequired("server", "label-selector", "ip")
	return f
}

func loadBalancerAddTargetCommand(c *ctl) *cobra.Command {
	var flags *targetFlags
	var private bool
	cmd := loadBalancers.changeCommand(c, "add-target ID|NAME", "Add a target to a load balancer", "Target added to load balancer %d",
		func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer) (*hcloud.Action, *hcloud.Response, error) {
			switch {
			case flags.selector != "":
				return api.LoadBalancer.AddLabelSelectorTarget(ctx, lb, hcloud.LoadBalancerAddLabelSelectorTargetOpts{Selector: flags.selector, UsePrivateIP: &private})
			case flags.ip != nil:
				if private {
					return nil, nil, errors.New("--use-private-ip is not for --ip")
				}
				return api.LoadBalancer.AddIPTarget(ctx, lb, hcloud.LoadBalancerAddIPTargetOpts{IP: flags.ip})
			}
			server, err := servers.find(ctx, api, flags.server)
			if err != nil {
				return nil, nil, err
			}
			return api.LoadBalancer.AddServerTarget(ctx, lb, hcloud.LoadBalancerAddServerTargetOpts{Server: server, UsePrivateIP: &private})
		})
	flags = newTargetFlags(cmd)
	cmd.Flags().BoolVar(&private, "use-private-ip", false, "Reach the target through the network")
	return cmd
}

func loadBalancerRemoveTargetCommand(c *ctl) *cobra.Command {
	var flags *targetFlags
	cmd := loadBalancers.changeCommand(c, "remove-target ID|NAME", "Remove a target from a load balancer", "Target removed from load balancer %d",
		func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer) (*hcloud.Action, *hcloud.Response, error) {
			switch {
			case flags.selector != "":
				return api.LoadBalancer.RemoveLabelSelectorTarget(ctx, lb, flags.selector)
			case flags.ip != nil:
				return api.LoadBalancer.RemoveIPTarget(ctx, lb, flags.ip)
			}
			server, err := servers.find(ctx, api, flags.server)
			if err != nil {
				return nil, nil, err
			}
			return api.LoadBalancer.RemoveServerTarget(ctx, lb, server)
		})
	flags = newTargetFlags(cmd)
	return cmd
}

func loadBalancerAttachCommand(c *ctl) *cobra.Command {
	var ip net.IP
	var ipRange net.IPNet
	cmd := loadBalancers.inNetwork(c, "attach-to-network", "Attach a load balancer to a network", "Load balancer %d attached to network %d",
		func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer, n *hcloud.Network) (*hcloud.Action, *hcloud.Response, error) {
			o := hcloud.LoadBalancerAttachToNetworkOpts{Network: n, IP: ip}
			if ipRange.IP != nil {
				o.IPRange = &ipRange
			}
			return api.LoadBalancer.AttachToNetwork(ctx, lb, o)
		})
	cmd.Flags().IPVar(&ip, "ip", nil, "IP address to assign to the load balancer (auto-assigned if omitted)")
	cmd.Flags().IPNetVar(&ipRange, "ip-range", net.IPNet{}, "Range of the subnet to attach to (auto-assigned if omitted)")
	return cmd
}

func loadBalancerDetachCommand(c *ctl) *cobra.Command {
	return loadBalancers.inNetwork(c, "detach-from-network", "Detach a load balancer from a network", "Load balancer %d detached from network %d",
		func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer, n *hcloud.Network) (*hcloud.Action, *hcloud.Response, error) {
			return api.LoadBalancer.DetachFromNetwork(ctx, lb, hcloud.LoadBalancerDetachFromNetworkOpts{Network: n})
		})
}

func loadBalancerChangeAlgorithmCommand(c *ctl) *cobra.Command {
	var algorithm string
	cmd := loadBalancers.changeCommand(c, "change-algorithm --algorithm-type TYPE ID|NAME", "Change the algorithm of a load balancer", "Algorithm of load balancer %d changed",
		func(ctx context.Context, api *hcloud.Client, lb *hcloud.LoadBalancer) (*hcloud.Action, *hcloud.Response, error) {
			return api.LoadBalancer.ChangeAlgorithm(ctx, lb, hcloud.LoadBalancerChangeAlgorithmOpts{Type: hcloud.LoadBalancerAlgorithmType(algorithm)})
		})
	cmd.Flags().StringVar(&algorithm, "algorithm-type", "", "Algorithm type name (round_robin or least_connections) (required)")
	must(cmd.MarkFlagRequired("algorithm-type"))
	return cmd
}

func loadBalancerChangeTypeCommand(c *ctl) *cobra.Command {
	return &cobra.Command{
		Use:   "change-type ID|NAME TYPE",
		Short: "Change the type of a load balancer",
		Args:  cobra.ExactArgs(2),
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, args []string) error {
			lb, err := loadBalancers.find(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			typ, err := loadBalancerTypes.find(cmd.Context(), api, args[1])
			if err != nil {
				return err
			}
			action, _, err := api.LoadBalancer.ChangeType(cmd.Context(), lb, hcloud.LoadBalancerChangeTypeOpts{LoadBalancerType: typ})
			if err != nil {
				return err
			}
			if err := c.await(cmd.Context(), api, action); err != nil {
				return err
			}
			say(cmd, "Load balancer %d changed to type %s\n", lb.ID, typ.Name)
			return nil
		}),
	}
}
