// Package finaltest holds the tests of the last stage that no script can tell:
// those with two projects, two processes, or many Nodes. It has no code of its own.
package finaltest
