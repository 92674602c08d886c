#!/bin/sh
# Makes the environment, or what of it is missing, and says what it costs.
. "$(dirname "$0")/lib.sh"
need k3sup hcloud

tf init -input=false
tf apply -input=false -auto-approve

nodes=$(tf output -raw nodes)
price=$(hcloud server-type describe "$(tf output -raw server_type)" -o \
  "format={{range .Pricings}}{{if eq .Location.Name \"$(tf output -raw location)\"}}{{.Hourly.Gross}}{{end}}{{end}}")

echo "
The environment $name is up:

$nodes

It costs $(echo "$nodes" | awk -v price="$price" 'END { printf "%.4f", NR * price }') an hour for the servers, in the project's currency and
with tax, and as much again for each started hour; load balancers that you make are extra.
make dev-down ends all of it. A server that is powered off costs the same as one that runs.

  export KUBECONFIG=$KUBECONFIG"
