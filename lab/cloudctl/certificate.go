package cloudctl

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/spf13/cobra"
)

var certificates = noun[hcloud.Certificate]{
	name: "certificate",
	get: func(ctx context.Context, api *hcloud.Client, idOrName string) (*hcloud.Certificate, *hcloud.Response, error) {
		return api.Certificate.Get(ctx, idOrName)
	},
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.Certificate, error) {
		return api.Certificate.AllWithOpts(ctx, hcloud.CertificateListOpts{ListOpts: o})
	},
	table: table[hcloud.Certificate]{
		shown: "id,name,type,domain_names,status,used_by",
		columns: map[string]func(*hcloud.Certificate) string{
			"id":           func(c *hcloud.Certificate) string { return strconv.FormatInt(c.ID, 10) },
			"name":         func(c *hcloud.Certificate) string { return c.Name },
			"type":         func(c *hcloud.Certificate) string { return string(c.Type) },
			"domain_names": func(c *hcloud.Certificate) string { return strings.Join(c.DomainNames, ", ") },
			"fingerprint":  func(c *hcloud.Certificate) string { return c.Fingerprint },
			"status": func(c *hcloud.Certificate) string {
				if c.Status == nil {
					return ""
				}
				return string(c.Status.Issuance)
			},
			"used_by": func(c *hcloud.Certificate) string {
				var users []string
				for _, user := range c.UsedBy {
					users = append(users, fmt.Sprintf("%s %d", user.Type, user.ID))
				}
				return strings.Join(users, ", ")
			},
			"not_valid_after": func(c *hcloud.Certificate) string {
				if c.NotValidAfter.IsZero() {
					return ""
				}
				return c.NotValidAfter.Format(time.RFC3339)
			},
			"labels":  func(c *hcloud.Certificate) string { return join(c.Labels) },
			"created": func(c *hcloud.Certificate) string { return c.Created.Format(time.RFC3339) },
		},
		schema: func(c *hcloud.Certificate) any { return hcloud.SchemaFromCertificate(c) },
	},
	id:     func(c *hcloud.Certificate) int64 { return c.ID },
	labels: func(c *hcloud.Certificate) map[string]string { return c.Labels },
	remove: func(ctx context.Context, api *hcloud.Client, c *hcloud.Certificate) (*hcloud.Action, error) {
		_, err := api.Certificate.Delete(ctx, c)
		return nil, err
	},
	relabel: func(ctx context.Context, api *hcloud.Client, c *hcloud.Certificate, labels map[string]string) error {
		_, _, err := api.Certificate.Update(ctx, c, hcloud.CertificateUpdateOpts{Labels: labels})
		return err
	},
}

func certificateCommand(c *ctl) *cobra.Command {
	cmd := group("certificate", "Manage certificates",
		certificates.listCommand(c),
		certificates.describeCommand(c),
		certificateCreateCommand(c),
		certificates.deleteCommand(c),
	)
	cmd.AddCommand(certificates.labelCommands(c)...)
	return cmd
}

func certificateCreateCommand(c *ctl) *cobra.Command {
	var o hcloud.CertificateCreateOpts
	var typ, certFile, keyFile string
	cmd := &cobra.Command{
		Use:   "create --name NAME",
		Short: "Upload a certificate, or have one issued",
		Args:  cobra.NoArgs,
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, _ []string) error {
			o.Type = hcloud.CertificateType(typ)
			for file, text := range map[string]*string{certFile: &o.Certificate, keyFile: &o.PrivateKey} {
				if file == "" {
					continue
				}
				content, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				*text = string(content)
			}
			result, _, err := api.Certificate.CreateCertificate(cmd.Context(), o)
			if err != nil {
				return err
			}
			if result.Action != nil {
				if err := c.await(cmd.Context(), api, result.Action); err != nil {
					return err
				}
			}
			say(cmd, "Certificate %d created\n", result.Certificate.ID)
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Name, "name", "", "Certificate name (required)")
	flags.StringVarP(&typ, "type", "t", "uploaded", "Type of certificate (uploaded or managed)")
	flags.StringVar(&certFile, "cert-file", "", "File with the certificate in PEM format, of type uploaded")
	flags.StringVar(&keyFile, "key-file", "", "File with the private key in PEM format, of type uploaded")
	flags.StringSliceVar(&o.DomainNames, "domain", nil, "Domains, of type managed")
	flags.StringToStringVar(&o.Labels, "label", nil, "User-defined labels ('key=value') (can be specified multiple times)")
	must(cmd.MarkFlagRequired("name"))
	return cmd
}
