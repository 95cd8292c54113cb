# What encryption in the process needs: each user's data key is a document in a
# database of its own, wrapped by a key of Cloud KMS. Whoever deletes that
# document makes the user's data unreadable, so nothing may restore it: the
# database has no backups and no point-in-time recovery.

locals {
  _data_keys = var.encryption == null ? [] : [merge(var.encryption, {
    database = coalesce(var.encryption.database, "${lower(var.prefix)}-keys")
    # Cloud KMS knows other names for the places of Firestore's multi-regions.
    key_location = coalesce(
      var.encryption.key_location,
      lookup({ nam5 = "us", nam7 = "us", eur3 = "europe" }, var.location, var.location),
    )
  })]
  # No query asks for them. The last one is when Firestore deletes the note that a key was destroyed.
  _key_fields    = ["create_time", "destroyed_at", "free_at", "id", "kind", "version", "wrapped", "expire_at"]
  _wrapping_keys = [for each in local._data_keys : each if each.create_key]
  _wrapping_key  = one(concat(google_kms_crypto_key.data_keys[*].id, [for each in local._data_keys : each.key if !each.create_key]))
}

# Cloud KMS never deletes a ring: whoever makes the module anew imports it.
resource "google_kms_key_ring" "data_keys" {
  count = length(local._wrapping_keys)

  project  = var.project_id
  name     = local._wrapping_keys[0].database
  location = local._wrapping_keys[0].key_location

  depends_on = [google_project_service.needed]
}

resource "google_kms_crypto_key" "data_keys" {
  count = length(local._wrapping_keys)

  name     = "wrapping"
  key_ring = google_kms_key_ring.data_keys[0].id
  labels   = var.labels
  # A new version wraps new data keys; the old ones stay, for those that they wrapped.
  rotation_period            = "${local._wrapping_keys[0].rotation_days * 24 * 60 * 60}s"
  destroy_scheduled_duration = "2592000s"

  lifecycle {
    # Without it all that was encrypted is lost.
    prevent_destroy = true
  }
}

resource "google_firestore_database" "data_keys" {
  count = length(local._data_keys)

  project          = var.project_id
  name             = local._data_keys[0].database
  location_id      = var.location
  type             = "FIRESTORE_NATIVE"
  database_edition = "STANDARD"

  point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_DISABLED"
  delete_protection_state = (
    var.deletion_protection
    ? "DELETE_PROTECTION_ENABLED"
    : "DELETE_PROTECTION_DISABLED"
  )
  deletion_policy = "DELETE"

  dynamic "cmek_config" {
    for_each = var.cmek == null ? [] : [var.cmek]

    content {
      kms_key_name = cmek_config.value.database_key
    }
  }

  lifecycle {
    precondition {
      condition     = local._data_keys[0].database != var.database
      error_message = "encryption.database is another database than the store's (${var.database}): backups of the store must not have the data keys."
    }
  }

  depends_on = [google_project_service.needed, time_sleep.kms]
}

resource "google_firestore_field" "data_keys" {
  for_each = toset(length(local._data_keys) == 0 ? [] : local._key_fields)

  project    = var.project_id
  database   = google_firestore_database.data_keys[0].name
  collection = "${var.prefix}_keys"
  field      = each.value

  index_config {}

  dynamic "ttl_config" {
    for_each = each.value == "expire_at" ? [true] : []

    content {}
  }
}

resource "google_project_iam_member" "data_keys" {
  for_each = length(local._data_keys) == 0 ? {} : local._members

  project = var.project_id
  role    = "roles/datastore.user"
  member  = each.value

  condition {
    title       = "database ${google_firestore_database.data_keys[0].name}"
    description = "Data keys of the users of one store."
    expression  = "resource.name == \"projects/${var.project_id}/databases/${google_firestore_database.data_keys[0].name}\""
  }

  depends_on = [google_project_service.needed]
}

resource "google_kms_crypto_key_iam_member" "data_keys" {
  for_each = length(local._data_keys) == 0 ? {} : local._members

  crypto_key_id = local._wrapping_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = each.value
}
