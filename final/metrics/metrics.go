// Package metrics counts what the cloud provider does, and serves the numbers.
// What the official CCM counts as well has the names that it has there.
package metrics

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"example.com/ccm-from-scratch/final/nodes"
)

// Metrics are counters of the cloud provider.
type Metrics struct {
	operations   *prometheus.CounterVec
	errors       *prometheus.CounterVec
	serverLookup *prometheus.CounterVec
	typeLookup   *prometheus.CounterVec
	passes       *prometheus.CounterVec

	mu      sync.Mutex
	failing map[types.UID]bool // Services whose last pass has failed
}

// New returns counters that a registry knows.
func New(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloud_controller_manager_operations_total",
			Help: "Calls of the cloud provider by the controllers.",
		}, []string{"op"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloud_controller_manager_operation_errors_total",
			Help: "Calls of the cloud provider that change routes, and have failed.",
		}, []string{"op"}),
		serverLookup: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloud_controller_manager_server_cache_requests_total",
			Help: "Look-ups of servers, by who looks, and whether they needed no request (hit) or one (miss).",
		}, []string{"subsystem", "mode", "result"}),
		typeLookup: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloud_controller_manager_load_balancer_type_cache_requests_total",
			Help: "Look-ups of load balancer types, and whether they needed no request (hit) or one (miss).",
		}, []string{"subsystem", "mode", "result"}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloud_controller_manager_load_balancer_passes_total",
			Help: "Passes over the load balancers of Services, and whether they succeeded (success) or not (error).",
		}, []string{"result"}),
		failing: map[types.UID]bool{},
	}
	failing := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cloud_controller_manager_failing_load_balancers",
		Help: "Services for whose load balancer the last pass has failed.",
	}, m.countFailing)
	for _, hit := range []bool{true, false} { // few load balancers are large enough for a look-up
		m.typeLookup.WithLabelValues(string(LoadBalancer), "all", result(hit))
	}
	registry.MustRegister(m.operations, m.errors, m.serverLookup, m.typeLookup, m.passes, failing)
	return m
}

// Operation counts one call.
func (m *Metrics) Operation(name string) { m.operations.WithLabelValues(name).Inc() }

// Outcome counts a call that has failed. The route controller reports those that
// change routes to nobody but the Node.
func (m *Metrics) Outcome(name string, err error) {
	if err != nil {
		m.errors.WithLabelValues(name).Inc()
	}
}

// Subsystem is a part of the cloud provider that looks something up. The words are
// those of the official CCM.
type Subsystem string

// Subsystems.
const (
	Instances    Subsystem = "instances"
	LoadBalancer Subsystem = "load_balancer"
	Routing      Subsystem = "routes"
)

type subsystemKey struct{}

// In returns a context in which a subsystem looks something up.
func (s Subsystem) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, subsystemKey{}, s)
}

// ServerLookup returns a function that counts look-ups in a mode.
func (m *Metrics) ServerLookup(mode string) func(ctx context.Context, hit bool) {
	return func(ctx context.Context, hit bool) {
		subsystem, ok := ctx.Value(subsystemKey{}).(Subsystem)
		if !ok {
			subsystem = "none"
		}
		m.serverLookup.WithLabelValues(string(subsystem), mode, result(hit)).Inc()
	}
}

// TypeLookup counts a look-up of a load balancer type in the list of all of them.
func (m *Metrics) TypeLookup(hit bool) {
	m.typeLookup.WithLabelValues(string(LoadBalancer), "all", result(hit)).Inc()
}

func result(hit bool) string {
	if hit {
		return "hit"
	}
	return "miss"
}

// LoadBalancer counts a pass over the load balancer of a Service. A Service counts
// as failing until a pass succeeds, be it the one that deletes its load balancer.
func (m *Metrics) LoadBalancer(service types.UID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.passes.WithLabelValues("error").Inc()
		m.failing[service] = true
		return
	}
	m.passes.WithLabelValues("success").Inc()
	delete(m.failing, service)
}

func (m *Metrics) countFailing() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(len(m.failing))
}

// Nodes lets a registry count the Nodes that wait to be initialized. What the node
// controller measures tells of a Node only once it waits no more.
func Nodes(registry prometheus.Registerer, lister corelisters.NodeLister) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cloud_controller_manager_uninitialized_nodes",
		Help: "Nodes that wait to be initialized. No Pod runs on them but those that tolerate it.",
	}, func() float64 {
		all, _ := lister.List(labels.Everything()) // from memory, and never an error
		count := 0
		for _, node := range all {
			if nodes.Uninitialized(node) {
				count++
			}
		}
		return float64(count)
	}))
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
