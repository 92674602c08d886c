// Command quote keeps the Markdown pages true: quotes equal their sources, and
// links lead somewhere.
package main

import (
	"github.com/spf13/cobra"

	"example.com/ccm-from-scratch/tools/internal/repo"
)

func main() {
	root := &cobra.Command{Use: "quote", Short: "Keep quotes and links of the Markdown pages true"}
	add := func(use, short string, run func(*repo.Repo)) {
		root.AddCommand(&cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			r, err := repo.Open()
			if err != nil {
				return err
			}
			run(r)
			return r.Err()
		}})
	}
	add("check", "Compare quotes with their sources and links with their targets; change nothing", func(r *repo.Repo) {
		quotes(r, false)
		links(r)
	})
	add("update", "Make every quote equal to its source", func(r *repo.Repo) { quotes(r, true) })
	add("links", "Look for links that lead nowhere", links)
	repo.Main(root)
}
