// Command stages keeps the stages of the tutorial true to stages.txt.
package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"example.com/ccm-from-scratch/tools/internal/repo"
	"example.com/ccm-from-scratch/tools/internal/stages"
)

func main() {
	root := &cobra.Command{Use: "stages", Short: "Keep the stages of the tutorial true to " + stages.File, Args: cobra.NoArgs}
	add := func(use, short string, args cobra.PositionalArgs, run func(*stages.Set, []string) error) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(_ *cobra.Command, args []string) error {
			s, err := stages.Open()
			if err != nil {
				return err
			}
			return run(s, args)
		}}
		root.AddCommand(cmd)
		return cmd
	}

	var from, after string
	list := add("list", "Print the names of the stages in order, a line each", cobra.NoArgs, func(s *stages.Set, _ []string) error {
		all := s.Stages
		if from+after != "" { // one of them is empty
			var err error
			if all, err = s.From(from + after); err != nil {
				return err
			}
		}
		if after != "" {
			all = all[1:]
		}
		for _, stage := range all {
			fmt.Println(stage.Name)
		}
		return nil
	})
	list.Flags().StringVar(&from, "from", "", "only this `STAGE` and the later ones")
	list.Flags().StringVar(&after, "after", "", "only the stages later than this `STAGE`")
	list.MarkFlagsMutuallyExclusive("from", "after")

	add("check", "Compare stages, modules and pages with what they should be; change nothing", cobra.NoArgs,
		func(s *stages.Set, _ []string) error { return s.Check() })

	var check bool
	diff := add("diff [STAGE...]", "Write the diff pages and the tables of changes in the articles", cobra.ArbitraryArgs, func(s *stages.Set, names []string) error {
		changed, err := s.Diff(names, check)
		for _, name := range changed {
			fmt.Println(name)
		}
		return err
	})
	diff.Flags().BoolVar(&check, "check", false, "write nothing; fail if a page is not up to date")

	var edited, base string
	var tidy bool
	propagate := add("propagate --from STAGE", "Carry an edit of a stage into every later one by three-way merges", cobra.NoArgs,
		func(s *stages.Set, _ []string) error { return s.Propagate(edited, base, tidy) })
	propagate.Flags().StringVar(&edited, "from", "", "the `STAGE` that was edited")
	propagate.Flags().StringVar(&base, "base", "HEAD", "the `REV` that the edit started from")
	propagate.Flags().BoolVar(&tidy, "tidy", true, "run go mod tidy in stages whose go.mod or imports change")
	_ = propagate.MarkFlagRequired("from") // fails for an unknown flag only

	add("new NAME", "Start a stage as a copy of the last one", cobra.ExactArgs(1),
		func(s *stages.Set, args []string) error { return s.New(args[0]) })
	repo.Run(root)
}
