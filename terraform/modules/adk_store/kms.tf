# Google's service agents use the keys, on behalf of whoever may use the
# database or the bucket. The service account of the store never does.

locals {
  _grants_keys     = var.cmek == null ? false : var.cmek.grant_access && (var.create_bucket || local._makes_databases)
  _makes_databases = var.create_database || var.encryption != null
}

data "google_project" "this" {
  count = local._grants_keys && local._makes_databases ? 1 : 0

  project_id = var.project_id
}

# Reading it makes the agent if there is none yet. Firestore's has to be made
# by hand (README.md).
data "google_storage_project_service_account" "this" {
  count = local._grants_keys && var.create_bucket ? 1 : 0

  project = var.project_id

  depends_on = [google_project_service.storage]
}

resource "google_kms_crypto_key_iam_member" "database" {
  count = length(data.google_project.this)

  crypto_key_id = var.cmek.database_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = "serviceAccount:service-${data.google_project.this[0].number}@gcp-sa-firestore.iam.gserviceaccount.com"
}

resource "google_kms_crypto_key_iam_member" "bucket" {
  count = length(data.google_storage_project_service_account.this)

  crypto_key_id = var.cmek.bucket_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = "serviceAccount:${data.google_storage_project_service_account.this[0].email_address}"
}

# Database and bucket are refused while their agent is not known to have its key.
resource "time_sleep" "kms" {
  count = local._grants_keys ? 1 : 0

  create_duration = "${var.iam_wait_s}s"
  triggers = merge(
    { for grant in google_kms_crypto_key_iam_member.bucket : "bucket" => grant.id },
    { for grant in google_kms_crypto_key_iam_member.database : "database" => grant.id },
  )
}
