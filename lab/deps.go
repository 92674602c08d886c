package main

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/hetznercloud/hcloud-go/v2/hcloud"
	_ "github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/rogpeppe/go-internal/lockedfile"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "github.com/spf13/cobra"
	_ "k8s.io/client-go/kubernetes"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "sigs.k8s.io/yaml"
	_ "golang.org/x/sync/errgroup"
)

func main() {}
