terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 9.0"
    }
  }
}

variable "access_policy" {
  description = "Number of the organisation's access policy, as gcloud access-context-manager policies list shows it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9]+$", var.access_policy))
    error_message = "An access policy is named by its number alone, such as 123456789."
  }
}

variable "browser_networks" {
  description = "Public addresses of the networks from which browsers read and put artifacts through signed URLs, such as 203.0.113.0/24. Empty admits no browser."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for range in var.browser_networks : can(cidrhost(range, 0)) && !can(regex("/0$", range))])
    error_message = "A network is a range of addresses in CIDR notation, such as 203.0.113.0/24 or 2001:db8::/32, and not all addresses (/0)."
  }
}

variable "enforced" {
  description = "Whether the perimeter refuses requests. False only logs what it would refuse."
  type        = bool
  default     = false
  nullable    = false
}

variable "location" {
  description = "Location of the database and the bucket."
  type        = string
  default     = "europe-west1"
  nullable    = false

  validation {
    condition     = can(regex("^([a-z]+-[a-z]+[0-9]+|nam5|nam7|eur3)$", var.location))
    error_message = "A location is a region such as europe-west1, or nam5, nam7 or eur3."
  }
}

variable "operators" {
  description = "Who reaches the store from outside the perimeter, such as those who run Terraform and gcp-adk-store doctor: user:ada@example.com or serviceAccount:..."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for member in var.operators : can(regex("^(user|serviceAccount):[^[:space:]@]+@[^[:space:]@]+$", member))])
    error_message = "Operators are single accounts: user:NAME@DOMAIN or serviceAccount:NAME@DOMAIN."
  }
}

variable "project_id" {
  description = "Id of the project, which is in no other perimeter yet."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "A project's id has 6 to 30 lower-case letters, digits or '-', and starts with a letter; a domain and ':' may come before it."
  }
}

provider "google" {
  project = var.project_id
  # Access Context Manager asks for a project that the requests of a user count on.
  billing_project       = var.project_id
  user_project_override = true
}

locals {
  # What the store connects to: documents, objects, tokens and signatures of
  # service accounts, and the keys of both kinds of encryption.
  services = [
    "cloudkms.googleapis.com",
    "firestore.googleapis.com",
    "iamcredentials.googleapis.com",
    "storage.googleapis.com",
  ]

  policy    = "accessPolicies/${var.access_policy}"
  perimeter = replace("adk_store_${var.project_id}", "/[^A-Za-z0-9]/", "_")
}

data "google_project" "this" {
  project_id = var.project_id
}

resource "google_project_service" "access_context_manager" {
  project            = var.project_id
  service            = "accesscontextmanager.googleapis.com"
  disable_on_destroy = false
}

module "adk_store" {
  source = "../../modules/adk_store"

  location   = var.location
  project_id = var.project_id
}

resource "google_access_context_manager_access_level" "browsers" {
  count = length(var.browser_networks) > 0 ? 1 : 0

  parent = local.policy
  name   = "${local.policy}/accessLevels/${local.perimeter}_browsers"
  title  = "${local.perimeter}_browsers"

  basic {
    conditions {
      ip_subnetworks = var.browser_networks
    }
  }

  depends_on = [google_project_service.access_context_manager]
}

locals {
  # Who comes in from outside, to which services. A signed URL is a request of
  # the service account that signed it, from the browser's own address.
  ways_in = concat(
    length(var.operators) == 0 ? [] : [{
      title      = "Operators"
      identities = var.operators
      source     = "*"
      services   = local.services
    }],
    [for level in google_access_context_manager_access_level.browsers[*].name : {
      title      = "Browsers with signed URLs"
      identities = [module.adk_store.iam_member]
      source     = level
      services   = ["storage.googleapis.com"]
    }],
  )
}

resource "google_access_context_manager_service_perimeter" "store" {
  parent                    = local.policy
  name                      = "${local.policy}/servicePerimeters/${local.perimeter}"
  title                     = local.perimeter
  description               = "The store ${module.adk_store.database_name} and ${module.adk_store.bucket_url}"
  use_explicit_dry_run_spec = !var.enforced

  dynamic "status" {
    for_each = var.enforced ? [true] : []

    content {
      resources           = ["projects/${data.google_project.this.number}"]
      restricted_services = local.services

      dynamic "ingress_policies" {
        for_each = local.ways_in

        content {
          title = ingress_policies.value.title

          ingress_from {
            identities = ingress_policies.value.identities

            sources {
              access_level = ingress_policies.value.source
            }
          }

          ingress_to {
            resources = ["*"]

            dynamic "operations" {
              for_each = toset(ingress_policies.value.services)

              content {
                service_name = operations.value

                method_selectors {
                  method = "*"
                }
              }
            }
          }
        }
      }
    }
  }

  dynamic "spec" {
    for_each = var.enforced ? [] : [true]

    content {
      resources           = ["projects/${data.google_project.this.number}"]
      restricted_services = local.services

      dynamic "ingress_policies" {
        for_each = local.ways_in

        content {
          title = ingress_policies.value.title

          ingress_from {
            identities = ingress_policies.value.identities

            sources {
              access_level = ingress_policies.value.source
            }
          }

          ingress_to {
            resources = ["*"]

            dynamic "operations" {
              for_each = toset(ingress_policies.value.services)

              content {
                service_name = operations.value

                method_selectors {
                  method = "*"
                }
              }
            }
          }
        }
      }
    }
  }

  depends_on = [google_project_service.access_context_manager]
}

output "environment" {
  description = "What Store.from_env() reads."
  value       = module.adk_store.environment
}

output "perimeter" {
  description = "Full name of the perimeter."
  value       = google_access_context_manager_service_perimeter.store.name
}
