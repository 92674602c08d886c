# The commands that make a cluster of servers. They are planned and not applied,
# so they do not run.
mock_provider "null" {}
mock_provider "local" {}

run "commands" {
  command = plan

  module {
    source = "./k3s"
  }

  variables {
    nodes = {
      control  = { id = "1", public_ip = "203.0.113.1", private_ip = "10.0.0.2" }
      worker-1 = { id = "2", public_ip = "203.0.113.2", private_ip = "10.0.0.3" }
    }
    channel      = "v1.37"
    cluster_cidr = "10.244.0.0/16"
    ssh_key_file = "./.dev-env.ssh"
    ssh_key      = "secret"
    kubeconfig   = "./kubeconfig.yaml"
  }

  assert {
    condition = output.install == join(" ", [
      "k3sup install --ip=203.0.113.1 --ssh-key='./.dev-env.ssh' --k3s-channel=v1.37 --local-path='./kubeconfig.yaml'",
      "--k3s-extra-args='--kubelet-arg=cloud-provider=external --node-ip=10.0.0.2 --node-external-ip=203.0.113.1",
      "--disable-cloud-controller --disable=servicelb --disable=traefik --disable=local-storage",
      "--disable-network-policy --flannel-backend=none --cluster-cidr=10.244.0.0/16'",
    ])
    error_message = "The control plane is installed by another command: ${output.install}"
  }
  assert {
    condition = output.join == { worker-1 = join(" ", [
      "k3sup join --ip=203.0.113.2 --server-ip=203.0.113.1 --ssh-key='./.dev-env.ssh' --k3s-channel=v1.37",
      "--k3s-extra-args='--kubelet-arg=cloud-provider=external --node-ip=10.0.0.3 --node-external-ip=203.0.113.2'",
    ]) }
    error_message = "A worker joins by another command: ${jsonencode(output.join)}"
  }
}
