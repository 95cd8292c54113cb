# Google's service agents use the keys, on behalf of whoever may use the
# database or the bucket. The service account of the store never does.

locals {
  _grants_keys = var.cmek == null ? false : var.cmek.grant_access
}

data "google_project" "this" {
  count = local._grants_keys ? 1 : 0

  project_id = var.project_id
}

# Reading it makes the agent if there is none yet. Firestore's has to be made
# by hand (README.md).
data "google_storage_project_service_account" "this" {
  count = local._grants_keys ? 1 : 0

  project = var.project_id

  depends_on = [google_project_service.storage]
}

resource "google_kms_crypto_key_iam_member" "database" {
  count = local._grants_keys ? 1 : 0

  crypto_key_id = var.cmek.database_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = "serviceAccount:service-${data.google_project.this[0].number}@gcp-sa-firestore.iam.gserviceaccount.com"
}

resource "google_kms_crypto_key_iam_member" "bucket" {
  count = local._grants_keys ? 1 : 0

  crypto_key_id = var.cmek.bucket_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = "serviceAccount:${data.google_storage_project_service_account.this[0].email_address}"
}

# Database and bucket are refused while their agent is not known to have its key.
resource "time_sleep" "kms" {
  count = local._grants_keys ? 1 : 0

  create_duration = "${var.iam_wait_s}s"
  triggers = {
    bucket   = google_kms_crypto_key_iam_member.bucket[0].id
    database = google_kms_crypto_key_iam_member.database[0].id
  }
}
