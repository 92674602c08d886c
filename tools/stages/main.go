// Command stages keeps the stages of the tutorial true to stages.txt.
package main

import (
	"github.com/spf13/cobra"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

func main() {
	root := &cobra.Command{Use: "stages", Short: "Keep the stages of the tutorial true to " + declaration}
	add := func(use, short string, args cobra.PositionalArgs, run func(*set, []string) error) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(_ *cobra.Command, args []string) error {
			s, err := open()
			if err != nil {
				return err
			}
			return run(s, args)
		}}
		root.AddCommand(cmd)
		return cmd
	}
	add("check", "Compare stages, modules and pages with what they should be; change nothing", cobra.NoArgs,
		func(s *set, _ []string) error { return s.check() })
	add("diff", "Write the diff pages and the tables of changes in the articles", cobra.NoArgs,
		func(s *set, _ []string) error { return s.writePages() })
	add("new NAME", "Start a stage as a copy of the last one", cobra.ExactArgs(1),
		func(s *set, args []string) error { return s.begin(args[0]) })

	var from, base string
	propagate := add("propagate --from STAGE", "Carry an edit of a stage into every later one by three-way merges",
		cobra.NoArgs, func(s *set, _ []string) error { return s.propagate(from, base) })
	propagate.Flags().StringVar(&from, "from", "", "the `STAGE` that was edited")
	propagate.Flags().StringVar(&base, "base", "HEAD", "the `REV` that the edit started from")
	_ = propagate.MarkFlagRequired("from") // fails for an unknown flag only
	repo.Main(root)
}
