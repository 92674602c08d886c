variable "hcloud_token" {
  description = "A read-write API token of a project that holds nothing of value."
  type        = string
  sensitive   = true
}

variable "name" {
  description = "What the environment is called: the prefix of all names, and the value of all its labels. Two environments in one project need two names."
  type        = string

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$", var.name))
    error_message = "The name becomes part of host names: at most 32 lower-case letters, digits and hyphens, a letter first and no hyphen last."
  }
}

variable "worker_count" {
  description = "Number of servers beside the control plane. With 0, pods run on the control plane alone."
  type        = number
  default     = 1

  validation {
    condition     = var.worker_count >= 0 && floor(var.worker_count) == var.worker_count
    error_message = "The number of workers is a whole number, 0 or more."
  }
}

variable "server_type" {
  description = "Type of all servers. `hcloud server-type list` shows what there is, and `hcloud server-type describe` what it costs."
  type        = string
  default     = "cx23"
}

variable "location" {
  description = "Where the servers are."
  type        = string
  default     = "fsn1"

  validation {
    condition     = contains(["fsn1", "nbg1", "hel1"], var.location)
    error_message = "The network is in the zone eu-central, so the location is fsn1, nbg1 or hel1."
  }
}

variable "insecure_registry" {
  description = "HOST:PORT of a registry that speaks HTTP instead of HTTPS; empty if there is none. Servers are replaced if it changes."
  type        = string
  default     = ""
}
