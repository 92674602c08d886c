// Package devenv tests the development environment of part2-devenv/dev-env as far
// as that is possible without a cloud: the configuration against the schemas of
// the real providers, the scripts against an emulated cloud and a real API server.
package devenv
