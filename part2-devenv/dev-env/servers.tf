provider "hcloud" {
  token = var.hcloud_token
}

locals {
  names  = concat(["control"], [for i in range(var.worker_count) : "worker-${i + 1}"])
  labels = { "ccm-from-scratch/dev-env" = var.name }

  # What k3s reads before it pulls the first image.
  user_data = var.insecure_registry == "" ? null : join("\n", ["#cloud-config", yamlencode({
    write_files = [{
      path = "/etc/rancher/k3s/registries.yaml"
      content = yamlencode({
        mirrors = { (var.insecure_registry) = { endpoint = ["http://${var.insecure_registry}"] } }
      })
    }]
  })])
}

# The key is made for this environment, so that it can be thrown away with it.
resource "tls_private_key" "ssh" {
  algorithm = "ED25519"
}

resource "local_sensitive_file" "ssh" {
  filename        = "${path.module}/.dev-env.ssh"
  content         = tls_private_key.ssh.private_key_openssh
  file_permission = "0600"
}

resource "hcloud_ssh_key" "ssh" {
  name       = var.name
  public_key = tls_private_key.ssh.public_key_openssh
  labels     = local.labels
}

# The network spans the servers and the pods: routes to pods stay inside of it.
resource "hcloud_network" "cluster" {
  name     = var.name
  ip_range = "10.0.0.0/8"
  labels   = local.labels
}

resource "hcloud_network_subnet" "servers" {
  network_id   = hcloud_network.cluster.id
  type         = "cloud"
  network_zone = "eu-central"
  ip_range     = "10.0.0.0/24"
}

resource "hcloud_server" "node" {
  for_each = toset(local.names)

  # The server's name becomes the Node's name, by which the cloud-controller-manager finds it.
  name        = "${var.name}-${each.key}"
  server_type = var.server_type
  image       = local.image
  location    = var.location
  ssh_keys    = [hcloud_ssh_key.ssh.id]
  user_data   = local.user_data
  labels      = local.labels
}

# By subnet and not by network: a network alone has no address to give.
resource "hcloud_server_network" "node" {
  for_each = hcloud_server.node

  server_id = each.value.id
  subnet_id = hcloud_network_subnet.servers.id
}
