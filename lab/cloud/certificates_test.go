package cloud_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"example.com/ccm-from-scratch/lab/cloud"
)

// pair is a self-signed certificate of example.com and its key.
func pair(t testing.TB, domains ...string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "example.com"},
		DNSNames:     domains,
		NotBefore:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		NotAfter:     time.Date(2036, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text}))
}

// upload is the body that creates a certificate.
func upload(name, certificate, key string) string {
	body, _ := json.Marshal(map[string]string{"name": name, "certificate": certificate, "private_key": key})
	return string(body)
}

// TestCertificatesByClient uploads one, has one issued, and uses it.
func TestCertificatesByClient(t *testing.T) {
	l := newLab(t, cloud.Config{})
	client, ctx := l.client(), t.Context()
	text, key := pair(t, "example.com", "www.example.com")
	uploaded, _, err := client.Certificate.Create(ctx, hcloud.CertificateCreateOpts{Name: "up", Certificate: text, PrivateKey: key, Labels: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	want := &hcloud.Certificate{
		ID: uploaded.ID, Name: "up", Labels: map[string]string{"a": "b"}, Type: "uploaded", Certificate: text, Created: uploaded.Created,
		NotValidBefore: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), NotValidAfter: time.Date(2036, 1, 2, 3, 4, 5, 0, time.UTC),
		DomainNames: []string{"example.com", "www.example.com"}, Fingerprint: uploaded.Fingerprint, UsedBy: []hcloud.CertificateUsedByRef{},
	}
	if diff := cmp.Diff(want, uploaded); diff != "" {
		t.Errorf("uploaded certificate differs (-want +got):\n%s", diff)
	}
	if len(strings.Split(uploaded.Fingerprint, ":")) != 32 {
		t.Errorf("fingerprint %s is no SHA256", uploaded.Fingerprint)
	}
	if got := l.ok(t, "GET", "/v1/certificates", "").text; strings.Contains(got, "PRIVATE") {
		t.Errorf("the private key comes back: %s", got)
	}

	managed, _, err := client.Certificate.CreateCertificate(ctx, hcloud.CertificateCreateOpts{Name: "le", Type: "managed", DomainNames: []string{"*.Example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := managed.Certificate; got.Status.Issuance != "pending" || got.Certificate != "" || managed.Action.Command != "create_certificate" {
		t.Errorf("managed certificate at first: %+v", got)
	}
	if err := client.Action.WaitFor(ctx, managed.Action); err != nil {
		t.Fatal(err)
	}
	issued, _, err := client.Certificate.GetByName(ctx, "le")
	if err != nil {
		t.Fatal(err)
	}
	if issued.Status.Issuance != "completed" || issued.Status.Renewal != "scheduled" || !strings.Contains(issued.Certificate, "BEGIN CERTIFICATE") || issued.NotValidAfter.IsZero() {
		t.Errorf("managed certificate: %+v", issued)
	}
	if diff := cmp.Diff([]string{"*.example.org"}, issued.DomainNames); diff != "" {
		t.Errorf("domains differ (-want +got):\n%s", diff)
	}

	lb := l.balancer(t, "lb", fmt.Sprintf(`,"services":[{"protocol":"https","http":{"certificates":[%d],"redirect_http":true}}]`, issued.ID))
	issued, _, err = client.Certificate.GetByID(ctx, issued.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]hcloud.CertificateUsedByRef{{ID: lb.ID, Type: "load_balancer"}}, issued.UsedBy); diff != "" {
		t.Errorf("users differ (-want +got):\n%s", diff)
	}
	if _, err := client.Certificate.Delete(ctx, issued); !hcloud.IsError(err, hcloud.ErrorCodeResourceInUse) {
		t.Errorf("certificate in use: %v", err)
	}
	l.ok(t, "DELETE", fmt.Sprintf("/v1/load_balancers/%d", lb.ID), "")
	if _, err := client.Certificate.Delete(ctx, issued); err != nil {
		t.Errorf("certificate that is free again: %v", err)
	}
	if _, _, err := client.Certificate.Update(ctx, uploaded, hcloud.CertificateUpdateOpts{Name: "other", Labels: map[string]string{"c": "d"}}); err != nil {
		t.Fatal(err)
	}
	all, err := client.Certificate.AllWithOpts(ctx, hcloud.CertificateListOpts{ListOpts: hcloud.ListOpts{LabelSelector: "c=d"}, Name: "other"})
	if err != nil || len(all) != 1 {
		t.Errorf("list of certificates: %v, %v", all, err)
	}
}

// TestCertificateFails: the reason is in the status, and a retry mends it.
func TestCertificateFails(t *testing.T) {
	l := newLab(t, cloud.Config{})
	l.fault(t, `{"effect":"fail","code":"dns_zone_not_found","message":"no zone","count":1}`)
	a := l.ok(t, "POST", "/v1/certificates", `{"name":"le","type":"managed","domain_names":["example.com"]}`)
	if got := l.finish(t, a); got.Status != "error" {
		t.Errorf("action %+v", got)
	}
	path := fmt.Sprintf("/v1/certificates/%d", a.Certificate.ID)
	status := l.ok(t, "GET", path, "").Certificate.Status
	if status.Issuance != "failed" || status.Error.Code != "dns_zone_not_found" || status.Error.Message != "no zone" {
		t.Errorf("status %+v, %+v", status, status.Error)
	}
	retry := l.ok(t, "POST", path+"/actions/retry", "")
	if got := l.finish(t, retry); got.Status != "success" || got.Command != "issue_certificate" {
		t.Errorf("action %+v", got)
	}
	if got := l.ok(t, "GET", path, "").Certificate.Status; got.Issuance != "completed" || got.Error != nil {
		t.Errorf("status %+v", got)
	}
	refused{422, "unsupported_error", "only a managed certificate", ""}.check(t, l.do(t, "POST", path+"/actions/retry", ""))
}

func TestCertificateInvalid(t *testing.T) {
	l := newLab(t, cloud.Config{})
	text, key := pair(t)
	_, wrong := pair(t)
	made := l.ok(t, "POST", "/v1/certificates", upload("up", text, key))
	if diff := cmp.Diff([]string{"example.com"}, made.Certificate.DomainNames); diff != "" {
		t.Errorf("domain of the subject differs (-want +got):\n%s", diff)
	}
	for name, test := range map[string]struct {
		body string
		want refused
	}{
		"no name":         {upload("", text, key), refused{422, "invalid_input", "", "name"}},
		"name taken":      {upload("up", text, key), refused{409, "uniqueness_error", "name is already used", "name"}},
		"no certificate":  {upload("x", "", key), refused{422, "invalid_input", "", "certificate"}},
		"no key":          {upload("x", text, ""), refused{422, "invalid_input", "", "private_key"}},
		"wrong key":       {upload("x", text, wrong), refused{422, "invalid_input", "", "private_key"}},
		"key is none":     {upload("x", text, "nonsense"), refused{422, "invalid_input", "", "private_key"}},
		"not PEM":         {upload("x", "nonsense", key), refused{422, "invalid_input", "", "certificate"}},
		"key as cert":     {upload("x", key, key), refused{422, "invalid_input", "", "certificate"}},
		"long chain":      {upload("x", strings.Repeat(text, 6), key), refused{422, "invalid_input", "", "certificate"}},
		"large chain":     {upload("x", text+strings.Repeat("\n", 30_000), key), refused{422, "invalid_input", "", "certificate"}},
		"large key":       {upload("x", text, key+strings.Repeat("\n", 5_000)), refused{422, "invalid_input", "", "private_key"}},
		"unknown type":    {`{"name":"x","type":"x"}`, refused{422, "invalid_input", "", "type"}},
		"no domain":       {`{"name":"x","type":"managed"}`, refused{422, "invalid_input", "", "domain_names"}},
		"domain is none":  {`{"name":"x","type":"managed","domain_names":["a b"]}`, refused{422, "invalid_input", "", "domain_names"}},
		"malformed label": {`{"name":"x","labels":{"a":"b c"}}`, refused{422, "invalid_input", "", "labels"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, l.do(t, "POST", "/v1/certificates", test.body))
		})
	}
	path := fmt.Sprintf("/v1/certificates/%d", made.Certificate.ID)
	refused{422, "unsupported_error", "only a managed certificate", ""}.check(t, l.do(t, "POST", path+"/actions/retry", ""))
	l.ok(t, "DELETE", path, "")
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		refused{404, "not_found", "certificate with ID", ""}.check(t, l.do(t, method, path, "{}"))
	}
	if got := l.ok(t, "GET", "/v1/certificates", "").Certificates; len(got) != 0 {
		t.Errorf("certificates %v, want none", got)
	}
}
