package loadbalancer

import (
	"encoding/json"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// values are right and wrong values of each annotation. The admission policy is
// tested with the same.
func values(t testing.TB) map[string]struct{ Valid, Invalid []string } {
	t.Helper()
	text, err := os.ReadFile("testdata/values.json")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]struct{ Valid, Invalid []string }{}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func annotated(annotations map[string]string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
	for name, value := range annotations {
		s.Annotations[Prefix+name] = value
	}
	return s
}

func TestS37EveryValue(t *testing.T) {
	all := values(t)
	for _, a := range Annotations {
		t.Run(a.Name, func(t *testing.T) {
			test, ok := all[a.Name]
			if !ok || len(test.Valid) == 0 || len(test.Invalid) == 0 && a.Scope != Never {
				t.Fatal("testdata/values.json has no right and wrong values")
			}
			for _, v := range test.Valid {
				if _, err := Parse(annotated(map[string]string{a.Name: v}), Defaults{}); err != nil {
					t.Errorf("%q is refused: %v", v, err)
				}
			}
			for _, v := range test.Invalid {
				_, err := Parse(annotated(map[string]string{a.Name: v}), Defaults{})
				if err == nil || !strings.Contains(err.Error(), Prefix+a.Name+": ") {
					t.Errorf("%q: error = %v, want one with the annotation", v, err)
				} else if whole := !strings.ContainsAny(v, ",="); whole && !strings.Contains(err.Error(), strconv.Quote(v)) {
					t.Errorf("%q: error = %v, want one with the value", v, err)
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name        string
		annotations map[string]string
		defaults    Defaults
		want        func(*Settings)
		wantErrs    []string
	}{
		{name: "nothing", want: func(*Settings) {}},
		{
			name:        "10 and 10s are the same",
			annotations: map[string]string{"health-check-interval": "10", "health-check-timeout": "10s"},
			want:        func(s *Settings) { s.HealthInterval, s.HealthTimeout = 10*time.Second, 10*time.Second },
		},
		{
			name:        "values for some ports",
			annotations: map[string]string{"protocol": "80=http,443=https", "uses-proxyprotocol": "80=false"},
			defaults:    Defaults{ProxyProtocol: true},
			want: func(s *Settings) {
				s.Protocol.Ports = map[int]hcloud.LoadBalancerServiceProtocol{80: "http", 443: "https"}
				s.ProxyProtocol.Ports = map[int]bool{80: false}
			},
		},
		{
			name:        "a zone wins over the default location",
			annotations: map[string]string{"network-zone": "eu-central"},
			defaults:    Defaults{Location: "fsn1"},
			want:        func(s *Settings) { s.Location, s.NetworkZone = "", "eu-central" },
		},
		{
			name:        "all errors at once",
			annotations: map[string]string{"use-private-ip": "yes", "health-check-port": "http", "name": "a"},
			wantErrs:    []string{`use-private-ip: "yes" is neither true nor false`, `health-check-port: "http" is not a number from 1 to 65535`},
			want:        func(s *Settings) { s.Name = "a" },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse(annotated(test.annotations), test.defaults)
			var errs []string
			if err != nil {
				errs = strings.Split(strings.ReplaceAll(err.Error(), "annotation "+Prefix, ""), "; ")
			}
			if diff := cmp.Diff(test.wantErrs, errs); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			want := test.defaults.settings()
			test.want(want)
			got.given, want.given = nil, nil
			if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzParse holds the parser to what the table promises: no panic, errors that
// name the annotation, and no setting from a wrong value.
func FuzzParse(f *testing.F) {
	for name, v := range values(f) {
		for _, value := range append(v.Valid, v.Invalid...) {
			f.Add(name, value)
		}
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		service := annotated(map[string]string{name: value})
		s, err := Parse(service, Defaults{})
		if err != nil && !strings.Contains(err.Error(), "annotation "+Prefix+name+": ") {
			t.Errorf("error = %v, want one that names the annotation", err)
		}
		if err != nil && s.has(name) {
			t.Errorf("a wrong value of %s counts as given", name)
		}
		if s.HealthInterval < 3*time.Second || s.HealthInterval > time.Minute || s.HealthPort < 0 || s.HealthPort > 65535 || s.NodeSelector == nil {
			t.Errorf("%s=%q leads to a setting out of bounds: %+v", name, value, s)
		}
	})
}

func TestUnknownAnnotations(t *testing.T) {
	got := unknownAnnotations(annotated(map[string]string{"use-private-op": "true", "name": "a"}))
	if diff := cmp.Diff([]string{Prefix + "use-private-op"}, got); diff != "" {
		t.Errorf("unknownAnnotations (-want +got):\n%s", diff)
	}
}

// TestLenient has values that mean the same as the ones that the API wants.
func TestLenient(t *testing.T) {
	got, err := Parse(annotated(map[string]string{
		"ipv4-rdns": "LB.Example.org.", "hostname": "LB.Example.org.", "health-check-http-domain": "_A.example.org",
		"http-managed-certificate-domains": "*.Example.org., example.org", "private-subnet-ip-range": "10.0.1.5/24",
		"http-cookie-lifetime": "1.5h", "http-timeout-idle": "30000ms", "http-cookie-name": "my.cookie",
	}), Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults{}.settings()
	want.IPv4RDNS, want.Hostname, want.HealthDomain = "lb.example.org", "lb.example.org", "_a.example.org"
	want.Domains, want.PrivateSubnet = []string{"*.example.org", "example.org"}, netip.MustParsePrefix("10.0.1.0/24")
	want.CookieLifetime, want.TimeoutIdle, want.CookieName = 90*time.Minute, 30*time.Second, "my.cookie"
	got.given, want.given = nil, nil
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}
