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

output "uri" {
  description = "Address of the service."
  value       = google_cloud_run_v2_service.agent.uri
}
