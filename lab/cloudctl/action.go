package cloudctl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/spf13/cobra"
)

var actions = noun[hcloud.Action]{
	name: "action",
	get: func(ctx context.Context, api *hcloud.Client, id string) (*hcloud.Action, *hcloud.Response, error) {
		number, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("action %q has no name: %w", id, err)
		}
		return api.Action.GetByID(ctx, number)
	},
	// The API lists actions by the kind of their resource only.
	list: func(ctx context.Context, api *hcloud.Client, o hcloud.ListOpts) ([]*hcloud.Action, error) {
		all := map[int64]*hcloud.Action{}
		for _, list := range []func(context.Context, hcloud.ActionListOpts) ([]*hcloud.Action, error){
			api.Server.Action.All,
			api.Network.Action.All,
			api.LoadBalancer.Action.All,
			api.PrimaryIP.Action.All,
			api.Certificate.Action.All,
		} {
			part, err := list(ctx, hcloud.ActionListOpts{ListOpts: o})
			if err != nil {
				return nil, err
			}
			for _, action := range part {
				all[action.ID] = action // an action on two kinds comes twice
			}
		}
		return slices.SortedFunc(maps.Values(all), func(a, b *hcloud.Action) int { return cmp.Compare(a.ID, b.ID) }), nil
	},
	table: table[hcloud.Action]{
		shown: "id,command,status,progress,resources,error",
		columns: map[string]func(*hcloud.Action) string{
			"id":       func(a *hcloud.Action) string { return strconv.FormatInt(a.ID, 10) },
			"command":  func(a *hcloud.Action) string { return a.Command },
			"status":   func(a *hcloud.Action) string { return string(a.Status) },
			"progress": func(a *hcloud.Action) string { return fmt.Sprintf("%d%%", a.Progress) },
			"resources": func(a *hcloud.Action) string {
				var resources []string
				for _, r := range a.Resources {
					resources = append(resources, fmt.Sprintf("%s %d", r.Type, r.ID))
				}
				return strings.Join(resources, ", ")
			},
			"error": func(a *hcloud.Action) string {
				if a.ErrorCode == "" {
					return ""
				}
				return fmt.Sprintf("%s (%s)", a.ErrorMessage, a.ErrorCode)
			},
		},
		schema: func(a *hcloud.Action) any { return hcloud.SchemaFromAction(a) },
	},
}

func actionCommand(c *ctl) *cobra.Command {
	return group("action", "Show actions of all resources", actions.listCommand(c), actions.describeCommand(c))
}
