variable "alerts" {
  description = "Alert policies on the database and the bucket, and whom they notify (names of notification channels). Null makes none."
  type = object({
    commit_latency_s      = optional(number, 2)
    errors_per_5_minutes  = optional(number, 10)
    notification_channels = list(string)
  })
  default = null
}

variable "app_pages" {
  description = "Whether list_sessions_page works over all users of an app. It needs four indexes, two of them for labels, which bound the appends to all sessions of one app to 500 a second."
  type        = bool
  default     = true
  nullable    = false
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
    error_message = "The day of weekly backups is MONDAY to SUNDAY."
  }
}

variable "bucket_location" {
  description = "Location of the bucket. Null takes the one that goes with the database: US for nam5 and nam7, EU for eur3, else the same region."
  type        = string
  default     = null
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

variable "database" {
  description = "Id of the Firestore database, which is made here; (default) or a name of its own."
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
    condition     = var.iam_wait_s >= 0 && var.iam_wait_s == floor(var.iam_wait_s)
    error_message = "The wait is a whole number of seconds, 0 or more."
  }
}

variable "labels" {
  description = "Labels of the bucket and the alert policies."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "location" {
  description = "Location of the database, as europe-west1 or eur3. It cannot be changed later."
  type        = string
  nullable    = false
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
    condition     = var.soft_delete_days == 0 || (var.soft_delete_days >= 7 && var.soft_delete_days <= 90)
    error_message = "Deleted objects are kept 7 to 90 days, or 0 for not at all."
  }
}
