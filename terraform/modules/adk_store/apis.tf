locals {
  _apis = concat(
    ["cloudresourcemanager.googleapis.com", "firestore.googleapis.com", "iam.googleapis.com"],
    var.signed_urls ? ["iamcredentials.googleapis.com"] : [],
    var.alerts == null && !var.dashboards ? [] : ["monitoring.googleapis.com"],
    var.encryption == null ? [] : ["cloudkms.googleapis.com"],
  )
}

resource "google_project_service" "needed" {
  for_each = toset(var.enable_apis ? local._apis : [])

  project = var.project_id
  service = each.value
  # Others in the project may need them too.
  disable_on_destroy = false
}

# Apart from the others, since a data source waits for it: whenever one of
# those came or went, the agent of the bucket's key would be unknown, and its
# grant be taken away and given anew.
resource "google_project_service" "storage" {
  count = var.enable_apis ? 1 : 0

  project            = var.project_id
  service            = "storage.googleapis.com"
  disable_on_destroy = false
}
