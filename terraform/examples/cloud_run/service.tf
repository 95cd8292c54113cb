locals {
  # The agent asks Gemini through the project's Vertex AI, as its service account.
  model_environment = {
    GOOGLE_CLOUD_LOCATION     = var.model_location
    GOOGLE_CLOUD_PROJECT      = var.project_id
    GOOGLE_GENAI_USE_VERTEXAI = "TRUE"
  }

  _environment = merge(
    module.adk_store.environment,
    local.model_environment,
    var.web ? { ADK_WEB = "TRUE" } : {},
  )
}

resource "google_project_iam_member" "models" {
  project = var.project_id
  role    = "roles/aiplatform.user"
  member  = module.adk_store.iam_member
}

resource "google_secret_manager_secret_iam_member" "read" {
  for_each = toset([for each in values(var.secrets) : each.secret])

  project   = var.project_id
  secret_id = each.value
  role      = "roles/secretmanager.secretAccessor"
  member    = module.adk_store.iam_member

  depends_on = [google_project_service.needed]
}

resource "google_cloud_run_v2_service" "agent" {
  project             = var.project_id
  name                = var.name
  location            = var.region
  deletion_protection = var.deletion_protection
  labels              = var.labels
  ingress             = var.ingress
  iap_enabled         = length(var.iap_members) > 0

  dynamic "binary_authorization" {
    for_each = var.binary_authorization ? [true] : []

    content {
      use_default = true
    }
  }

  template {
    labels          = var.labels
    service_account = module.adk_store.service_account_email
    # A turn streams for as long as the model and its tools take.
    timeout                          = "900s"
    max_instance_request_concurrency = 40

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
      # One is always warm: it holds connections, and segments that it has read.
      min_instance_count = var.min_instances
      max_instance_count = var.max_instances
    }

    containers {
      image = var.image

      ports {
        container_port = 8080
      }

      resources {
        limits = {
          cpu    = "1"
          memory = "1Gi"
        }
        startup_cpu_boost = true
      }

      dynamic "env" {
        for_each = local._environment

        content {
          name  = env.key
          value = env.value
        }
      }

      dynamic "env" {
        for_each = var.secrets

        content {
          name = env.key

          value_source {
            secret_key_ref {
              secret  = env.value.secret
              version = env.value.version
            }
          }
        }
      }

      # Importing ADK takes seconds; after 60 the instance is given up.
      startup_probe {
        period_seconds    = 2
        timeout_seconds   = 2
        failure_threshold = 30

        http_get {
          path = var.health_path
        }
      }

      # It asks the process alone, not Firestore: a restart repairs no outage.
      liveness_probe {
        period_seconds    = 15
        timeout_seconds   = 5
        failure_threshold = 4

        http_get {
          path = var.health_path
        }
      }
    }
  }

  lifecycle {
    precondition {
      condition     = !var.web || length(var.iap_members) > 0
      error_message = "web shows every user's sessions to whoever opens it: name in iap_members who may."
    }
  }

  depends_on = [
    google_project_iam_member.models,
    google_project_service.needed,
    google_secret_manager_secret_iam_member.read,
  ]
}

resource "google_cloud_run_v2_service_iam_member" "invokers" {
  for_each = var.invokers

  project  = var.project_id
  location = google_cloud_run_v2_service.agent.location
  name     = google_cloud_run_v2_service.agent.name
  role     = "roles/run.invoker"
  member   = each.value
}
