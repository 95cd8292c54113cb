# Admin activity is always recorded; accesses to data are only on request. The
# setting is the project's, one for each service.

locals {
  _audit_log_types = var.audit_logs == null ? [] : concat(
    var.audit_logs.reads ? ["ADMIN_READ", "DATA_READ"] : [],
    var.audit_logs.writes ? ["DATA_WRITE"] : [],
  )

  # That of Firestore goes by the name of Datastore.
  _audited = var.audit_logs == null ? [] : concat(
    ["datastore.googleapis.com", "storage.googleapis.com"],
    var.encryption == null ? [] : ["cloudkms.googleapis.com"],
  )
}

resource "google_project_iam_audit_config" "data_access" {
  for_each = toset(local._audited)

  project = var.project_id
  service = each.value

  dynamic "audit_log_config" {
    for_each = toset(local._audit_log_types)

    content {
      log_type         = audit_log_config.value
      exempted_members = var.audit_logs.exempted_members
    }
  }

  depends_on = [google_project_service.needed]
}
