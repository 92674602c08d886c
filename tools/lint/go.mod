// The linter, pinned. A module of its own, outside go.work: its many
// dependencies must not decide the versions of anything else.
module example.com/ccm-from-scratch/tools/lint

go 1.26.0

tool github.com/golangci/golangci-lint/v2/cmd/golangci-lint
