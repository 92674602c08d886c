package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"example.com/ccm-from-scratch/lab/script"
	"example.com/ccm-from-scratch/lab/stack"
)

func scriptCommand() *cobra.Command {
	var (
		ccms []string
		show bool
	)
	cmd := &cobra.Command{
		Use:   "script FILE...",
		Short: "Run scripts, each against a lab of its own",
		Long: "Run testscript files, each against a lab of its own. docs/scripts.md describes what they can do.\n\n" +
			"The CCM under test is a stage of this repository, or the path of any binary.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			root, err := repositoryRoot()
			if err != nil {
				return err
			}
			if len(ccms) == 0 {
				stage, err := lastStage(root)
				if err != nil {
					return err
				}
				ccms = []string{stage}
			}
			var errs []error
			for _, ccm := range ccms {
				errs = append(errs, runScripts(cmd, root, ccm, show, files))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringSliceVar(&ccms, "ccm", nil, "`STAGE` or path of a binary to run; may be repeated (default: the last stage)")
	cmd.Flags().BoolVar(&show, "show", false, "show every command and what it prints")
	return cmd
}

func demo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo [STAGE]",
		Short: "Show what the last stage does, step by step, and check each step",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := repositoryRoot()
			if err != nil {
				return err
			}
			var stage string
			if len(args) == 1 {
				stage = args[0]
			} else if stage, err = lastStage(root); err != nil {
				return err
			}
			file := shortPath(filepath.Join(root, "lab", "demo.txtar"))
			if err := runScripts(cmd, root, stage, true, []string{file}); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "All of this has happened, and was checked.")
			return nil
		},
	}
}

func runScripts(cmd *cobra.Command, root, ccm string, show bool, files []string) error {
	options := script.Options{Root: root, CCM: ccm, Log: cmd.ErrOrStderr()}
	if show {
		options.Narrate = cmd.OutOrStdout()
	}
	runner, err := script.NewRunner(cmd.Context(), options)
	if err != nil {
		return err
	}
	return runner.RunFiles(cmd.Context(), cmd.OutOrStdout(), files)
}

// lastStage returns the last stage of the repository at root.
func lastStage(root string) (string, error) {
	stages, err := stack.Stages(root)
	if err != nil {
		return "", err
	}
	return stages[len(stages)-1], nil
}

func docs() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "Write docs/scripts.md, the description of what scripts can do",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			root, err := repositoryRoot()
			if err != nil {
				return err
			}
			path := filepath.Join("docs", "scripts.md")
			want := script.Docs()
			if !check {
				return os.WriteFile(filepath.Join(root, path), want, 0o644)
			}
			got, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				return err
			}
			if line := firstDifference(got, want); line > 0 {
				return fmt.Errorf("%s:%d: differs from the verbs in lab/script; run `go run ./lab docs`", path, line)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing, and fail if the file is out of date")
	return cmd
}

// firstDifference returns the number of the first line that differs, 0 if none does.
func firstDifference(got, want []byte) int {
	gotLines, wantLines := bytes.SplitAfter(got, []byte("\n")), bytes.SplitAfter(want, []byte("\n"))
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || !bytes.Equal(gotLines[i], wantLines[i]) {
			return i + 1
		}
	}
	return 0
}
