#!/bin/sh
# Deletes the environment, and what its cluster has made in the cloud. It touches
# nothing else in the project, needs no cluster that answers, and can be run again.
. "$(dirname "$0")/lib.sh"
need hcloud kubectl

label=ccm-from-scratch/dev-env=$name
failed=

ids() { # ids KIND SELECTOR
  hcloud "$1" list -l "$2" -o noheader -o columns=id
}

delete() { # delete KIND ID
  hcloud "$1" delete "$2" || failed="$failed $1 $2"
}

# Services first, so that the controller deletes their load balancers itself. The
# network of a load balancer and the Service in its label tell whose it is.
networks=$(ids network "$label")
owners=
for id in $networks; do owners="$owners network-$id"; done
if [ -f "$KUBECONFIG" ]; then
  services=$(kubectl get services -A --request-timeout=10s \
    -o jsonpath='{range .items[?(@.spec.type=="LoadBalancer")]}{.metadata.namespace} {.metadata.name} {.metadata.uid}{"\n"}{end}') ||
    echo "The cluster does not answer, so its Services stay until its servers go."
  while read -r namespace service uid; do
    [ -n "$uid" ] || continue
    owners="$owners service-$uid"
    kubectl delete service -n "$namespace" "$service" --ignore-not-found --timeout=60s ||
      echo "Nobody cleans up after the Service $namespace/$service, so we do."
  done << EOF
$services
EOF
fi

balancers=$(ids load-balancer hcloud-ccm/service-uid)
for id in $balancers; do
  its=$(hcloud load-balancer describe "$id" -o \
    'format=service-{{index .Labels "hcloud-ccm/service-uid"}}{{range .PrivateNet}} network-{{.Network.ID}}{{end}}')
  for owner in $owners; do
    case " $its " in *" $owner "*) delete load-balancer "$id" && break ;; esac
  done
done

# What lives in the cluster goes with its servers. Terraform would ask the cluster
# about it, and wait for an answer.
destroy() {
  tf init -input=false || return
  for resource in helm_release.cilium kubernetes_secret_v1.hcloud; do
    if tf state list | grep -qxF "$resource"; then tf state rm "$resource" || return; fi
  done
  tf destroy -input=false -auto-approve -refresh=false
}
if [ -f "$here/terraform.tfstate" ]; then
  destroy || failed="$failed Terraform"
fi

# A lost state leaves these, and so does a Terraform that cannot be had.
for kind in server network ssh-key; do
  left=$(ids "$kind" "$label")
  for id in $left; do delete "$kind" "$id"; done
done

[ -z "$failed" ] || die "Still to do:$failed. Please look why, and run this again."
rm -f "$KUBECONFIG" "$here/.known_hosts" "$here/.dev-env.ssh"
echo "Nothing of the environment $name is left, and nothing of it costs anything."
