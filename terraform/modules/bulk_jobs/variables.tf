variable "bucket_name" {
  description = "Name of the bucket of the jobs; null makes one of the project and the name."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Whether the bucket refuses to be deleted while it has objects."
  type        = bool
  default     = true
}

variable "image" {
  description = "Image of launcher and workers, as docs/bulk.md builds it."
  type        = string
}

variable "jobs" {
  description = "Jobs by names of your choice: read, export, erase, prune or verify, the app, further parameters of the template, and when it runs, in UTC and in cron's format; without a schedule it runs by hand."
  type = map(object({
    app        = string
    job        = string
    parameters = optional(map(string), {})
    schedule   = optional(string)
  }))
  default = {}

  validation {
    condition     = alltrue([for job in var.jobs : contains(["read", "export", "erase", "prune", "verify"], job.job)])
    error_message = "Each job must be read, export, erase, prune or verify."
  }

  validation {
    condition = alltrue(flatten([
      for job in var.jobs : [for key, value in job.parameters : !can(regex("[~']", value))]
    ]))
    error_message = "A parameter must not have ~ or ' in it: the output commands separates them by these."
  }
}

variable "machine_type" {
  description = "Machine type of the workers. Each vCPU runs one process."
  type        = string
  default     = "n2-standard-2"
}

variable "max_workers" {
  description = "Most workers of a job."
  type        = number
  default     = 10
}

variable "name" {
  description = "Start of the names of all that is made: 3 to 20 lower-case letters, digits or -."
  type        = string
  default     = "adk-bulk"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,18}[a-z0-9]$", var.name))
    error_message = "name must be 3 to 20 lower-case letters, digits or -, beginning with a letter."
  }
}

variable "project_id" {
  description = "Id of the project of the jobs."
  type        = string
}

variable "region" {
  description = "Region of the jobs and their bucket: that of the database."
  type        = string
}

variable "store" {
  description = "Where the store is: its project, database, bucket, if it has one, and prefix."
  type = object({
    bucket   = optional(string)
    database = optional(string, "(default)")
    prefix   = optional(string, "adk")
    project  = string
  })
}

variable "subnetwork" {
  description = "Subnetwork of the workers, which then have no public addresses; null takes the network default."
  type        = string
  default     = null
}
