package loadbalancer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"example.com/ccm-from-scratch/final/events"
)

// stagingLabel makes the API ask the CA's staging environment, as the official
// CCM does it.
const stagingLabel = "HC-Use-Staging-CA"

// errPending says that a certificate has been asked for and is not there yet.
var errPending = errors.New("certificate is being issued")

// errAbsent says in a plan that a certificate will be created.
var errAbsent = errors.New("there is no such certificate, so it is created")

// issuanceError says why a certificate could not be issued.
type issuanceError struct {
	certificate *hcloud.Certificate
	again       time.Duration // between two attempts
}

func (e *issuanceError) Error() string {
	why := "the API gives no reason"
	if e.certificate.Status.Error != nil {
		why = e.certificate.Status.Error.Error()
	}
	return fmt.Sprintf("annotation %shttp-managed-certificate-domains: certificate %s for %s could not be issued: %s",
		Prefix, e.certificate.Name, strings.Join(e.certificate.DomainNames, ", "), why)
}

// newIssuance says how often a certificate is asked for again that could not be
// issued: at once, after 20 minutes, and then ever more rarely. Let's Encrypt
// refuses a domain for an hour after five failures.
func newIssuance() *flowcontrol.Backoff { return flowcontrol.NewBackOff(20*time.Minute, 6*time.Hour) }

// addCertificates fills in the certificates of https listeners. While they
// cannot be had, a listener that exists keeps those it has, one that does not
// has to wait, and everything else goes on.
func (r *Reconciler) addCertificates(ctx context.Context, service *corev1.Service, p *draft, write bool) {
	https := func(l Listener) bool { return l.Protocol == hcloud.LoadBalancerServiceProtocolHTTPS }
	if !slices.ContainsFunc(p.desired.Listeners, https) {
		return
	}
	ids, err := r.wantedCertificates(ctx, service, p.settings, p.desired, write)
	p.desired.keep = append(p.desired.keep, ids...)
	var failed *issuanceError
	switch {
	case errors.As(err, &failed):
		p.again = failed.again
		p.warnings = append(p.warnings, Warning{events.CertificateFailed, err.Error()})
	case errors.Is(err, errPending), errors.Is(err, errAbsent):
		p.pending = true
		p.warnings = append(p.warnings, Warning{events.CertificatePending, err.Error()})
	case err != nil:
		p.faults = append(p.faults, err)
	}
	var kept []Listener
	for _, l := range p.desired.Listeners {
		switch {
		case !https(l):
		case err == nil:
			l.HTTP.Certificates = ids
		default:
			l.HTTP.Certificates = certificatesOf(p.actual, l.Port)
			p.desired.keep = append(p.desired.keep, l.HTTP.Certificates...)
			if len(l.HTTP.Certificates) == 0 {
				p.desired.fail(l.Port, "CertificateMissing")
				continue
			}
		}
		kept = append(kept, l)
	}
	p.desired.Listeners = kept
}

// certificatesOf returns those that a listener has now.
func certificatesOf(lb *hcloud.LoadBalancer, port int) []int64 {
	if lb == nil {
		return nil
	}
	for _, s := range lb.Services {
		if s.ListenPort == port && s.Protocol == hcloud.LoadBalancerServiceProtocolHTTPS {
			return listenerOf(s).HTTP.Certificates
		}
	}
	return nil
}

func hasCertificates(lb *hcloud.LoadBalancer) bool {
	return slices.ContainsFunc(lb.Services, func(s hcloud.LoadBalancerService) bool { return len(s.HTTP.Certificates) > 0 })
}

// wantedCertificates returns the IDs of the certificates that a Service asks
// for, in ascending order. It creates those that are ours to create, if write.
func (r *Reconciler) wantedCertificates(ctx context.Context, service *corev1.Service, s *Settings, d *Desired, write bool) ([]int64, error) {
	var ids []int64
	var errs []error
	note := func(id int64, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		ids = append(ids, id)
	}
	if s.CertificateType == hcloud.CertificateTypeManaged {
		note(r.managedCertificate(ctx, service, s, d, write))
	} else {
		for _, ref := range s.Certificates {
			note(r.namedCertificate(ctx, ref))
		}
	}
	if s.TLSSecret != "" {
		note(r.secretCertificate(ctx, service, s.TLSSecret, d, write))
	}
	slices.Sort(ids)
	return slices.Compact(ids), joinErrors(errs...)
}

// lookUp returns the certificate that matches, nil if there is none. A list that
// lacks it is read again.
func (r *Reconciler) lookUp(ctx context.Context, match func(*hcloud.Certificate) bool) (*hcloud.Certificate, error) {
	for _, age := range []time.Duration{certificateAge, 0} {
		all, err := r.certificates.younger(ctx, age)
		if err != nil {
			return nil, fmt.Errorf("look up certificates: %w", err)
		}
		if i := slices.IndexFunc(all, match); i >= 0 {
			return all[i], nil
		}
	}
	return nil, nil
}

// namedCertificate finds a certificate by ID or name.
func (r *Reconciler) namedCertificate(ctx context.Context, ref string) (int64, error) {
	id, _ := strconv.ParseInt(ref, 10, 64)
	c, err := r.lookUp(ctx, func(c *hcloud.Certificate) bool { return c.ID == id || c.Name == ref })
	if err == nil && c == nil {
		err = fmt.Errorf("annotation %shttp-certificates: there is no certificate with the name or ID %q", Prefix, ref)
	}
	if err != nil {
		return 0, err
	}
	return c.ID, nil
}

// managedCertificate finds or creates the certificate for the Service's domains.
// If the name is that of one with other domains, the new one's name has a suffix
// that depends on the domains.
func (r *Reconciler) managedCertificate(ctx context.Context, service *corev1.Service, s *Settings, d *Desired, write bool) (int64, error) {
	domains := slices.Sorted(slices.Values(s.Domains))
	base := cmp.Or(s.CertificateName, "ccm-managed-certificate-"+string(service.UID))
	suffixed := base + "-" + fingerprint(strings.Join(domains, ","))
	taken := false
	var unsettled *hcloud.Certificate
	found, err := r.lookUp(ctx, func(c *hcloud.Certificate) bool {
		if c.Name != base && c.Name != suffixed {
			return false
		}
		same := c.Type == hcloud.CertificateTypeManaged && slices.Equal(slices.Sorted(slices.Values(c.DomainNames)), domains)
		taken = taken || c.Name == base && !same
		if same && c.Status != nil && c.Status.Issuance != hcloud.CertificateStatusTypeCompleted {
			unsettled = c
			return false // read the list again
		}
		return same
	})
	switch {
	case err != nil:
		return 0, err
	case found == nil && unsettled != nil:
		d.keep = append(d.keep, unsettled.ID)
		return 0, r.awaitIssuance(ctx, service, unsettled, write)
	case found != nil && write:
		return found.ID, r.inherit(ctx, service, found, d)
	case found != nil:
		return found.ID, nil
	}
	opts := hcloud.CertificateCreateOpts{Name: base, Type: hcloud.CertificateTypeManaged, DomainNames: domains, Labels: r.certificateLabels(service, d)}
	if taken {
		opts.Name = suffixed
	}
	if s.ACMEStaging {
		opts.Labels[stagingLabel] = "true"
	}
	if !write {
		return 0, fmt.Errorf("managed certificate %s for %s: %w", opts.Name, strings.Join(domains, ", "), errAbsent)
	}
	id, err := r.createCertificate(ctx, service, opts)
	if err != nil {
		return 0, err
	}
	d.keep = append(d.keep, id)
	return 0, fmt.Errorf("managed certificate %s for %s: %w", opts.Name, strings.Join(domains, ", "), errPending)
}

// inherit makes a certificate ours whose Service is gone, so that it does not
// stay for ever.
func (r *Reconciler) inherit(ctx context.Context, service *corev1.Service, c *hcloud.Certificate, d *Desired) error {
	uid, cluster := types.UID(c.Labels[ServiceLabel]), c.Labels[ClusterLabel]
	if uid == "" || uid == service.UID || cluster != "" && cluster != d.Labels[ClusterLabel] {
		return nil
	}
	if _, live := r.Owner(uid); live {
		return nil
	}
	labels := maps.Clone(c.Labels)
	maps.Copy(labels, r.certificateLabels(service, d))
	defer r.certificates.forget()
	if _, _, err := r.Client.Certificate.Update(ctx, c, hcloud.CertificateUpdateOpts{Labels: labels}); err != nil {
		return fmt.Errorf("set labels of certificate %s: %w", c.Name, err)
	}
	return nil
}

// awaitIssuance says what keeps a certificate from being there. One that has
// failed is asked for again, if it is time.
func (r *Reconciler) awaitIssuance(ctx context.Context, service *corev1.Service, c *hcloud.Certificate, write bool) error {
	key, now := strconv.FormatInt(c.ID, 10), time.Now()
	if c.Status.Issuance == hcloud.CertificateStatusTypeFailed {
		if !write || r.issuance.IsInBackOffSinceUpdate(key, now) {
			return &issuanceError{c, r.issuance.Get(key)}
		}
		r.issuance.Next(key, now)
		if _, _, err := r.Client.Certificate.RetryIssuance(ctx, c); err != nil {
			return fmt.Errorf("retry the issuance of certificate %s: %w", c.Name, explain(err))
		}
		klog.FromContext(ctx).Info("Asked for certificate again", "service", klog.KObj(service), "certificate", c.ID)
	}
	return fmt.Errorf("managed certificate %s for %s: %w", c.Name, strings.Join(c.DomainNames, ", "), errPending)
}

// secretCertificate uploads what a Secret holds, once for each of its contents.
func (r *Reconciler) secretCertificate(ctx context.Context, service *corev1.Service, name string, d *Desired, write bool) (int64, error) {
	secret, err := r.Secret(ctx, service.Namespace, name)
	if err != nil {
		return 0, fmt.Errorf("annotation %shttp-tls-secret: %w", Prefix, err)
	}
	chain, key := string(secret.Data[corev1.TLSCertKey]), string(secret.Data[corev1.TLSPrivateKeyKey])
	if chain == "" || key == "" {
		return 0, fmt.Errorf("annotation %shttp-tls-secret: Secret %s has no %s or no %s", Prefix, name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	opts := hcloud.CertificateCreateOpts{
		Name: fmt.Sprintf("ccm-%s-%s", service.UID, fingerprint(chain+key)),
		Type: hcloud.CertificateTypeUploaded, Certificate: chain, PrivateKey: key, Labels: r.certificateLabels(service, d),
	}
	found, err := r.lookUp(ctx, func(c *hcloud.Certificate) bool { return c.Name == opts.Name })
	switch {
	case err != nil:
		return 0, err
	case found != nil:
		return found.ID, nil
	case !write:
		return 0, fmt.Errorf("certificate %s of Secret %s: %w", opts.Name, name, errAbsent)
	}
	id, err := r.createCertificate(ctx, service, opts)
	if err != nil {
		return 0, fmt.Errorf("annotation %shttp-tls-secret: %w", Prefix, err)
	}
	return id, nil
}

func fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

func (r *Reconciler) certificateLabels(service *corev1.Service, d *Desired) map[string]string {
	labels := map[string]string{ServiceLabel: string(service.UID)}
	if cluster := d.Labels[ClusterLabel]; cluster != "" {
		labels[ClusterLabel] = cluster
	}
	return labels
}

// createCertificate does not wait for a managed one: that takes minutes.
func (r *Reconciler) createCertificate(ctx context.Context, service *corev1.Service, opts hcloud.CertificateCreateOpts) (int64, error) {
	defer r.certificates.forget()
	result, _, err := r.Client.Certificate.CreateCertificate(ctx, opts)
	if err != nil {
		return 0, fmt.Errorf("create certificate %s: %w", opts.Name, explain(err))
	}
	klog.FromContext(ctx).Info("Created certificate", "service", klog.KObj(service), "certificate", result.Certificate.ID)
	r.Events.Tell(service, events.CreatedCertificate, "create certificate %s: the Service asks for it", opts.Name)
	return result.Certificate.ID, nil
}

// tidyUp deletes certificates that are no longer used: when listeners have changed,
// when that has failed before, and once after a start, since nobody knows what was
// left undone. Mostly, the list that all share tells that there are none.
func (r *Reconciler) tidyUp(ctx context.Context, pass *pass, service *corev1.Service, p *draft) error {
	if pass.tidy || len(p.faults) > 0 { // with faults, it is not known which are wanted
		return nil
	}
	all, err := r.certificates.younger(ctx, certificateAge)
	if err != nil {
		return fmt.Errorf("look up certificates: %w", err)
	}
	if slices.ContainsFunc(all, func(c *hcloud.Certificate) bool {
		return c.Labels[ServiceLabel] == string(service.UID) && !p.desired.uses(c.ID)
	}) {
		err = r.deleteUnused(ctx, service, p.desired)
	}
	pass.tidy = err == nil
	return err
}

// deleteUnused deletes the certificates that we have created for a Service, and
// that neither it nor anybody else uses. d is nil if the Service goes.
func (r *Reconciler) deleteUnused(ctx context.Context, service *corev1.Service, d *Desired) error {
	all, err := r.Client.Certificate.AllWithOpts(ctx, hcloud.CertificateListOpts{
		ListOpts: hcloud.ListOpts{LabelSelector: fmt.Sprintf("%s=%s", ServiceLabel, service.UID)},
	})
	if err != nil {
		return fmt.Errorf("look up certificates: %w", err)
	}
	var errs []error
	for _, c := range all {
		if len(c.UsedBy) > 0 || d != nil && d.uses(c.ID) {
			continue
		}
		if _, err := r.Client.Certificate.Delete(ctx, c); err != nil && !hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
			errs = append(errs, fmt.Errorf("delete certificate %d: %w", c.ID, err))
			continue
		}
		klog.FromContext(ctx).Info("Deleted certificate", "service", klog.KObj(service), "certificate", c.ID)
		r.Events.Tell(service, events.DeletedCertificate, "delete certificate %s: nothing uses it", c.Name)
	}
	return joinErrors(errs...)
}

func (d *Desired) uses(certificate int64) bool {
	return slices.Contains(d.keep, certificate) || slices.ContainsFunc(d.Listeners, func(l Listener) bool {
		return l.HTTP != nil && slices.Contains(l.HTTP.Certificates, certificate)
	})
}
