// Package bench measures what a cloud-controller-manager costs: requests to the
// cloud, time, and memory.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"example.com/ccm-from-scratch/lab/cloud"
	"example.com/ccm-from-scratch/lab/stack"
)

const (
	// quietFor is how long a CCM sends nothing before we take it to be done.
	quietFor = 3 * time.Second
	// quietWithin bounds the wait for that: some CCMs are never quiet.
	quietWithin = 5 * quietFor
	// defaultCalm is longer than the period of the route controller: 10 s by
	// default, 30 s in CCMs that are careful with requests.
	defaultCalm = 35 * time.Second

	pollInterval = 50 * time.Millisecond
)

// Options say what is measured, and how long.
type Options struct {
	CCM      string        // name of the CCM, for the results
	Binary   string        // path of the CCM
	Idle     time.Duration // how long the scenario idle watches
	Deadline time.Duration // how long a CCM may come no nearer to what a scenario expects of it
	Log      io.Writer     // what we wait for; nil means nobody wants to know

	// Calm is how long a CCM must have changed nothing in the cloud before the
	// scenario idle begins to count; 0 means 35 s.
	Calm time.Duration
}

// Result is what one scenario has shown about one CCM.
type Result struct {
	CCM      string `json:"ccm"`
	Scenario string `json:"scenario"`
	Settled  bool   `json:"settled"` // what the scenario expects has happened
	Note     string `json:"note,omitempty"`

	// Until it had happened. Zero if it has not.
	Seconds float64 `json:"seconds"`

	// Requests to the cloud until the CCM was quiet, as the journal counts them.
	Reads  int `json:"reads"`
	Writes int `json:"writes"`
	Polls  int `json:"polls"`

	// The most memory that the process ever had, in bytes. Zero if unknown.
	PeakMemory int64 `json:"peak_memory"`
}

// run is a scenario under way.
type run struct {
	options  Options
	stack    *stack.Stack
	client   kubernetes.Interface
	cloud    *hcloud.Client
	nodes    corelisters.NodeLister
	services corelisters.ServiceLister
	unwatch  func() // ends what keeps nodes and services up to date

	ccm     *stack.CCM
	logPath string
	memory  atomic.Int64

	begin time.Time // of what is measured
	taken time.Duration
}

// unsettled is the error of a CCM that has not done what was expected of it.
type unsettled string

func (u unsettled) Error() string { return string(u) }

// Run runs one of Scenarios in a lab of its own. That a CCM cannot do what the
// scenario expects is a result and no error.
func Run(ctx context.Context, o Options, scenario string) (_ Result, err error) {
	s, err := find(scenario)
	if err != nil {
		return Result{}, err
	}
	r, err := newRun(ctx, o)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, r.close()) }()

	result := Result{CCM: o.CCM, Scenario: scenario}
	err = s.run(ctx, r)
	if missing, ok := errors.AsType[unsettled](err); ok {
		result.Note = string(missing)
	} else if err != nil {
		return Result{}, fmt.Errorf("%s: %w", scenario, err)
	} else {
		result.Settled, result.Seconds = true, r.taken.Round(time.Millisecond).Seconds()
	}
	for _, request := range r.requests() {
		switch request.Kind {
		case cloud.Read:
			result.Reads++
		case cloud.Write:
			result.Writes++
		case cloud.Poll:
			result.Polls++
		}
	}
	result.PeakMemory = r.memory.Load()
	return result, nil
}

func newRun(ctx context.Context, o Options) (_ *run, err error) {
	o.Calm = cmp.Or(o.Calm, defaultCalm)
	r := &run{options: o}
	dir, err := os.MkdirTemp("", "ccm-lab-bench-")
	if err != nil {
		return nil, err
	}
	r.logPath = filepath.Join(dir, "ccm.log")
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.stack, err = stack.Start(ctx, stack.Options{Log: o.Log, RealPeriods: true}); err != nil {
		return nil, err
	}
	if r.client, err = kubernetes.NewForConfig(r.stack.Cluster.Config()); err != nil {
		return nil, err
	}
	r.cloud = r.stack.Client()
	watching, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(r.client, 0)
	r.unwatch = func() { cancel(); factory.Shutdown() }
	r.nodes, r.services = factory.Core().V1().Nodes().Lister(), factory.Core().V1().Services().Lister()
	factory.Start(watching.Done())
	factory.WaitForCacheSync(watching.Done())
	return r, ctx.Err()
}

// close ends what is left. How a CCM ends is not measured.
func (r *run) close() error {
	if r.ccm != nil {
		r.ccm.Kill()
	}
	if r.unwatch != nil {
		r.unwatch()
	}
	err := os.RemoveAll(filepath.Dir(r.logPath))
	if r.stack != nil {
		err = errors.Join(err, r.stack.Stop())
	}
	return err
}

// start begins the measurement: what the CCM did before does not count.
func (r *run) start() { r.begin = time.Now() }

// startCCM starts the CCM, with more environment and flags if given.
func (r *run) startCCM(ctx context.Context, env, flags []string) (err error) {
	r.ccm, err = r.stack.StartCCM(r.options.Binary, r.logPath, r.stack.Cluster.Kubeconfig(), env, flags)
	if err != nil {
		return err
	}
	go r.watchMemory(ctx)
	return nil
}

// settle waits until nothing is missing, notes how long it took since start,
// and lets the CCM finish what it is about.
func (r *run) settle(ctx context.Context, missing func(context.Context) string) error {
	if err := r.wait(ctx, r.options.Deadline, missing); err != nil {
		return err
	}
	settled := time.Now()
	r.taken = settled.Sub(r.begin)
	err := r.wait(ctx, quietWithin, func(context.Context) string { return r.noise(settled) })
	if _, busy := errors.AsType[unsettled](err); busy {
		return nil
	}
	return err
}

// wait returns when nothing is missing. It returns an unsettled that says what is
// if the CCM ends, or if nothing else has been missing for as long as deadline.
func (r *run) wait(ctx context.Context, deadline time.Duration, missing func(context.Context) string) error {
	seen := map[string]bool{}
	var since time.Time
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		what := missing(ctx)
		if what == "" {
			return nil
		}
		if !seen[what] {
			seen[what], since = true, time.Now()
		}
		if time.Since(since) > deadline {
			return unsettled(fmt.Sprintf("no progress for %s: %s", deadline, what))
		}
		if r.ccm != nil {
			if code, exited := r.ccm.Exited(); exited {
				return unsettled(fmt.Sprintf("the CCM ended with exit code %d: %s", code, r.lastLogLine()))
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// requests returns the CCM's requests since start.
func (r *run) requests() (requests []cloud.Request) {
	for _, request := range r.stack.Cloud.Requests(stack.Project) {
		if !request.Time.Before(r.begin) {
			requests = append(requests, request)
		}
	}
	return requests
}

// noise is empty once the CCM has sent nothing for a while, counted from since
// or from its last request.
func (r *run) noise(since time.Time) string {
	if last := r.lastRequest(); last.After(since) {
		since = last
	}
	if time.Since(since) < quietFor {
		return "requests to the cloud go on"
	}
	return ""
}

// unrest is empty once the CCM has changed nothing in the cloud for a while.
func (r *run) unrest() string {
	for _, request := range r.requests() {
		if request.Kind != cloud.Read && time.Since(request.Time) < r.options.Calm {
			return "changes in the cloud go on"
		}
	}
	if time.Since(r.begin) < r.options.Calm {
		return "changes in the cloud may come"
	}
	return ""
}

// lastRequest is the time of the last request since start, the zero time if
// there was none.
func (r *run) lastRequest() time.Time {
	requests := r.requests()
	if len(requests) == 0 {
		return time.Time{}
	}
	return requests[len(requests)-1].Time
}

func (r *run) lastLogLine() string {
	log, err := os.ReadFile(r.logPath)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return lines[len(lines)-1]
}
