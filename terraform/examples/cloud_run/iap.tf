# Identity-Aware Proxy asks whoever opens a page who they are, and lets in the
# members alone. It calls the service as its own agent, which therefore is an
# invoker; the agent has to be made once (README.md).

locals {
  _iap_agent = local._asks_iap ? "serviceAccount:service-${data.google_project.this[0].number}@gcp-sa-iap.iam.gserviceaccount.com" : null
}

resource "google_cloud_run_v2_service_iam_member" "iap" {
  count = length(var.iap_members) > 0 ? 1 : 0

  project  = var.project_id
  location = google_cloud_run_v2_service.agent.location
  name     = google_cloud_run_v2_service.agent.name
  role     = "roles/run.invoker"
  member   = local._iap_agent
}

resource "google_iap_web_cloud_run_service_iam_member" "agent" {
  for_each = var.iap_members

  project                = var.project_id
  location               = google_cloud_run_v2_service.agent.location
  cloud_run_service_name = google_cloud_run_v2_service.agent.name
  role                   = "roles/iap.httpsResourceAccessor"
  member                 = each.value
}
