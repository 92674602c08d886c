// Package cloud emulates the Hetzner Cloud API in memory.
//
// A [Cloud] is an [net/http.Handler] that speaks the API below /v1, close
// enough for hcloud-go, the hcloud CLI and cloud-controller-managers to work
// with it unchanged. A token belongs to a project, and projects do not see
// each other.
//
// Below /_lab, a path that the real API does not have, are the verbs that make
// it a laboratory: read the journal of requests, order faults, change settings.
//
// Every emulated rule names its source in a comment: the API reference, a
// client's source, something seen in the wild, or "guess". README.md lists all
// guesses.
package cloud
