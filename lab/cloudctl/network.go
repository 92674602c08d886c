package cloudctl

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/spf13/cobra"
)

var networks = noun[hcloud.Network]{
	name: "network",
	get: func(ctx context.Context, api *hcloud.Client, idOrName string) (*hcloud.Network, *hcloud.Response, error) {
		return api.Network.Get(ctx, idOrName)
	},
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.Network, error) {
		return api.Network.AllWithOpts(ctx, hcloud.NetworkListOpts{ListOpts: o})
	},
	table: table[hcloud.Network]{
		shown: "id,name,ip_range,subnets,servers,routes",
		columns: map[string]func(*hcloud.Network) string{
			"id":       func(n *hcloud.Network) string { return strconv.FormatInt(n.ID, 10) },
			"name":     func(n *hcloud.Network) string { return n.Name },
			"ip_range": func(n *hcloud.Network) string { return n.IPRange.String() },
			"subnets": func(n *hcloud.Network) string {
				var subnets []string
				for _, subnet := range n.Subnets {
					subnets = append(subnets, subnet.IPRange.String())
				}
				return strings.Join(subnets, ", ")
			},
			"servers":        func(n *hcloud.Network) string { return strconv.Itoa(len(n.Servers)) },
			"load_balancers": func(n *hcloud.Network) string { return strconv.Itoa(len(n.LoadBalancers)) },
			"routes": func(n *hcloud.Network) string {
				var routes []string
				for _, route := range n.Routes {
					routes = append(routes, fmt.Sprintf("%s via %s", route.Destination, route.Gateway))
				}
				return strings.Join(routes, ", ")
			},
			"labels":  func(n *hcloud.Network) string { return join(n.Labels) },
			"created": func(n *hcloud.Network) string { return n.Created.Format(time.RFC3339) },
		},
		schema: func(n *hcloud.Network) any { return hcloud.SchemaFromNetwork(n) },
	},
	id:     func(n *hcloud.Network) int64 { return n.ID },
	labels: func(n *hcloud.Network) map[string]string { return n.Labels },
	rename: func(ctx context.Context, api *hcloud.Client, n *hcloud.Network, name string) error {
		_, _, err := api.Network.Update(ctx, n, hcloud.NetworkUpdateOpts{Name: name})
		return err
	},
	relabel: func(ctx context.Context, api *hcloud.Client, n *hcloud.Network, labels map[string]string) error {
		_, _, err := api.Network.Update(ctx, n, hcloud.NetworkUpdateOpts{Labels: labels})
		return err
	},
	remove: func(ctx context.Context, api *hcloud.Client, n *hcloud.Network) (*hcloud.Action, error) {
		_, err := api.Network.Delete(ctx, n)
		return nil, err
	},
}

func networkCommand(c *ctl) *cobra.Command {
	cmd := group("network", "Manage networks",
		networks.listCommand(c),
		networks.describeCommand(c),
		networkCreateCommand(c),
		networks.deleteCommand(c),
		networks.updateCommand(c),
		networkAddSubnetCommand(c),
		networkRemoveSubnetCommand(c),
		networkRouteCommand(c, "add-route", "Add a route to a network", "Route added to network %d", func(ctx context.Context, api *hcloud.Client, n *hcloud.Network, r hcloud.NetworkRoute) (*hcloud.Action, *hcloud.Response, error) {
			return api.Network.AddRoute(ctx, n, hcloud.NetworkAddRouteOpts{Route: r})
		}),
		networkRouteCommand(c, "remove-route", "Remove a route from a network", "Route removed from network %d", func(ctx context.Context, api *hcloud.Client, n *hcloud.Network, r hcloud.NetworkRoute) (*hcloud.Action, *hcloud.Response, error) {
			return api.Network.DeleteRoute(ctx, n, hcloud.NetworkDeleteRouteOpts{Route: r})
		}),
	)
	cmd.AddCommand(networks.labelCommands(c)...)
	cmd.AddCommand(networks.protectionCommands(c, func(ctx context.Context, api *hcloud.Client, n *hcloud.Network, on bool) (*hcloud.Action, *hcloud.Response, error) {
		return api.Network.ChangeProtection(ctx, n, hcloud.NetworkChangeProtectionOpts{Delete: &on})
	})...)
	return cmd
}

func networkCreateCommand(c *ctl) *cobra.Command {
	var o hcloud.NetworkCreateOpts
	var ipRange net.IPNet
	cmd := &cobra.Command{
		Use:   "create --name NAME",
		Short: "Create a network, of 10.0.0.0/8 unless told otherwise",
		Args:  cobra.NoArgs,
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, _ []string) error {
			o.IPRange = &ipRange
			network, _, err := api.Network.Create(cmd.Context(), o)
			if err != nil {
				return err
			}
			say(cmd, "Network %d created\n", network.ID)
			return nil
		}),
	}
	cmd.Flags().StringVar(&o.Name, "name", "", "Network name (required)")
	cmd.Flags().IPNetVar(&ipRange, "ip-range", net.IPNet{IP: net.IPv4(10, 0, 0, 0), Mask: net.CIDRMask(8, 32)}, "Network IP range")
	cmd.Flags().StringToStringVar(&o.Labels, "label", nil, "User-defined labels ('key=value') (can be specified multiple times)")
	must(cmd.MarkFlagRequired("name"))
	return cmd
}

func networkAddSubnetCommand(c *ctl) *cobra.Command {
	var typ, zone string
	var ipRange net.IPNet
	cmd := networks.changeCommand(c, "add-subnet ID|NAME", "Add a subnet to a network", "Subnet added to network %d",
		func(ctx context.Context, api *hcloud.Client, n *hcloud.Network) (*hcloud.Action, *hcloud.Response, error) {
			subnet := hcloud.NetworkSubnet{Type: hcloud.NetworkSubnetType(typ), NetworkZone: hcloud.NetworkZone(zone)}
			if ipRange.IP != nil {
				subnet.IPRange = &ipRange
			}
			return api.Network.AddSubnet(ctx, n, hcloud.NetworkAddSubnetOpts{Subnet: subnet})
		})
	cmd.Flags().StringVar(&typ, "type", "cloud", "Type of subnet")
	cmd.Flags().StringVar(&zone, "network-zone", "eu-central", "Name of network zone")
	cmd.Flags().IPNetVar(&ipRange, "ip-range", net.IPNet{}, "Range to allocate IPs from (the first free /24 if omitted)")
	return cmd
}

func networkRemoveSubnetCommand(c *ctl) *cobra.Command {
	var ipRange net.IPNet
	cmd := networks.changeCommand(c, "remove-subnet --ip-range RANGE ID|NAME", "Remove a subnet from a network", "Subnet removed from network %d",
		func(ctx context.Context, api *hcloud.Client, n *hcloud.Network) (*hcloud.Action, *hcloud.Response, error) {
			return api.Network.DeleteSubnet(ctx, n, hcloud.NetworkDeleteSubnetOpts{Subnet: hcloud.NetworkSubnet{IPRange: &ipRange}})
		})
	cmd.Aliases = []string{"delete-subnet"}
	cmd.Flags().IPNetVar(&ipRange, "ip-range", net.IPNet{}, "Range of the subnet (required)")
	must(cmd.MarkFlagRequired("ip-range"))
	return cmd
}

func networkRouteCommand(c *ctl, verb, short, done string, do func(context.Context, *hcloud.Client, *hcloud.Network, hcloud.NetworkRoute) (*hcloud.Action, *hcloud.Response, error)) *cobra.Command {
	var destination net.IPNet
	var gateway net.IP
	cmd := networks.changeCommand(c, verb+" --destination RANGE --gateway IP ID|NAME", short, done,
		func(ctx context.Context, api *hcloud.Client, n *hcloud.Network) (*hcloud.Action, *hcloud.Response, error) {
			return do(ctx, api, n, hcloud.NetworkRoute{Destination: &destination, Gateway: gateway})
		})
	cmd.Flags().IPNetVar(&destination, "destination", net.IPNet{}, "Destination network or host (required)")
	cmd.Flags().IPVar(&gateway, "gateway", nil, "Gateway IP address (required)")
	must(cmd.MarkFlagRequired("destination"))
	must(cmd.MarkFlagRequired("gateway"))
	return cmd
}
