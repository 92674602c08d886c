package cloudctl

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/spf13/cobra"
)

var primaryIPs = noun[hcloud.PrimaryIP]{
	name: "primary IP",
	get: func(ctx context.Context, api *hcloud.Client, idOrName string) (*hcloud.PrimaryIP, *hcloud.Response, error) {
		return api.PrimaryIP.Get(ctx, idOrName)
	},
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.PrimaryIP, error) {
		return api.PrimaryIP.AllWithOpts(ctx, hcloud.PrimaryIPListOpts{ListOpts: o})
	},
	table: table[hcloud.PrimaryIP]{
		shown: "id,type,name,ip,assignee,auto_delete,location",
		columns: map[string]func(*hcloud.PrimaryIP) string{
			"id":   func(ip *hcloud.PrimaryIP) string { return strconv.FormatInt(ip.ID, 10) },
			"type": func(ip *hcloud.PrimaryIP) string { return string(ip.Type) },
			"name": func(ip *hcloud.PrimaryIP) string { return ip.Name },
			"ip": func(ip *hcloud.PrimaryIP) string {
				if ip.Network != nil {
					return ip.Network.String()
				}
				return ip.IP.String()
			},
			"assignee": func(ip *hcloud.PrimaryIP) string {
				if ip.AssigneeID == 0 {
					return ""
				}
				return fmt.Sprintf("%s %d", ip.AssigneeType, ip.AssigneeID)
			},
			"auto_delete": func(ip *hcloud.PrimaryIP) string { return strconv.FormatBool(ip.AutoDelete) },
			"location":    func(ip *hcloud.PrimaryIP) string { return ip.Location.Name },
			"labels":      func(ip *hcloud.PrimaryIP) string { return join(ip.Labels) },
			"created":     func(ip *hcloud.PrimaryIP) string { return ip.Created.Format(time.RFC3339) },
		},
		schema: func(ip *hcloud.PrimaryIP) any { return hcloud.SchemaFromPrimaryIP(ip) },
	},
	id:     func(ip *hcloud.PrimaryIP) int64 { return ip.ID },
	labels: func(ip *hcloud.PrimaryIP) map[string]string { return ip.Labels },
	remove: func(ctx context.Context, api *hcloud.Client, ip *hcloud.PrimaryIP) (*hcloud.Action, error) {
		_, err := api.PrimaryIP.Delete(ctx, ip)
		return nil, err
	},
}

func primaryIPCommand(c *ctl) *cobra.Command {
	return group("primary-ip", "Manage primary IPs",
		primaryIPs.listCommand(c),
		primaryIPs.describeCommand(c),
		primaryIPCreateCommand(c),
		primaryIPs.deleteCommand(c),
	)
}

func primaryIPCreateCommand(c *ctl) *cobra.Command {
	var o hcloud.PrimaryIPCreateOpts
	var typ string
	var autoDelete bool
	cmd := &cobra.Command{
		Use:   "create --name NAME",
		Short: "Create a primary IP, an IPv4 address in fsn1 unless told otherwise",
		Args:  cobra.NoArgs,
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, _ []string) error {
			o.Type, o.AutoDelete = hcloud.PrimaryIPType(typ), &autoDelete
			result, _, err := api.PrimaryIP.Create(cmd.Context(), o)
			if err != nil {
				return err
			}
			say(cmd, "Primary IP %d created\nIP: %s\n", result.PrimaryIP.ID, primaryIPs.table.columns["ip"](result.PrimaryIP))
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Name, "name", "", "Name (required)")
	flags.StringVar(&typ, "type", "ipv4", "Type (ipv4 or ipv6)")
	flags.StringVar(&o.Location, "location", "fsn1", "Location (ID or name)")
	flags.BoolVar(&autoDelete, "auto-delete", false, "Delete it with what it is assigned to")
	flags.StringToStringVar(&o.Labels, "label", nil, "User-defined labels ('key=value') (can be specified multiple times)")
	must(cmd.MarkFlagRequired("name"))
	return cmd
}
