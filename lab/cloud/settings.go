package cloud

import "net/http"

// Settings are what can be changed in a project while the cloud runs.
type Settings struct {
	Profile       Profile `json:"profile"`
	RateLimit     int     `json:"rate_limit"`     // requests per hour; a change fills the bucket
	RateRemaining int     `json:"rate_remaining"` // requests left now
	Limits        Limits  `json:"limits"`
	StrictRoutes  bool    `json:"strict_routes"` // destinations of routes must lie in the network's ip_range
}

var settingsRoutes = routes{
	"GET /settings": {http.StatusOK, getSettings},
	"PUT /settings": {http.StatusOK, putSettings},
}

func getSettings(r *request) (any, error) {
	r.project.bucket.refill()
	settings := r.project.settings
	settings.RateRemaining = int(r.project.bucket.tokens)
	return settings, nil
}

// putSettings changes what the body names and leaves the rest.
func putSettings(r *request) (any, error) {
	p := r.project
	p.bucket.refill()
	in := p.settings
	in.RateRemaining = -1 // means: not in the body
	if err := r.decodeStrict(&in); err != nil {
		return nil, err
	}
	switch {
	case in.Profile != Instant && in.Profile != Realistic:
		return nil, invalid("profile", "must be %s or %s", Instant, Realistic)
	case in.RateLimit < 1:
		return nil, invalid("rate_limit", "must be at least 1")
	case in.RateRemaining < -1 || in.RateRemaining > in.RateLimit:
		return nil, invalid("rate_remaining", "must be from 0 to the rate limit")
	case min(in.Limits.Servers, in.Limits.LoadBalancers, in.Limits.NetworkMembers, in.Limits.NetworkSubnets, in.Limits.NetworkRoutes) < 0:
		return nil, invalid("limits", "must not be negative")
	}
	if in.RateLimit != p.settings.RateLimit {
		p.bucket = newBucket(in.RateLimit)
	}
	if in.RateRemaining >= 0 {
		p.bucket.tokens = float64(in.RateRemaining)
	}
	p.settings = in
	return getSettings(r)
}
