package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"example.com/ccm-from-scratch/final/events"
)

// Options are what a Reconciler works with.
type Options struct {
	Client   *hcloud.Client
	Network  *hcloud.Network // to attach load balancers to; nil if none is configured
	Defaults Defaults
	Events   *events.Recorder

	// Cluster returns the identity of this cluster, which no other one has.
	Cluster func(context.Context) (string, error)
	// Owner returns the name of the Service of this cluster that has a UID, and
	// whether there is one.
	Owner func(types.UID) (name string, exists bool)
	// Current returns what is known of a Service and the Nodes now. A pass may have
	// waited for another one, and must not bring back what was true before.
	Current func(*corev1.Service, []*corev1.Node) (*corev1.Service, []*corev1.Node)
	// SameProject returns an error unless the API shows the project of this cluster's
	// servers now. In another one, nothing is to be made, and what is missing may be
	// where it always was.
	SameProject func(context.Context) error
	// Secret returns a Secret of this cluster. NewRepair sets it.
	Secret func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// Observe is told how each pass for a Service has ended. It may be nil.
	Observe func(service types.UID, err error)
	// TypeLookup is told of each look-up of a type whether it needed no request. It
	// may be nil.
	TypeLookup func(hit bool)
	// Again asks for another pass for a Service, after a while. NewRepair sets it.
	Again func(service *corev1.Service, after time.Duration)
}

// Reconciler makes load balancers what Services ask for. It may be used by many
// goroutines; passes for the same Service wait for each other.
type Reconciler struct {
	Options
	inventory    inventory
	types        shared[*hcloud.LoadBalancerType]
	certificates shared[*hcloud.Certificate]
	issuance     *flowcontrol.Backoff // by ID of a managed certificate

	mu     sync.Mutex // for passes, and for what each has claimed
	passes map[types.UID]*pass
}

// pass is what is known of a Service between two passes.
type pass struct {
	mu      sync.Mutex
	warned  map[Warning]bool
	deleted bool          // or about to be, and no Ensure since
	tidy    bool          // no certificate of ours is there that nobody uses
	wait    time.Duration // before the next look at what the cloud is busy with
	claimed int64         // ID of the load balancer that it has, or is about to have
}

// later returns when to look again at what the cloud is busy with: ever more
// rarely, until something has happened.
func (p *pass) later(first time.Duration) time.Duration {
	p.wait = min(max(first, 2*p.wait), maxDelay)
	return p.wait
}

// New returns a Reconciler. It sends no request yet.
func New(o Options) *Reconciler {
	return &Reconciler{
		Options:      o,
		inventory:    inventory{all: shared[*hcloud.LoadBalancer]{read: o.Client.LoadBalancer.All}, after: map[types.UID]time.Time{}},
		types:        shared[*hcloud.LoadBalancerType]{read: o.Client.LoadBalancerType.All, observe: o.TypeLookup},
		certificates: shared[*hcloud.Certificate]{read: o.Client.Certificate.All},
		issuance:     newIssuance(),
		passes:       map[types.UID]*pass{},
	}
}

// How old lists may be that hardly change, and when to look again at what the
// cloud is busy with: at first, and at last.
const (
	typesAge       = time.Hour
	certificateAge = 5 * time.Minute
	healthDelay    = 3 * time.Second
	issueDelay     = 10 * time.Second
	maxDelay       = 2 * time.Minute
)

// passTimeout bounds a pass as a whole.
const passTimeout = 5 * time.Minute

// lock waits until no other pass for the Service runs.
func (r *Reconciler) lock(service *corev1.Service) (*pass, func()) {
	r.mu.Lock()
	p := r.passes[service.UID]
	if p == nil {
		p = &pass{warned: map[Warning]bool{}}
		r.passes[service.UID] = p
	}
	r.mu.Unlock()
	p.mu.Lock()
	return p, p.mu.Unlock
}

func (r *Reconciler) observe(service *corev1.Service, err error) {
	if r.Observe != nil {
		r.Observe(service.UID, err)
	}
}

// Name returns the name that the Service's load balancer gets.
func (r *Reconciler) Name(service *corev1.Service) string {
	return cmp.Or(service.Annotations[Prefix+"name"], cloudprovider.DefaultLoadBalancerName(service))
}

// Ensure makes the Service's load balancer what it asks for, and creates it if
// there is none. The controller takes a status with success only: if a part is
// missing and the status is new, the next pass gets the error.
func (r *Reconciler) Ensure(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	pass, unlock := r.lock(service)
	defer unlock()
	pass.deleted = false
	status, err := r.reconcile(ctx, pass, service, nodes)
	if err != nil && status != nil && !helpers.LoadBalancerStatusEqual(&service.Status.LoadBalancer, status) {
		r.Events.Tell(service, events.LoadBalancerIncomplete, "%s", err.Error())
		r.Again(service, healthDelay)
		return status, nil
	}
	return status, err
}

// Repair is Ensure for a Service that the caller may know of from earlier. If it
// has gone since, there is no status. A status may come with an error.
func (r *Reconciler) Repair(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	pass, unlock := r.lock(service)
	defer unlock()
	if pass.deleted {
		return nil, nil
	}
	return r.reconcile(ctx, pass, service, nodes)
}

// draft is what a pass has found out before it changes anything.
type draft struct {
	settings *Settings
	desired  *Desired
	actual   *hcloud.LoadBalancer // nil if there is none
	typ      *hcloud.LoadBalancerType
	warnings []Warning
	faults   []error       // that concern a part only; the rest goes on
	pending  bool          // a certificate is being issued
	again    time.Duration // when to look again for another reason; 0 if there is none
}

// prepare reads. It returns a draft without a desired state if the Service wants
// its load balancer to be let go.
func (r *Reconciler) prepare(ctx context.Context, service *corev1.Service, nodes []*corev1.Node, write bool) (*draft, error) {
	s, err := Parse(service, r.Defaults)
	if err != nil {
		return nil, err
	}
	p := &draft{settings: s}
	if s.Release {
		p.actual, err = r.labelled(ctx, service)
		return p, err
	}
	if p.desired, p.warnings, err = Want(service, nodes, s, r.Network); err != nil {
		return nil, err
	}
	var adopted bool
	if p.actual, adopted, err = r.find(ctx, service, s); err != nil {
		return nil, err
	}
	if cluster, err := r.Cluster(ctx); err != nil {
		return nil, fmt.Errorf("find out which cluster this is: %w", err)
	} else if cluster != "" {
		p.desired.Labels[ClusterLabel] = cluster
	}
	if adopted {
		p.warnings = append(p.warnings, p.desired.adopt(s, p.actual)...)
	}
	if p.actual != nil {
		if err := joinErrors(checkListeners(p.desired, p.actual), r.checkMove(ctx, p.desired, p.actual)); err != nil {
			return nil, err
		}
		p.warnings = append(append(p.warnings, notApplied(s, p.actual)...), warnType(p.actual.LoadBalancerType)...)
	} else if p.desired.Location == "" && p.desired.NetworkZone == "" {
		return nil, fmt.Errorf("no place for the load balancer: set annotation %slocation or %[1]snetwork-zone, or variable HCLOUD_LOAD_BALANCERS_LOCATION or HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", Prefix)
	}
	r.addCertificates(ctx, service, p, write)
	r.addType(ctx, p)
	return p, nil
}

// notApplied warns about annotations that count at creation only.
func notApplied(s *Settings, lb *hcloud.LoadBalancer) []Warning {
	var w []Warning
	if s.Location != "" && s.has("location") && lb.Location != nil && s.Location != lb.Location.Name {
		w = append(w, Warning{events.NotApplied, fmt.Sprintf("annotation %slocation: %s is not applied, the load balancer stays in %s; to move it, and lose its IPs, delete the Service", Prefix, s.Location, lb.Location.Name)})
	}
	if s.NetworkZone != "" && s.has("network-zone") && lb.Location != nil && s.NetworkZone != string(lb.Location.NetworkZone) {
		w = append(w, Warning{events.NotApplied, fmt.Sprintf("annotation %snetwork-zone: %s is not applied, the load balancer stays in %s; to move it, and lose its IPs, delete the Service", Prefix, s.NetworkZone, lb.Location.NetworkZone)})
	}
	for name, ids := range map[string][2]int64{
		"public-net-ipv4": {s.PublicIPv4, lb.PublicNet.IPv4.ID},
		"public-net-ipv6": {s.PublicIPv6, lb.PublicNet.IPv6.ID},
	} {
		if ids[0] != 0 && ids[0] != ids[1] {
			w = append(w, Warning{events.NotApplied, fmt.Sprintf("annotation %s%s: Primary IP %d is not applied, a load balancer keeps its IPs", Prefix, name, ids[0])})
		}
	}
	return w
}

// addType finds out how much room there is, and leaves out what has none. Most
// load balancers are small, and already tell what they have room for.
func (r *Reconciler) addType(ctx context.Context, p *draft) {
	d := p.desired
	if p.actual != nil {
		p.typ = p.actual.LoadBalancerType
	}
	known := p.actual != nil && d.Type == p.actual.LoadBalancerType.Name
	small := p.actual == nil && len(d.Targets) <= smallest.MaxTargets && len(d.Listeners) <= smallest.MaxServices
	if !known && !small {
		all, err := r.types.younger(ctx, typesAge)
		i := slices.IndexFunc(all, func(t *hcloud.LoadBalancerType) bool { return t.Name == d.Type })
		switch {
		case err != nil || i < 0: // the API will say what is wrong with it
		case p.actual == nil || d.TypeGiven || all[i].MaxTargets > p.actual.LoadBalancerType.MaxTargets:
			p.typ = all[i]
		}
	}
	if p.typ == nil {
		return
	}
	left, warnings := Fit(d, p.actual, p.typ)
	p.warnings = append(p.warnings, warnings...)
	for _, l := range left {
		d.fail(l.Port, "TooManyPorts")
	}
}

// smallest is what every type has room for. API reference, load balancer types: lb11.
var smallest = hcloud.LoadBalancerType{MaxTargets: 25, MaxServices: 5}

// fail notes why a port has no listener.
func (d *Desired) fail(port int, reason string) {
	for _, p := range d.ports {
		if int(p.Port) == port && p.Protocol == corev1.ProtocolTCP {
			d.Failed[p] = reason
		}
	}
}

// find returns the Service's load balancer, nil if it has none, and whether
// others have things on it. If the Service's status shows one that is not found,
// it looks twice: a page of the list may lack what was on the next one.
func (r *Reconciler) find(ctx context.Context, service *corev1.Service, s *Settings) (lb *hcloud.LoadBalancer, adopted bool, err error) {
	cluster, err := r.Cluster(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("find out which cluster this is: %w", err)
	}
	for range 2 {
		lbs, err := r.inventory.list(ctx, service.UID)
		if err != nil {
			return nil, false, err
		}
		lb, adopted, err = identify(service, s, identity{cluster, r.Owner}, lbs)
		if err != nil || wasIts(service, lb) || len(service.Status.LoadBalancer.Ingress) == 0 {
			return lb, adopted, err
		}
	}
	return lb, adopted, nil
}

// labelled returns the load balancer with the Service's label, nil if there is none.
func (r *Reconciler) labelled(ctx context.Context, service *corev1.Service) (*hcloud.LoadBalancer, error) {
	lbs, err := r.inventory.list(ctx, service.UID)
	if err != nil {
		return nil, err
	}
	for _, lb := range lbs {
		if ownerOf(lb.Labels) == service.UID {
			return lb, nil
		}
	}
	return nil, nil
}

func (r *Reconciler) reconcile(ctx context.Context, pass *pass, service *corev1.Service, nodes []*corev1.Node) (_ *corev1.LoadBalancerStatus, err error) {
	defer func() { r.observe(service, err) }()
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()

	service, nodes = r.Current(service, nodes)
	p, err := r.prepare(ctx, service, nodes, true)
	if err != nil {
		return nil, err
	}
	if p.desired == nil {
		r.unclaim(pass)
		return service.Status.LoadBalancer.DeepCopy(), r.release(ctx, service, p.actual)
	}
	r.warn(pass, service, p.warnings)
	lb := p.actual
	switch {
	case lb == nil:
		if lb, err = r.create(ctx, service, p.desired); err != nil {
			return nil, joinErrors(append(p.faults, err)...)
		}
		pass.tidy = true // there was nothing that could have used any
	case !wasIts(service, lb):
		if err := r.SameProject(ctx); err != nil {
			return nil, fmt.Errorf("adopt load balancer %s: %w", lb.Name, err)
		}
		if err := r.claim(pass, lb); err != nil {
			return nil, err
		}
	}
	shown, waiting, err := r.apply(ctx, pass, service, p, lb)
	switch {
	case err != nil:
	case waiting:
		r.Again(service, pass.later(healthDelay))
	case p.pending:
		r.Again(service, pass.later(issueDelay))
	default:
		pass.wait = 0
		if p.again > 0 {
			r.Again(service, p.again)
		}
	}
	if shown {
		var gone error
		lb, gone = r.reload(ctx, lb.ID)
		err = joinErrors(err, gone)
	}
	err = joinErrors(append(p.faults, err)...)
	if lb == nil {
		return nil, err
	}
	return Status(service, p.settings, lb, p.desired.Failed), err
}

// claim reserves a load balancer that belonged to nobody for a Service. Another
// Service may have found it at the same time, in a list in which no label says so.
func (r *Reconciler) claim(p *pass, lb *hcloud.LoadBalancer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, other := range r.passes {
		if other == p || other.claimed != lb.ID {
			continue
		}
		if name, live := r.Owner(uid); live {
			return &ConflictError{lb.Name, fmt.Sprintf("Service %s: choose another name with annotation %sname", name, Prefix)}
		}
	}
	p.claimed = lb.ID
	return nil
}

func (r *Reconciler) unclaim(p *pass) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.claimed = 0
}

// create makes a load balancer with all that it needs, in one request. If the
// answer is lost, the next pass finds it by its label. If one of the targets is
// refused, they are added one by one afterwards, so that it harms no other.
//
// In another project all of them are refused. So one that begins without targets
// has to be in the right one.
func (r *Reconciler) create(ctx context.Context, service *corev1.Service, d *Desired) (*hcloud.LoadBalancer, error) {
	defer r.inventory.wrote(service.UID)
	defer r.inventory.changed()
	opts := d.createOpts()
	var result hcloud.LoadBalancerCreateResult
	var err error
	if len(opts.Targets) > 0 {
		result, _, err = r.Client.LoadBalancer.Create(ctx, opts)
	}
	if len(opts.Targets) == 0 || hcloud.IsError(err, hcloud.ErrorCodeInvalidInput, "resolve_cloud_public_targets_error", "resolve_cloud_private_targets_error") {
		if doubt := r.SameProject(ctx); doubt != nil {
			return nil, fmt.Errorf("create load balancer %s: %w", d.Name, joinErrors(explain(err), doubt))
		}
		opts.Targets = nil
		result, _, err = r.Client.LoadBalancer.Create(ctx, opts)
	}
	if err := await(ctx, r.Client, result.Action, err); err != nil {
		return nil, fmt.Errorf("create load balancer %s: %w", d.Name, explain(err))
	}
	klog.FromContext(ctx).Info("Created load balancer", "service", klog.KObj(service), "name", d.Name, "loadBalancer", result.LoadBalancer.ID)
	return r.reload(ctx, result.LoadBalancer.ID)
}

// apply makes a load balancer what is desired. A step that fails does not keep
// the others from being made; one that does not end does. shown is true if the
// Service's status may show what has changed.
func (r *Reconciler) apply(ctx context.Context, pass *pass, service *corev1.Service, p *draft, lb *hcloud.LoadBalancer) (shown, waiting bool, err error) {
	typ := p.typ
	if typ == nil {
		typ = lb.LoadBalancerType
	}
	steps, waiting := Plan(p.desired, lb, typ)
	if len(steps) == 0 {
		return false, waiting, r.tidyUp(ctx, pass, service, p)
	}
	pass.wait = 0
	defer r.inventory.wrote(service.UID)
	var errs []error
	for _, step := range steps {
		if step.Last && len(errs) > 0 {
			break
		}
		err := r.step(ctx, service, lb, step)
		if err != nil {
			errs = append(errs, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			break // whatever runs is still there, and refuses the others
		}
	}
	if slices.ContainsFunc(steps, func(s Step) bool { return s.Kind == UpdateListener || s.Kind == DeleteListener }) && hasCertificates(lb) {
		pass.tidy = false
	}
	errs = append(errs, r.tidyUp(ctx, pass, service, p))
	return slices.ContainsFunc(steps, Step.shown), waiting, joinErrors(errs...)
}

func (r *Reconciler) reload(ctx context.Context, id int64) (*hcloud.LoadBalancer, error) {
	lb, _, err := r.Client.LoadBalancer.GetByID(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("look up load balancer %d: %w", id, err)
	}
	if lb == nil {
		return nil, fmt.Errorf("load balancer %d has vanished", id)
	}
	return lb, nil
}

// warn tells each Warning once, until it is over.
func (r *Reconciler) warn(p *pass, service *corev1.Service, warnings []Warning) {
	now := map[Warning]bool{}
	for _, w := range warnings {
		if now[w] = true; !p.warned[w] {
			r.Events.Tell(service, w.Reason, "%s", w.Text)
		}
	}
	p.warned = now
}

// Delete makes the Service's load balancer go, or lets it go: if it is protected,
// if an annotation says so, or if others have made it.
func (r *Reconciler) Delete(ctx context.Context, service *corev1.Service) (err error) {
	pass, unlock := r.lock(service)
	defer unlock()
	pass.deleted = true
	defer func() { r.observe(service, err) }()
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()

	s, err := Parse(service, r.Defaults)
	if _, there := service.Annotations[Prefix+"release"]; there && !s.has("release") {
		return err // what cannot be understood may mean that it stays
	}
	lb, adopted, err := r.find(ctx, service, s)
	var conflict *ConflictError
	switch {
	case errors.As(err, &conflict):
		lb = nil
	case err != nil:
		return err
	case !wasIts(service, lb):
		if err := r.SameProject(ctx); err != nil {
			return fmt.Errorf("load balancer not found: %w", err)
		}
		lb = nil // one that only has the name is not ours yet
	}
	if lb != nil {
		switch {
		case s.Release:
			err = r.release(ctx, service, lb)
		case adopted:
			err = r.leave(ctx, service, lb)
		case lb.Protection.Delete:
			klog.FromContext(ctx).Info("Left protected load balancer", "service", klog.KObj(service), "loadBalancer", lb.ID)
			r.Events.Tell(service, events.LoadBalancerLeft, "load balancer %s is protected against deletion, so it stays, and costs; a Service with the annotation %sname: %s gets it", lb.Name, Prefix, lb.Name)
		default:
			err = r.delete(ctx, service, lb)
		}
		if err != nil {
			return err
		}
	}
	if err := r.deleteUnused(ctx, service, nil); err != nil {
		return err
	}
	r.inventory.forget(service.UID)
	return nil
}

func (r *Reconciler) delete(ctx context.Context, service *corev1.Service, lb *hcloud.LoadBalancer) error {
	defer r.inventory.changed()
	result, _, err := r.Client.LoadBalancer.DeleteWithResult(ctx, lb)
	if hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
		return nil
	}
	if err := await(ctx, r.Client, result.Action, err); err != nil {
		return fmt.Errorf("delete load balancer %d: %w", lb.ID, err)
	}
	klog.FromContext(ctx).Info("Deleted load balancer", "service", klog.KObj(service), "loadBalancer", lb.ID)
	return nil
}

// release takes off the labels that make a load balancer the Service's. Those
// that tell which listeners and targets of an adopted one are ours stay: who takes
// it next, the Service perhaps, has to know.
func (r *Reconciler) release(ctx context.Context, service *corev1.Service, lb *hcloud.LoadBalancer) error {
	if lb == nil {
		return nil
	}
	labels := maps.Clone(lb.Labels)
	delete(labels, ServiceLabel)
	delete(labels, AdoptedLabel)
	delete(labels, ClusterLabel)
	return r.steps(ctx, service, lb, relabel(lb, labels, "annotation "+Prefix+"release lets go of it"))
}

// leave takes what is ours off a load balancer that others have made. If its
// labels are lost, nobody can say what that is.
func (r *Reconciler) leave(ctx context.Context, service *corev1.Service, lb *hcloud.LoadBalancer) error {
	ours := holdingsOf(lb, true)
	const why = "the Service is gone"
	var steps []Step
	for _, s := range lb.Services {
		if ours.port(s.ListenPort) {
			steps = append(steps, Step{Kind: DeleteListener, Listener: Listener{Port: s.ListenPort}, Why: why})
		}
	}
	for _, t := range lb.Targets {
		if ours.target(t) {
			steps = append(steps, Step{Kind: RemoveTarget, Target: Target{Server: t.Server.Server.ID}, Why: why})
		}
	}
	steps = append(steps, relabel(lb, withoutOurs(lb.Labels), why)...)
	if len(steps) == 0 {
		r.Events.Tell(service, events.LoadBalancerLeft, "load balancer %s has lost its labels, which tell what on it was the Service's, so all of it stays, and may cost", lb.Name)
	}
	return r.steps(ctx, service, lb, steps)
}

// relabel returns the step that sets labels, none if they are so already.
func relabel(lb *hcloud.LoadBalancer, labels map[string]string, why string) []Step {
	if maps.Equal(lb.Labels, labels) {
		return nil
	}
	return []Step{{Kind: SetLabels, Name: lb.Name, Labels: labels, Why: why}}
}

// steps makes steps that need each other.
func (r *Reconciler) steps(ctx context.Context, service *corev1.Service, lb *hcloud.LoadBalancer, steps []Step) error {
	defer r.inventory.changed()
	for _, step := range steps {
		if err := r.step(ctx, service, lb, step); err != nil {
			return err
		}
	}
	return nil
}

// step makes one step, and tells of it.
func (r *Reconciler) step(ctx context.Context, service *corev1.Service, lb *hcloud.LoadBalancer, step Step) error {
	if err := step.do(ctx, r.Client, lb); err != nil {
		return fmt.Errorf("load balancer %d: %s: %w", lb.ID, step.What(), explain(err))
	}
	klog.FromContext(ctx).Info("Changed load balancer", "service", klog.KObj(service), "loadBalancer", lb.ID, "step", step.String())
	r.Events.Tell(service, events.ChangedLoadBalancer, "%s", step.String())
	return nil
}

// Plan returns in lines what a pass would do. It only reads.
func (r *Reconciler) Plan(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) ([]string, error) {
	_, unlock := r.lock(service)
	defer unlock()
	p, err := r.prepare(ctx, service, nodes, false)
	if err != nil {
		return nil, err
	}
	var lines []string
	switch {
	case p.desired == nil && p.actual != nil:
		lines = append(lines, fmt.Sprintf("let go of load balancer %s: annotation %srelease says so", p.actual.Name, Prefix))
	case p.desired == nil:
	case p.actual == nil:
		d := p.desired
		lines = append(lines, fmt.Sprintf("create load balancer %s of type %s with %d listeners and %d targets: there is none", d.Name, d.Type, len(d.Listeners), len(d.Targets)))
	default:
		steps, waiting := Plan(p.desired, p.actual, p.typ)
		for _, step := range steps {
			lines = append(lines, step.String())
		}
		if waiting {
			lines = append(lines, "wait until targets are healthy, then move more of them")
		}
	}
	if len(lines) == 0 && len(p.faults) == 0 {
		lines = append(lines, "nothing to do")
	}
	for _, w := range p.warnings {
		lines = append(lines, "warning: "+w.Text)
	}
	return lines, joinErrors(p.faults...)
}
