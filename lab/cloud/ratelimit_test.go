package cloud_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/ccm-from-scratch/lab/cloud"
)

// TestRateLimit runs on synthetic time.
func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cloud.New(cloud.Config{RateLimit: 1800}) // one each two seconds
		defer c.Close()
		c.AddToken(token, "p", cloud.ReadWrite)
		c.AddToken("other", "q", cloud.ReadWrite)
		get := func(wantStatus, wantRemaining int, wantReset time.Duration) {
			t.Helper()
			rec := serve(t, c, "GET", "/v1/locations", "")
			h := rec.Header()
			want := []string{strconv.Itoa(wantStatus), "1800", strconv.Itoa(wantRemaining), strconv.FormatInt(time.Now().Add(wantReset).Unix(), 10)}
			got := []string{strconv.Itoa(rec.Code), h.Get("RateLimit-Limit"), h.Get("RateLimit-Remaining"), h.Get("RateLimit-Reset")}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer differs (-want +got):\n%s", diff)
			}
		}
		get(200, 1799, 2*time.Second)
		get(200, 1798, 4*time.Second)
		<-time.After(4 * time.Second)
		get(200, 1799, 2*time.Second)

		if rec := serve(t, c, "PUT", "/_lab/settings", `{"rate_remaining":1}`); rec.Code != 200 {
			t.Fatal(rec.Body)
		}
		get(200, 0, time.Hour)
		get(429, 0, time.Hour)
		rec := serve(t, c, "GET", "/v1/locations", "")
		want := `{"error":{"code":"rate_limit_exceeded","message":"limit of 1800 requests per hour reached","details":null}}`
		if diff := cmp.Diff(want, rec.Body.String()); diff != "" {
			t.Errorf("error differs (-want +got):\n%s", diff)
		}
		if rec := serve(t, c, "GET", "/_lab/v1/locations", ""); rec.Code != 200 {
			t.Errorf("the lab's own requests are limited: %d", rec.Code)
		}
		<-time.After(2 * time.Second)
		get(200, 0, time.Hour)
		get(429, 0, time.Hour)
		if rec := serve(t, c, "PUT", "/_lab/settings", `{"rate_limit":7200}`); rec.Code != 200 {
			t.Fatal(rec.Body)
		}
		if got := serve(t, c, "GET", "/v1/locations", "").Header().Get("RateLimit-Remaining"); got != "7199" {
			t.Errorf("%s remain of the new limit, want 7199", got)
		}
	})
}

// TestRealistic runs on synthetic time: how a server comes and goes when
// actions take as long as they do.
func TestRealistic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cloud.New(cloud.Config{Profile: cloud.Realistic})
		defer c.Close()
		c.AddToken(token, "p", cloud.ReadWrite)
		begin := time.Now()
		log := []string{}
		look := func() {
			synctest.Wait()
			line := "gone"
			if servers := c.Servers("p"); len(servers) > 0 {
				line = fmt.Sprintf("%s locked=%t", servers[0].Status, servers[0].Locked)
			}
			if len(log) == 0 || log[len(log)-1][len("00s "):] != line {
				log = append(log, fmt.Sprintf("%02.0fs %s", time.Since(begin).Seconds(), line))
			}
		}
		pass := func(seconds int) {
			for range seconds {
				<-time.After(time.Second)
				look()
			}
		}
		do := func(method, path, body string) {
			t.Helper()
			if rec := serve(t, c, method, path, body); rec.Code >= http.StatusBadRequest {
				t.Fatalf("%s %s: %s", method, path, rec.Body)
			}
			look()
		}
		do("POST", "/v1/servers", `{"name":"one","server_type":"cx23","image":"debian-12"}`)
		pass(20)
		path := fmt.Sprintf("/v1/servers/%d", c.Servers("p")[0].ID)
		do("POST", path+"/actions/shutdown", "")
		pass(10)
		do("POST", path+"/actions/poweron", "")
		pass(10)
		do("POST", path+"/actions/shutdown", "")
		pass(2)
		do("POST", path+"/actions/reset", "") // overtakes the shutdown
		pass(8)
		do("POST", path+"/actions/poweroff", "")
		pass(5)
		do("DELETE", path, "")
		want := []string{
			"00s initializing locked=true",
			"08s starting locked=true",
			"15s running locked=false",
			"20s running locked=true",
			"21s running locked=false",
			"26s off locked=false",
			"30s starting locked=true",
			"37s running locked=false",
			"40s running locked=true",
			"41s running locked=false",
			"42s starting locked=true",
			"45s running locked=false",
			"50s stopping locked=true",
			"53s off locked=false",
			"55s gone",
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Errorf("log differs (-want +got):\n%s", diff)
		}
	})
}

// TestSubscribe: changes that nobody receives add up to one signal.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cloud.New(cloud.Config{})
		defer c.Close()
		c.AddToken(token, "p", cloud.ReadWrite)
		changed, cancel := c.Subscribe()
		received := func() bool {
			synctest.Wait()
			select {
			case <-changed:
				return true
			default:
				return false
			}
		}
		if received() {
			t.Error("signal before any change")
		}
		serve(t, c, "GET", "/v1/servers", "")
		serve(t, c, "POST", "/v1/servers", "{}")
		if received() {
			t.Error("signal after a read and a refusal")
		}
		serve(t, c, "POST", "/v1/servers", `{"name":"a","server_type":"cx23","image":"debian-12"}`)
		serve(t, c, "POST", "/v1/servers", `{"name":"b","server_type":"cx23","image":"debian-12"}`)
		if !received() || received() {
			t.Error("not one signal for two changes")
		}
		<-time.After(time.Second)
		if !received() {
			t.Error("no signal for the end of actions")
		}
		cancel()
		serve(t, c, "POST", "/v1/networks", `{"name":"n","ip_range":"10.0.0.0/16"}`)
		if received() {
			t.Error("signal after cancel")
		}
	})
}
