#!/bin/sh
# Builds the image of the current folder, which is that of a stage, brings it to
# all servers by ssh, and deploys it. Neither registry nor container engine is needed.
. "$(dirname "$0")/lib.sh"
need ko kubectl ssh

stage=$(basename "$PWD")
tag=$(date +%s)
nodes=$(tf output -raw nodes)
platform=$(tf output -raw platform)
tar=$(mktemp)
trap 'rm -f "$tar"' EXIT

# Nobody asks this host for anything: a Node that has the image does not pull it.
KO_DOCKER_REPO=dev-env.invalid/$stage
export KO_DOCKER_REPO
ko build . --bare --tags="$tag" --platform="$platform" --push=false --tarball="$tar"

echo "$nodes" | while read -r node address; do
  echo "$node: importing"
  remote "$address" k3s ctr images import - < "$tar"
done

kubectl apply -f deploy/rbac.yaml
kubectl set image --local -f deploy/deployment.yaml "*=$KO_DOCKER_REPO:$tag" -o yaml | kubectl apply -f -
kubectl rollout status deployment/cloud-controller-manager -n kube-system --timeout=2m
