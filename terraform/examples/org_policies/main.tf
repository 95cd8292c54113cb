terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 9.0"
    }
  }
}

variable "dry_run" {
  description = "Whether the policies only log what they would refuse."
  type        = bool
  default     = false
  nullable    = false
}

variable "kms_key" {
  description = "Full name of the key of Cloud KMS, in the store's location, that encrypts the database and the bucket. With a key, a policy refuses databases and buckets without one. Null takes Google's own keys."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key == null ? true : can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", var.kms_key))
    error_message = "A key is a full name: projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY."
  }
}

variable "location" {
  description = "Region of the database and the bucket; the policies refuse all others."
  type        = string
  default     = "europe-west1"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.location))
    error_message = "A region, such as europe-west1: there the database, the bucket and the key have the same location."
  }
}

variable "project_id" {
  description = "Id of the project."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "A project's id has 6 to 30 lower-case letters, digits or '-', and starts with a letter; a domain and ':' may come before it."
  }
}

provider "google" {
  project = var.project_id
}

locals {
  # The store meets each of these by default.
  _enforced = [
    "iam.disableServiceAccountKeyCreation",
    "iam.disableServiceAccountKeyUpload",
    "storage.publicAccessPrevention",
    "storage.uniformBucketLevelAccess",
  ]

  _lists = merge(
    {
      "gcp.resourceLocations" = { allowed = ["in:${var.location}-locations"], denied = null }
      "run.allowedIngress"    = { allowed = ["internal", "internal-and-cloud-load-balancing"], denied = null }
    },
    var.kms_key == null ? {} : {
      "gcp.restrictNonCmekServices" = { allowed = null, denied = ["firestore.googleapis.com", "storage.googleapis.com"] }
    },
  )

  _rules = merge(
    { for name in local._enforced : name => { enforce = "TRUE", values = [] } },
    { for name, values in local._lists : name => { enforce = null, values = [values] } },
  )
}

resource "google_project_service" "org_policy" {
  project            = var.project_id
  service            = "orgpolicy.googleapis.com"
  disable_on_destroy = false
}

resource "google_org_policy_policy" "store" {
  for_each = local._rules

  name   = "projects/${var.project_id}/policies/${each.key}"
  parent = "projects/${var.project_id}"

  dynamic "spec" {
    for_each = var.dry_run ? [] : [each.value]

    content {
      rules {
        enforce = spec.value.enforce

        dynamic "values" {
          for_each = spec.value.values

          content {
            allowed_values = values.value.allowed
            denied_values  = values.value.denied
          }
        }
      }
    }
  }

  dynamic "dry_run_spec" {
    for_each = var.dry_run ? [each.value] : []

    content {
      rules {
        enforce = dry_run_spec.value.enforce

        dynamic "values" {
          for_each = dry_run_spec.value.values

          content {
            allowed_values = values.value.allowed
            denied_values  = values.value.denied
          }
        }
      }
    }
  }

  depends_on = [google_project_service.org_policy]
}

module "adk_store" {
  source = "../../modules/adk_store"

  # A database that exists cannot get a key any more, so it is a new one.
  database   = var.kms_key == null ? "(default)" : "adk-store"
  location   = var.location
  project_id = var.project_id
  cmek       = var.kms_key == null ? null : { bucket_key = var.kms_key, database_key = var.kms_key }

  # What the policies refuse shows at once, not after the first change.
  depends_on = [google_org_policy_policy.store]
}

output "environment" {
  description = "What Store.from_env() reads."
  value       = module.adk_store.environment
}

output "policies" {
  description = "Names of the constraints that the project has."
  value       = sort(keys(google_org_policy_policy.store))
}
