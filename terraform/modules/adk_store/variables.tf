variable "access_logs" {
  description = "Where Cloud Storage writes a log of every request to the bucket: another bucket, and the start of the logs' names; null takes the bucket's name. Null logs nothing."
  type = object({
    bucket = string
    prefix = optional(string)
  })
  default = null

  validation {
    condition     = var.access_logs == null ? true : can(regex("^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$", var.access_logs.bucket))
    error_message = "access_logs.bucket is the name of a bucket alone, without gs://: 3 to 63 lower-case letters, digits, '-', '_' or '.'."
  }

  validation {
    condition     = try(length(var.access_logs.prefix) <= 900, true)
    error_message = "access_logs.prefix has at most 900 characters."
  }
}

variable "alerts" {
  description = "Alert policies on the database and the bucket, and whom they notify (names of notification channels). Null makes none."
  type = object({
    commit_latency_s      = optional(number, 2)
    errors_per_5_minutes  = optional(number, 10)
    notification_channels = list(string)
  })
  default = null

  validation {
    condition = var.alerts == null ? true : alltrue([
      for name in var.alerts.notification_channels :
      can(regex("^projects/[^/]+/notificationChannels/[^/]+$", name))
    ])
    error_message = "alerts.notification_channels are full names: projects/PROJECT/notificationChannels/NUMBER."
  }

  validation {
    condition     = var.alerts == null ? true : var.alerts.commit_latency_s > 0 && var.alerts.errors_per_5_minutes >= 0
    error_message = "alerts.commit_latency_s is a number of seconds above 0, and alerts.errors_per_5_minutes 0 or more."
  }
}

variable "app_pages" {
  description = "Whether list_sessions_page works over all users of an app. It needs four indexes, two of them for labels, which bound the appends to all sessions of one app to 500 a second."
  type        = bool
  default     = true
  nullable    = false
}

variable "audit_logs" {
  description = "Which accesses to data Cloud Audit Logs records, by whom, of Firestore and Cloud Storage, and of Cloud KMS with encryption. A project has one such setting of a service: it covers its other databases and buckets too. Null leaves it as it is."
  type = object({
    exempted_members = optional(list(string), [])
    reads            = optional(bool, true)
    writes           = optional(bool, true)
  })
  default = null

  validation {
    condition = var.audit_logs == null ? true : alltrue([
      for member in var.audit_logs.exempted_members :
      can(regex("^((user|group|serviceAccount|domain):|principal(Set)?://)[^[:space:]]+$", member))
    ])
    error_message = "audit_logs.exempted_members start with user:, group:, serviceAccount:, domain:, principal:// or principalSet://."
  }

  validation {
    condition     = var.audit_logs == null ? true : var.audit_logs.reads || var.audit_logs.writes
    error_message = "audit_logs records reads, writes or both; null records neither."
  }
}

variable "backups" {
  description = "How many days daily and weekly backups of the database are kept, 98 at most; 0 makes none."
  type = object({
    daily_retention_days  = optional(number, 7)
    weekly_day            = optional(string, "SUNDAY")
    weekly_retention_days = optional(number, 0)
  })
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for days in [var.backups.daily_retention_days, var.backups.weekly_retention_days] :
      days >= 0 && days <= 98 && days == floor(days)
    ])
    error_message = "Backups are kept 0 to 98 whole days: Firestore allows 14 weeks."
  }

  validation {
    condition = contains(
      ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"],
      var.backups.weekly_day,
    )
    error_message = "The day of weekly backups is MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY, SATURDAY or SUNDAY."
  }
}

variable "bucket_location" {
  description = "Location of the bucket. Null takes the one that goes with the database: US for nam5 and nam7, EU for eur3, else the same region."
  type        = string
  default     = null

  validation {
    condition     = var.bucket_location == null ? true : can(regex("(?i)^([a-z]+-[a-z]+[0-9]+|us|eu|asia|(nam|eur|asia)[0-9]{1,2})$", var.bucket_location))
    error_message = "A bucket's location is a region such as europe-west1, a dual-region such as NAM4 or EUR4, or US, EU or ASIA."
  }
}

variable "bucket_name" {
  description = "Name of the bucket, unique in all of Cloud Storage. Null makes it of the project's id and the prefix."
  type        = string
  default     = null

  validation {
    condition     = var.bucket_name == null ? true : can(regex("^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$", var.bucket_name))
    error_message = "A bucket's name has 3 to 63 lower-case letters, digits, '-', '_' or '.', and starts and ends with a letter or digit."
  }
}

variable "cmek" {
  description = "Keys of Cloud KMS that encrypt the database and the bucket, one for both where their locations agree. With grant_access the module lets Google's service agents use them. Null takes Google's own keys."
  type = object({
    bucket_key   = string
    database_key = string
    grant_access = optional(bool, true)
  })
  default = null

  validation {
    condition = var.cmek == null ? true : alltrue([
      for key in [var.cmek.bucket_key, var.cmek.database_key] :
      can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", key))
    ])
    error_message = "cmek.bucket_key and cmek.database_key are full names: projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY."
  }
}

variable "cors_origins" {
  description = "Origins of web pages, as https://app.example.com, that may read and put objects through signed URLs."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for origin in var.cors_origins : can(regex("^https?://[^/*]+$", origin))])
    error_message = "An origin is a scheme and a host, as https://app.example.com, without a path and without '*'."
  }
}

variable "create_bucket" {
  description = "Whether the bucket is made here. False uses the one that bucket_name names, whose settings stay as they are: only grants are made on it."
  type        = bool
  default     = true
  nullable    = false
}

variable "create_database" {
  description = "Whether the database is made here. False uses the one that database names, whose own settings stay as they are: fields, indexes, backup schedules and grants are made in it."
  type        = bool
  default     = true
  nullable    = false
}

variable "dashboards" {
  description = "Whether two dashboards of Cloud Monitoring are made: what Google measures of the database and the bucket, and what the library measures if its telemetry is on."
  type        = bool
  default     = false
  nullable    = false
}

variable "database" {
  description = "Id of the Firestore database; (default) or a name of its own."
  type        = string
  default     = "(default)"
  nullable    = false

  validation {
    condition     = can(regex("^(\\(default\\)|[a-z][a-z0-9-]{2,61}[a-z0-9])$", var.database))
    error_message = "A database's id is '(default)', or 4 to 63 lower-case letters, digits or '-' that start with a letter."
  }
}

variable "deletion_protection" {
  description = "Whether the database refuses to be deleted, and the bucket too while objects are in it."
  type        = bool
  default     = true
  nullable    = false
}

variable "enable_apis" {
  description = "Whether the APIs that are needed are enabled in the project. They stay enabled when the module is destroyed."
  type        = bool
  default     = true
  nullable    = false
}

variable "encryption" {
  description = "What encryption in the process needs: a database for one data key a user, without backups and point-in-time recovery, and a key of Cloud KMS that wraps them, or the one that key names with create_key = false. Null makes neither."
  type = object({
    create_key    = optional(bool, true)
    database      = optional(string)
    key           = optional(string)
    key_location  = optional(string)
    rotation_days = optional(number, 90)
  })
  default = null

  validation {
    condition     = try(var.encryption.database, null) == null ? true : can(regex("^[a-z][a-z0-9-]{2,61}[a-z0-9]$", var.encryption.database))
    error_message = "encryption.database is a database's id: 4 to 63 lower-case letters, digits or '-' that start with a letter."
  }

  validation {
    condition     = var.encryption == null ? true : var.encryption.create_key || can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", var.encryption.key))
    error_message = "With encryption.create_key = false, encryption.key is a full name: projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY."
  }

  validation {
    condition     = try(var.encryption.key_location, null) == null ? true : can(regex("^([a-z]+-[a-z]+[0-9]+|us|europe|global)$", var.encryption.key_location))
    error_message = "encryption.key_location is a region such as europe-west1, or us, europe or global."
  }

  validation {
    condition     = var.encryption == null ? true : var.encryption.rotation_days >= 1 && var.encryption.rotation_days <= 36500 && var.encryption.rotation_days == floor(var.encryption.rotation_days)
    error_message = "encryption.rotation_days is a whole number of days, 1 to 36500."
  }
}

variable "expire_artifacts" {
  description = "Whether every object whose custom time has passed is deleted: artifacts saved with expires_after, and payloads of sessions that ended. False deletes such payloads only."
  type        = bool
  default     = true
  nullable    = false
}

variable "iam_wait_s" {
  description = "Seconds that outputs wait for new grants to be known everywhere."
  type        = number
  default     = 60
  nullable    = false

  validation {
    condition     = var.iam_wait_s >= 0 && var.iam_wait_s <= 3600 && var.iam_wait_s == floor(var.iam_wait_s)
    error_message = "The wait is a whole number of seconds, 0 to 3600."
  }
}

variable "labels" {
  description = "Labels of the bucket, the alert policies and the key of encryption."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition = length(var.labels) <= 64 && alltrue([
      for name, value in var.labels :
      can(regex("^[a-z][a-z0-9_-]{0,62}$", name)) && can(regex("^[a-z0-9_-]{0,63}$", value))
    ])
    error_message = "At most 64 labels: names of 1 to 63 lower-case letters, digits, '-' or '_' that start with a letter, and values of 0 to 63 such characters."
  }
}

variable "location" {
  description = "Location of the database, as europe-west1 or eur3. It cannot be changed later."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^([a-z]+-[a-z]+[0-9]+|nam5|nam7|eur3)$", var.location))
    error_message = "A location is a region such as europe-west1, or nam5, nam7 or eur3."
  }
}

variable "members" {
  description = "Further principals that get what the service account gets, but for signing; each under a name of your choice: { ci = \"serviceAccount:ci@...\" }."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = !contains(keys(var.members), "runtime")
    error_message = "The name runtime is that of the module's own service account."
  }

  validation {
    condition     = alltrue([for member in values(var.members) : can(regex("^((user|group|serviceAccount):[^[:space:]]+@|principal(Set)?://)[^[:space:]]+$", member))])
    error_message = "Members start with user:, group:, serviceAccount:, principal:// or principalSet://; everybody (allUsers) is none."
  }
}

variable "point_in_time_recovery" {
  description = "Whether the database can be read and restored as it was at any minute of the last 7 days."
  type        = bool
  default     = true
  nullable    = false
}

variable "prefix" {
  description = "Start of every collection's name: the prefix of the store."
  type        = string
  default     = "adk"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9-]{0,31}$", var.prefix))
    error_message = "A prefix has 1 to 32 letters, digits or '-', and starts with a letter."
  }
}

variable "project_id" {
  description = "Id of the project that everything is made in."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "A project's id has 6 to 30 lower-case letters, digits or '-', and starts with a letter; a domain and ':' may come before it."
  }
}

variable "service_account_id" {
  description = "First part of the e-mail of the service account that agents run as. Null makes none: then members have access."
  type        = string
  default     = "adk-store"

  validation {
    condition     = var.service_account_id == null ? true : can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.service_account_id))
    error_message = "A service account's id has 6 to 30 lower-case letters, digits or '-', and starts with a letter."
  }
}

variable "signed_urls" {
  description = "Whether the service account may sign as itself, without a key: for get_signed_url and create_upload."
  type        = bool
  default     = true
  nullable    = false
}

variable "soft_delete_days" {
  description = "Days that deleted objects can be restored, and are paid for: 7 to 90, or 0."
  type        = number
  default     = 7
  nullable    = false

  validation {
    condition     = var.soft_delete_days == 0 || (var.soft_delete_days >= 7 && var.soft_delete_days <= 90 && var.soft_delete_days == floor(var.soft_delete_days))
    error_message = "Deleted objects are kept 7 to 90 whole days, or 0 for not at all."
  }
}

variable "storage_class" {
  description = "Class of objects in the bucket: STANDARD, or a colder one that costs less to keep and more to read."
  type        = string
  default     = "STANDARD"
  nullable    = false

  validation {
    condition     = contains(["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"], var.storage_class)
    error_message = "A storage class is STANDARD, NEARLINE, COLDLINE or ARCHIVE."
  }
}
