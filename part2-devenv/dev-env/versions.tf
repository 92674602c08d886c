# All versions are here. A provider may move up to the next minor version, and
# .terraform.lock.hcl keeps the one that it moved to.
terraform {
  required_version = ">= 1.8"

  required_providers {
    tls = {
      source  = "hashicorp/tls"
      version = "~> 4.2"
    }
    local = {
      source  = "hashicorp/local"
      version = "~> 2.9"
    }
    hcloud = {
      source  = "hetznercloud/hcloud"
      version = "~> 1.68"
    }
    null = {
      source  = "hashicorp/null"
      version = "~> 3.3"
    }
    helm = {
      source  = "hashicorp/helm"
      version = "~> 3.1"
    }
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = "~> 3.2"
    }
  }
}

locals {
  image          = "ubuntu-24.04"
  k3s_channel    = "v1.37"
  cilium_version = "1.20.1"
}
