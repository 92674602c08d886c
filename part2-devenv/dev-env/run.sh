#!/bin/sh
# sh run.sh [debug|laptop]: skaffold in the current folder, which is that of a stage.
# debug starts the program under delve; laptop starts it here instead of in the cluster.
. "$(dirname "$0")/lib.sh"
need skaffold kubectl

case ${1:-dev} in
  laptop)
    # What the Secret and the network are for the pod.
    HCLOUD_NETWORK=$(tf output -raw network)
    HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK=true
    export HCLOUD_NETWORK HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK
    exec skaffold run --profile=laptop
    ;;
  dev | debug)
    [ -n "${SKAFFOLD_DEFAULT_REPO:-}" ] || die "Nodes pull the image from a registry, and SKAFFOLD_DEFAULT_REPO does not name one:

  export SKAFFOLD_DEFAULT_REPO=registry.example.com/you    # your own; the image has to be public, or the nodes need a pull secret
  export SKAFFOLD_DEFAULT_REPO=ttl.sh/$name-$(date +%s)    # public, gone after a day

Without a registry, load.sh brings the image to the servers by ssh."
    exec skaffold "${1:-dev}"
    ;;
  *) die "run.sh [debug|laptop]" ;;
esac
