# Makes a Kubernetes cluster of servers. All provisioners are in this module, so
# that everything else can be tested by applying it.
terraform {
  required_providers {
    null = {
      source = "hashicorp/null"
    }
    local = {
      source = "hashicorp/local"
    }
  }
}

variable "nodes" {
  description = "The servers by name. The one with the name control becomes the control plane, all others join it."
  type = map(object({
    id         = string
    public_ip  = string
    private_ip = string
  }))
}

variable "channel" {
  description = "Release channel of k3s, such as v1.37."
  type        = string
}

variable "cluster_cidr" {
  description = "Addresses of all pods."
  type        = string
}

variable "ssh_key_file" {
  description = "Path of the private key, for k3sup."
  type        = string
}

variable "ssh_key" {
  description = "The private key itself."
  type        = string
  sensitive   = true
}

variable "kubeconfig" {
  description = "Where to write the kubeconfig."
  type        = string
}

locals {
  control = var.nodes["control"]
  workers = { for name, node in var.nodes : name => node if name != "control" }

  # What a kubelet needs to know. The taint and the annotation are set when it
  # registers its Node, and at no other time.
  node_flags = { for name, node in var.nodes : name => [
    "--kubelet-arg=cloud-provider=external",
    "--node-ip=${node.private_ip}",
    "--node-external-ip=${node.public_ip}",
  ] }

  # What k3s brings along and others do here. An agent knows none of these flags,
  # and refuses to start with one.
  server_flags = [
    "--disable-cloud-controller",
    "--disable=servicelb",
    "--disable=traefik",
    "--disable=local-storage",
    "--disable-network-policy",
    "--flannel-backend=none",
    "--cluster-cidr=${var.cluster_cidr}",
  ]

  install = join(" ", [
    "k3sup install",
    "--ip=${local.control.public_ip}",
    "--ssh-key='${var.ssh_key_file}'",
    "--k3s-channel=${var.channel}",
    "--local-path='${var.kubeconfig}'",
    "--k3s-extra-args='${join(" ", concat(local.node_flags["control"], local.server_flags))}'",
  ])

  join = { for name, node in local.workers : name => join(" ", [
    "k3sup join",
    "--ip=${node.public_ip}",
    "--server-ip=${local.control.public_ip}",
    "--ssh-key='${var.ssh_key_file}'",
    "--k3s-channel=${var.channel}",
    "--k3s-extra-args='${join(" ", local.node_flags[name])}'",
  ]) }
}

# A server answers before its set-up has ended, hence the waiting. 2 is
# cloud-init's word for: done, with a warning.
resource "null_resource" "install" {
  triggers = { server = local.control.id }

  connection {
    host        = local.control.public_ip
    private_key = var.ssh_key
  }

  provisioner "remote-exec" {
    inline = ["cloud-init status --wait > /dev/null || [ $? -eq 2 ]"]
  }

  provisioner "local-exec" {
    command = local.install
  }
}

resource "null_resource" "join" {
  for_each = local.workers

  # A new control plane is a new cluster, which the others join anew.
  triggers = { server = each.value.id, cluster = null_resource.install.id }

  connection {
    host        = each.value.public_ip
    private_key = var.ssh_key
  }

  provisioner "remote-exec" {
    inline = ["cloud-init status --wait > /dev/null || [ $? -eq 2 ]"]
  }

  provisioner "local-exec" {
    command = local.join[each.key]
  }
}

# Providers are configured before the first resource exists. Through depends_on,
# they learn the file's name when there is such a file. It depends on the control
# plane alone: with another worker to join, the cluster is still within reach.
data "local_sensitive_file" "kubeconfig" {
  filename   = var.kubeconfig
  depends_on = [null_resource.install]
}

output "kubeconfig" {
  value = data.local_sensitive_file.kubeconfig.filename
}

output "install" {
  value = local.install
}

output "join" {
  value = local.join
}

output "cluster_cidr" {
  value = var.cluster_cidr
}
