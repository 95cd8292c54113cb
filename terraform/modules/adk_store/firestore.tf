locals {
  # Fields that no query asks for, by collection. Indexing them would be paid
  # for with every write, and times that only grow would bound how fast a
  # collection can be written.
  _unindexed_fields = {
    apps  = ["state"]
    users = ["state"]
    sessions = [
      "state", "initial", "initial_payload", "tail", "chain", "chain_sealed",
      "digests", "origin", "create_time", "sealed_max", "cut", "expire_at", "parts_expire_at", "turns",
      "last_turn", "title", "labels", "label_set", "last_text", "turn", "inbox", "archived",
      "conflicts",
    ]
    segments = [
      "body", "initial", "initial_payload", "chain_begin", "chain_end", "digests",
      "running_max", "window", "archive", "conflicts", "expire_at",
    ]
    chunks   = ["body", "put_time", "expire_at"]
    memories = ["tail", "gone", "shards", "until", "embedder", "fresh", "vectors", "expire_at"]
    shards   = ["body", "ids", "expire_at"]
    vectors  = ["body", "expire_at"]
    tasks    = ["owner", "context_id", "state", "seconds", "nanos", "save", "sha256", "body", "expire_at"]
    pieces   = ["body", "expire_at"]
    configs  = ["body", "expire_at"]
    pushes   = ["save", "expire_at"]
  }

  # Firestore deletes a document some time after the time in this field.
  _ttl_fields = {
    sessions = "expire_at"
    segments = "expire_at"
    chunks   = "expire_at"
    memories = "expire_at"
    shards   = "expire_at"
    vectors  = "expire_at"
    tasks    = "expire_at"
    pieces   = "expire_at"
    configs  = "expire_at"
    pushes   = "expire_at"
  }

  _database = var.create_database ? google_firestore_database.this[0].name : var.database

  # A field's index and TTL are one resource to Firestore: two would undo each other.
  _fields = merge([
    for collection, fields in local._unindexed_fields : {
      for field in fields : "${collection}.${field}" => {
        collection = "${var.prefix}_${collection}"
        field      = field
        ttl        = try(local._ttl_fields[collection] == field, false)
      }
    }
  ]...)

  _page_orders = { newest = "DESCENDING", oldest = "ASCENDING" }

  # Pages of an app, those of them by a label, and pages of a user by a label.
  # Sessions without labels have no entry in an index of label_set.
  _page_kinds = {
    ""               = { of_app = true, labelled = false }
    "_labelled"      = { of_app = true, labelled = true }
    "_labelled_user" = { of_app = false, labelled = true }
  }

  _page_indexes = merge([
    for kind, index in local._page_kinds : {
      for name, order in local._page_orders : "${name}${kind}" => merge(index, { order = order })
      if var.app_pages || !index.of_app
    }
  ]...)
}

resource "google_firestore_database" "this" {
  count = var.create_database ? 1 : 0

  project          = var.project_id
  name             = var.database
  location_id      = var.location
  type             = "FIRESTORE_NATIVE"
  database_edition = "STANDARD"

  point_in_time_recovery_enablement = (
    var.point_in_time_recovery
    ? "POINT_IN_TIME_RECOVERY_ENABLED"
    : "POINT_IN_TIME_RECOVERY_DISABLED"
  )
  delete_protection_state = (
    var.deletion_protection
    ? "DELETE_PROTECTION_ENABLED"
    : "DELETE_PROTECTION_DISABLED"
  )
  # By default a destroy would forget the database and leave it, and its name
  # could not be used again. This way it fails while the database is protected.
  deletion_policy = "DELETE"

  dynamic "cmek_config" {
    for_each = var.cmek == null ? [] : [var.cmek]

    content {
      kms_key_name = cmek_config.value.database_key
    }
  }

  depends_on = [google_project_service.needed, time_sleep.kms]
}

resource "google_firestore_field" "unindexed" {
  for_each = local._fields

  project    = var.project_id
  database   = local._database
  collection = each.value.collection
  field      = each.value.field

  # Empty: no index at all. Without it the field would inherit the automatic ones.
  index_config {}

  dynamic "ttl_config" {
    for_each = each.value.ttl ? [true] : []

    content {}
  }

  depends_on = [google_project_service.needed]
}

resource "google_firestore_index" "pages" {
  for_each = local._page_indexes

  project     = var.project_id
  database    = local._database
  collection  = "${var.prefix}_sessions"
  query_scope = each.value.of_app ? "COLLECTION_GROUP" : "COLLECTION"

  dynamic "fields" {
    for_each = each.value.of_app ? [true] : []

    content {
      field_path = "app"
      order      = "ASCENDING"
    }
  }

  dynamic "fields" {
    for_each = each.value.labelled ? [true] : []

    content {
      field_path   = "label_set"
      array_config = "CONTAINS"
    }
  }

  fields {
    field_path = "last_update_time"
    order      = each.value.order
  }

  depends_on = [google_project_service.needed]
}

resource "google_firestore_backup_schedule" "daily" {
  count = var.backups.daily_retention_days > 0 ? 1 : 0

  project   = var.project_id
  database  = local._database
  retention = "${var.backups.daily_retention_days * 24 * 60 * 60}s"

  daily_recurrence {}

  depends_on = [google_project_service.needed]
}

resource "google_firestore_backup_schedule" "weekly" {
  count = var.backups.weekly_retention_days > 0 ? 1 : 0

  project   = var.project_id
  database  = local._database
  retention = "${var.backups.weekly_retention_days * 24 * 60 * 60}s"

  weekly_recurrence {
    day = var.backups.weekly_day
  }

  depends_on = [google_project_service.needed]
}
