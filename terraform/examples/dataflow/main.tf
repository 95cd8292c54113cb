terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 9.0"
    }
  }
}

variable "app" {
  description = "Name of the app."
  type        = string
  default     = "support"
}

variable "image" {
  description = "Image of launcher and workers, as docs/bulk.md builds it."
  type        = string
}

variable "project_id" {
  description = "Id of the project."
  type        = string
}

variable "region" {
  description = "Region of the store and the jobs."
  type        = string
  default     = "europe-west1"
}

provider "google" {
  project = var.project_id
}

locals {
  _results = "gs://${var.project_id}-adk-bulk/results"
}

module "adk_store" {
  source = "../../modules/adk_store"

  location   = var.region
  project_id = var.project_id
}

module "bulk_jobs" {
  source = "../../modules/bulk_jobs"

  image      = var.image
  project_id = var.project_id
  region     = var.region

  store = {
    bucket   = module.adk_store.bucket
    database = module.adk_store.database
    prefix   = module.adk_store.environment.ADK_STORE_PREFIX
    project  = var.project_id
  }

  jobs = {
    export = {
      app        = var.app
      job        = "export"
      parameters = { out = "${local._results}/export" }
    }
    prune = {
      app        = var.app
      job        = "prune"
      schedule   = "47 3 * * *"
      parameters = { idle_days = "400" }
    }
    verify = {
      app        = var.app
      job        = "verify"
      schedule   = "17 4 * * SUN"
      parameters = { broken = "${local._results}/verify" }
    }
  }
}

output "commands" {
  description = "A command for each job that runs it now."
  value       = module.bulk_jobs.commands
}
