// Package servers answers questions about the servers of a project with as few
// requests as it can. All parts of the process share one Servers.
//
// The list of all servers costs one request for each 50 of them, however many
// are asked for, so it serves everybody: who asks while it is being read waits
// for the same answer. What is only missing from the list is not gone, for the
// list may be old or incomplete. It is looked up on its own.
package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"golang.org/x/sync/singleflight"
)

// ErrNotFound says that there is no server with an ID or a name.
var ErrNotFound = errors.New("not found")

// ErrDoubt says that a server was not found, but nor was any other: the answer
// may be that of another project, or of something else than the API.
var ErrDoubt = errors.New("none of the other servers was found either")

// Mode says how servers are looked up.
type Mode string

// Modes, as in HCLOUD_SERVER_CACHE_MODE.
const (
	All Mode = "all" // lists are preferred
	One Mode = "one" // each server is read, and remembered, alone
	Off Mode = "off" // nothing is remembered
)

const (
	// pageSize is the most that the API puts on one page.
	pageSize = 50

	// JustNow is an age that serves many who ask at the same time. It counts even
	// where Options.MaxAge is more: for those who would otherwise destroy something.
	JustNow = time.Second

	// A name that no server has is asked for again and again, by every Node that is
	// not ours. Each answer is good for longer than the one before.
	minNameWait = 5 * time.Second
	maxNameWait = 2 * time.Minute

	// After a list has failed, everybody gets the same error for a while.
	minFailureWait = time.Second
	maxFailureWait = 10 * time.Second

	// witnesses is how many other servers are asked for before a server that was
	// not found counts as gone.
	witnesses = 3

	// calmPerPage and maxCalm bound the ages of Calm and Patience. Every five minutes
	// the node controller asks about all Nodes, so after a little more than that
	// there is a new list anyway.
	calmPerPage = 20 * time.Second
	nodePeriod  = 5 * time.Minute
	maxCalm     = nodePeriod + time.Minute

	// hourly is how many requests an hour may be spent on servers where nothing is
	// created or deleted. What is not needed for lists is for Glance.
	hourly = 280

	// listTimeout bounds the reading of a list. It goes on when the one who asked
	// first has lost interest, since others wait for it.
	listTimeout = 5 * time.Minute
)

// Options configure Servers.
type Options struct {
	Mode   Mode
	MaxAge time.Duration // no answer needs to be newer, unless it may destroy something

	// Observe, if set, is told of each look-up, with its context, whether a request
	// was needed.
	Observe func(ctx context.Context, hit bool)
}

// Servers is safe for concurrent use. The servers that it returns are shared, and
// must not be changed.
type Servers struct {
	client  *hcloud.ServerClient
	options Options
	flight  singleflight.Group

	mu       sync.Mutex
	known    map[int64]record
	names    map[string]absence
	listed   time.Time // when the last list was asked for; zero if there is none
	pages    int       // of the last list
	reads    int       // of single servers since then
	failure  error     // of the last list
	failedAt time.Time
	failWait time.Duration
	spent    float64 // requests of Glance that count against its allowance
	spentAt  time.Time
}

// record is what is known of an ID since a time. A nil server was not found.
type record struct {
	server *hcloud.Server
	at     time.Time
}

// absence says that no server had a name at a time, and for how long to believe it.
type absence struct {
	at   time.Time
	wait time.Duration
}

// New returns the servers that a client sees.
func New(client *hcloud.Client, o Options) *Servers {
	if o.Observe == nil {
		o.Observe = func(context.Context, bool) {}
	}
	return &Servers{client: &client.Server, options: o, known: map[int64]record{}, names: map[string]absence{}, pages: 1}
}

// List returns all servers, in the order of their IDs, as they were at most age
// ago. It may lack a server that exists.
func (s *Servers) List(ctx context.Context, age time.Duration) ([]*hcloud.Server, error) {
	if err := s.list(ctx, age); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var servers []*hcloud.Server
	for _, r := range s.known {
		if r.server != nil {
			servers = append(servers, r.server)
		}
	}
	slices.SortFunc(servers, func(a, b *hcloud.Server) int { return int(a.ID - b.ID) })
	return servers, nil
}

// Calm is an age at which a list that is asked for all the time costs no more than
// 180 requests an hour, or 12 lists.
func (s *Servers) Calm() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(time.Duration(s.pages)*calmPerPage, maxCalm)
}

// Patience is how old an answer may be about a server that something happened to
// so long ago, for those who ask until it happens again. What has not happened in
// an hour will hardly happen in the next seconds, so questions become rarer with
// time, and more so where they cost more: with a list of one page, an answer may
// be a quarter as old as that, with four or more pages as old.
func (s *Servers) Patience(since time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(0, since)/4*time.Duration(min(s.pages, 4)), maxCalm)
}

// ByID returns a server as it was at most age ago, with the list at hand: it is
// for those who ask for all servers one after the other. The error wraps
// ErrNotFound if the API has said so for this ID.
func (s *Servers) ByID(ctx context.Context, id int64, age time.Duration) (*hcloud.Server, error) {
	if s.options.Mode == All {
		if err := s.list(ctx, age); err != nil {
			return nil, err
		}
	}
	return s.find(ctx, id, age, true)
}

// Listed is ByID for those who can live with a gap in the list: what is not in it
// is not found, and costs no request of its own.
func (s *Servers) Listed(ctx context.Context, id int64, age time.Duration) (*hcloud.Server, error) {
	if s.options.Mode == All {
		if err := s.list(ctx, age); err != nil {
			return nil, err
		}
	}
	return s.find(ctx, id, age, false)
}

// Glance is ByID for those who ask for few servers: it reads a long list only
// where that is cheaper. For it, a server that is not in the list is not found,
// and may exist nevertheless.
//
// Its allowance serves a few Nodes that are lost at once, or many now and then.
// When a whole data center is lost, bit by bit, answers are as old as Calm allows.
func (s *Servers) Glance(ctx context.Context, id int64, age time.Duration) (*hcloud.Server, error) {
	if _, ok := s.remembered(id, age, false); !ok && !s.afford() {
		age = maxCalm
	}
	return s.find(ctx, id, age, false)
}

// afford tells whether Glance may send its next request, and then charges it. Half
// of the allowance of an hour can be spent at once, and comes back in an hour: so
// no hour, whenever it begins, has more than all of it.
func (s *Servers) afford() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists := max(time.Hour/calmPerPage, time.Duration(s.pages)*time.Hour/nodePeriod)
	half := float64(max(hourly-int(lists), s.pages)) / 2
	s.spent = max(0, s.spent-half*time.Since(s.spentAt).Hours())
	s.spentAt = time.Now()
	cost := 1.0
	if s.options.Mode == All && s.listIsCheaper() {
		cost = float64(s.pages)
	}
	if s.spent+cost > half {
		return false
	}
	s.spent += cost
	return true
}

// ByName returns the server with a name, exactly. The error wraps ErrNotFound if
// there is none, or was none a moment ago.
func (s *Servers) ByName(ctx context.Context, name string) (*hcloud.Server, error) {
	if s.options.Mode == All {
		if err := s.list(ctx, s.options.MaxAge); err != nil {
			return nil, err
		}
		if server := s.Named(name); server != nil {
			return server, nil
		}
	}
	s.mu.Lock()
	absent, again := s.names[name]
	cheap := s.listIsCheaper()
	s.mu.Unlock()
	if s.options.Mode != Off && again && time.Since(absent.at) < absent.wait {
		s.options.Observe(ctx, true)
		return nil, fmt.Errorf("server with name %q: %w", name, ErrNotFound)
	}

	asked := time.Now()
	var server *hcloud.Server
	if s.options.Mode == All && (!again || cheap) {
		if err := s.list(ctx, JustNow); err != nil {
			return nil, err
		}
		server = s.Named(name)
	} else {
		var err error
		if server, err = s.readName(ctx, name); err != nil {
			return nil, err
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if server == nil {
		wait := min(max(2*absent.wait, minNameWait), maxNameWait)
		s.names[name] = absence{at: asked, wait: wait}
		return nil, fmt.Errorf("server with name %q: %w", name, ErrNotFound)
	}
	delete(s.names, name)
	return server, nil
}

// Similar returns the names that somebody may have meant who asked for name:
// equal but for case, or with or without a domain. It asks nobody.
func (s *Servers) Similar(name string) []string {
	host, _, _ := strings.Cut(name, ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	var similar []string
	for _, r := range s.known {
		if r.server == nil || r.server.Name == name {
			continue
		}
		if other, _, _ := strings.Cut(r.server.Name, "."); strings.EqualFold(host, other) {
			similar = append(similar, r.server.Name)
		}
	}
	slices.Sort(similar)
	return similar
}

// Gone tells whether a server is certainly gone: the API says so now, for its ID,
// and has just found another one of those that must be in the same project. The
// error wraps ErrDoubt if it finds none of them. Which others are asked for is
// taken from a list of that age at most.
func (s *Servers) Gone(ctx context.Context, id int64, others []int64, age time.Duration) (bool, error) {
	others = slices.DeleteFunc(slices.Clone(others), func(other int64) bool { return other == id })
	for _, age := range s.ages(age) {
		asked, err := s.askable(ctx, others, age)
		if err != nil {
			return false, err
		}
		if len(asked) == 0 {
			break
		}
		if _, err := s.read(ctx, id); !errors.Is(err, ErrNotFound) {
			return false, err
		}
		if err := s.anyOf(ctx, asked); !errors.Is(err, ErrNotFound) {
			return err == nil, err
		}
	}
	return false, fmt.Errorf("server with ID %d was not found: %w", id, ErrDoubt)
}

// Witness returns no error if the API finds one of the servers now, so that what
// else it does not find is not there. The error wraps ErrDoubt if it finds none.
// If there are none to ask for, nothing is in doubt.
func (s *Servers) Witness(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	for _, age := range s.ages(maxCalm) {
		asked, err := s.askable(ctx, ids, age)
		if err != nil {
			return err
		}
		if err := s.anyOf(ctx, asked); !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return fmt.Errorf("server with ID %d was not found: %w", ids[0], ErrDoubt)
}

// ages are how old the lists may be, one after the other, from which witnesses are
// taken. All of those in an older list may be gone.
func (s *Servers) ages(first time.Duration) []time.Duration {
	if s.options.Mode == All {
		return []time.Duration{first, JustNow}
	}
	return []time.Duration{first}
}

// askable returns a few of ids: of those that are in the list, if there is one.
func (s *Servers) askable(ctx context.Context, ids []int64, age time.Duration) ([]int64, error) {
	if s.options.Mode == All {
		if err := s.list(ctx, age); err != nil {
			return nil, err
		}
		ids = s.alive(ids)
	}
	return ids[:min(witnesses, len(ids))], nil
}

// anyOf returns no error if one of the servers exists now, and one that wraps
// ErrNotFound if none does.
func (s *Servers) anyOf(ctx context.Context, ids []int64) error {
	for _, id := range ids {
		if _, err := s.read(ctx, id); !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return ErrNotFound
}

// alive returns those of ids that existed when last heard of. After a list from
// the wrong project, that is none.
func (s *Servers) alive(ids []int64) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var alive []int64
	for _, id := range ids {
		if s.known[id].server != nil {
			alive = append(alive, id)
		}
	}
	return alive
}

// find returns a server. With confirm, its absence is more than a gap in a list.
func (s *Servers) find(ctx context.Context, id int64, age time.Duration, confirm bool) (*hcloud.Server, error) {
	if r, ok := s.remembered(id, age, confirm); ok {
		s.options.Observe(ctx, true)
		return r.result(id)
	}
	s.mu.Lock()
	list := s.options.Mode == All && s.listIsCheaper()
	s.mu.Unlock()
	if list {
		if err := s.list(ctx, JustNow); err != nil {
			return nil, err
		}
		if r, ok := s.remembered(id, max(age, JustNow), confirm); ok {
			return r.result(id)
		}
	}
	return s.read(ctx, id)
}

// remembered returns what is known of a server, if that is new enough.
func (s *Servers) remembered(id int64, age time.Duration, confirm bool) (record, bool) {
	if s.options.Mode == Off {
		return record{}, false
	}
	age = max(age, s.options.MaxAge)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.known[id]; ok && time.Since(r.at) <= age {
		return r, true
	}
	if !confirm && !s.listed.IsZero() && time.Since(s.listed) <= age {
		return record{at: s.listed}, true
	}
	return record{}, false
}

func (r record) result(id int64) (*hcloud.Server, error) {
	if r.server == nil {
		return nil, fmt.Errorf("server with ID %d: %w", id, ErrNotFound)
	}
	return r.server, nil
}

// listIsCheaper tells whether a list costs no more than what has been spent on
// single servers since the last one. Both together cost at most twice as much as
// the better one would have. s.mu is held.
func (s *Servers) listIsCheaper() bool { return s.reads+1 >= s.pages }

// read asks for one server.
func (s *Servers) read(ctx context.Context, id int64) (*hcloud.Server, error) {
	s.options.Observe(ctx, false)
	at := time.Now()
	server, _, err := s.client.GetByID(ctx, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if err != nil {
		return nil, err
	}
	r := record{server: server, at: at}
	s.known[id] = r
	return r.result(id)
}

// readName asks for the server with a name, nil if there is none.
func (s *Servers) readName(ctx context.Context, name string) (*hcloud.Server, error) {
	s.options.Observe(ctx, false)
	at := time.Now()
	server, _, err := s.client.GetByName(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if err != nil || server == nil {
		return nil, err
	}
	s.known[server.ID] = record{server: server, at: at}
	return server, nil
}

// Named returns the server with a name if the last list had one, else nil. It asks
// nobody.
func (s *Servers) Named(name string) *hcloud.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.known {
		if r.server != nil && r.server.Name == name {
			return r.server
		}
	}
	return nil
}

// list reads the list of all servers unless the last one is new enough. After a
// failure it returns the same error for a while.
func (s *Servers) list(ctx context.Context, age time.Duration) error {
	if age != JustNow {
		age = max(age, s.options.MaxAge)
	}
	s.mu.Lock()
	fresh := s.options.Mode != Off && !s.listed.IsZero() && time.Since(s.listed) <= age
	failure := s.failure
	if time.Since(s.failedAt) > s.failWait {
		failure = nil
	}
	s.mu.Unlock()
	s.options.Observe(ctx, fresh)
	switch {
	case fresh:
		return nil
	case failure != nil:
		return failure
	}

	done := s.flight.DoChan("list", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
		defer cancel()
		at := time.Now()
		servers, err := s.client.AllWithOpts(ctx, hcloud.ServerListOpts{ListOpts: hcloud.ListOpts{PerPage: pageSize}})
		s.store(servers, at, err)
		return nil, err
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// store keeps a list that was asked for at a time, or its error.
func (s *Servers) store(servers []*hcloud.Server, at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failure, s.failedAt = err, time.Now()
		s.failWait = min(max(2*s.failWait, minFailureWait), maxFailureWait)
		return
	}
	s.failure, s.failWait = nil, 0
	s.listed, s.reads = at, 0
	s.pages = max(1, (len(servers)+pageSize-1)/pageSize)

	known := make(map[int64]record, len(servers))
	for _, server := range servers {
		known[server.ID] = record{server: server, at: at}
	}
	// What was asked for while the list was on its way is newer.
	for id, r := range s.known {
		if r.at.After(at) {
			known[id] = r
		}
	}
	s.known = known
}
