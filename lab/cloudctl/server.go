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

var servers = noun[hcloud.Server]{
	name: "server",
	get: func(ctx context.Context, api *hcloud.Client, idOrName string) (*hcloud.Server, *hcloud.Response, error) {
		server, response, err := api.Server.Get(ctx, idOrName)
		if server != nil {
			err = nameNetworks(ctx, api, server)
		}
		return server, response, err
	},
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.Server, error) {
		all, err := api.Server.AllWithOpts(ctx, hcloud.ServerListOpts{ListOpts: o})
		if err != nil {
			return nil, err
		}
		return all, nameNetworks(ctx, api, all...)
	},
	table: table[hcloud.Server]{
		shown: "id,name,status,ipv4,ipv6,private_net,location",
		columns: map[string]func(*hcloud.Server) string{
			"id":     func(s *hcloud.Server) string { return strconv.FormatInt(s.ID, 10) },
			"name":   func(s *hcloud.Server) string { return s.Name },
			"status": func(s *hcloud.Server) string { return string(s.Status) },
			"ipv4": func(s *hcloud.Server) string {
				if s.PublicNet.IPv4.IsUnspecified() {
					return ""
				}
				return s.PublicNet.IPv4.IP.String()
			},
			"ipv6": func(s *hcloud.Server) string {
				if s.PublicNet.IPv6.IsUnspecified() {
					return ""
				}
				return s.PublicNet.IPv6.Network.String()
			},
			"private_net": func(s *hcloud.Server) string {
				var nets []string
				for _, n := range s.PrivateNet {
					nets = append(nets, fmt.Sprintf("%s (%s)", n.IP, n.Network.Name))
				}
				return strings.Join(nets, ", ")
			},
			"alias_ips": func(s *hcloud.Server) string {
				var ips []string
				for _, n := range s.PrivateNet {
					for _, ip := range n.Aliases {
						ips = append(ips, ip.String())
					}
				}
				return strings.Join(ips, ", ")
			},
			"location": func(s *hcloud.Server) string { return s.Location.Name },
			"type":     func(s *hcloud.Server) string { return s.ServerType.Name },
			"locked":   func(s *hcloud.Server) string { return strconv.FormatBool(s.Locked) },
			"labels":   func(s *hcloud.Server) string { return join(s.Labels) },
			"created":  func(s *hcloud.Server) string { return s.Created.Format(time.RFC3339) },
		},
		schema: func(s *hcloud.Server) any { return hcloud.SchemaFromServer(s) },
	},
	id:     func(s *hcloud.Server) int64 { return s.ID },
	labels: func(s *hcloud.Server) map[string]string { return s.Labels },
	rename: func(ctx context.Context, api *hcloud.Client, s *hcloud.Server, name string) error {
		_, _, err := api.Server.Update(ctx, s, hcloud.ServerUpdateOpts{Name: name})
		return err
	},
	relabel: func(ctx context.Context, api *hcloud.Client, s *hcloud.Server, labels map[string]string) error {
		_, _, err := api.Server.Update(ctx, s, hcloud.ServerUpdateOpts{Labels: labels})
		return err
	},
	remove: func(ctx context.Context, api *hcloud.Client, s *hcloud.Server) (*hcloud.Action, error) {
		result, _, err := api.Server.DeleteWithResult(ctx, s)
		if err != nil {
			return nil, err
		}
		return result.Action, nil
	},
}

// nameNetworks fills in the networks of servers, which the API answers with
// their IDs only.
func nameNetworks(ctx context.Context, api *hcloud.Client, all ...*hcloud.Server) error {
	known, err := api.Network.All(ctx)
	if err != nil {
		return err
	}
	byID := map[int64]*hcloud.Network{}
	for _, network := range known {
		byID[network.ID] = network
	}
	for _, server := range all {
		for i, n := range server.PrivateNet {
			if network := byID[n.Network.ID]; network != nil {
				server.PrivateNet[i].Network = network
			}
		}
	}
	return nil
}

func serverCommand(c *ctl) *cobra.Command {
	cmd := group("server", "Manage servers",
		servers.listCommand(c),
		servers.describeCommand(c),
		serverCreateCommand(c),
		servers.deleteCommand(c),
		servers.updateCommand(c),
		serverPowerCommand(c, "poweron", "started", (*hcloud.ServerClient).Poweron),
		serverPowerCommand(c, "poweroff", "stopped", (*hcloud.ServerClient).Poweroff),
		serverPowerCommand(c, "shutdown", "asked to shut down", (*hcloud.ServerClient).Shutdown),
		serverPowerCommand(c, "reboot", "rebooted", (*hcloud.ServerClient).Reboot),
		serverPowerCommand(c, "reset", "reset", (*hcloud.ServerClient).Reset),
		serverAttachCommand(c),
		serverDetachCommand(c),
		serverChangeTypeCommand(c),
		serverChangeAliasIPsCommand(c),
	)
	cmd.AddCommand(servers.labelCommands(c)...)
	return cmd
}

func serverCreateCommand(c *ctl) *cobra.Command {
	var (
		o                           hcloud.ServerCreateOpts
		typ, image, location        string
		networkRefs, keyRefs        []string
		start, withoutV4, withoutV6 bool
		count                       int
	)
	cmd := &cobra.Command{
		Use:   "create --name NAME",
		Short: "Create a server, or several",
		Long: `Create a server, or several.

The hcloud CLI demands --type and --image, which have defaults here, and does
not know --count: --name worker-%d --count 3 creates worker-1 to worker-3.`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Name, "name", "", "Server name (required)")
	flags.StringVar(&typ, "type", "cx23", "Server type (ID or name)")
	flags.StringVar(&image, "image", "ubuntu-24.04", "Image (ID or name)")
	flags.StringVar(&location, "location", "fsn1", "Location (ID or name)")
	flags.StringSliceVar(&networkRefs, "network", nil, "ID or name of network to attach the server to (can be specified multiple times)")
	flags.StringSliceVar(&keyRefs, "ssh-key", nil, "ID or name of SSH key to inject (can be specified multiple times)")
	flags.StringToStringVar(&o.Labels, "label", nil, "User-defined labels ('key=value') (can be specified multiple times)")
	flags.StringVar(&o.UserData, "user-data", "", "User data")
	flags.BoolVar(&start, "start-after-create", true, "Start server right after creation")
	flags.BoolVar(&withoutV4, "without-ipv4", false, "Create the server without an IPv4")
	flags.BoolVar(&withoutV6, "without-ipv6", false, "Create the server without an IPv6")
	flags.IntVar(&count, "count", 0, "Create that many servers, with their number in place of the %d in --name")
	must(cmd.MarkFlagRequired("name"))

	cmd.RunE = c.run(func(cmd *cobra.Command, api *hcloud.Client, _ []string) (err error) {
		ctx := cmd.Context()
		if o.ServerType, err = serverTypes.find(ctx, api, typ); err != nil {
			return err
		}
		if o.Image, _, err = api.Image.GetForArchitecture(ctx, image, o.ServerType.Architecture); err != nil {
			return err
		}
		if o.Image == nil {
			return fmt.Errorf("image not found: %s", image)
		}
		if o.Location, err = locations.find(ctx, api, location); err != nil {
			return err
		}
		for _, ref := range networkRefs {
			network, err := networks.find(ctx, api, ref)
			if err != nil {
				return err
			}
			o.Networks = append(o.Networks, network)
		}
		for _, ref := range keyRefs {
			key, err := sshKeys.find(ctx, api, ref)
			if err != nil {
				return err
			}
			o.SSHKeys = append(o.SSHKeys, key)
		}
		o.StartAfterCreate = &start
		o.PublicNet = &hcloud.ServerCreatePublicNet{EnableIPv4: !withoutV4, EnableIPv6: !withoutV6}

		names := []string{o.Name}
		if cmd.Flags().Changed("count") {
			if names, err = numbered(o.Name, count); err != nil {
				return err
			}
		}
		var results []hcloud.ServerCreateResult
		for _, o.Name = range names {
			result, _, err := api.Server.Create(ctx, o)
			if err != nil {
				return err
			}
			results = append(results, result)
		}
		for _, result := range results {
			if err := c.await(ctx, api, append(result.NextActions, result.Action)...); err != nil {
				return err
			}
			server, err := servers.find(ctx, api, strconv.FormatInt(result.Server.ID, 10))
			if err != nil {
				return err
			}
			say(cmd, "Server %d created\n", server.ID)
			for _, column := range []struct{ title, name string }{{"IPv4", "ipv4"}, {"IPv6", "ipv6"}, {"Private Networks", "private_net"}} {
				if value := servers.table.columns[column.name](server); value != "" {
					say(cmd, "%s: %s\n", column.title, value)
				}
			}
		}
		return nil
	})
	return cmd
}

// numbered returns names with the numbers from 1 to count.
func numbered(pattern string, count int) (names []string, err error) {
	if strings.Count(pattern, "%") != 1 || !strings.Contains(pattern, "%d") {
		return nil, fmt.Errorf("--count needs one %%d in --name, not %q", pattern)
	}
	for i := range count {
		names = append(names, fmt.Sprintf(pattern, i+1))
	}
	return names, nil
}

func serverPowerCommand(c *ctl, verb, done string, do func(*hcloud.ServerClient, context.Context, *hcloud.Server) (*hcloud.Action, *hcloud.Response, error)) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " ID|NAME...",
		Short: strings.ToUpper(verb[:1]) + verb[1:] + " servers",
		Args:  cobra.MinimumNArgs(1),
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, args []string) error {
			for _, arg := range args {
				server, err := servers.find(cmd.Context(), api, arg)
				if err != nil {
					return err
				}
				action, _, err := do(&api.Server, cmd.Context(), server)
				if err != nil {
					return err
				}
				if err := c.await(cmd.Context(), api, action); err != nil {
					return err
				}
				say(cmd, "Server %d %s\n", server.ID, done)
			}
			return nil
		}),
	}
}

func serverAttachCommand(c *ctl) *cobra.Command {
	var ip net.IP
	var aliases []net.IP
	cmd := servers.inNetwork(c, "attach-to-network", "Attach a server to a network", "Server %d attached to network %d",
		func(ctx context.Context, api *hcloud.Client, s *hcloud.Server, n *hcloud.Network) (*hcloud.Action, *hcloud.Response, error) {
			return api.Server.AttachToNetwork(ctx, s, hcloud.ServerAttachToNetworkOpts{Network: n, IP: ip, AliasIPs: aliases})
		})
	cmd.Flags().IPVar(&ip, "ip", nil, "IP address to assign to the server (auto-assigned if omitted)")
	cmd.Flags().IPSliceVar(&aliases, "alias-ips", nil, "Additional IP addresses to be assigned to the server")
	return cmd
}

func serverDetachCommand(c *ctl) *cobra.Command {
	return servers.inNetwork(c, "detach-from-network", "Detach a server from a network", "Server %d detached from network %d",
		func(ctx context.Context, api *hcloud.Client, s *hcloud.Server, n *hcloud.Network) (*hcloud.Action, *hcloud.Response, error) {
			return api.Server.DetachFromNetwork(ctx, s, hcloud.ServerDetachFromNetworkOpts{Network: n})
		})
}

func serverChangeAliasIPsCommand(c *ctl) *cobra.Command {
	var aliases []net.IP
	cmd := servers.inNetwork(c, "change-alias-ips", "Change a server's alias IPs in a network", "Alias IPs changed for server %d in network %d",
		func(ctx context.Context, api *hcloud.Client, s *hcloud.Server, n *hcloud.Network) (*hcloud.Action, *hcloud.Response, error) {
			return api.Server.ChangeAliasIPs(ctx, s, hcloud.ServerChangeAliasIPsOpts{Network: n, AliasIPs: aliases})
		})
	cmd.Flags().IPSliceVar(&aliases, "alias-ips", nil, "New alias IPs")
	cmd.Flags().Bool("clear", false, "Remove all alias IPs")
	cmd.MarkFlagsMutuallyExclusive("alias-ips", "clear")
	cmd.MarkFlagsOneRequired("alias-ips", "clear")
	return cmd
}

func serverChangeTypeCommand(c *ctl) *cobra.Command {
	var keepDisk bool
	cmd := &cobra.Command{
		Use:   "change-type ID|NAME TYPE",
		Short: "Change the type of a server that is off",
		Args:  cobra.ExactArgs(2),
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, args []string) error {
			server, err := servers.find(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			typ, err := serverTypes.find(cmd.Context(), api, args[1])
			if err != nil {
				return err
			}
			action, _, err := api.Server.ChangeType(cmd.Context(), server, hcloud.ServerChangeTypeOpts{ServerType: typ, UpgradeDisk: !keepDisk})
			if err != nil {
				return err
			}
			if err := c.await(cmd.Context(), api, action); err != nil {
				return err
			}
			say(cmd, "Server %d changed to type %s\n", server.ID, typ.Name)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&keepDisk, "keep-disk", false, "Keep the disk size of the current type")
	return cmd
}
