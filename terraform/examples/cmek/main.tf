terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 9.0"
    }
  }
}

variable "location" {
  description = "A region: there the database, the bucket and the key have the same location."
  type        = string
  default     = "europe-west1"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.location))
    error_message = "A region, such as europe-west1: multi-regions have keys elsewhere."
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

resource "google_project_service" "kms" {
  project            = var.project_id
  service            = "cloudkms.googleapis.com"
  disable_on_destroy = false
}

resource "google_kms_key_ring" "store" {
  project  = var.project_id
  name     = "adk-store"
  location = var.location

  depends_on = [google_project_service.kms]
}

resource "google_kms_crypto_key" "store" {
  name            = "adk-store"
  key_ring        = google_kms_key_ring.store.id
  rotation_period = "7776000s"

  lifecycle {
    # Without its key all that was stored is lost.
    prevent_destroy = true
  }
}

module "adk_store" {
  source = "../../modules/adk_store"

  location   = var.location
  project_id = var.project_id

  # A database that exists cannot get a key any more, so it is a new one.
  database = "adk-store"
  cmek = {
    bucket_key   = google_kms_crypto_key.store.id
    database_key = google_kms_crypto_key.store.id
  }
}

output "environment" {
  description = "What Store.from_env() reads."
  value       = module.adk_store.environment
}
