// Command stages keeps the stages of the tutorial true to stages.txt.
package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"example.com/ccm-from-scratch/tools/internal/repo"
	"example.com/ccm-from-scratch/tools/internal/stages"
)

func main() {
	root := &cobra.Command{
		Use:   "stages",
		Short: "Keep the stages of the tutorial true to " + stages.File,
		Args:  cobra.NoArgs,
	}
	root.AddCommand(list(), check(), diff(), propagate(), newStage())
	repo.Run(root)
}

func list() *cobra.Command {
	var from, after string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the names of the stages in order, a line each",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := stages.Open()
			if err != nil {
				return err
			}
			all := s.Stages
			if from+after != "" { // one of them is empty
				if all, err = s.From(from + after); err != nil {
					return err
				}
			}
			if after != "" {
				all = all[1:]
			}
			for _, s := range all {
				fmt.Fprintln(cmd.OutOrStdout(), s.Name)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "only this `STAGE` and the later ones")
	cmd.Flags().StringVar(&after, "after", "", "only the stages later than this `STAGE`")
	cmd.MarkFlagsMutuallyExclusive("from", "after")
	return cmd
}

func check() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Compare stages, modules and pages with what they should be; change nothing",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := stages.Load()
			if err != nil {
				return err
			}
			return s.Check()
		},
	}
}

func diff() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "diff [STAGE...]",
		Short: "Write the diff pages and the tables of changes in the articles",
		RunE: func(cmd *cobra.Command, names []string) error {
			s, err := stages.Load()
			if err != nil {
				return err
			}
			changed, err := s.Diff(names, check)
			for _, name := range changed {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; fail if a page is not up to date")
	return cmd
}

func propagate() *cobra.Command {
	var from, base string
	var tidy bool
	cmd := &cobra.Command{
		Use:   "propagate --from STAGE",
		Short: "Carry an edit of a stage into every later one by three-way merges",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := stages.Load()
			if err != nil {
				return err
			}
			return s.Propagate(cmd.OutOrStdout(), from, base, tidy)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the `STAGE` that was edited")
	cmd.Flags().StringVar(&base, "base", "HEAD", "the `REV` that the edit started from")
	cmd.Flags().BoolVar(&tidy, "tidy", true, "run go mod tidy in stages whose go.mod or imports change")
	_ = cmd.MarkFlagRequired("from") // fails for unknown flags only
	return cmd
}

func newStage() *cobra.Command {
	return &cobra.Command{
		Use:   "new NAME",
		Short: "Start a stage as a copy of the last one",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := stages.Load()
			if err != nil {
				return err
			}
			return s.New(args[0])
		},
	}
}
