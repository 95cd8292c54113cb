resource "google_service_account" "worker" {
  project      = var.project_id
  account_id   = "${var.name}-worker"
  display_name = "Workers of bulk jobs on the store ${var.store.prefix}"
}

resource "google_project_iam_member" "worker" {
  project = var.project_id
  role    = "roles/dataflow.worker"
  member  = "serviceAccount:${google_service_account.worker.email}"
}

# Firestore has no policy of a database's own: the condition narrows the
# project's.
resource "google_project_iam_member" "database" {
  project = var.store.project
  role    = "roles/datastore.user"
  member  = "serviceAccount:${google_service_account.worker.email}"

  condition {
    title       = "database ${var.store.database}"
    description = "Documents of one database of the project."
    expression  = "resource.name == \"projects/${var.store.project}/databases/${var.store.database}\""
  }
}

resource "google_storage_bucket_iam_member" "worker" {
  for_each = merge(
    { jobs = google_storage_bucket.jobs.name },
    var.store.bucket == null ? {} : { store = var.store.bucket },
  )

  bucket = each.value
  role   = "roles/storage.objectUser"
  member = "serviceAccount:${google_service_account.worker.email}"
}

# Who starts scheduled jobs: it may launch, and give them the workers' account.
resource "google_service_account" "launcher" {
  count = length(local._scheduled) == 0 ? 0 : 1

  project      = var.project_id
  account_id   = "${var.name}-launcher"
  display_name = "Starts bulk jobs on the store ${var.store.prefix}"
}

resource "google_project_iam_member" "launcher" {
  count = length(google_service_account.launcher)

  project = var.project_id
  role    = "roles/dataflow.developer"
  member  = "serviceAccount:${google_service_account.launcher[0].email}"
}

resource "google_service_account_iam_member" "launcher" {
  count = length(google_service_account.launcher)

  service_account_id = google_service_account.worker.name
  role               = "roles/iam.serviceAccountUser"
  member             = "serviceAccount:${google_service_account.launcher[0].email}"
}

resource "google_storage_bucket_iam_member" "launcher" {
  count = length(google_service_account.launcher)

  bucket = google_storage_bucket.jobs.name
  role   = "roles/storage.objectViewer"
  member = "serviceAccount:${google_service_account.launcher[0].email}"
}
