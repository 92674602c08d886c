package cloud

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// Profile says how long actions run.
type Profile string

// Profiles.
const (
	Instant   Profile = "instant"   // running, then success within a few milliseconds
	Realistic Profile = "realistic" // roughly as long as the real API takes
)

// Access says what a token may do.
type Access int

// Kinds of access.
const (
	ReadWrite Access = iota
	ReadOnly
)

// Config holds what every new project starts with. The zero value is the
// Hetzner Cloud as documented, but with instant actions.
type Config struct {
	Profile   Profile // default Instant
	RateLimit int     // requests per hour and project; 0 means 3600
	Limits    Limits  // how much fits into a project and a network
}

// Limits bounds resources. A zero is replaced by the default.
type Limits struct {
	Servers        int `json:"servers"`         // servers in a project; default 10,000, more than a lab needs
	LoadBalancers  int `json:"load_balancers"`  // load balancers in a project; default 10,000
	NetworkMembers int `json:"network_members"` // servers and load balancers in a network; default 100
	NetworkSubnets int `json:"network_subnets"` // default 50
	NetworkRoutes  int `json:"network_routes"`  // default 100
}

// Cloud is the emulated API with all its projects. It is safe for concurrent
// use; one mutex guards everything, so every answer is a consistent snapshot.
type Cloud struct {
	config Config
	done   chan struct{} // closed by Close

	mu          sync.Mutex
	projects    map[string]*project
	tokens      map[string]token
	anonymous   bucket // the rate limit of callers without a valid token
	ids         map[string]int64
	timers      map[*time.Timer]bool
	subscribers map[chan struct{}]bool
}

type token struct {
	project *project
	access  Access
}

// project is everything that the holders of a project's tokens share.
type project struct {
	sshKeys       map[int64]*schema.SSHKey
	networks      map[int64]*network
	servers       map[int64]*server
	loadBalancers map[int64]*loadBalancer
	primaryIPs    map[int64]*primaryIP
	certificates  map[int64]*certificate
	actions       map[int64]*action

	settings Settings
	bucket   bucket
	journal  []*Request
	faults   []*Fault
}

var _ http.Handler = (*Cloud)(nil)

// New returns a cloud without tokens, and therefore without projects.
func New(config Config) *Cloud {
	config.Profile = cmp.Or(config.Profile, Instant)
	config.RateLimit = cmp.Or(config.RateLimit, 3600)
	config.Limits.Servers = cmp.Or(config.Limits.Servers, 10_000)
	config.Limits.LoadBalancers = cmp.Or(config.Limits.LoadBalancers, 10_000)
	config.Limits.NetworkMembers = cmp.Or(config.Limits.NetworkMembers, 100)
	config.Limits.NetworkSubnets = cmp.Or(config.Limits.NetworkSubnets, 50)
	config.Limits.NetworkRoutes = cmp.Or(config.Limits.NetworkRoutes, 100)
	return &Cloud{
		config:      config,
		done:        make(chan struct{}),
		projects:    map[string]*project{},
		tokens:      map[string]token{},
		anonymous:   newBucket(config.RateLimit),
		timers:      map[*time.Timer]bool{},
		subscribers: map[chan struct{}]bool{},
		// A range of its own for each kind: a client that confuses the ID of a
		// server with that of a network finds nothing, instead of the wrong thing.
		ids: map[string]int64{
			"ssh_key":       1_000_000,
			"network":       2_000_000,
			"server":        3_000_000,
			"load_balancer": 4_000_000,
			"primary_ip":    5_000_000,
			"certificate":   6_000_000,
			"action":        9_000_000,
		},
	}
}

// AddToken lets a token into a project, which is created with its first token.
func (c *Cloud) AddToken(secret, project string, access Access) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[secret] = token{project: c.project(project), access: access}
}

// Servers returns the servers of a project, ordered by ID. The result shares
// no memory with the cloud. An unknown project has no servers.
func (c *Cloud) Servers(project string) []schema.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.project(project)
	servers := []schema.Server{}
	for _, s := range byID(p.servers) {
		servers = append(servers, s.view(p))
	}
	return servers
}

// Subscribe returns a channel that receives after any change of state, also
// when an action ends. Changes that come faster than they are received count
// as one. The subscriber calls cancel when it is no longer interested.
func (c *Cloud) Subscribe() (changed <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers[ch] = true
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscribers, ch)
	}
}

// Close stops all timers, so that running actions stay running, and releases
// the requests that hang because of a fault. It may be called more than once.
func (c *Cloud) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.done:
		return
	default:
	}
	close(c.done)
	for t := range c.timers {
		t.Stop()
	}
	clear(c.timers)
}

// The methods below are called with c.mu held.

func (c *Cloud) project(name string) *project {
	p, ok := c.projects[name]
	if !ok {
		p = &project{
			sshKeys:       map[int64]*schema.SSHKey{},
			networks:      map[int64]*network{},
			servers:       map[int64]*server{},
			loadBalancers: map[int64]*loadBalancer{},
			primaryIPs:    map[int64]*primaryIP{},
			certificates:  map[int64]*certificate{},
			actions:       map[int64]*action{},
			settings:      Settings{Profile: c.config.Profile, RateLimit: c.config.RateLimit, Limits: c.config.Limits},
			bucket:        newBucket(c.config.RateLimit),
		}
		c.projects[name] = p
	}
	return p
}

func (c *Cloud) nextID(kind string) int64 {
	c.ids[kind]++
	return c.ids[kind]
}

// after calls f with c.mu held once d has passed, unless the cloud is closed.
func (c *Cloud) after(d time.Duration, f func()) {
	select {
	case <-c.done:
		return
	default:
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.timers[t] {
			return
		}
		delete(c.timers, t)
		f()
		c.changed()
	})
	c.timers[t] = true
}

func (c *Cloud) changed() {
	for ch := range c.subscribers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// byID returns the values of a map ordered by key.
func byID[T any](m map[int64]T) []T {
	values := make([]T, 0, len(m))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[id])
	}
	return values
}

// now is the time in the API's resolution.
// API reference, all resources: timestamps are RFC 3339 with seconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }
