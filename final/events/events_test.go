package events

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// TestO05 repeats a warning every five seconds for an hour.
func TestO05(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := record.NewFakeRecorder(1000)
		r := NewRecorder(sink)
		a := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID("1")}}
		b := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: types.UID("2")}}
		for range 720 {
			r.Warn(a, ServerNotFound, "no server named %q", a.Name)
			r.Warn(b, ServerNotFound, "no server named %q", b.Name)
			time.Sleep(5 * time.Second)
		}
		if got := len(sink.Events); got != 12 {
			t.Errorf("%d events in an hour for two Nodes, want 6 each", got)
		}
		if got, want := <-sink.Events, `Warning ServerNotFound no server named "a"`; got != want {
			t.Errorf("event = %q, want %q", got, want)
		}
	})
}

func TestDropped(*testing.T) {
	NewRecorder(nil).Warn(&corev1.Node{}, ServerNotFound, "nobody hears it")
}

// TestMarkdown looks for every kind of event, each once and with all that people
// need to know.
func TestMarkdown(t *testing.T) {
	page := Markdown()
	for _, r := range append(ours, librarys...) {
		if n := strings.Count(page, "| `"+r.name+"` | "+r.object+" | "); n != 1 {
			t.Errorf("%s is there %d times", r.name, n)
		}
		if r.meaning == "" || r.remedy == "" || strings.ContainsAny(r.meaning+r.remedy, "|\n") {
			t.Errorf("%s: meaning %q, remedy %q", r.name, r.meaning, r.remedy)
		}
	}
}
