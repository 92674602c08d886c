package loadbalancer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestIssuance has a pass every ten seconds for two days, and a certificate that
// is never issued.
func TestIssuance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, start := newIssuance(), time.Now()
		attempts := map[string]int{}
		for since := time.Duration(0); since < 48*time.Hour; since = time.Since(start) {
			if !b.IsInBackOffSinceUpdate("7", time.Now()) {
				b.Next("7", time.Now())
				switch {
				case since < time.Hour:
					attempts["first hour"]++
				case since < 24*time.Hour:
					attempts["rest of the day"]++
				default:
					attempts["second day"]++
				}
			}
			time.Sleep(10 * time.Second)
		}
		want := map[string]int{"first hour": 2, "rest of the day": 6, "second day": 4}
		if diff := cmp.Diff(want, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}

// TestLater counts the looks of an hour at something that does not end.
func TestLater(t *testing.T) {
	for _, test := range []struct {
		name  string
		first time.Duration
		want  int
	}{{"a certificate", issueDelay, 32}, {"health checks", healthDelay, 34}} {
		p, looks := &pass{}, 0
		for at := p.later(test.first); at <= time.Hour; at += p.later(test.first) {
			looks++
		}
		if looks != test.want {
			t.Errorf("%s: %d looks in an hour, want %d", test.name, looks, test.want)
		}
	}
}
