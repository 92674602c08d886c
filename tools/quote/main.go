// Command quote keeps the Markdown pages true: quotes and links.
package main

import (
	"errors"

	"github.com/spf13/cobra"

	"example.com/ccm-from-scratch/tools/internal/quote"
	"example.com/ccm-from-scratch/tools/internal/repo"
)

func main() {
	root := &cobra.Command{
		Use:   "quote",
		Short: "Keep quotes and links of the Markdown pages true",
		Args:  cobra.NoArgs,
	}
	for _, c := range []struct {
		use, short string
		run        func(*repo.Repo) error
	}{
		{"check", "Compare quotes with their sources and links with their targets; change nothing", func(r *repo.Repo) error {
			return errors.Join(quote.Check(r), quote.Links(r))
		}},
		{"update", "Make every quote equal to its source", quote.Update},
		{"links", "Look for links that lead nowhere", quote.Links},
	} {
		root.AddCommand(&cobra.Command{
			Use:   c.use,
			Short: c.short,
			Args:  cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				r, err := repo.Open()
				if err != nil {
					return err
				}
				return c.run(r)
			},
		})
	}
	repo.Run(root)
}
