locals {
  # Answers that mean trouble. What the store meets in its daily work is not
  # among them: a document that is missing, one that another writer changed.
  _failures = join(", ", [
    for code in [
      "DEADLINE_EXCEEDED",
      "INTERNAL",
      "PERMISSION_DENIED",
      "RESOURCE_EXHAUSTED",
      "UNAUTHENTICATED",
      "UNAVAILABLE",
    ] : "\"${code}\""
  ])

  _database_filter = join(" AND ", [
    "resource.type = \"firestore.googleapis.com/Database\"",
    "resource.labels.database_id = \"${var.database}\"",
  ])
  _bucket_filter = join(" AND ", [
    "resource.type = \"gcs_bucket\"",
    "resource.labels.bucket_name = \"${local._bucket_name}\"",
  ])

  _failure_alerts = var.alerts == null ? {} : {
    database = {
      what   = "Firestore refuses or fails"
      filter = "${local._database_filter} AND metric.type = \"firestore.googleapis.com/api/request_count\""
      help   = "Requests to the database ${var.database} of ${var.project_id} fail. PERMISSION_DENIED: the grants of the service account. RESOURCE_EXHAUSTED: a quota, or a hot document. Else Google Cloud's status."
    }
    bucket = {
      what   = "Cloud Storage refuses or fails"
      filter = "${local._bucket_filter} AND metric.type = \"storage.googleapis.com/api/request_count\""
      help   = "Requests to the bucket ${local._bucket_name} fail. PERMISSION_DENIED: the grants of the service account. RESOURCE_EXHAUSTED: too many changes of one object, or a quota. Else Google Cloud's status."
    }
  }
}

resource "google_monitoring_alert_policy" "failures" {
  for_each = local._failure_alerts

  project               = var.project_id
  display_name          = "Store ${var.prefix}: ${each.value.what}"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = var.alerts.notification_channels
  user_labels           = var.labels

  conditions {
    display_name = "Failed requests in 5 minutes"

    condition_threshold {
      filter          = "${each.value.filter} AND metric.labels.response_code = one_of(${local._failures})"
      comparison      = "COMPARISON_GT"
      threshold_value = var.alerts.errors_per_5_minutes
      duration        = "0s"

      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }

  documentation {
    content   = each.value.help
    mime_type = "text/markdown"
  }

  depends_on = [google_project_service.needed]
}

resource "google_monitoring_alert_policy" "latency" {
  count = var.alerts == null ? 0 : 1

  project               = var.project_id
  display_name          = "Store ${var.prefix}: commits are slow"
  combiner              = "OR"
  severity              = "WARNING"
  notification_channels = var.alerts.notification_channels
  user_labels           = var.labels

  conditions {
    display_name = "95th percentile of commits over 15 minutes"

    condition_threshold {
      filter = join(" AND ", [
        local._database_filter,
        "metric.type = \"firestore.googleapis.com/api/request_latencies\"",
        "metric.labels.api_method = monitoring.regex.full_match(\".*Commit\")",
      ])
      comparison      = "COMPARISON_GT"
      threshold_value = var.alerts.commit_latency_s
      duration        = "900s"

      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_PERCENTILE_95"
      }
    }
  }

  documentation {
    content   = "Every append is one commit of the database ${var.database} of ${var.project_id}. Slow ones mean contention on a session, more than 500 appends a second to one app (app_pages), or trouble of Firestore's own."
    mime_type = "text/markdown"
  }

  depends_on = [google_project_service.needed]
}
