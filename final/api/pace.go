package api

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// refusedInterval spaces requests after the API has refused one because the
	// quota is used up. At the default quota five seconds refill five requests, so
	// whoever else works in the project gets four of them.
	refusedInterval = 5 * time.Second

	// reserve is the share of the quota that reads leave to writes: a list can
	// wait, a node that must leave a load balancer cannot.
	reserve = 0.1

	// lowInterval spaces reads within the reserve, so that it refills.
	lowInterval = 2 * time.Second
)

// quota is what the API says with each answer: how many requests an hour a
// project has, and how many are left now.
type quota struct {
	limit     int
	remaining int
}

// parseQuota reads the headers RateLimit-Limit and RateLimit-Remaining.
func parseQuota(header http.Header) (q quota, known bool) {
	limit, err := strconv.Atoi(header.Get("RateLimit-Limit"))
	if err != nil || limit <= 0 {
		return quota{}, false
	}
	remaining, err := strconv.Atoi(header.Get("RateLimit-Remaining"))
	return quota{limit: limit, remaining: remaining}, err == nil
}

// pace makes requests wait for their turn when the quota runs low.
type pace struct {
	mu       sync.Mutex
	refused  bool
	low      bool
	next     time.Time     // when the next one may go
	released chan struct{} // closed when nobody needs to wait any more
}

func newPace() *pace { return &pace{released: make(chan struct{})} }

// wait returns when a request may be sent, or with an error when ctx ends.
func (p *pace) wait(ctx context.Context, method string) error {
	for {
		p.mu.Lock()
		interval := p.interval(method)
		now := time.Now()
		delay := p.next.Sub(now)
		if interval == 0 || delay <= 0 {
			if interval > 0 {
				p.next = now.Add(interval)
			}
			p.mu.Unlock()
			return nil
		}
		released := p.released
		p.mu.Unlock()

		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-released:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (p *pace) interval(method string) time.Duration {
	switch {
	case p.refused:
		return refusedInterval
	case p.low && method == http.MethodGet:
		return lowInterval
	}
	return 0
}

// observe learns from an answer.
func (p *pace) observe(status int, q quota, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waited := p.refused || p.low
	switch {
	case status == http.StatusTooManyRequests:
		p.refused = true
		p.next = time.Now().Add(refusedInterval)
	case known || status < http.StatusMultipleChoices: // the latter if a proxy takes the headers away
		p.refused = false
		p.low = known && float64(q.remaining) < reserve*float64(q.limit)
	}
	if waited && !p.refused && !p.low {
		close(p.released)
		p.released = make(chan struct{})
	}
}

// quotaGauges show the quota as metrics.
type quotaGauges struct {
	limit     prometheus.Gauge
	remaining prometheus.Gauge
}

func newQuotaGauges(registry prometheus.Registerer) *quotaGauges {
	g := &quotaGauges{
		limit: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hcloud_api_rate_limit",
			Help: "Requests an hour that the project may send to the API.",
		}),
		remaining: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hcloud_api_rate_limit_remaining",
			Help: "Requests that are left to the project now.",
		}),
	}
	registry.MustRegister(g.limit, g.remaining)
	return g
}

func (g *quotaGauges) set(q quota) {
	g.limit.Set(float64(q.limit))
	g.remaining.Set(float64(q.remaining))
}
