package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"
)

// shareFor is how long one list of all load balancers serves Services that have
// not looked at it yet. With that, a restart and a new Node cost one list, not
// one for each Service; and no Service ever looks at something that is older
// than what it has seen or done itself.
const shareFor = 5 * time.Second

// inventory is the list of all load balancers of the project.
type inventory struct {
	all shared[*hcloud.LoadBalancer]

	mu    sync.Mutex
	after map[types.UID]time.Time // when a Service has looked or written last
}

// list returns all load balancers, which must not be modified. uid is the
// Service that asks.
func (i *inventory) list(ctx context.Context, uid types.UID) ([]*hcloud.LoadBalancer, error) {
	i.mu.Lock()
	after := latest(time.Now().Add(-shareFor), i.after[uid])
	i.mu.Unlock()
	lbs, err := i.all.after(ctx, after)
	if err != nil {
		return nil, fmt.Errorf("look up load balancer by label %s=%s: %w", ServiceLabel, uid, err)
	}
	i.wrote(uid) // a Service that looks twice wants to know
	return lbs, nil
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// wrote makes sure that a Service sees what it has done.
func (i *inventory) wrote(uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.after[uid] = time.Now()
}

// changed makes sure that everybody sees which load balancers there are now.
func (i *inventory) changed() { i.all.forget() }

func (i *inventory) forget(uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.after, uid)
}

// shared is a list that many ask for. Who asks while it is being read waits for
// the same answer, or error, and no longer than its own context allows.
type shared[T any] struct {
	read    func(context.Context) ([]T, error)
	observe func(hit bool) // told of each look-up, if there is one
	flight  singleflight.Group

	mu        sync.Mutex
	all       []T
	taken     time.Time // when it was asked for
	forgotten time.Time // what was asked for before is outdated
}

// after returns the list as it was at some time after that one.
func (s *shared[T]) after(ctx context.Context, when time.Time) ([]T, error) {
	for first := true; ; first = false {
		s.mu.Lock()
		all, good := s.all, s.taken.After(latest(when, s.forgotten))
		s.mu.Unlock()
		if first && s.observe != nil {
			s.observe(good)
		}
		if good {
			return all, nil
		}
		done := s.flight.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), passTimeout)
			defer cancel()
			now := time.Now()
			all, err := s.read(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			if err == nil {
				s.all, s.taken = all, now
			}
			return nil, err
		})
		select {
		case result := <-done:
			if result.Err != nil {
				return nil, result.Err
			}
			// It may have been asked for too early: then once more.
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// younger returns the list as it was less than an age ago.
func (s *shared[T]) younger(ctx context.Context, age time.Duration) ([]T, error) {
	return s.after(ctx, time.Now().Add(-age))
}

// forget makes the next one who asks see what has just been changed.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = time.Now()
}
