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
}

variable "project_id" {
  description = "Id of the project."
  type        = string
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
