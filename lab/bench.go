package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/ccm-from-scratch/lab/bench"
	"example.com/ccm-from-scratch/lab/stack"
)

func benchCommand() *cobra.Command {
	var (
		options         bench.Options
		ccms, scenarios []string
		output          string
	)
	var all []string
	descriptions := &strings.Builder{}
	for _, scenario := range bench.Scenarios() {
		all = append(all, scenario.Name)
		fmt.Fprintf(descriptions, "  %-10s %s\n", scenario.Name, scenario.Short)
	}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Count the requests that CCMs send, and measure their time and memory",
		Long: "Run scenarios on CCMs, each in a lab of its own, and print a table: the time until the CCM has done\n" +
			"what the scenario expects, the requests to the cloud until it is quiet (reads, writes, and polls of\n" +
			"actions), and the most memory that its process ever had. A dash means that the CCM has not done it;\n" +
			"the note says what is missing. The CCM keeps its own periods and limits, while actions of the cloud are\n" +
			"instant. Its route controller runs in the scenarios idle and routes-50 only.\n\n" +
			descriptions.String(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range scenarios {
				if !slices.Contains(all, name) {
					return fmt.Errorf("--scenario %q: want one of %s", name, strings.Join(all, ", "))
				}
			}
			write, ok := map[string]func(io.Writer, []bench.Result) error{"text": bench.WriteTable, "json": writeJSON}[output]
			if !ok {
				return fmt.Errorf("--output %q: want text or json", output)
			}
			options.Log = cmd.ErrOrStderr()
			// What was measured before a failure, or Ctrl-C, is not lost.
			results, err := runBench(cmd.Context(), options, ccms, scenarios)
			return errors.Join(write(cmd.OutOrStdout(), results), err)
		},
	}
	cmd.Flags().StringSliceVar(&ccms, "ccm", nil, "`STAGE` or path of a binary to run; may be repeated (default: the last stage)")
	cmd.Flags().StringSliceVar(&scenarios, "scenario", all, "`NAME` of a scenario to run; may be repeated")
	cmd.Flags().DurationVar(&options.Idle, "idle", 2*time.Minute, "how long the scenario idle watches")
	cmd.Flags().DurationVar(&options.Deadline, "deadline", time.Minute, "how long a CCM may come no nearer to what a scenario expects of it")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`FORMAT` of the results: text or json")
	return cmd
}

func runBench(ctx context.Context, options bench.Options, ccms, scenarios []string) ([]bench.Result, error) {
	results := []bench.Result{}
	root, err := repositoryRoot()
	if err != nil {
		return results, err
	}
	if len(ccms) == 0 {
		stage, err := lastStage(root)
		if err != nil {
			return results, err
		}
		ccms = []string{stage}
	}
	for _, options.CCM = range ccms {
		if options.Binary, err = stack.BuildCCM(ctx, root, options.CCM, options.Log); err != nil {
			return results, err
		}
		for _, scenario := range scenarios {
			fmt.Fprintf(options.Log, "%s: %s\n", options.CCM, scenario)
			result, err := bench.Run(ctx, options, scenario)
			if err != nil {
				return results, err
			}
			results = append(results, result)
		}
	}
	return results, nil
}

func writeJSON(out io.Writer, results []bench.Result) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(results)
}
