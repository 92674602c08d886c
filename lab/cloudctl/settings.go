package cloudctl

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"
)

func settingsCommand(c *ctl) *cobra.Command {
	var profile string
	var rateLimit, rateRemaining int
	var limits map[string]int
	var strictRoutes bool
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "Show how the cloud behaves, and change it",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&profile, "profile", "", "How long actions take: instant or realistic")
	flags.IntVar(&rateLimit, "rate-limit", 0, "Requests per hour")
	flags.IntVar(&rateRemaining, "rate-remaining", 0, "Requests that are left now")
	flags.StringToIntVar(&limits, "limits", nil, "How much there may be: servers, load_balancers, network_members, network_subnets, network_routes")
	flags.BoolVar(&strictRoutes, "strict-routes", false, "Whether a route's destination must lie in the network's range")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		change := map[string]any{}
		for flag, setting := range map[string]struct {
			key   string
			value any
		}{
			"profile":        {"profile", profile},
			"rate-limit":     {"rate_limit", rateLimit},
			"rate-remaining": {"rate_remaining", rateRemaining},
			"limits":         {"limits", limits},
			"strict-routes":  {"strict_routes", strictRoutes},
		} {
			if cmd.Flags().Changed(flag) {
				change[setting.key] = setting.value
			}
		}
		var settings json.RawMessage
		var err error
		if len(change) == 0 {
			err = c.call(cmd.Context(), http.MethodGet, "/settings", nil, &settings)
		} else {
			err = c.call(cmd.Context(), http.MethodPut, "/settings", change, &settings)
		}
		if err != nil {
			return err
		}
		return writeJSON(cmd.OutOrStdout(), settings)
	}
	return cmd
}
