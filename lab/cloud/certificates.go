package cloud

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// certificate is one for TLS. Its private key is forgotten once it is checked.
type certificate struct {
	schema.Certificate // without users, which view fills in
	resource           resource
	pem                *x509Details // nil until there is a certificate
}

// x509Details is what the API reads from a certificate, or null.
type x509Details struct {
	text, fingerprint string
	before, after     time.Time
}

// certificateView has null in place of what is not there yet, which hcloud-go's
// schema cannot say. API reference, certificates.
type certificateView struct {
	schema.Certificate
	Text           *string    `json:"certificate"`
	Fingerprint    *string    `json:"fingerprint"`
	NotValidBefore *time.Time `json:"not_valid_before"`
	NotValidAfter  *time.Time `json:"not_valid_after"`
}

func (c *certificate) view(p *project) certificateView {
	v := certificateView{Certificate: c.Certificate}
	if x := c.pem; x != nil {
		v.Text, v.Fingerprint, v.NotValidBefore, v.NotValidAfter = &x.text, &x.fingerprint, &x.before, &x.after
	}
	v.UsedBy = []schema.CertificateUsedByRef{}
	for _, lb := range byID(p.loadBalancers) {
		if slices.Contains(lb.certificates(), c.ID) {
			v.UsedBy = append(v.UsedBy, schema.CertificateUsedByRef{ID: lb.ID, Type: "load_balancer"})
		}
	}
	return v
}

func certificateViews(p *project) []certificateView {
	views := []certificateView{}
	for _, c := range byID(p.certificates) {
		views = append(views, c.view(p))
	}
	return views
}

var certificateList = collection[certificateView]{
	key:    "certificates",
	id:     func(c certificateView) int64 { return c.ID },
	labels: func(c certificateView) map[string]string { return c.Labels },
	filters: map[string]func(certificateView) string{
		"name": func(c certificateView) string { return c.Name },
		"type": func(c certificateView) string { return c.Type },
	},
	sorts: map[string]func(a, b certificateView) int{
		"id":      by(func(c certificateView) int64 { return c.ID }),
		"name":    by(func(c certificateView) string { return c.Name }),
		"created": by(func(c certificateView) int64 { return c.Created.Unix() }),
	},
}

var certificateRoutes = merge(routes{
	"GET /certificates": {http.StatusOK, func(r *request) (any, error) {
		return certificateList.list(r, certificateViews(r.project))
	}},
	"POST /certificates":                    {http.StatusCreated, createCertificate},
	"GET /certificates/{id}":                {http.StatusOK, getCertificate},
	"PUT /certificates/{id}":                {http.StatusOK, updateCertificate},
	"DELETE /certificates/{id}":             {http.StatusNoContent, deleteCertificate},
	"POST /certificates/{id}/actions/retry": {http.StatusCreated, retryCertificate},
}, actionRoutesOf("/certificates", "certificate", func(r *request) error {
	_, err := r.certificate()
	return err
}))

func (r *request) certificate() (*certificate, error) {
	if c, ok := r.project.certificates[r.id]; ok {
		return c, nil
	}
	return nil, notFound("certificate", r.id)
}

func getCertificate(r *request) (any, error) {
	c, err := r.certificate()
	if err != nil {
		return nil, err
	}
	return object{"certificate": c.view(r.project)}, nil
}

// createCertificate applies API reference, create a certificate: an uploaded
// one is there at once, a managed one when its action ends.
func createCertificate(r *request) (any, error) {
	var in struct {
		schema.CertificateCreateRequest
		Labels map[string]string `json:"labels"`
	}
	in.Type = "uploaded"
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if err := r.checkCertificate(0, in.Name, in.Labels); err != nil {
		return nil, err
	}
	if err := oneOf("type", in.Type, "uploaded", "managed"); err != nil {
		return nil, err
	}
	c := &certificate{Certificate: schema.Certificate{
		Name: in.Name, Labels: orEmpty(in.Labels), Type: in.Type, Created: now(),
	}}
	if in.Type == "uploaded" {
		if err := c.upload(in.Certificate, in.PrivateKey); err != nil {
			return nil, err
		}
		r.addCertificate(c)
		return object{"certificate": c.view(r.project), "action": nil}, nil
	}
	if len(in.DomainNames) == 0 {
		return nil, required("domain_names")
	}
	for i, name := range in.DomainNames {
		if checkHostname(strings.TrimPrefix(name, "*.")) != nil {
			return nil, invalid("domain_names", "'%s' is not a domain name", name)
		}
		in.DomainNames[i] = strings.ToLower(name)
	}
	c.DomainNames = in.DomainNames
	r.addCertificate(c)
	a, err := r.issue(c, "create_certificate")
	if err != nil {
		return nil, err
	}
	return object{"certificate": c.view(r.project), "action": a.Action}, nil
}

func (r *request) addCertificate(c *certificate) {
	c.ID = r.cloud.nextID("certificate")
	c.resource.ActionResourceReference = schema.ActionResourceReference{ID: c.ID, Type: "certificate"}
	r.project.certificates[c.ID] = c
}

func (r *request) checkCertificate(id int64, name string, labels map[string]string) error {
	if err := checkName(name); err != nil {
		return err
	}
	for _, c := range r.project.certificates {
		if c.Name == name && c.ID != id {
			return notUnique("name", "name is already used") // guess: worded as for networks
		}
	}
	return checkLabels(labels)
}

// upload takes a pair in PEM format. Changelog, 2026-02-11: a key has at most
// 5 kB, a chain at most 5 certificates and 30 kB.
func (c *certificate) upload(chain, key string) error {
	switch {
	case chain == "":
		return required("certificate")
	case key == "":
		return required("private_key")
	case len(chain) > 30_000:
		return invalid("certificate", "is larger than 30 kB")
	case len(key) > 5_000:
		return invalid("private_key", "is larger than 5 kB")
	}
	block, _ := pem.Decode([]byte(chain))
	if block == nil {
		return invalid("certificate", "is not in PEM format")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return invalid("certificate", "is not a certificate")
	}
	pair, err := tls.X509KeyPair([]byte(chain), []byte(key))
	switch {
	case err != nil:
		return invalid("private_key", "does not belong to the certificate")
	case len(pair.Certificate) > 5:
		return invalid("certificate", "has more than 5 certificates")
	}
	c.DomainNames = append([]string{}, leaf.DNSNames...)
	if len(c.DomainNames) == 0 && leaf.Subject.CommonName != "" {
		c.DomainNames = append(c.DomainNames, leaf.Subject.CommonName)
	}
	c.pem = details(leaf, chain)
	return nil
}

// details has the fingerprint as the API reference describes it: SHA256, in
// pairs of digits with colons.
func details(leaf *x509.Certificate, text string) *x509Details {
	sum := sha256.Sum256(leaf.Raw)
	return &x509Details{
		text:        text,
		fingerprint: strings.ReplaceAll(fmt.Sprintf("% x", sum[:]), " ", ":"),
		before:      leaf.NotBefore.UTC(),
		after:       leaf.NotAfter.UTC(),
	}
}

// issue starts what the real API lets Let's Encrypt do. The states are those of
// the API reference; nobody checks that the domain is the owner's.
func (r *request) issue(c *certificate, command string) (*action, error) {
	text, leaf, err := selfSigned(c.DomainNames)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	c.Status = &schema.CertificateStatusRef{Issuance: "pending", Renewal: "unavailable"}
	a := &action{done: func() {
		c.pem = details(leaf, text)
		c.Status = &schema.CertificateStatusRef{Issuance: "completed", Renewal: "scheduled"}
	}}
	a.Command = command
	a.undo = func() {
		c.Status = &schema.CertificateStatusRef{
			Issuance: "failed",
			Renewal:  "unavailable",
			Error:    &schema.Error{Code: a.Error.Code, Message: a.Error.Message},
		}
	}
	return r.start(a, &c.resource), nil
}

// selfSigned is a certificate for domains that is good for 90 days, as those of
// Let's Encrypt are.
func selfSigned(domains []string) (text string, leaf *x509.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: domains[0]},
		DNSNames:     domains,
		NotBefore:    now(),
		NotAfter:     now().AddDate(0, 0, 90),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", nil, err
	}
	leaf, err = x509.ParseCertificate(der)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), leaf, err
}

func updateCertificate(r *request) (any, error) {
	c, err := r.certificate()
	if err != nil {
		return nil, err
	}
	in := update{Name: c.Name}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if in.Labels == nil {
		in.Labels = c.Labels
	}
	if err := r.checkCertificate(c.ID, in.Name, in.Labels); err != nil {
		return nil, err
	}
	c.Name, c.Labels = in.Name, in.Labels
	return object{"certificate": c.view(r.project)}, nil
}

// deleteCertificate refuses while a load balancer uses it. The code is that of
// firewalls; that certificates have it, too, is a guess.
func deleteCertificate(r *request) (any, error) {
	c, err := r.certificate()
	if err != nil {
		return nil, err
	}
	if len(c.view(r.project).UsedBy) > 0 {
		return nil, unprocessable("resource_in_use", "certificate is still in use")
	}
	delete(r.project.certificates, c.ID)
	return nil, nil
}

// retryCertificate is for managed certificates that could not be issued.
// API reference, retry issuance. The code for all others is a guess.
func retryCertificate(r *request) (any, error) {
	c, err := r.certificate()
	if err != nil {
		return nil, err
	}
	if c.Status == nil || c.Status.Issuance != "failed" {
		return nil, unprocessable("unsupported_error", "only a managed certificate that has failed can be retried")
	}
	a, err := r.issue(c, "issue_certificate")
	if err != nil {
		return nil, err
	}
	return object{"action": a.Action}, nil
}
