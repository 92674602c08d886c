package config

import (
	"cmp"
	"fmt"
	"strings"
)

// Usage describes all variables for a terminal.
func Usage() string {
	var b strings.Builder
	fmt.Fprintln(&b, "Environment variables:")
	for _, v := range Variables {
		fmt.Fprintf(&b, "\n  %s (%s", v.names(" or "), v.Kind)
		if v.Default != "" {
			fmt.Fprintf(&b, ", default %s", v.Default)
		}
		fmt.Fprintf(&b, ")\n        %s\n", v.Help)
	}
	return b.String()
}

// Markdown is the table of all variables for the reference page.
func Markdown() string {
	var b strings.Builder
	fmt.Fprintln(&b, "| variable | value | default | meaning |")
	fmt.Fprintln(&b, "| --- | --- | --- | --- |")
	for _, v := range Variables {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", v.names("`, `"), v.Kind, cmp.Or(v.Default, "none"), v.Help)
	}
	return b.String()
}

func (v Variable) names(separator string) string {
	if v.File {
		return v.Name + separator + v.Name + "_FILE"
	}
	return v.Name
}
