# Each output waits for the grants, so that what is made from it can read and
# write at once.

locals {
  environment = merge(
    {
      ADK_STORE_BUCKET   = local._bucket
      ADK_STORE_DATABASE = local._database
      ADK_STORE_PREFIX   = var.prefix
      ADK_STORE_PROJECT  = var.project_id
    },
    var.encryption == null ? {} : {
      ADK_STORE_ENCRYPTION_KEY = local._wrapping_key
      ADK_STORE_KEYS_DATABASE  = google_firestore_database.data_keys[0].name
    },
  )
}

output "alert_names" {
  description = "Full names of the alert policies, by what they watch; empty without alerts."
  value = merge(
    { for what, policy in google_monitoring_alert_policy.failures : what => policy.name },
    { for policy in google_monitoring_alert_policy.latency : "latency" => policy.name },
  )
  depends_on = [time_sleep.iam]
}

output "bucket" {
  description = "Name of the bucket."
  value       = local._bucket
  depends_on  = [time_sleep.iam]
}

output "bucket_url" {
  description = "URL of the bucket, as gcloud storage takes it."
  value       = "gs://${local._bucket}"
  depends_on  = [time_sleep.iam]
}

output "dashboard_ids" {
  description = "Ids of the dashboards, by what they show; empty without dashboards."
  value       = { for what, dashboard in google_monitoring_dashboard.this : what => dashboard.id }
  depends_on  = [time_sleep.iam]
}

output "database" {
  description = "Id of the Firestore database."
  value       = local._database
  depends_on  = [time_sleep.iam]
}

output "database_name" {
  description = "Full name of the Firestore database, as conditions and other APIs take it."
  value       = "projects/${var.project_id}/databases/${local._database}"
  depends_on  = [time_sleep.iam]
}

output "docker_env_file" {
  description = "The environment as a file for docker run --env-file, which takes quotes as part of a value."
  value       = join("", [for name, value in local.environment : "${name}=${value}\n"])
  depends_on  = [google_firestore_field.data_keys, google_firestore_field.unindexed, google_firestore_index.pages, time_sleep.iam]
}

output "encryption_database" {
  description = "Id of the Firestore database of data keys; null without encryption."
  value       = one(google_firestore_database.data_keys[*].name)
  depends_on  = [time_sleep.iam]
}

output "encryption_key" {
  description = "Full name of the key of Cloud KMS that wraps data keys; null without encryption."
  value       = local._wrapping_key
  depends_on  = [time_sleep.iam]
}

output "env_file" {
  description = "The environment as a file for a shell: each value is in single quotes, and contains none."
  value       = join("", [for name, value in local.environment : "${name}='${value}'\n"])
  depends_on  = [google_firestore_field.data_keys, google_firestore_field.unindexed, google_firestore_index.pages, time_sleep.iam]
}

output "environment" {
  description = "Environment variables that Store.from_env() and the command gcp-adk-store read."
  value       = local.environment
  # What is written before a field is exempt has been indexed in vain.
  depends_on = [google_firestore_field.data_keys, google_firestore_field.unindexed, google_firestore_index.pages, time_sleep.iam]
}

output "iam_member" {
  description = "The service account as grants name it, for further ones; null without one."
  value       = one([for account in google_service_account.runtime : "serviceAccount:${account.email}"])
  depends_on  = [time_sleep.iam]
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
