package cloudctl

import (
	"context"
	"strconv"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/spf13/cobra"
)

var sshKeys = noun[hcloud.SSHKey]{
	name: "SSH key",
	get: func(ctx context.Context, api *hcloud.Client, idOrName string) (*hcloud.SSHKey, *hcloud.Response, error) {
		return api.SSHKey.Get(ctx, idOrName)
	},
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.SSHKey, error) {
		return api.SSHKey.AllWithOpts(ctx, hcloud.SSHKeyListOpts{ListOpts: o})
	},
	table: table[hcloud.SSHKey]{
		shown: "id,name,fingerprint",
		columns: map[string]func(*hcloud.SSHKey) string{
			"id":          func(k *hcloud.SSHKey) string { return strconv.FormatInt(k.ID, 10) },
			"name":        func(k *hcloud.SSHKey) string { return k.Name },
			"fingerprint": func(k *hcloud.SSHKey) string { return k.Fingerprint },
			"public_key":  func(k *hcloud.SSHKey) string { return k.PublicKey },
			"labels":      func(k *hcloud.SSHKey) string { return join(k.Labels) },
			"created":     func(k *hcloud.SSHKey) string { return k.Created.Format(time.RFC3339) },
		},
		schema: func(k *hcloud.SSHKey) any { return hcloud.SchemaFromSSHKey(k) },
	},
	id:     func(k *hcloud.SSHKey) int64 { return k.ID },
	labels: func(k *hcloud.SSHKey) map[string]string { return k.Labels },
	remove: func(ctx context.Context, api *hcloud.Client, k *hcloud.SSHKey) (*hcloud.Action, error) {
		_, err := api.SSHKey.Delete(ctx, k)
		return nil, err
	},
}

func sshKeyCommand(c *ctl) *cobra.Command {
	return group("ssh-key", "Manage SSH keys",
		sshKeys.listCommand(c),
		sshKeys.describeCommand(c),
		sshKeyCreateCommand(c),
		sshKeys.deleteCommand(c),
	)
}

func sshKeyCreateCommand(c *ctl) *cobra.Command {
	var o hcloud.SSHKeyCreateOpts
	cmd := &cobra.Command{
		Use:   "create --name NAME --public-key KEY",
		Short: "Create an SSH key",
		Args:  cobra.NoArgs,
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, _ []string) error {
			key, _, err := api.SSHKey.Create(cmd.Context(), o)
			if err != nil {
				return err
			}
			say(cmd, "SSH key %d created\n", key.ID)
			return nil
		}),
	}
	cmd.Flags().StringVar(&o.Name, "name", "", "Key name (required)")
	cmd.Flags().StringVar(&o.PublicKey, "public-key", "", "Public key (required)")
	cmd.Flags().StringToStringVar(&o.Labels, "label", nil, "User-defined labels ('key=value') (can be specified multiple times)")
	must(cmd.MarkFlagRequired("name"))
	must(cmd.MarkFlagRequired("public-key"))
	return cmd
}
