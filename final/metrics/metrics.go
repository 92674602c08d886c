// Package metrics counts what the cloud provider does, and serves the numbers.
// What it counts itself has the names that the official CCM uses.
package metrics

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// Metrics are counters of the cloud provider.
type Metrics struct {
	operations   *prometheus.CounterVec
	serverLookup *prometheus.CounterVec
}

// New returns counters that a registry knows.
func New(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloud_controller_manager_operations_total",
			Help: "Calls of the cloud provider by the controllers.",
		}, []string{"op"}),
		serverLookup: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloud_controller_manager_server_cache_requests_total",
			Help: "Look-ups of servers, and whether they needed no request (hit) or one (miss).",
		}, []string{"mode", "result"}),
	}
	registry.MustRegister(m.operations, m.serverLookup)
	return m
}

// Operation counts one call.
func (m *Metrics) Operation(name string) { m.operations.WithLabelValues(name).Inc() }

// ServerLookup returns a function that counts look-ups in a mode.
func (m *Metrics) ServerLookup(mode string) func(hit bool) {
	return func(hit bool) {
		result := "miss"
		if hit {
			result = "hit"
		}
		m.serverLookup.WithLabelValues(mode, result).Inc()
	}
}

// Serve serves all metrics of the process at an address until ctx ends. It tells
// nobody but the log if it cannot: another process may have the port, and the
// secure port has the same metrics.
func Serve(ctx context.Context, address string) {
	logger := klog.FromContext(ctx)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", legacyregistry.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	listener, err := net.Listen("tcp", address)
	if err != nil {
		logger.Error(err, "No metrics on this address", "address", address)
		return
	}
	logger.Info("Serving metrics", "address", listener.Addr().String())
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "Metrics are no longer served", "address", address)
		}
	}()
}
