locals {
  _members = merge(
    { for account in google_service_account.runtime : "runtime" => "serviceAccount:${account.email}" },
    var.members,
  )
}

resource "google_service_account" "runtime" {
  count = var.service_account_id == null ? 0 : 1

  project      = var.project_id
  account_id   = var.service_account_id
  display_name = "Agents on the store ${var.prefix}"

  depends_on = [google_project_service.needed]
}

# Firestore has no policy of a database's own: the condition narrows the
# project's.
resource "google_project_iam_member" "database" {
  for_each = local._members

  project = var.project_id
  role    = "roles/datastore.user"
  member  = each.value

  condition {
    title       = "database ${local._database}"
    description = "Documents of one database of the project."
    expression  = "resource.name == \"projects/${var.project_id}/databases/${local._database}\""
  }

  depends_on = [google_project_service.needed]
}

resource "google_storage_bucket_iam_member" "objects" {
  for_each = local._members

  bucket = local._bucket
  role   = "roles/storage.objectUser"
  member = each.value

  depends_on = [google_project_service.storage]
}

# On itself alone. A role with nothing but signBlob would grant no less: who
# signs as an account can have its tokens.
resource "google_service_account_iam_member" "signer" {
  count = var.signed_urls ? length(google_service_account.runtime) : 0

  service_account_id = google_service_account.runtime[0].name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = "serviceAccount:${google_service_account.runtime[0].email}"
}

# A grant takes up to a minute or two until every server knows it. What uses
# the outputs starts after that.
resource "time_sleep" "iam" {
  create_duration = "${var.iam_wait_s}s"
  triggers = merge(
    { for name, grant in google_project_iam_member.database : "database ${name}" => grant.id },
    { for name, grant in google_storage_bucket_iam_member.objects : "bucket ${name}" => grant.id },
    { for grant in google_service_account_iam_member.signer : "signer" => grant.id },
    { for name, grant in google_project_iam_member.data_keys : "data keys ${name}" => grant.id },
    { for name, grant in google_kms_crypto_key_iam_member.data_keys : "key ${name}" => grant.id },
  )
}
