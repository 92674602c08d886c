package cloudctl

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"

	"github.com/spf13/cobra"
)

// A table prints resources as the hcloud CLI does.
type table[T any] struct {
	shown   string                     // the columns of a list unless others are asked for, with commas
	columns map[string]func(*T) string // a value may have several lines
	schema  func(*T) any               // the resource as the API has it
}

// flag adds the flag -o to a command.
func (t table[T]) flag(cmd *cobra.Command) *[]string {
	cmd.Long = cmd.Short + ".\n\nColumns: " + strings.Join(slices.Sorted(maps.Keys(t.columns)), ", ") + "."
	return cmd.Flags().StringArrayP("output", "o", nil, "Output options: json|noheader|columns=...|format=TEMPLATE")
}

// options are the values of the flag -o, understood.
type options struct {
	json, noheader bool
	columns        []string
	format         *template.Template
}

func (t table[T]) parse(values []string) (o options, err error) {
	for _, value := range values {
		name, arg, _ := strings.Cut(value, "=")
		switch name {
		case "json":
			o.json = true
		case "noheader":
			o.noheader = true
		case "columns":
			o.columns = strings.Split(arg, ",")
			for _, column := range o.columns {
				if t.columns[column] == nil {
					return o, fmt.Errorf("invalid value for output option columns: %s", column)
				}
			}
		case "format":
			if o.format, err = template.New("format").Parse(arg + "\n"); err != nil {
				return o, fmt.Errorf("output option format: %w", err)
			}
		default:
			return o, fmt.Errorf("invalid output option: %s", value)
		}
	}
	return o, nil
}

// print writes a line for each item.
func (t table[T]) print(w io.Writer, values []string, items []*T) error {
	o, err := t.parse(values)
	switch {
	case err != nil:
		return err
	case o.json:
		all := make([]any, len(items))
		for i, item := range items {
			all[i] = t.schema(item)
		}
		return writeJSON(w, all)
	case o.format != nil:
		for _, item := range items {
			if err := o.format.Execute(w, item); err != nil {
				return err
			}
		}
		return nil
	}
	columns := o.columns
	if columns == nil {
		columns = strings.Split(t.shown, ",")
	}
	lines := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	if !o.noheader {
		fmt.Fprintln(lines, strings.ToUpper(strings.ReplaceAll(strings.Join(columns, "\t"), "_", " ")))
	}
	for _, item := range items {
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = strings.ReplaceAll(t.cell(item, column), "\n", "; ")
		}
		fmt.Fprintln(lines, strings.Join(cells, "\t"))
	}
	return lines.Flush()
}

// printOne writes a line for each column of an item.
func (t table[T]) printOne(w io.Writer, values []string, item *T) error {
	o, err := t.parse(values)
	switch {
	case err != nil:
		return err
	case o.json:
		return writeJSON(w, t.schema(item))
	case o.format != nil:
		return o.format.Execute(w, item)
	}
	columns := o.columns
	if columns == nil {
		shown := strings.Split(t.shown, ",")
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(t.columns)), func(c string) bool { return slices.Contains(shown, c) })
		columns = append(shown, others...)
	}
	lines := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, column := range columns {
		if o.noheader {
			fmt.Fprintln(lines, t.cell(item, column))
		} else {
			fmt.Fprintf(lines, "%s:\t%s\n", strings.ReplaceAll(column, "_", " "), strings.ReplaceAll(t.cell(item, column), "\n", "\n\t"))
		}
	}
	return lines.Flush()
}

func (t table[T]) cell(item *T, column string) string {
	if value := t.columns[column](item); value != "" {
		return value
	}
	return "-"
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// join writes a label set, or anything else with keys, in a stable order.
func join(labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ", ")
}
