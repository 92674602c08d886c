package cloud

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// bucket is a rate limit: limit requests in one burst, refilled evenly over an
// hour. API reference, rate limiting.
type bucket struct {
	limit  float64
	tokens float64
	filled time.Time
}

func newBucket(limit int) bucket {
	return bucket{limit: float64(limit), tokens: float64(limit), filled: time.Now()}
}

// take uses up one request and reports whether there was one left.
func (b *bucket) take() bool {
	b.refill()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func (b *bucket) refill() {
	t := time.Now()
	b.tokens = min(b.limit, b.tokens+b.limit*t.Sub(b.filled).Hours())
	b.filled = t
}

// setHeaders tells the state of the bucket.
// API reference, rate limiting: RateLimit-Reset is the Unix time at which the
// bucket is full again.
func (b *bucket) setHeaders(h http.Header) {
	missing := time.Duration((b.limit - b.tokens) / b.limit * float64(time.Hour))
	reset := b.filled.Add(missing + time.Second - 1).Unix()
	h.Set("RateLimit-Limit", strconv.Itoa(int(b.limit)))
	h.Set("RateLimit-Remaining", strconv.Itoa(int(math.Floor(b.tokens))))
	h.Set("RateLimit-Reset", strconv.FormatInt(reset, 10))
}

// exceeded is the answer to requests over the limit. The wording was seen live.
func (b *bucket) exceeded() *apiError {
	return failure(http.StatusTooManyRequests, "rate_limit_exceeded", "limit of %.0f requests per hour reached", b.limit)
}
