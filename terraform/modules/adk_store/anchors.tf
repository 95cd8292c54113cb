# Heads of histories, which nobody can change before the retention ends: whoever
# can write the database cannot rewrite what was anchored unnoticed.

variable "anchors" {
  description = "Bucket for the heads of histories (gcp-adk-store anchor): its name, how many days each is kept, whether the policy is locked (for good: an owner can remove one that is not, and then the anchors; one that is forbids to destroy the bucket while it keeps any), and members such as serviceAccount:NAME@PROJECT.iam.gserviceaccount.com that write anchors. Do not let the store's own identity write them. Null makes none."
  type = object({
    bucket_name    = optional(string)
    location       = optional(string)
    locked         = bool
    retention_days = optional(number, 365)
    writers        = optional(list(string), [])
  })
  default = null

  validation {
    condition     = var.anchors == null ? true : var.anchors.retention_days >= 1 && var.anchors.retention_days <= 36500
    error_message = "anchors.retention_days is 1 to 36500."
  }
}

resource "google_storage_bucket" "anchors" {
  count = var.anchors == null ? 0 : 1

  project                     = var.project_id
  name                        = coalesce(var.anchors.bucket_name, "${local._bucket_name}-anchors")
  location                    = upper(coalesce(var.anchors.location, local._bucket_location))
  labels                      = var.labels
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = false

  retention_policy {
    retention_period = var.anchors.retention_days * 24 * 60 * 60
    is_locked        = var.anchors.locked
  }

  depends_on = [google_project_service.storage]
}

# Create and list: neither role can delete, and the policy forbids to overwrite.
resource "google_storage_bucket_iam_member" "anchor_writers" {
  for_each = var.anchors == null ? toset([]) : toset(flatten([
    for member in var.anchors.writers : [
      for role in ["objectCreator", "objectViewer"] : "${role} ${member}"
    ]
  ]))

  bucket = google_storage_bucket.anchors[0].name
  role   = "roles/storage.${split(" ", each.key)[0]}"
  member = split(" ", each.key)[1]
}

output "anchors_bucket" {
  description = "Name of the bucket of anchors; null without one."
  value       = one(google_storage_bucket.anchors[*].name)
  depends_on  = [google_storage_bucket_iam_member.anchor_writers, time_sleep.iam]
}
