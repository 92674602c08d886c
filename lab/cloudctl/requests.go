package cloudctl

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

// request is an entry of the emulator's journal.
type request struct {
	Time      string `json:"time"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Query     string `json:"query"`
	Status    int    `json:"status"`
	UserAgent string `json:"user_agent"`
	Token     string `json:"token"`
	Kind      string `json:"kind"`
	Fault     string `json:"fault"`
}

// String is what a client would have sent and got.
func (r request) String() string {
	line := r.Method + " " + r.Path
	if r.Query != "" {
		line += "?" + r.Query
	}
	if r.Status == 0 {
		return line + " -"
	}
	return fmt.Sprintf("%s %d", line, r.Status)
}

func requestsCommand(c *ctl) *cobra.Command {
	cmd := requestsListCommand(c, "requests", "Show what clients asked of the cloud")
	cmd.AddCommand(
		requestsListCommand(c, "list", "The same"),
		&cobra.Command{
			Use:   "clear",
			Short: "Empty the journal",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return c.call(cmd.Context(), http.MethodDelete, "/requests", nil, nil)
			},
		},
	)
	return cmd
}

func requestsListCommand(c *ctl, use, short string) *cobra.Command {
	var kind, method, path, output string
	var count bool
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long: short + `.

The journal has every request with a token, oldest first, but none of this
command's own. A line is the method, the path with its query, and the status of
the answer, or - if there was none.`,
		Example: `  cloud requests --kind write --count
  cloud requests --method GET --path '/servers/*'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			for key, value := range map[string]string{"kind": kind, "method": method, "path": path} {
				if value != "" {
					query.Set(key, value)
				}
			}
			var answer struct {
				Requests []request `json:"requests"`
			}
			if err := c.call(cmd.Context(), http.MethodGet, "/requests?"+query.Encode(), nil, &answer); err != nil {
				return err
			}
			switch {
			case count:
				say(cmd, "%d\n", len(answer.Requests))
				return nil
			case output == "json":
				return writeJSON(cmd.OutOrStdout(), answer.Requests)
			case output != "":
				return fmt.Errorf("invalid output option: %s", output)
			}
			for _, r := range answer.Requests {
				say(cmd, "%s\n", r)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "Only read, write, or poll (reading actions)")
	cmd.Flags().StringVar(&method, "method", "", "Only requests of that method")
	cmd.Flags().StringVar(&path, "path", "", "Only requests of that path, without /v1; * in it is one segment, ** at its end the rest")
	cmd.Flags().BoolVar(&count, "count", false, "Print only the number of requests")
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output options: json")
	return cmd
}
