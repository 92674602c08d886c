package health

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		services := false
		c := &check{start: time.Now(), synced: map[string]func() bool{
			"nodes":    func() bool { return true },
			"services": func() bool { return services },
		}}
		if err := c.Check(nil); err != nil {
			t.Errorf("at start: %v", err)
		}
		<-time.After(2 * patience)
		if err := c.Check(nil); err == nil {
			t.Error("no error although Services were never listed")
		}
		services = true
		if err := c.Check(nil); err != nil {
			t.Errorf("after the list: %v", err)
		}
	})
}
