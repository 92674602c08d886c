package loadbalancer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/apimachinery/pkg/types"
)

// TestHangingList has 20 Services that look at the list of load balancers while
// the API does not answer. None waits for another one, and one request is enough.
func TestHangingList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		broken := errors.New("no answer")
		i := inventory{after: map[types.UID]time.Time{}, all: shared[*hcloud.LoadBalancer]{read: func(context.Context) ([]*hcloud.LoadBalancer, error) {
			requests++
			time.Sleep(2 * time.Minute)
			return nil, broken
		}}}
		start := time.Now()
		ended := make(chan error)
		for n := range 20 {
			go func() {
				_, err := i.list(t.Context(), types.UID(rune('a'+n)))
				ended <- err
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := i.list(ctx, "hasty"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 10*time.Second {
			t.Errorf("error = %v after %s, want that of the context", err, time.Since(start))
		}
		for range 20 {
			if err := <-ended; !errors.Is(err, broken) {
				t.Errorf("error = %v, want the API's", err)
			}
		}
		if took := time.Since(start); took != 2*time.Minute || requests != 1 {
			t.Errorf("it took %s and %d requests, want as long as one", took, requests)
		}
	})
}

// TestShared makes requests of lists that others have asked for before, or are
// asking for now.
func TestShared(t *testing.T) {
	tests := []struct {
		name string
		do   func(*inventory) // while or after the first Service looks
		late bool             // after
		uid  types.UID        // that looks then
		want int
	}{
		{name: "another Service joins", uid: "b", want: 1},
		{name: "another Service looks at the same list", late: true, uid: "b", want: 1},
		{name: "who looks twice wants to know", late: true, uid: "a", want: 2},
		{name: "what it has written is newer", do: func(i *inventory) { i.wrote("b") }, uid: "b", want: 2},
		{name: "what others have written is no matter", do: func(i *inventory) { i.wrote("c") }, uid: "b", want: 1},
		{name: "one was made", do: func(i *inventory) { i.changed() }, uid: "b", want: 2},
		{name: "time goes by", do: func(*inventory) { time.Sleep(2 * shareFor) }, late: true, uid: "b", want: 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				i := &inventory{after: map[types.UID]time.Time{}, all: shared[*hcloud.LoadBalancer]{read: func(context.Context) ([]*hcloud.LoadBalancer, error) {
					requests++
					time.Sleep(time.Second)
					return nil, nil
				}}}
				look := func(uid types.UID) {
					if _, err := i.list(t.Context(), uid); err != nil {
						t.Error(err)
					}
				}
				go look("a")
				time.Sleep(time.Millisecond)
				if test.late {
					time.Sleep(2 * time.Second)
				}
				if test.do != nil {
					test.do(i)
				}
				look(test.uid)
				if requests != test.want {
					t.Errorf("%d requests, want %d", requests, test.want)
				}
			})
		})
	}
}
