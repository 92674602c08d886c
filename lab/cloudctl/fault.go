package cloudctl

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// fault is a fault as the emulator's own API has it.
type fault struct {
	ID         int64  `json:"id,omitempty"`
	Method     string `json:"method"`
	Path       string `json:"path"`
	Effect     string `json:"effect"`
	Status     int    `json:"status,omitempty"`
	Code       string `json:"code,omitempty"`
	Message    string `json:"message,omitempty"`
	Body       string `json:"body,omitempty"`
	Count      int    `json:"count,omitempty"`
	Duration   string `json:"duration,omitempty"`
	Delay      string `json:"delay,omitempty"`
	ResourceID int64  `json:"resource_id,omitempty"`
	Hits       int    `json:"hits,omitempty"`
}

var faultTable = table[fault]{
	shown: "id,method,path,effect,hits,count,duration",
	columns: map[string]func(*fault) string{
		"id":          func(f *fault) string { return strconv.FormatInt(f.ID, 10) },
		"method":      func(f *fault) string { return f.Method },
		"path":        func(f *fault) string { return f.Path },
		"effect":      func(f *fault) string { return f.Effect },
		"hits":        func(f *fault) string { return strconv.Itoa(f.Hits) },
		"count":       func(f *fault) string { return number(int64(f.Count)) },
		"duration":    func(f *fault) string { return f.Duration },
		"status":      func(f *fault) string { return number(int64(f.Status)) },
		"code":        func(f *fault) string { return f.Code },
		"message":     func(f *fault) string { return f.Message },
		"delay":       func(f *fault) string { return f.Delay },
		"resource_id": func(f *fault) string { return number(f.ResourceID) },
	},
	schema: func(f *fault) any { return f },
}

// number writes a number of which zero means that there is none.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func faultCommand(c *ctl) *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the faults", Args: cobra.NoArgs}
	output := faultTable.flag(list)
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		var answer struct {
			Faults []*fault `json:"faults"`
		}
		if err := c.call(cmd.Context(), http.MethodGet, "/faults", nil, &answer); err != nil {
			return err
		}
		return faultTable.print(cmd.OutOrStdout(), *output, answer.Faults)
	}
	remove := &cobra.Command{
		Use:   "clear [ID...]",
		Short: "Remove all faults, or some; what they hold up goes on",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.call(cmd.Context(), http.MethodDelete, "/faults", nil, nil)
			}
			for _, arg := range args {
				id, err := strconv.ParseInt(arg, 10, 64)
				if err != nil {
					return fmt.Errorf("id of a fault: %w", err)
				}
				if err := c.call(cmd.Context(), http.MethodDelete, fmt.Sprintf("/faults/%d", id), nil, nil); err != nil {
					return err
				}
			}
			return nil
		},
	}
	return group("fault", "Disturb requests", faultAddCommand(c), list, remove)
}

// effects are the faults that a flag without a value stands for.
var effects = []struct{ name, usage string }{
	{"hang", "Give no answer until the client or the fault goes, then serve the request"},
	{"reset", "Reset the connection"},
	{"truncate", "Serve the request, but cut the answer short"},
	{"html", "Answer with an HTML page, as a proxy would"},
	{"drop", "Serve the request, but close the connection without an answer"},
	{"empty", "Lists have no entries"},
	{"stuck", "Actions run until the fault goes"},
	{"fail", "Actions end in an error, without effect"},
}

func faultAddCommand(c *ctl) *cobra.Command {
	var f fault
	var hide string
	var late, during time.Duration
	cmd := &cobra.Command{
		Use:   "add METHOD PATH EFFECT",
		Short: "Disturb requests of that method and path",
		Long: `Disturb requests of that method and path.

METHOD is GET, POST, PUT, DELETE, or * for all. PATH is without /v1, as in
/servers; * in it stands for one segment, as in '/servers/*', and ** at its end
for the rest. The effect is one of the flags. Without --count and --for it lasts
until "fault clear".`,
		Example: `  cloud fault add GET /servers --status 503 --count 3
  cloud fault add POST '/networks/*/actions/add_route' --stuck --for 30s
  cloud fault add GET /servers --hide worker-1`,
		Args: cobra.ExactArgs(2),
	}
	flags := cmd.Flags()
	flags.IntVar(&f.Status, "status", 0, "Answer with that status, and --code, --message or --body")
	flags.StringVar(&hide, "hide", "", "Lists lack the resource of that ID, or the server of that name")
	flags.DurationVar(&late, "late", 0, "Serve the request, but answer later by that time")
	names := []string{"status", "hide", "late"}
	for _, effect := range effects {
		flags.Bool(effect.name, false, effect.usage)
		names = append(names, effect.name)
	}
	cmd.MarkFlagsMutuallyExclusive(names...)
	cmd.MarkFlagsOneRequired(names...)
	flags.StringVar(&f.Code, "code", "", "Error code, of --status and --fail (default: that of the status)")
	flags.StringVar(&f.Message, "message", "", "Error message, of --status and --fail")
	flags.StringVar(&f.Body, "body", "", "Body of --status and --html, sent as it is")
	flags.IntVar(&f.Count, "count", 0, "Number of requests to disturb (default: all)")
	flags.DurationVar(&during, "for", 0, "How long the fault lasts, as 30s (default: until cleared)")

	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		f.Method, f.Path = args[0], args[1]
		for _, name := range names {
			if cmd.Flags().Changed(name) {
				f.Effect = name
			}
		}
		if f.ResourceID, err = c.resourceID(cmd.Context(), hide); err != nil {
			return err
		}
		if late != 0 {
			f.Delay = late.String()
		}
		if during != 0 {
			f.Duration = during.String()
		}
		var answer struct {
			Fault fault `json:"fault"`
		}
		if err := c.call(cmd.Context(), http.MethodPost, "/faults", f, &answer); err != nil {
			return err
		}
		say(cmd, "Fault %d added\n", answer.Fault.ID)
		return nil
	}
	return cmd
}

// resourceID returns the ID that a flag names, by itself or as a server's name.
func (c *ctl) resourceID(ctx context.Context, idOrName string) (int64, error) {
	if idOrName == "" {
		return 0, nil
	}
	if id, err := strconv.ParseInt(idOrName, 10, 64); err == nil {
		return id, nil
	}
	api, err := c.client("/_lab/v1")
	if err != nil {
		return 0, err
	}
	server, err := servers.find(ctx, api, idOrName)
	if err != nil {
		return 0, err
	}
	return server.ID, nil
}
