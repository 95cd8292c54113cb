locals {
  _bucket_name = coalesce(var.bucket_name, "${var.project_id}-${var.name}")

  _apis = concat(
    ["compute.googleapis.com", "dataflow.googleapis.com"],
    length(local._scheduled) == 0 ? [] : ["cloudscheduler.googleapis.com"],
  )

  # What gcloud dataflow flex-template build would write.
  _template = {
    image    = var.image
    metadata = jsondecode(file("${path.module}/metadata.json"))
    sdkInfo  = { language = "PYTHON" }
  }
}

resource "google_project_service" "needed" {
  for_each = toset(local._apis)

  project            = var.project_id
  service            = each.value
  disable_on_destroy = false
}

# The template, what workers stage, and what jobs read and write.
resource "google_storage_bucket" "jobs" {
  project                     = var.project_id
  name                        = local._bucket_name
  location                    = upper(var.region)
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = !var.deletion_protection

  # What workers stage has no use after its job.
  lifecycle_rule {
    action {
      type = "Delete"
    }

    condition {
      age            = 14
      matches_prefix = ["staging/", "temp/"]
    }
  }
}

resource "google_storage_bucket_object" "template" {
  bucket       = google_storage_bucket.jobs.name
  name         = "templates/${var.name}.json"
  content      = jsonencode(local._template)
  content_type = "application/json"
}
