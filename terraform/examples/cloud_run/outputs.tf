output "alert_names" {
  description = "Full names of the alert policies on the store and on the jobs, by what they watch."
  value = merge(
    module.adk_store.alert_names,
    { for name, policy in google_monitoring_alert_policy.failed_job : "${name} fails" => policy.name },
    { for name, policy in google_monitoring_alert_policy.unstarted_job : "${name} cannot be started" => policy.name },
  )
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
  description = "What Store.from_env() reads in the service."
  value       = module.adk_store.environment
}

output "inspector_uri" {
  description = "Address of the inspector; null without inspectors."
  value       = one([for number in local._inspector : "https://${local._inspector_name}-${number}.${var.region}.run.app/"])
}

output "uri" {
  description = "Address of the service."
  value       = google_cloud_run_v2_service.agent.uri
}
