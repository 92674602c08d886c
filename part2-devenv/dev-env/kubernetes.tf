module "k3s" {
  source = "./k3s"

  nodes = { for name in local.names : name => {
    id         = hcloud_server.node[name].id
    public_ip  = hcloud_server.node[name].ipv4_address
    private_ip = hcloud_server_network.node[name].ip
  } }
  channel      = local.k3s_channel
  cluster_cidr = "10.244.0.0/16"
  ssh_key_file = local_sensitive_file.ssh.filename
  ssh_key      = tls_private_key.ssh.private_key_openssh
  kubeconfig   = "${path.module}/kubeconfig.yaml"
}

provider "helm" {
  kubernetes = {
    config_path = module.k3s.kubeconfig
  }
}

provider "kubernetes" {
  config_path = module.k3s.kubeconfig
}

# Its pods tolerate the taint of new Nodes. Packets between Nodes travel as they
# are, by routes that the cloud's network has to know.
resource "helm_release" "cilium" {
  name       = "cilium"
  repository = "https://helm.cilium.io"
  chart      = "cilium"
  version    = local.cilium_version
  namespace  = "kube-system"

  set = [
    { name = "operator.replicas", value = "1" },
    { name = "ipam.mode", value = "kubernetes" },
    { name = "routingMode", value = "native" },
    { name = "ipv4NativeRoutingCIDR", value = module.k3s.cluster_cidr },
  ]
}

resource "kubernetes_secret_v1" "hcloud" {
  metadata {
    name      = "hcloud"
    namespace = "kube-system"
  }

  data = {
    token   = var.hcloud_token
    network = hcloud_network.cluster.id
  }
}
