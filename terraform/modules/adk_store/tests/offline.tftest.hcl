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

run "outputs_wait_for_every_grant" {
  command = plan

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
  command = plan

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
  command = plan

  variables {
    # What waits for an API is known after it.
    enable_apis = false
    cmek = {
      bucket_key   = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/bucket"
      database_key = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/database"
    }
  }

  assert {
    condition     = google_firestore_database.this[0].cmek_config[0].kms_key_name == var.cmek.database_key
    error_message = "The database has not its key."
  }

  assert {
    condition     = google_storage_bucket.this[0].encryption[0].default_kms_key_name == var.cmek.bucket_key
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

run "a_database_and_a_bucket_that_exist_are_used" {
  command = plan

  variables {
    bucket_name     = "theirs"
    create_bucket   = false
    create_database = false
    database        = "theirs"
    cmek = {
      bucket_key   = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/bucket"
      database_key = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/database"
    }
  }

  assert {
    condition     = length(google_firestore_database.this) + length(google_storage_bucket.this) == 0
    error_message = "A second one is made."
  }

  assert {
    condition     = length(google_kms_crypto_key_iam_member.bucket) + length(google_kms_crypto_key_iam_member.database) == 0
    error_message = "A key is granted for what has its own."
  }

  assert {
    condition = toset(["theirs"]) == toset(concat(
      [for field in google_firestore_field.unindexed : field.database],
      [for index in google_firestore_index.pages : index.database],
      google_firestore_backup_schedule.daily[*].database,
      [for grant in google_storage_bucket_iam_member.objects : grant.bucket],
      [output.bucket, output.database, output.environment["ADK_STORE_BUCKET"], output.environment["ADK_STORE_DATABASE"]],
    ))
    error_message = "Something is in another database or bucket."
  }

  assert {
    condition     = google_project_iam_member.database["runtime"].condition[0].expression == "resource.name == \"projects/my-project/databases/theirs\""
    error_message = "The role in Firestore is not limited to the database."
  }

  assert {
    condition     = [output.bucket_url, output.database_name] == ["gs://theirs", "projects/my-project/databases/theirs"]
    error_message = "An output names another one."
  }
}

run "data_keys_are_where_no_backup_reaches" {
  command = plan

  variables {
    backups    = { weekly_retention_days = 7 }
    encryption = {}
    labels     = { team = "agents" }
    location   = "eur3"
    members    = { ci = "serviceAccount:ci@my-project.iam.gserviceaccount.com" }
  }

  assert {
    condition     = google_firestore_database.data_keys[0].name == "adk-keys" && output.encryption_database == "adk-keys"
    error_message = "The database of data keys has another name."
  }

  assert {
    condition     = output.environment["ADK_STORE_KEYS_DATABASE"] == "adk-keys" && contains(keys(output.environment), "ADK_STORE_ENCRYPTION_KEY")
    error_message = "The store does not learn where its data keys are."
  }

  assert {
    condition = toset(["adk-keys adk_keys"]) == toset([
      for field in google_firestore_field.data_keys : "${field.database} ${field.collection}"
    ]) && ["expire_at"] == [for field in google_firestore_field.data_keys : field.field if length(field.ttl_config) > 0]
    error_message = "A field of data keys is indexed, or notes of destroyed keys stay for good."
  }

  assert {
    condition     = google_firestore_database.data_keys[0].point_in_time_recovery_enablement == "POINT_IN_TIME_RECOVERY_DISABLED"
    error_message = "A destroyed data key can be read at an older time."
  }

  assert {
    condition     = google_firestore_database.data_keys[0].delete_protection_state == "DELETE_PROTECTION_ENABLED"
    error_message = "The data keys can be deleted."
  }

  assert {
    condition = toset(["(default)"]) == toset(concat(
      google_firestore_backup_schedule.daily[*].database,
      google_firestore_backup_schedule.weekly[*].database,
    ))
    error_message = "A backup has the data keys."
  }

  assert {
    condition     = google_kms_key_ring.data_keys[0].location == "europe"
    error_message = "The key is not near the database."
  }

  assert {
    condition     = google_kms_crypto_key.data_keys[0].rotation_period == "7776000s" && google_kms_crypto_key.data_keys[0].labels["team"] == "agents"
    error_message = "The key is not rotated every 90 days, or has no label."
  }

  assert {
    condition = alltrue([
      for grant in google_project_iam_member.data_keys :
      grant.role == "roles/datastore.user" && grant.condition[0].expression == "resource.name == \"projects/my-project/databases/adk-keys\""
    ]) && toset(["ci", "runtime"]) == toset(keys(google_project_iam_member.data_keys))
    error_message = "A grant on the data keys is missing, or is larger than they are."
  }

  assert {
    condition     = contains(keys(google_project_service.needed), "cloudkms.googleapis.com")
    error_message = "The API of keys is not enabled."
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
    encryption = {
      create_key = false
      database   = "keys-of-agents"
      key        = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/wrapping"
    }
  }

  assert {
    condition     = length(google_kms_crypto_key_iam_member.bucket) + length(google_kms_crypto_key_iam_member.database) == 0
    error_message = "The keys are granted here all the same."
  }

  assert {
    condition     = google_firestore_database.data_keys[0].cmek_config[0].kms_key_name == var.cmek.database_key
    error_message = "The database of data keys has not its key."
  }

  assert {
    condition     = length(google_kms_key_ring.data_keys) + length(google_kms_crypto_key.data_keys) == 0
    error_message = "A second key is made."
  }

  assert {
    condition = ["projects/k/locations/europe-west1/keyRings/r/cryptoKeys/wrapping", "roles/cloudkms.cryptoKeyEncrypterDecrypter"] == [
      google_kms_crypto_key_iam_member.data_keys["runtime"].crypto_key_id, google_kms_crypto_key_iam_member.data_keys["runtime"].role,
    ]
    error_message = "The service account cannot use the key."
  }

  assert {
    condition     = output.environment["ADK_STORE_ENCRYPTION_KEY"] == output.encryption_key && output.encryption_key == "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/wrapping"
    error_message = "The output names another key."
  }
}

run "data_keys_are_not_among_the_data" {
  command = plan

  variables {
    database   = "agents"
    encryption = { database = "agents" }
  }

  expect_failures = [google_firestore_database.data_keys]
}

run "accesses_are_recorded_on_request" {
  command = plan

  variables {
    access_logs = { bucket = "logs-of-my-project" }
    audit_logs  = { writes = false }
    encryption  = {}
  }

  assert {
    condition     = google_storage_bucket.this[0].logging[0].log_bucket == "logs-of-my-project"
    error_message = "Requests to the bucket are not logged."
  }

  assert {
    condition = toset(["cloudkms.googleapis.com", "datastore.googleapis.com", "storage.googleapis.com"]) == toset([
      for each in google_project_iam_audit_config.data_access : each.service
    ])
    error_message = "Accesses to a service are not recorded."
  }

  assert {
    condition = alltrue([
      for each in google_project_iam_audit_config.data_access :
      toset(["ADMIN_READ", "DATA_READ"]) == toset([for config in each.audit_log_config : config.log_type])
    ])
    error_message = "Other accesses are recorded than those that were asked for."
  }
}

run "dashboards_show_this_store_alone" {
  command = plan

  variables {
    dashboards = true
    database   = "agents"
    prefix     = "Support"
  }

  assert {
    condition = alltrue([
      for tile in jsondecode(google_monitoring_dashboard.this["services"].dashboard_json).mosaicLayout.tiles : anytrue([
        for name in ["database_id = \"agents\"", "bucket_name = \"my-project-support\""] :
        strcontains(tile.widget.xyChart.dataSets[0].timeSeriesQuery.timeSeriesFilter.filter, name)
      ])
    ])
    error_message = "A chart is about more than the store."
  }

  assert {
    condition = toset(["Store Support: Firestore and Cloud Storage", "Store Support: the library"]) == toset([
      for dashboard in google_monitoring_dashboard.this : jsondecode(dashboard.dashboard_json).displayName
    ])
    error_message = "The dashboards have other titles."
  }

  assert {
    condition     = contains(keys(google_project_service.needed), "monitoring.googleapis.com")
    error_message = "The API of dashboards is not enabled."
  }
}

run "multi_regions_have_their_own_names_in_storage" {
  command = plan

  variables {
    location = "eur3"
    prefix   = "Support"
  }

  assert {
    condition     = [google_firestore_database.this[0].location_id, google_storage_bucket.this[0].location] == ["eur3", "EU"]
    error_message = "Database and bucket are not in the same part of the world."
  }

  assert {
    condition     = google_storage_bucket.this[0].name == "my-project-support"
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
    error_message = "An alert notifies nobody, or has no label."
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
      length(google_firestore_database.data_keys),
      length(google_monitoring_dashboard.this),
      length(google_project_iam_audit_config.data_access),
      length(google_service_account_iam_member.signer),
      google_storage_bucket.this[0].soft_delete_policy[0].retention_duration_seconds,
    ])
    error_message = "Something is made that was turned off."
  }

  assert {
    condition     = google_firestore_database.this[0].delete_protection_state == "DELETE_PROTECTION_DISABLED" && google_storage_bucket.this[0].force_destroy
    error_message = "It cannot be deleted."
  }

  assert {
    condition     = google_firestore_database.this[0].point_in_time_recovery_enablement == "POINT_IN_TIME_RECOVERY_DISABLED"
    error_message = "Point-in-time recovery is on."
  }
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
