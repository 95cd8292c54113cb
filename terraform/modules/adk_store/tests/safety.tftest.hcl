# Nothing is contacted: both providers are mocked, so that `terraform test`
# needs no credentials and makes nothing.

mock_provider "google" {
  mock_resource "google_service_account" {
    defaults = {
      email = "adk-store@my-project.iam.gserviceaccount.com"
      name  = "projects/my-project/serviceAccounts/adk-store@my-project.iam.gserviceaccount.com"
    }
  }

  mock_data "google_project" {
    defaults = { number = "123456789012" }
  }

  mock_data "google_storage_project_service_account" {
    defaults = { email_address = "service-123456789012@gs-project-accounts.iam.gserviceaccount.com" }
  }
}

mock_provider "time" {}

variables {
  location   = "europe-west1"
  project_id = "my-project"
}

run "by_default_data_is_hard_to_lose_and_never_public" {
  command = plan

  assert {
    condition     = google_firestore_database.this[0].point_in_time_recovery_enablement == "POINT_IN_TIME_RECOVERY_ENABLED"
    error_message = "Point-in-time recovery is off."
  }

  assert {
    condition     = google_firestore_database.this[0].delete_protection_state == "DELETE_PROTECTION_ENABLED"
    error_message = "The database can be deleted."
  }

  assert {
    condition     = google_firestore_database.this[0].deletion_policy == "DELETE"
    error_message = "A destroy would leave the database and forget it."
  }

  assert {
    condition     = google_storage_bucket.this[0].force_destroy == false
    error_message = "The bucket can be deleted with its objects."
  }

  assert {
    condition     = google_storage_bucket.this[0].soft_delete_policy[0].retention_duration_seconds == 7 * 86400
    error_message = "Deleted objects cannot be restored for a week."
  }

  assert {
    condition     = google_firestore_backup_schedule.daily[0].retention == "604800s"
    error_message = "Daily backups are not kept for a week."
  }

  assert {
    condition     = length(google_firestore_backup_schedule.weekly) == 0
    error_message = "Weekly backups are made unasked."
  }

  assert {
    condition     = google_storage_bucket.this[0].public_access_prevention == "enforced"
    error_message = "Public access is not prevented."
  }

  assert {
    condition     = google_storage_bucket.this[0].uniform_bucket_level_access
    error_message = "Objects can have access lists of their own."
  }

  assert {
    condition     = length(google_storage_bucket.this[0].cors) == 0
    error_message = "Web pages of other origins may use signed URLs unasked."
  }
}

run "grants_are_the_least" {
  assert {
    condition     = google_project_iam_member.database["runtime"].role == "roles/datastore.user"
    error_message = "The role in Firestore is another."
  }

  assert {
    condition     = google_project_iam_member.database["runtime"].condition[0].expression == "resource.name == \"projects/my-project/databases/(default)\""
    error_message = "The role in Firestore is not limited to the database."
  }

  assert {
    condition     = google_storage_bucket_iam_member.objects["runtime"].role == "roles/storage.objectUser"
    error_message = "The role on the bucket is another."
  }

  assert {
    condition = toset(["serviceAccount:adk-store@my-project.iam.gserviceaccount.com"]) == toset(concat(
      [for grant in google_project_iam_member.database : grant.member],
      [for grant in google_storage_bucket_iam_member.objects : grant.member],
      google_service_account_iam_member.signer[*].member,
    ))
    error_message = "Someone else has a grant."
  }

  assert {
    condition     = google_service_account_iam_member.signer[0].service_account_id == google_service_account.runtime[0].name
    error_message = "The account may sign as another one."
  }

  assert {
    condition     = output.service_account_email == "adk-store@my-project.iam.gserviceaccount.com"
    error_message = "The output names another account."
  }
}

run "what_cannot_be_is_refused" {
  command = plan

  variables {
    backups            = { daily_retention_days = 99 }
    bucket_name        = "gs://mine"
    cors_origins       = ["*"]
    database           = "Agents"
    iam_wait_s         = -1
    members            = { runtime = "user:ada@example.com" }
    prefix             = "a_b"
    service_account_id = "a"
    soft_delete_days   = 1
  }

  expect_failures = [
    var.backups,
    var.bucket_name,
    var.cors_origins,
    var.database,
    var.iam_wait_s,
    var.members,
    var.prefix,
    var.service_account_id,
    var.soft_delete_days,
  ]
}
