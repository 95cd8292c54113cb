locals {
  _bucket_name = coalesce(var.bucket_name, lower("${var.project_id}-${var.prefix}"))

  _bucket = var.create_bucket ? google_storage_bucket.this[0].name : local._bucket_name

  # Buckets know other names for the places of Firestore's multi-regions.
  _bucket_location = upper(coalesce(
    var.bucket_location,
    lookup({ nam5 = "us", nam7 = "us", eur3 = "eu" }, var.location, var.location),
  ))
}

resource "google_storage_bucket" "this" {
  count = var.create_bucket ? 1 : 0

  project                     = var.project_id
  name                        = local._bucket_name
  location                    = local._bucket_location
  storage_class               = var.storage_class
  labels                      = var.labels
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = !var.deletion_protection

  soft_delete_policy {
    retention_duration_seconds = var.soft_delete_days * 24 * 60 * 60
  }

  # What ends by itself says when as its custom time. Objects without one stay.
  lifecycle_rule {
    action {
      type = "Delete"
    }

    condition {
      days_since_custom_time = 0
      # Without this the provider leaves the 0 out, and the rule matches every object.
      send_days_since_custom_time_if_zero = true
      matches_prefix                      = var.expire_artifacts ? [] : ["${var.prefix}-payloads/"]
    }
  }

  # Files that a browser put and nobody finalized.
  lifecycle_rule {
    action {
      type = "Delete"
    }

    condition {
      age            = 1
      matches_prefix = ["adk-store-uploads/"]
    }
  }

  # Parts of XML multipart uploads, which other tools make. The resumable
  # uploads of the store end by themselves after a week.
  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }

    condition {
      age = 1
    }
  }

  dynamic "cors" {
    for_each = length(var.cors_origins) > 0 ? [true] : []

    content {
      origin = var.cors_origins
      method = ["GET", "HEAD", "PUT"]
      response_header = [
        "content-type",
        "x-goog-content-length-range",
        "x-goog-encryption-kms-key-name",
        "x-goog-if-generation-match",
      ]
      max_age_seconds = 3600
    }
  }

  dynamic "logging" {
    for_each = var.access_logs == null ? [] : [var.access_logs]

    content {
      log_bucket        = logging.value.bucket
      log_object_prefix = logging.value.prefix
    }
  }

  dynamic "encryption" {
    for_each = var.cmek == null ? [] : [var.cmek]

    content {
      default_kms_key_name = encryption.value.bucket_key
    }
  }

  lifecycle {
    precondition {
      condition     = can(regex("^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$", local._bucket_name))
      error_message = "The project's id and the prefix make no bucket's name (${local._bucket_name}): set bucket_name."
    }
  }

  depends_on = [google_project_service.storage, time_sleep.kms]
}
