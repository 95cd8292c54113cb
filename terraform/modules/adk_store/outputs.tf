# Each output waits for the grants, so that what is made from it can read and
# write at once.

locals {
  environment = {
    ADK_STORE_BUCKET   = google_storage_bucket.this.name
    ADK_STORE_DATABASE = google_firestore_database.this.name
    ADK_STORE_PREFIX   = var.prefix
    ADK_STORE_PROJECT  = var.project_id
  }
}

output "bucket" {
  description = "Name of the bucket."
  value       = google_storage_bucket.this.name
  depends_on  = [time_sleep.iam]
}

output "database" {
  description = "Id of the Firestore database."
  value       = google_firestore_database.this.name
  depends_on  = [time_sleep.iam]
}

output "docker_env_file" {
  description = "The environment as a file for docker run --env-file, which takes quotes as part of a value."
  value       = join("", [for name, value in local.environment : "${name}=${value}\n"])
  depends_on  = [google_firestore_field.unindexed, google_firestore_index.pages, time_sleep.iam]
}

output "env_file" {
  description = "The environment as a file for a shell: each value is in single quotes."
  value       = join("", [for name, value in local.environment : "${name}='${replace(value, "'", "'\\''")}'\n"])
  depends_on  = [google_firestore_field.unindexed, google_firestore_index.pages, time_sleep.iam]
}

output "environment" {
  description = "Environment variables that Store.from_env() and the command gcp-adk-store read."
  value       = local.environment
  # What is written before a field is exempt has been indexed in vain.
  depends_on = [google_firestore_field.unindexed, google_firestore_index.pages, time_sleep.iam]
}

output "service_account_email" {
  description = "E-mail of the service account that agents run as; null without one."
  value       = one(google_service_account.runtime[*].email)
  depends_on  = [time_sleep.iam]
}

output "service_account_name" {
  description = "Full name of the service account, for grants on it such as that of a workload identity; null without one."
  value       = one(google_service_account.runtime[*].name)
  depends_on  = [time_sleep.iam]
}
