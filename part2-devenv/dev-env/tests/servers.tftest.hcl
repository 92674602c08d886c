# What goes to the cloud, with all providers mocked. The module k3s is left out:
# its provisioners would run.
mock_provider "tls" {}
mock_provider "local" {}
mock_provider "null" {}
mock_provider "helm" {}
mock_provider "kubernetes" {}

mock_provider "hcloud" {
  mock_resource "hcloud_ssh_key" {
    defaults = { id = "23" }
  }
  mock_resource "hcloud_network" {
    defaults = { id = "42" }
  }
  mock_resource "hcloud_network_subnet" {
    defaults = { id = "42-10.0.0.0/24" }
  }
  mock_resource "hcloud_server" {
    defaults = { id = "7", ipv4_address = "203.0.113.7" }
  }
  mock_resource "hcloud_server_network" {
    defaults = { ip = "10.0.0.7" }
  }
}

override_module {
  target  = module.k3s
  outputs = { kubeconfig = "kubeconfig.yaml", cluster_cidr = "10.244.0.0/16", install = "", join = {} }
}

variables {
  name         = "alice"
  hcloud_token = "secret"
}

run "one_worker" {
  assert {
    condition     = [for s in hcloud_server.node : s.name] == ["alice-control", "alice-worker-1"]
    error_message = "The environment has a control plane and one worker, and their names begin with its name."
  }
  assert {
    condition     = hcloud_ssh_key.ssh.name == "alice" && hcloud_network.cluster.name == "alice"
    error_message = "Two environments in one project need names of their own."
  }
  assert {
    condition = alltrue([
      for labels in concat([hcloud_ssh_key.ssh.labels, hcloud_network.cluster.labels], values(hcloud_server.node)[*].labels) :
      labels == tomap({ "ccm-from-scratch/dev-env" = "alice" })
    ])
    error_message = "What has not the environment's label is not cleaned up."
  }
  assert {
    condition     = alltrue([for n in hcloud_server_network.node : n.subnet_id == "42-10.0.0.0/24"])
    error_message = "A server is attached by subnet, so that it waits for the subnet."
  }
  assert {
    condition     = tls_private_key.ssh.algorithm == "ED25519" && local_sensitive_file.ssh.file_permission == "0600"
    error_message = "ssh refuses a key that others can read."
  }
  assert {
    condition     = alltrue([for s in hcloud_server.node : s.user_data == null])
    error_message = "User data are for an insecure registry only: servers are replaced if they change."
  }
  assert {
    condition     = kubernetes_secret_v1.hcloud.data == tomap({ token = "secret", network = "42" })
    error_message = "The Secret holds the token and the network's ID."
  }
  assert {
    condition     = { for s in helm_release.cilium.set : s.name => s.value }["ipv4NativeRoutingCIDR"] == "10.244.0.0/16"
    error_message = "Cilium leaves packets to pods as they are."
  }
  assert {
    condition     = output.nodes == "control 203.0.113.7\nworker-1 203.0.113.7\n"
    error_message = "The scripts read one server a line, the control plane first."
  }
}

run "no_worker" {
  variables {
    worker_count = 0
    server_type  = "cax11"
  }
  assert {
    condition     = keys(hcloud_server.node) == ["control"] && keys(hcloud_server_network.node) == ["control"]
    error_message = "The control plane alone is a cluster."
  }
  assert {
    condition     = output.platform == "linux/arm64"
    error_message = "Images are built for the servers."
  }
}

run "insecure_registry" {
  variables {
    insecure_registry = "10.0.0.9:5000"
  }
  assert {
    condition     = startswith(hcloud_server.node["control"].user_data, "#cloud-config\n")
    error_message = "cloud-init knows its configuration by the first line."
  }
  assert {
    condition     = yamldecode(hcloud_server.node["control"].user_data).write_files[0].path == "/etc/rancher/k3s/registries.yaml"
    error_message = "k3s reads its registries from a file."
  }
  assert {
    condition     = yamldecode(yamldecode(hcloud_server.node["worker-1"].user_data).write_files[0].content) == { mirrors = { "10.0.0.9:5000" = { endpoint = ["http://10.0.0.9:5000"] } } }
    error_message = "Nodes talk HTTP to this registry, and to no other."
  }
}

run "names_become_host_names" {
  command = plan
  variables {
    name = "Alice's"
  }
  expect_failures = [var.name]
}

run "locations_are_in_the_networks_zone" {
  command = plan
  variables {
    location = "ash"
  }
  expect_failures = [var.location]
}

run "workers_are_countable" {
  command = plan
  variables {
    worker_count = -1
  }
  expect_failures = [var.worker_count]
}
