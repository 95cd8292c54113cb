locals {
  _store_parameters = merge(
    {
      store_database = var.store.database
      store_prefix   = var.store.prefix
      store_project  = var.store.project
    },
    var.store.bucket == null ? {} : { store_bucket = var.store.bucket },
  )

  _folder = "gs://${google_storage_bucket.jobs.name}"

  # What Dataflow's API takes as launchParameter.
  _launches = {
    for name, job in var.jobs : name => {
      jobName              = "${var.name}-${name}"
      containerSpecGcsPath = "${local._folder}/${google_storage_bucket_object.template.name}"
      parameters = merge(
        local._store_parameters,
        job.parameters,
        {
          app                 = job.app
          job                 = job.job
          sdk_container_image = var.image
        },
      )
      environment = merge(
        {
          machineType         = var.machine_type
          maxWorkers          = var.max_workers
          serviceAccountEmail = google_service_account.worker.email
          stagingLocation     = "${local._folder}/staging"
          tempLocation        = "${local._folder}/temp"
        },
        var.subnetwork == null ? {} : {
          ipConfiguration = "WORKER_IP_PRIVATE"
          subnetwork      = var.subnetwork
        },
      )
    }
  }

  _scheduled = { for name, job in var.jobs : name => job if job.schedule != null }
}

# Dataflow refuses a second job of a name while the first one runs.
resource "google_cloud_scheduler_job" "scheduled" {
  for_each = local._scheduled

  project   = var.project_id
  name      = "${var.name}-${each.key}"
  region    = var.region
  schedule  = each.value.schedule
  time_zone = "Etc/UTC"

  http_target {
    http_method = "POST"
    uri         = "https://dataflow.googleapis.com/v1b3/projects/${var.project_id}/locations/${var.region}/flexTemplates:launch"
    body        = base64encode(jsonencode({ launchParameter = local._launches[each.key] }))
    headers     = { "Content-Type" = "application/json" }

    oauth_token {
      service_account_email = google_service_account.launcher[0].email
    }
  }

  depends_on = [
    google_project_iam_member.database,
    google_project_iam_member.launcher,
    google_project_iam_member.worker,
    google_project_service.needed,
    google_service_account_iam_member.launcher,
    google_storage_bucket_iam_member.launcher,
    google_storage_bucket_iam_member.worker,
  ]
}
