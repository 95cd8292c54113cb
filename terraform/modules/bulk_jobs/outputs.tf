output "bucket" {
  description = "Name of the bucket of the jobs."
  value       = google_storage_bucket.jobs.name
}

output "commands" {
  description = "A command for each job that runs it now."
  value = {
    for name, launch in local._launches : name => join(" ", concat(
      [
        "gcloud dataflow flex-template run ${launch.jobName}",
        "--project=${var.project_id}",
        "--region=${var.region}",
        "--template-file-gcs-location=${launch.containerSpecGcsPath}",
        "--service-account-email=${launch.environment.serviceAccountEmail}",
        "--max-workers=${launch.environment.maxWorkers}",
        "--worker-machine-type=${launch.environment.machineType}",
        "--staging-location=${launch.environment.stagingLocation}",
        "--temp-location=${launch.environment.tempLocation}",
      ],
      var.subnetwork == null ? [] : ["--disable-public-ips", "--subnetwork=${var.subnetwork}"],
      ["--parameters='^~^${join("~", [for key, value in launch.parameters : "${key}=${value}"])}'"],
    ))
  }
}

output "template" {
  description = "Path of the Flex Template in its bucket."
  value       = "${local._folder}/${google_storage_bucket_object.template.name}"
}

output "worker_email" {
  description = "E-mail of the service account of the workers."
  value       = google_service_account.worker.email
}
