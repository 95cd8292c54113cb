terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 9.0"
    }
  }
}

provider "google" {
  project = var.project_id
}

locals {
  _apis = concat(
    ["aiplatform.googleapis.com", "run.googleapis.com"],
    length(local._jobs) == 0 ? [] : ["cloudscheduler.googleapis.com"],
  )

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

  # The agent asks Gemini through the project's Vertex AI, as its service account.
  model_environment = {
    GOOGLE_CLOUD_LOCATION     = var.model_location
    GOOGLE_CLOUD_PROJECT      = var.project_id
    GOOGLE_GENAI_USE_VERTEXAI = "TRUE"
  }
}

resource "google_project_service" "needed" {
  for_each = toset(local._apis)

  project            = var.project_id
  service            = each.value
  disable_on_destroy = false
}

module "adk_store" {
  source = "../../modules/adk_store"

  alerts              = { notification_channels = var.notification_channels }
  cors_origins        = var.cors_origins
  database            = var.database
  deletion_protection = var.deletion_protection
  location            = var.region
  project_id          = var.project_id
}

resource "google_project_iam_member" "models" {
  project = var.project_id
  role    = "roles/aiplatform.user"
  member  = "serviceAccount:${module.adk_store.service_account_email}"
}

resource "google_cloud_run_v2_service" "agent" {
  project             = var.project_id
  name                = var.name
  location            = var.region
  deletion_protection = var.deletion_protection

  template {
    service_account = module.adk_store.service_account_email
    # A turn streams for as long as the model and its tools take.
    timeout                          = "900s"
    max_instance_request_concurrency = 40

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
        for_each = merge(module.adk_store.environment, local.model_environment)

        content {
          name  = env.key
          value = env.value
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

      # It asks the process alone, not Firestore: a restart mends no outage.
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

  depends_on = [google_project_iam_member.models, google_project_service.needed]
}

resource "google_cloud_run_v2_service_iam_member" "invokers" {
  for_each = var.invokers

  project  = var.project_id
  location = google_cloud_run_v2_service.agent.location
  name     = google_cloud_run_v2_service.agent.name
  role     = "roles/run.invoker"
  member   = each.value
}

resource "google_cloud_run_v2_job" "scheduled" {
  for_each = local._jobs

  project             = var.project_id
  name                = "${var.name}-${each.key}"
  location            = var.region
  deletion_protection = var.deletion_protection

  template {
    template {
      service_account = module.adk_store.service_account_email
      # It reads the names of all payloads, or all sessions of the app.
      timeout     = "3600s"
      max_retries = 1

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
  member   = "serviceAccount:${module.adk_store.service_account_email}"
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
