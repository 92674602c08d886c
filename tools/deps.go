package main

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/rogpeppe/go-internal/diff"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/mod/modfile"
	_ "github.com/rogpeppe/go-internal/txtar"
)

func main() {}
