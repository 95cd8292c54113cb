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

output "env_file" {
  description = "What Store.from_env() reads, one variable a line."
  value       = join("", [for name, value in module.adk_store.environment : "${name}=${value}\n"])
}

output "service_account_email" {
  description = "Whom the agent runs as."
  value       = module.adk_store.service_account_email
}
