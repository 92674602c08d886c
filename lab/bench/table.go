package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable writes results for people. Where a CCM has not settled, a dash
// stands for the numbers, and the note says what was missing.
func WriteTable(out io.Writer, results []Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CCM\tSCENARIO\tSETTLED\tREADS\tWRITES\tPOLLS\tMEMORY\tNOTE")
	for _, r := range results {
		settled, reads, writes, polls := "-", "-", "-", "-"
		if r.Settled {
			settled = fmt.Sprintf("%.1f s", r.Seconds)
			reads, writes, polls = fmt.Sprint(r.Reads), fmt.Sprint(r.Writes), fmt.Sprint(r.Polls)
		}
		memory := "-"
		if r.PeakMemory > 0 {
			memory = fmt.Sprintf("%d MiB", r.PeakMemory>>20)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.CCM, r.Scenario, settled, reads, writes, polls, memory, r.Note)
	}
	return w.Flush()
}
