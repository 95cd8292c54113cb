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
  description = "Location of the database and the bucket."
  type        = string
  default     = "europe-west1"
  nullable    = false

  validation {
    condition     = can(regex("^([a-z]+-[a-z]+[0-9]+|nam5|nam7|eur3)$", var.location))
    error_message = "A location is a region such as europe-west1, or nam5, nam7 or eur3."
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

module "adk_store" {
  source = "../../modules/adk_store"

  location   = var.location
  project_id = var.project_id
}

output "docker_env_file" {
  description = "What Store.from_env() reads, for docker run --env-file."
  value       = module.adk_store.docker_env_file
}

output "env_file" {
  description = "What Store.from_env() reads, for a shell."
  value       = module.adk_store.env_file
}

output "environment" {
  description = "What Store.from_env() reads, as JSON, which is YAML too."
  value       = module.adk_store.environment
}

output "service_account_email" {
  description = "Whom the agent runs as."
  value       = module.adk_store.service_account_email
}
