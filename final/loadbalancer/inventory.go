package loadbalancer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/apimachinery/pkg/types"
)

// shareFor is how long one list of all load balancers serves Services that have
// not looked at it yet. With that, a restart and a new Node cost one list, not
// one for each Service; and no Service ever looks at something that is older
// than what it has seen or done itself.
const shareFor = 5 * time.Second

// inventory is the list of all load balancers of the project.
type inventory struct {
	client *hcloud.LoadBalancerClient

	mu    sync.Mutex // also held during the request: who waits shares its answer
	lbs   []*hcloud.LoadBalancer
	taken time.Time
	after map[types.UID]time.Time // when a Service has looked or written last
}

// list returns all load balancers, which must not be modified. uid is the
// Service that asks.
func (i *inventory) list(ctx context.Context, uid types.UID) ([]*hcloud.LoadBalancer, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if now.Sub(i.taken) > shareFor || !i.taken.After(i.after[uid]) {
		lbs, err := i.client.All(ctx)
		if err != nil {
			return nil, fmt.Errorf("look up load balancer by label %s=%s: %w", ServiceLabel, uid, err)
		}
		i.lbs, i.taken = lbs, now
	}
	i.after[uid] = time.Now()
	return i.lbs, nil
}

// wrote makes sure that a Service sees what it has done.
func (i *inventory) wrote(uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.after[uid] = time.Now()
}

// changed makes sure that everybody sees which load balancers there are now.
func (i *inventory) changed() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.taken = time.Time{}
}

func (i *inventory) forget(uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.after, uid)
}

// remembered is a list that hardly ever changes.
type remembered[T any] struct {
	read func(context.Context) ([]T, error)

	mu    sync.Mutex
	all   []T
	taken time.Time
}

// list returns the list, which is at most that old.
func (r *remembered[T]) list(ctx context.Context, age time.Duration) ([]T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.taken.IsZero() || now.Sub(r.taken) > age {
		all, err := r.read(ctx)
		if err != nil {
			return nil, err
		}
		r.all, r.taken = all, now
	}
	return r.all, nil
}
