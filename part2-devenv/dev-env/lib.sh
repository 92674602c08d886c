#!/bin/sh
# What the scripts of this folder share. It is sourced.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

die() {
  echo "$*" >&2
  exit 1
}

need() {
  for program; do
    command -v "$program" > /dev/null || die "$program is not installed, and this needs it."
  done
}

# setting NAME: its value in the file that Terraform reads, too.
setting() {
  sed -n "s/^ *$1 *= *\"\([^\"]*\)\".*/\1/p" "$here/credentials.auto.tfvars"
}

# OpenTofu or Terraform, in this folder.
tf() {
  if command -v tofu > /dev/null; then
    tofu -chdir="$here" "$@"
  else
    need terraform
    terraform -chdir="$here" "$@"
  fi
}

# remote ADDRESS [COMMAND...]: as root on a server of the environment. Other
# servers had its address before, so the environment has a list of known hosts.
remote() {
  address=$1
  shift
  ssh -i "$here/.dev-env.ssh" -o "UserKnownHostsFile=$here/.known_hosts" -o StrictHostKeyChecking=accept-new "root@$address" "$@"
}

[ -f "$here/credentials.auto.tfvars" ] || die "Please write $here/credentials.auto.tfvars:

  name         = \"alice\"    # prefix and label of all that is made
  hcloud_token = \"...\"      # read and write, of a project that holds nothing of value"

name=$(setting name)
HCLOUD_TOKEN=$(setting hcloud_token)
KUBECONFIG=$here/kubeconfig.yaml
export HCLOUD_TOKEN KUBECONFIG

# An empty name would make a label that others may have.
if [ -z "$name" ] || [ -z "$HCLOUD_TOKEN" ]; then
  die "$here/credentials.auto.tfvars lacks name or hcloud_token."
fi
