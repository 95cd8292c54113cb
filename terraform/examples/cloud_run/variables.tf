variable "cors_origins" {
  description = "Origins of web pages that put and read artifacts through signed URLs."
  type        = list(string)
  default     = []
}

variable "database" {
  description = "Id of the Firestore database; another one after a restore."
  type        = string
  default     = "(default)"
}

variable "deletion_protection" {
  description = "Whether the store and the service refuse to be deleted."
  type        = bool
  default     = true
}

variable "gc_schedule" {
  description = "When gcp-adk-store gc runs, in UTC and as cron spells it. Null never runs it."
  type        = string
  default     = "17 3 * * SUN"
}

variable "health_path" {
  description = "Path that answers 200 while the process is well; ADK's server has /health."
  type        = string
  default     = "/health"
}

variable "image" {
  description = "Image of the agent, which listens on port 8080, takes its services from Store.from_env(), and has the command gcp-adk-store for gc_schedule."
  type        = string
}

variable "invokers" {
  description = "Who may call the service, each under a name of your choice: { team = \"group:team@example.com\" }."
  type        = map(string)
  default     = {}
}

variable "max_instances" {
  description = "Most instances of the service."
  type        = number
  default     = 10
}

variable "min_instances" {
  description = "Instances that are kept running, and paid for, without requests."
  type        = number
  default     = 1
}

variable "model_location" {
  description = "Location of Vertex AI whose models the agent asks."
  type        = string
  default     = "global"
}

variable "name" {
  description = "Name of the service."
  type        = string
  default     = "agent"
}

variable "notification_channels" {
  description = "Names of the notification channels of Cloud Monitoring that are told of trouble."
  type        = list(string)
  default     = []
}

variable "project_id" {
  description = "Id of the project."
  type        = string
}

variable "prune" {
  description = "Which sessions go by themselves: the app, when gcp-adk-store prune runs, in UTC and as cron spells it, and its options, such as --idle-days 90. Null keeps all."
  type = object({
    app      = string
    schedule = optional(string, "47 3 * * *")
    options  = list(string)
  })
  default = null

  validation {
    condition     = var.prune == null || length(setintersection(["--idle-days", "--keep-latest", "--older-than", "--user-data-idle-days"], try(var.prune.options, []))) > 0
    error_message = "prune.options must say what goes: --idle-days, --keep-latest, --older-than or --user-data-idle-days."
  }
}

variable "region" {
  description = "Region of the service, the database and the bucket."
  type        = string
  default     = "europe-west1"
}
