package finaltest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/tools/clientcmd"
)

// link is a TCP connection to the API server that can be cut.
type link struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns []net.Conn
	isCut bool
}

// newLink returns a link, and a kubeconfig file that uses it.
func (l *lab) newLink() (_ *link, kubeconfig string) {
	l.Helper()
	config, err := clientcmd.LoadFromFile(l.kubeconfig)
	if err != nil {
		l.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Fatal(err)
	}
	k := &link{listener: listener}
	l.Cleanup(k.cut)
	for _, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			l.Fatal(err)
		}
		k.target = server.Host
		server.Host = listener.Addr().String()
		cluster.Server = server.String()
	}
	go k.serve()
	kubeconfig = filepath.Join(l.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		l.Fatal(err)
	}
	return k, kubeconfig
}

func (k *link) serve() {
	for {
		in, err := k.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", k.target)
		if err != nil || !k.keep(in, out) {
			_ = in.Close()
			continue
		}
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = pair[0].Close()
			}()
		}
	}
}

func (k *link) keep(conns ...net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns = append(k.conns, conns...)
	return !k.isCut
}

// cut ends all connections, and lets no other come about.
func (k *link) cut() {
	_ = k.listener.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut = true
	for _, conn := range k.conns {
		_ = conn.Close()
	}
}

// watchedAPI is the cloud's API with somebody between it and a CCM, who acts after
// an answer has been made, and before the CCM has it. It returns its URL.
func (l *lab) watchedAPI(answered func(*http.Response) error) string {
	l.Helper()
	target, err := url.Parse(strings.TrimSuffix(l.Endpoint, "/v1"))
	if err != nil {
		l.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: answered,
	}
	server := httptest.NewServer(proxy)
	l.Cleanup(server.Close)
	return server.URL + "/v1"
}
