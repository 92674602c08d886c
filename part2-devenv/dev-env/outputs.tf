output "nodes" {
  description = "Name and public address of each server, one a line, the control plane first."
  value       = join("", [for name in local.names : "${name} ${hcloud_server.node[name].ipv4_address}\n"])
}

output "network" {
  description = "ID of the network, for HCLOUD_NETWORK."
  value       = hcloud_network.cluster.id
}

output "platform" {
  description = "What images are built for."
  value       = startswith(var.server_type, "cax") ? "linux/arm64" : "linux/amd64"
}

output "server_type" {
  value = var.server_type
}

output "location" {
  value = var.location
}
