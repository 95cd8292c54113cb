# The inspector's pages, for support and audit: as an account of their own that
# can read the store and nothing else.

locals {
  _inspector_name = "${var.name}-inspector"
  _inspector      = length(var.inspectors) > 0 ? [data.google_project.this[0].number] : []
}

resource "google_service_account" "inspector" {
  count = length(local._inspector)

  project      = var.project_id
  account_id   = "${var.name}-inspector"
  display_name = "The inspector of ${var.name}"
}

resource "google_project_iam_member" "inspector" {
  count = length(local._inspector)

  project = var.project_id
  role    = "roles/datastore.viewer"
  member  = "serviceAccount:${google_service_account.inspector[0].email}"

  condition {
    title       = "database ${module.adk_store.database}"
    description = "Documents of one database of the project."
    expression  = "resource.name == \"${module.adk_store.database_name}\""
  }
}

resource "google_storage_bucket_iam_member" "inspector" {
  count = length(local._inspector)

  bucket = module.adk_store.bucket
  role   = "roles/storage.objectViewer"
  member = "serviceAccount:${google_service_account.inspector[0].email}"
}

resource "google_cloud_run_v2_service" "inspector" {
  count = length(local._inspector)

  project             = var.project_id
  name                = local._inspector_name
  location            = var.region
  deletion_protection = var.deletion_protection
  labels              = var.labels
  ingress             = var.ingress
  iap_enabled         = true

  dynamic "binary_authorization" {
    for_each = var.binary_authorization ? [true] : []

    content {
      use_default = true
    }
  }

  template {
    labels          = var.labels
    service_account = google_service_account.inspector[0].email

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

    scaling {
      min_instance_count = 0
      max_instance_count = 1
    }

    containers {
      image   = var.image
      command = ["python", "inspector.py"]

      ports {
        container_port = 8080
      }

      resources {
        limits = {
          cpu    = "1"
          memory = "1Gi"
        }
      }

      dynamic "env" {
        for_each = merge(module.adk_store.environment, {
          INSPECTOR_AUDIENCE = "/projects/${local._inspector[0]}/locations/${var.region}/services/${local._inspector_name}"
          INSPECTOR_HOST     = "${local._inspector_name}-${local._inspector[0]}.${var.region}.run.app"
        })

        content {
          name  = env.key
          value = env.value
        }
      }
    }
  }

  depends_on = [
    google_project_iam_member.inspector,
    google_project_service.needed,
    google_storage_bucket_iam_member.inspector,
  ]
}

resource "google_cloud_run_v2_service_iam_member" "inspector" {
  count = length(local._inspector)

  project  = var.project_id
  location = google_cloud_run_v2_service.inspector[0].location
  name     = google_cloud_run_v2_service.inspector[0].name
  role     = "roles/run.invoker"
  member   = local._iap_agent
}

resource "google_iap_web_cloud_run_service_iam_member" "inspector" {
  for_each = var.inspectors

  project                = var.project_id
  location               = google_cloud_run_v2_service.inspector[0].location
  cloud_run_service_name = google_cloud_run_v2_service.inspector[0].name
  role                   = "roles/iap.httpsResourceAccessor"
  member                 = each.value
}
