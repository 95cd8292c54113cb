output "env_file" {
  description = "What Store.from_env() reads, one variable a line."
  value       = join("", [for name, value in module.adk_store.environment : "${name}=${value}\n"])
}

output "environment" {
  description = "What Store.from_env() reads in the service."
  value       = module.adk_store.environment
}

output "uri" {
  description = "Address of the service."
  value       = google_cloud_run_v2_service.agent.uri
}
