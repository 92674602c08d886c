#!/bin/sh
# sh ssh.sh [NODE [COMMAND...]]: a shell on a server, the control plane if none is named.
. "$(dirname "$0")/lib.sh"
need ssh

node=${1:-control}
[ $# -eq 0 ] || shift
nodes=$(tf output -raw nodes)
address=$(echo "$nodes" | awk -v node="$node" '$1 == node { print $2 }')
[ -n "$address" ] || die "There is no server $node, but there are:
$nodes"
remote "$address" "$@"
