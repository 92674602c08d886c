// Package api makes the client for the Hetzner Cloud API: one that knows the
// current token, counts what it asks, and goes easy on what is left of the quota.
package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/prometheus/client_golang/prometheus"
)

// requestTimeout bounds one request, from the moment it is sent until its answer
// has been read. The time that it waits for its turn does not count. The
// controllers set no deadline of their own.
const requestTimeout = 15 * time.Second

// Options say which API to talk to, and how.
type Options struct {
	Endpoint  string // empty for the public one
	Token     string
	TokenFile string    // if set, holds the token instead, and is read for each request
	Debug     io.Writer // if set, gets requests and answers, without the token and private keys
	Registry  prometheus.Registerer
}

// New returns a client.
func New(o Options) *hcloud.Client {
	options := []hcloud.ClientOption{
		hcloud.WithApplication("ccm-from-scratch", ""),
		hcloud.WithHTTPClient(&http.Client{Transport: &transport{
			base:      http.DefaultTransport.(*http.Transport).Clone(),
			token:     o.Token,
			tokenFile: o.TokenFile,
			pace:      newPace(),
			quota:     newQuotaGauges(o.Registry),
		}}),
		hcloud.WithInstrumentation(o.Registry),
	}
	if o.Endpoint != "" {
		options = append(options, hcloud.WithEndpoint(o.Endpoint))
	}
	if o.Debug != nil {
		options = append(options, hcloud.WithDebugWriter(discreet{o.Debug}))
	}
	return hcloud.NewClient(options...)
}

// transport sends the requests of all parts of the process. The client that uses
// it has no token, so that there is nothing that it could show to anyone.
type transport struct {
	base      http.RoundTripper
	token     string
	tokenFile string
	pace      *pace
	quota     *quotaGauges
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.pace.wait(request.Context(), request.Method); err != nil {
		return nil, err
	}
	token, err := t.currentToken()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(request.Context(), requestTimeout)
	request = request.Clone(ctx)
	request.Header.Set("Authorization", "Bearer "+token)

	response, err := t.base.RoundTrip(request)
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &body{ReadCloser: response.Body, done: cancel}
	if response.StatusCode == http.StatusTooManyRequests {
		if err := refuse(response); err != nil {
			return nil, err
		}
	}
	quota, known := parseQuota(response.Header)
	t.pace.observe(response.StatusCode, quota, known)
	if known {
		t.quota.set(quota)
	}
	return response, nil
}

// refusal is what an answer says that refuses a request because of the quota. The
// API's own words may quote a part of the token, and errors become events.
const refusal = `{"error":{"code":"rate_limit_exceeded","message":"the project has used up its requests for now"}}`

// refuse replaces the body of an answer by the refusal.
func refuse(response *http.Response) error {
	err := response.Body.Close()
	response.Body, response.ContentLength = io.NopCloser(strings.NewReader(refusal)), int64(len(refusal))
	response.Header.Set("Content-Type", "application/json")
	return err
}

// currentToken reads the file each time: that costs nothing beside a request, and
// a new token works with the next request.
func (t *transport) currentToken() (string, error) {
	if t.tokenFile == "" {
		return t.token, nil
	}
	content, err := os.ReadFile(t.tokenFile)
	if err != nil {
		return "", fmt.Errorf("read the API token: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// body ends the deadline of a request when its answer has been read.
type body struct {
	io.ReadCloser
	done func()
}

func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// discreet is a writer that leaves out the private keys of certificates.
type discreet struct{ io.Writer }

var privateKey = regexp.MustCompile(`("private_key":\s*")(\\.|[^"\\])*`)

// Write gets a whole request, or a whole answer.
func (d discreet) Write(dump []byte) (int, error) {
	if _, err := d.Writer.Write(privateKey.ReplaceAll(dump, []byte("${1}..."))); err != nil {
		return 0, err
	}
	return len(dump), nil
}
