package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditPolicy asks for a line per request, at its end, without contents.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// configure sets the processes up, apart from what envtest does well by
// itself: addresses and ports, serving and client certificates, the keys of
// the service accounts, etcd without fsync.
func (c *Cluster) configure(o Options, etcdLog, apiLog io.Writer) (err error) {
	etcd := &envtest.Etcd{DataDir: filepath.Join(c.Dir(), "data"), StartTimeout: startTimeout, Out: etcdLog, Err: etcdLog}
	api := &envtest.APIServer{CertDir: filepath.Join(c.Dir(), "pki"), StartTimeout: startTimeout, Out: apiLog, Err: apiLog}
	c.plane.Etcd, c.plane.APIServer = etcd, api
	if err := os.Mkdir(api.CertDir, 0o700); err != nil {
		return err
	}
	if etcd.Path, err = c.watchdog.wrap(c.binaries.Etcd); err != nil {
		return err
	}
	if api.Path, err = c.watchdog.wrap(c.binaries.KubeAPIServer); err != nil {
		return err
	}

	// A lone member elects itself after this time (milliseconds), of a second by default.
	etcd.Configure().Set("heartbeat-interval", "20").Set("election-timeout", "200")

	frontProxyCA := filepath.Join(api.CertDir, "front-proxy-ca.crt")
	if err := writeCA(frontProxyCA); err != nil {
		return err
	}
	flags := api.Configure().
		// The real admission of service accounts, which envtest leaves out.
		Disable("disable-admission-plugins").
		Set("enable-admission-plugins", "NodeRestriction").
		Set("authorization-mode", "Node", "RBAC").
		Set("service-cluster-ip-range", "10.96.0.0/16").
		// Without an address of its own the API server looks for a default route,
		// which a laptop without network does not have. As the endpoint of the
		// kubernetes Service a loopback address is refused, so there is none.
		Set("advertise-address", "127.0.0.1").
		Set("endpoint-reconciler-type", "none").
		Set("profiling", "false").
		// These fill the ConfigMap extension-apiserver-authentication, from which
		// a CCM's own HTTPS server learns whom to trust.
		Set("requestheader-client-ca-file", frontProxyCA).
		Set("requestheader-allowed-names", "front-proxy-client").
		Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-")
	if o.Audit == "" {
		return nil
	}
	policy := filepath.Join(c.Dir(), "audit-policy.yaml")
	flags.Set("audit-policy-file", policy).Set("audit-log-path", o.Audit)
	return os.WriteFile(policy, []byte(auditPolicy), 0o600)
}

// writeCA writes the certificate of an authority whose key nobody has: the API
// server demands one, and there is no front proxy that would need a signature.
func writeCA(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "front-proxy-ca"}, key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600)
}
