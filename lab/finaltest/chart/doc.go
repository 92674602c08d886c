// Package chart tests the Helm chart of the last stage: what it renders, what it
// refuses, and what becomes of a release on a real API server.
package chart
