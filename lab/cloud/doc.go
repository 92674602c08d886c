// Package cloud emulates the Hetzner Cloud API in memory.
package cloud
