package cloudctl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/spf13/cobra"
)

// A noun is a kind of resource, and makes the commands that all kinds have.
type noun[T any] struct {
	name    string // as in "server not found"
	get     func(ctx context.Context, api *hcloud.Client, idOrName string) (*T, *hcloud.Response, error)
	list    func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*T, error)
	table   table[T]
	id      func(*T) int64
	labels  func(*T) map[string]string
	rename  func(ctx context.Context, api *hcloud.Client, t *T, name string) error
	relabel func(ctx context.Context, api *hcloud.Client, t *T, labels map[string]string) error
	remove  func(ctx context.Context, api *hcloud.Client, t *T) (*hcloud.Action, error)
}

// find returns a resource, or an error if there is none.
func (n noun[T]) find(ctx context.Context, api *hcloud.Client, idOrName string) (*T, error) {
	t, _, err := n.get(ctx, api, idOrName)
	if err == nil && t == nil {
		err = fmt.Errorf("%s not found: %s", n.name, idOrName)
	}
	return t, err
}

// title is the name at the beginning of a sentence.
func (n noun[T]) title() string { return strings.ToUpper(n.name[:1]) + n.name[1:] }

func (n noun[T]) listCommand(c *ctl) *cobra.Command {
	var selector string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List " + n.name + "s",
		Args:  cobra.NoArgs,
	}
	output := n.table.flag(cmd)
	if n.labels != nil {
		cmd.Flags().StringVarP(&selector, "selector", "l", "", "Selector to filter by labels")
	}
	cmd.RunE = c.run(func(cmd *cobra.Command, api *hcloud.Client, _ []string) error {
		items, err := n.list(cmd.Context(), api, hcloud.ListOpts{LabelSelector: selector, PerPage: 50})
		if err != nil {
			return err
		}
		return n.table.print(cmd.OutOrStdout(), *output, items)
	})
	return cmd
}

func (n noun[T]) describeCommand(c *ctl) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe ID|NAME",
		Short: "Show one " + n.name + " in full",
		Args:  cobra.ExactArgs(1),
	}
	output := n.table.flag(cmd)
	cmd.RunE = c.run(func(cmd *cobra.Command, api *hcloud.Client, args []string) error {
		item, err := n.find(cmd.Context(), api, args[0])
		if err != nil {
			return err
		}
		return n.table.printOne(cmd.OutOrStdout(), *output, item)
	})
	return cmd
}

func (n noun[T]) deleteCommand(c *ctl) *cobra.Command {
	return &cobra.Command{
		Use:   "delete ID|NAME...",
		Short: "Delete " + n.name + "s",
		Args:  cobra.MinimumNArgs(1),
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, args []string) error {
			for _, arg := range args {
				item, err := n.find(cmd.Context(), api, arg)
				if err != nil {
					return err
				}
				action, err := n.remove(cmd.Context(), api, item)
				if err != nil {
					return err
				}
				if err := c.await(cmd.Context(), api, action); err != nil {
					return err
				}
				say(cmd, "%s %s deleted\n", n.title(), arg)
			}
			return nil
		}),
	}
}

func (n noun[T]) updateCommand(c *ctl) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "update --name NAME ID|NAME",
		Short: "Change the name of a " + n.name,
		Args:  cobra.ExactArgs(1),
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, args []string) error {
			item, err := n.find(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			if err := n.rename(cmd.Context(), api, item, name); err != nil {
				return err
			}
			say(cmd, "%s %s updated\n", n.title(), args[0])
			return nil
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "New name (required)")
	must(cmd.MarkFlagRequired("name"))
	return cmd
}

func (n noun[T]) labelCommands(c *ctl) []*cobra.Command {
	var overwrite, all bool
	add := &cobra.Command{
		Use:   "add-label ID|NAME KEY=VALUE...",
		Short: "Add labels to a " + n.name,
		Args:  cobra.MinimumNArgs(2),
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, args []string) error {
			return n.changeLabels(cmd, api, args[0], func(id int64, labels map[string]string) error {
				for _, label := range args[1:] {
					key, value, ok := strings.Cut(label, "=")
					if !ok {
						return fmt.Errorf("label %q is not of the form KEY=VALUE", label)
					}
					if _, exists := labels[key]; exists && !overwrite {
						return fmt.Errorf("label %s on %s %d already exists", key, n.name, id)
					}
					labels[key] = value
					say(cmd, "Label %s added to %s %d\n", key, n.name, id)
				}
				return nil
			})
		}),
	}
	add.Flags().BoolVarP(&overwrite, "overwrite", "o", false, "Overwrite labels that exist already")
	remove := &cobra.Command{
		Use:   "remove-label ID|NAME KEY...",
		Short: "Remove labels from a " + n.name,
		Args:  cobra.MinimumNArgs(1),
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, args []string) error {
			if all == (len(args) > 1) {
				return errors.New("either keys or --all")
			}
			return n.changeLabels(cmd, api, args[0], func(id int64, labels map[string]string) error {
				for _, key := range args[1:] {
					if _, exists := labels[key]; !exists {
						return fmt.Errorf("label %s on %s %d does not exist", key, n.name, id)
					}
					delete(labels, key)
					say(cmd, "Label %s removed from %s %d\n", key, n.name, id)
				}
				if all {
					clear(labels)
					say(cmd, "All labels removed from %s %d\n", n.name, id)
				}
				return nil
			})
		}),
	}
	remove.Flags().BoolVarP(&all, "all", "a", false, "Remove all labels")
	return []*cobra.Command{add, remove}
}

func (n noun[T]) changeLabels(cmd *cobra.Command, api *hcloud.Client, idOrName string, change func(id int64, labels map[string]string) error) error {
	item, err := n.find(cmd.Context(), api, idOrName)
	if err != nil {
		return err
	}
	labels := map[string]string{}
	maps.Copy(labels, n.labels(item))
	if err := change(n.id(item), labels); err != nil {
		return err
	}
	return n.relabel(cmd.Context(), api, item, labels)
}

// changeCommand makes a command that changes one resource; done has a verb for
// its ID.
func (n noun[T]) changeCommand(c *ctl, use, short, done string, do func(ctx context.Context, api *hcloud.Client, t *T) (*hcloud.Action, *hcloud.Response, error)) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, args []string) error {
			item, err := n.find(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			action, _, err := do(cmd.Context(), api, item)
			if err != nil {
				return err
			}
			if err := c.await(cmd.Context(), api, action); err != nil {
				return err
			}
			say(cmd, done+"\n", n.id(item))
			return nil
		}),
	}
}

// inNetwork makes a command about a resource in a network; done has verbs for
// both IDs.
func (n noun[T]) inNetwork(c *ctl, use, short, done string, do func(ctx context.Context, api *hcloud.Client, t *T, network *hcloud.Network) (*hcloud.Action, *hcloud.Response, error)) *cobra.Command {
	var ref string
	cmd := &cobra.Command{
		Use:   use + " --network NETWORK ID|NAME",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: c.run(func(cmd *cobra.Command, api *hcloud.Client, args []string) error {
			item, err := n.find(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			network, err := networks.find(cmd.Context(), api, ref)
			if err != nil {
				return err
			}
			action, _, err := do(cmd.Context(), api, item, network)
			if err != nil {
				return err
			}
			if err := c.await(cmd.Context(), api, action); err != nil {
				return err
			}
			say(cmd, done+"\n", n.id(item), network.ID)
			return nil
		}),
	}
	cmd.Flags().StringVarP(&ref, "network", "n", "", "Network (ID or name) (required)")
	must(cmd.MarkFlagRequired("network"))
	return cmd
}

// protectionCommands make commands for the one protection that these resources
// have. The hcloud CLI wants its name as an argument, too.
func (n noun[T]) protectionCommands(c *ctl, do func(ctx context.Context, api *hcloud.Client, t *T, on bool) (*hcloud.Action, *hcloud.Response, error)) []*cobra.Command {
	command := func(verb, done string, on bool) *cobra.Command {
		cmd := n.changeCommand(c, verb+" ID|NAME delete", strings.ToUpper(verb[:1])+strings.ReplaceAll(verb[1:], "-", " ")+" of a "+n.name, done,
			func(ctx context.Context, api *hcloud.Client, t *T) (*hcloud.Action, *hcloud.Response, error) {
				return do(ctx, api, t, on)
			})
		cmd.Args = func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[1] != "delete" {
				return fmt.Errorf("%s needs a %s, and \"delete\" as the protection", verb, n.name)
			}
			return nil
		}
		return cmd
	}
	return []*cobra.Command{
		command("enable-protection", "Resource protection enabled for "+n.name+" %d", true),
		command("disable-protection", "Resource protection disabled for "+n.name+" %d", false),
	}
}

// must is for errors that only a mistake in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
