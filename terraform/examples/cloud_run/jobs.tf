locals {
  # Commands that run on a schedule, each as a job with the agent's image.
  _jobs = merge(
    # What appends in vain, interrupted deletions and replaced values leave behind.
    var.gc_schedule == null ? {} : {
      gc = { schedule = var.gc_schedule, arguments = ["gc", "--json"] }
    },
    # Sessions that were kept long enough.
    var.prune == null ? {} : {
      prune = {
        schedule  = var.prune.schedule
        arguments = concat(["prune", "--json", "--app", var.prune.app], var.prune.options)
      }
    },
  )
}

resource "google_cloud_run_v2_job" "scheduled" {
  for_each = local._jobs

  project             = var.project_id
  name                = "${var.name}-${each.key}"
  location            = var.region
  deletion_protection = var.deletion_protection
  labels              = var.labels

  dynamic "binary_authorization" {
    for_each = var.binary_authorization ? [true] : []

    content {
      use_default = true
    }
  }

  template {
    labels = var.labels

    template {
      service_account = module.adk_store.service_account_email
      # It reads the names of all payloads, or all sessions of the app.
      timeout     = "3600s"
      max_retries = 1

      dynamic "vpc_access" {
        for_each = var.vpc == null ? [] : [var.vpc]

        content {
          egress = vpc_access.value.egress

          network_interfaces {
            network    = vpc_access.value.network
            subnetwork = vpc_access.value.subnetwork
            tags       = vpc_access.value.tags
          }
        }
      }

      containers {
        image   = var.image
        command = ["gcp-adk-store"]
        args    = each.value.arguments

        dynamic "env" {
          for_each = module.adk_store.environment

          content {
            name  = env.key
            value = env.value
          }
        }
      }
    }
  }

  depends_on = [google_project_service.needed]
}

# The store's own account starts them: it may do by itself all that the jobs do.
resource "google_cloud_run_v2_job_iam_member" "scheduled" {
  for_each = local._jobs

  project  = var.project_id
  location = google_cloud_run_v2_job.scheduled[each.key].location
  name     = google_cloud_run_v2_job.scheduled[each.key].name
  role     = "roles/run.invoker"
  member   = module.adk_store.iam_member
}

resource "google_cloud_scheduler_job" "scheduled" {
  for_each = local._jobs

  project   = var.project_id
  name      = google_cloud_run_v2_job.scheduled[each.key].name
  region    = var.region
  schedule  = each.value.schedule
  time_zone = "Etc/UTC"

  http_target {
    http_method = "POST"
    uri         = "https://run.googleapis.com/v2/projects/${var.project_id}/locations/${var.region}/jobs/${google_cloud_run_v2_job.scheduled[each.key].name}:run"

    oauth_token {
      service_account_email = module.adk_store.service_account_email
    }
  }

  depends_on = [google_cloud_run_v2_job_iam_member.scheduled, google_project_service.needed]
}

# A job that fails leaves its garbage, or its old sessions, and nothing else
# shows it: agents do not notice.
resource "google_monitoring_alert_policy" "failed_job" {
  for_each = local._jobs

  project               = var.project_id
  display_name          = "${google_cloud_run_v2_job.scheduled[each.key].name} fails"
  combiner              = "OR"
  severity              = "WARNING"
  notification_channels = var.notification_channels
  user_labels           = var.labels

  conditions {
    display_name = "An execution that failed"

    condition_threshold {
      filter = join(" AND ", [
        "resource.type = \"cloud_run_job\"",
        "resource.labels.job_name = \"${google_cloud_run_v2_job.scheduled[each.key].name}\"",
        "resource.labels.location = \"${var.region}\"",
        "metric.type = \"run.googleapis.com/job/completed_execution_count\"",
        "metric.labels.result = \"failed\"",
      ])
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "0s"

      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }

  documentation {
    content   = "The job ended with another status than 0. Its log says why: gcloud logging read 'resource.type=\"cloud_run_job\" AND resource.labels.job_name=\"${google_cloud_run_v2_job.scheduled[each.key].name}\"' --project=${var.project_id} --limit=20. Nothing is lost; the next run repeats what this one left."
    mime_type = "text/markdown"
  }
}

# A job that cannot be started has no execution that could fail.
resource "google_monitoring_alert_policy" "unstarted_job" {
  for_each = local._jobs

  project               = var.project_id
  display_name          = "${google_cloud_run_v2_job.scheduled[each.key].name} cannot be started"
  combiner              = "OR"
  severity              = "WARNING"
  notification_channels = var.notification_channels
  user_labels           = var.labels

  conditions {
    display_name = "An error of Cloud Scheduler"

    condition_matched_log {
      filter = join(" AND ", [
        "resource.type=\"cloud_scheduler_job\"",
        "resource.labels.job_id=\"${google_cloud_run_v2_job.scheduled[each.key].name}\"",
        "severity>=ERROR",
      ])
    }
  }

  alert_strategy {
    notification_rate_limit {
      period = "86400s"
    }
  }

  documentation {
    content   = "Cloud Scheduler could not start the job. Usually the grant of roles/run.invoker on it is missing, or the job."
    mime_type = "text/markdown"
  }
}
