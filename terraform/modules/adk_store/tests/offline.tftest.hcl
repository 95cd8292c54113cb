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

run "by_default_data_is_hard_to_lose" {
  command = plan

  assert {
    condition     = google_firestore_database.this.point_in_time_recovery_enablement == "POINT_IN_TIME_RECOVERY_ENABLED"
    error_message = "Point-in-time recovery is off."
  }

  assert {
    condition     = google_firestore_database.this.delete_protection_state == "DELETE_PROTECTION_ENABLED"
    error_message = "The database can be deleted."
  }

  assert {
    condition     = google_firestore_database.this.deletion_policy == "DELETE"
    error_message = "A destroy would leave the database and forget it."
  }

  assert {
    condition     = google_storage_bucket.this.force_destroy == false
    error_message = "The bucket can be deleted with its objects."
  }

  assert {
    condition     = google_storage_bucket.this.soft_delete_policy[0].retention_duration_seconds == 7 * 86400
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
}

run "the_bucket_is_never_public" {
  command = plan

  assert {
    condition     = google_storage_bucket.this.public_access_prevention == "enforced"
    error_message = "Public access is not prevented."
  }

  assert {
    condition     = google_storage_bucket.this.uniform_bucket_level_access
    error_message = "Objects can have access lists of their own."
  }

  assert {
    condition     = length(google_storage_bucket.this.cors) == 0
    error_message = "Web pages of other origins may use signed URLs unasked."
  }
}

run "everything_is_in_the_named_database" {
  command = plan

  variables {
    backups  = { weekly_retention_days = 98 }
    database = "agents"
  }

  assert {
    condition = toset(["agents"]) == toset(concat(
      [for field in google_firestore_field.unindexed : field.database],
      [for index in google_firestore_index.pages : index.database],
      google_firestore_backup_schedule.daily[*].database,
      google_firestore_backup_schedule.weekly[*].database,
      [output.environment["ADK_STORE_DATABASE"], output.database],
    ))
    error_message = "Something is in another database than the store's."
  }

  assert {
    condition     = google_firestore_backup_schedule.weekly[0].retention == "8467200s"
    error_message = "Weekly backups are not kept for 14 weeks."
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

run "outputs_wait_for_every_grant" {
  variables {
    iam_wait_s = 90
    members    = { ci = "serviceAccount:ci@my-project.iam.gserviceaccount.com" }
  }

  assert {
    condition     = time_sleep.iam.create_duration == "90s"
    error_message = "The wait is another."
  }

  assert {
    condition = toset(keys(time_sleep.iam.triggers)) == toset([
      "bucket ci", "bucket runtime", "database ci", "database runtime", "signer",
    ])
    error_message = "A grant is not waited for."
  }
}

run "members_can_have_the_access_alone" {
  variables {
    members            = { gke = "principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/my-project.svc.id.goog/subject/ns/agents/sa/agent" }
    service_account_id = null
  }

  assert {
    condition     = ["gke"] == keys(google_project_iam_member.database)
    error_message = "The grants in Firestore are others."
  }

  assert {
    condition     = ["gke"] == keys(google_storage_bucket_iam_member.objects)
    error_message = "The grants on the bucket are others."
  }

  assert {
    condition     = length(google_service_account_iam_member.signer) == 0
    error_message = "Someone may sign as an account that is not there."
  }

  assert {
    condition     = output.service_account_email == null && output.service_account_name == null
    error_message = "An account is named that is not there."
  }
}

run "keys_are_granted_to_googles_agents_alone" {
  variables {
    cmek = {
      bucket_key   = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/bucket"
      database_key = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/database"
    }
  }

  assert {
    condition     = google_firestore_database.this.cmek_config[0].kms_key_name == var.cmek.database_key
    error_message = "The database has not its key."
  }

  assert {
    condition     = google_storage_bucket.this.encryption[0].default_kms_key_name == var.cmek.bucket_key
    error_message = "The bucket has not its key."
  }

  assert {
    condition = [var.cmek.database_key, "serviceAccount:service-123456789012@gcp-sa-firestore.iam.gserviceaccount.com"] == [
      google_kms_crypto_key_iam_member.database[0].crypto_key_id, google_kms_crypto_key_iam_member.database[0].member,
    ]
    error_message = "The key of the database is another's."
  }

  assert {
    condition = [var.cmek.bucket_key, "serviceAccount:service-123456789012@gs-project-accounts.iam.gserviceaccount.com"] == [
      google_kms_crypto_key_iam_member.bucket[0].crypto_key_id, google_kms_crypto_key_iam_member.bucket[0].member,
    ]
    error_message = "The key of the bucket is another's."
  }
}

run "keys_can_be_granted_elsewhere" {
  command = plan

  variables {
    cmek = {
      bucket_key   = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/bucket"
      database_key = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/database"
      grant_access = false
    }
  }

  assert {
    condition     = length(google_kms_crypto_key_iam_member.bucket) + length(google_kms_crypto_key_iam_member.database) == 0
    error_message = "The keys are granted here all the same."
  }
}

run "multi_regions_have_their_own_names_in_storage" {
  command = plan

  variables {
    location = "eur3"
    prefix   = "Support"
  }

  assert {
    condition     = [google_firestore_database.this.location_id, google_storage_bucket.this.location] == ["eur3", "EU"]
    error_message = "Database and bucket are not in the same part of the world."
  }

  assert {
    condition     = google_storage_bucket.this.name == "my-project-support"
    error_message = "The bucket's name is another."
  }
}

run "alerts_watch_this_store_alone" {
  command = plan

  variables {
    alerts = { notification_channels = ["projects/my-project/notificationChannels/1"] }
    labels = { team = "agents" }
  }

  assert {
    condition = alltrue(concat(
      [
        for policy in [google_monitoring_alert_policy.failures["database"], google_monitoring_alert_policy.latency[0]] :
        strcontains(policy.conditions[0].condition_threshold[0].filter, "database_id = \"(default)\"")
      ],
      [strcontains(google_monitoring_alert_policy.failures["bucket"].conditions[0].condition_threshold[0].filter, "bucket_name = \"my-project-adk\"")],
    ))
    error_message = "An alert is about more than the store."
  }

  assert {
    condition = alltrue([
      for policy in concat(values(google_monitoring_alert_policy.failures), google_monitoring_alert_policy.latency) :
      policy.notification_channels == tolist(["projects/my-project/notificationChannels/1"]) && policy.user_labels["team"] == "agents"
    ])
    error_message = "An alert tells nobody, or has no label."
  }

  assert {
    condition     = contains(keys(google_project_service.needed), "monitoring.googleapis.com")
    error_message = "The API of the alerts is not enabled."
  }
}

run "choices_can_be_turned_off" {
  command = plan

  variables {
    app_pages              = false
    backups                = { daily_retention_days = 0 }
    deletion_protection    = false
    enable_apis            = false
    point_in_time_recovery = false
    signed_urls            = false
    soft_delete_days       = 0
  }

  assert {
    condition = 0 == sum([
      length(google_firestore_backup_schedule.daily),
      length([for index in google_firestore_index.pages : index if index.query_scope != "COLLECTION"]),
      length(google_monitoring_alert_policy.failures),
      length(google_monitoring_alert_policy.latency),
      length(google_project_service.needed),
      length(google_project_service.storage),
      length(google_service_account_iam_member.signer),
      google_storage_bucket.this.soft_delete_policy[0].retention_duration_seconds,
    ])
    error_message = "Something is made that was turned off."
  }

  assert {
    condition     = google_firestore_database.this.delete_protection_state == "DELETE_PROTECTION_DISABLED" && google_storage_bucket.this.force_destroy
    error_message = "It cannot be deleted."
  }

  assert {
    condition     = google_firestore_database.this.point_in_time_recovery_enablement == "POINT_IN_TIME_RECOVERY_DISABLED"
    error_message = "Point-in-time recovery is on."
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

run "a_day_that_is_none_is_refused" {
  command = plan

  variables {
    backups = { weekly_day = "Sunday", weekly_retention_days = 7 }
  }

  expect_failures = [var.backups]
}

run "a_project_id_that_makes_no_bucket_name_is_refused" {
  command = plan

  variables {
    project_id = "example.com:agents"
  }

  expect_failures = [google_storage_bucket.this]
}

run "anchors_are_kept_in_a_bucket_that_forbids_changes" {
  command = plan

  variables {
    anchors = {
      locked         = true
      retention_days = 30
      writers        = ["serviceAccount:auditor@my-project.iam.gserviceaccount.com"]
    }
  }

  assert {
    condition     = google_storage_bucket.anchors[0].retention_policy[0].is_locked && google_storage_bucket.anchors[0].retention_policy[0].retention_period == "2592000"
    error_message = "The policy is not as it was asked for."
  }

  assert {
    condition     = toset([for grant in google_storage_bucket_iam_member.anchor_writers : grant.role]) == toset(["roles/storage.objectCreator", "roles/storage.objectViewer"])
    error_message = "A writer of anchors has other roles than to create and to read."
  }

  assert {
    condition     = google_storage_bucket.anchors[0].name == "my-project-adk-anchors"
    error_message = "The bucket's name does not follow the store's."
  }
}

run "without_anchors_there_is_no_such_bucket" {
  command = plan

  assert {
    condition     = length(google_storage_bucket.anchors) == 0
    error_message = "A bucket of anchors is made without being asked for."
  }
}
