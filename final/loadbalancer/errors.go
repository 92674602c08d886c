package loadbalancer

import (
	"slices"
	"strings"
)

// faults are several errors in one line: of an event with more lines than one,
// kubectl shows the first only.
type faults []error

func (f faults) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (f faults) Unwrap() []error { return f }

// joinErrors returns all errors that are not nil as one, nil if there is none.
func joinErrors(errs ...error) error {
	var all faults
	for _, err := range errs {
		switch more, several := err.(faults); { //nolint:errorlint // only what is not wrapped can be taken apart
		case several:
			all = append(all, more...)
		case err != nil:
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return slices.Clip(all)
}
