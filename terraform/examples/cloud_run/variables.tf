variable "binary_authorization" {
  description = "Whether only images run that the project's policy of Binary Authorization admits."
  type        = bool
  default     = false
  nullable    = false
}

variable "cors_origins" {
  description = "Origins of web pages that put and read artifacts through signed URLs."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for origin in var.cors_origins : can(regex("^https?://[^/*]+$", origin))])
    error_message = "An origin is a scheme and a host, as https://app.example.com, without a path and without '*'."
  }
}

variable "database" {
  description = "Id of the Firestore database; another one after a restore."
  type        = string
  default     = "(default)"
  nullable    = false

  validation {
    condition     = can(regex("^(\\(default\\)|[a-z][a-z0-9-]{2,61}[a-z0-9])$", var.database))
    error_message = "A database's id is '(default)', or 4 to 63 lower-case letters, digits or '-' that start with a letter."
  }
}

variable "deletion_protection" {
  description = "Whether the store and the services refuse to be deleted."
  type        = bool
  default     = true
  nullable    = false
}

variable "gc_schedule" {
  description = "When gcp-adk-store gc runs, in UTC and in cron's format. Null never runs it."
  type        = string
  default     = "17 3 * * SUN"

  validation {
    condition     = var.gc_schedule == null ? true : can(regex("^[^[:space:]]+( [^[:space:]]+){4}$", var.gc_schedule))
    error_message = "A schedule has 5 fields, as '17 3 * * SUN': minute, hour, day of the month, month, day of the week."
  }
}

variable "health_path" {
  description = "Path that answers 200 while the process is well; ADK's server has /health."
  type        = string
  default     = "/health"
  nullable    = false

  validation {
    condition     = can(regex("^/[^[:space:]]*$", var.health_path))
    error_message = "A path starts with '/' and has no blanks."
  }
}

variable "iap_members" {
  description = "Who may open the service in a browser, through Identity-Aware Proxy, each under a name of your choice: { team = \"group:team@example.com\" }. Empty leaves the proxy out: then invokers call the service."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for member in values(var.iap_members) : can(regex("^((user|group|serviceAccount|domain):|principal(Set)?://)[^[:space:]]+$", member))])
    error_message = "Members start with user:, group:, serviceAccount:, domain:, principal:// or principalSet://; everybody (allUsers) is refused."
  }
}

variable "image" {
  description = "Image of the agent, by a tag or better by its digest (NAME@sha256:...). It listens on port 8080, takes its services from Store.from_env(), and has the command gcp-adk-store for the jobs and inspector.py for inspectors."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[^[:space:]@:]+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "An image has a digest (NAME@sha256:...) or a tag of its own (NAME:1), not latest: Terraform deploys when this text changes."
  }
}

variable "ingress" {
  description = "Where requests may come from: everywhere, this project's networks, or these and its load balancers. Callers need a grant in any case."
  type        = string
  default     = "INGRESS_TRAFFIC_ALL"
  nullable    = false

  validation {
    condition     = contains(["INGRESS_TRAFFIC_ALL", "INGRESS_TRAFFIC_INTERNAL_ONLY", "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"], var.ingress)
    error_message = "Ingress is INGRESS_TRAFFIC_ALL, INGRESS_TRAFFIC_INTERNAL_ONLY or INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER."
  }
}

variable "inspectors" {
  description = "Who may open the inspector, which shows every user's sessions, through Identity-Aware Proxy; each under a name of your choice. Empty makes no inspector."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for member in values(var.inspectors) : can(regex("^((user|group|serviceAccount|domain):|principal(Set)?://)[^[:space:]]+$", member))])
    error_message = "Inspectors start with user:, group:, serviceAccount:, domain:, principal:// or principalSet://; everybody (allUsers) is refused."
  }
}

variable "invokers" {
  description = "Who may call the service, each under a name of your choice: { team = \"group:team@example.com\" }."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for member in values(var.invokers) : can(regex("^((user|group|serviceAccount|domain):|principal(Set)?://)[^[:space:]]+$", member))])
    error_message = "Invokers start with user:, group:, serviceAccount:, domain:, principal:// or principalSet://; everybody (allUsers) is refused, because who calls the service reads everything."
  }
}

variable "labels" {
  description = "Labels of the services, the jobs, the bucket and the alert policies."
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

variable "max_instances" {
  description = "Most instances of the service."
  type        = number
  default     = 10
  nullable    = false

  validation {
    condition     = var.max_instances >= 1 && var.max_instances <= 1000 && var.max_instances == floor(var.max_instances)
    error_message = "max_instances is a whole number, 1 to 1000."
  }
}

variable "min_instances" {
  description = "Instances that are kept running, and paid for, without requests."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.min_instances >= 0 && var.min_instances <= 1000 && var.min_instances == floor(var.min_instances)
    error_message = "min_instances is a whole number, 0 to 1000."
  }
}

variable "model_location" {
  description = "Location of Vertex AI whose models the agent asks."
  type        = string
  default     = "global"
  nullable    = false

  validation {
    condition     = can(regex("^(global|us|eu|[a-z]+-[a-z]+[0-9]+)$", var.model_location))
    error_message = "A location of models is global, us, eu, or a region such as europe-west1."
  }
}

variable "name" {
  description = "Name of the service; jobs and the inspector add to it."
  type        = string
  default     = "agent"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", var.name))
    error_message = "A name has 1 to 20 lower-case letters, digits or '-', starts with a letter and does not end with '-'."
  }
}

variable "notification_channels" {
  description = "Names of the notification channels of Cloud Monitoring that get the alerts."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for name in var.notification_channels : can(regex("^projects/[^/]+/notificationChannels/[^/]+$", name))])
    error_message = "Notification channels are full names: projects/PROJECT/notificationChannels/NUMBER."
  }
}

variable "project_id" {
  description = "Id of the project."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "A project's id has 6 to 30 lower-case letters, digits or '-', and starts with a letter; a domain and ':' may come before it."
  }
}

variable "prune" {
  description = "Which sessions go by themselves: the app, when gcp-adk-store prune runs, in UTC and in cron's format, and its options, such as --idle-days 90. Null keeps all."
  type = object({
    app      = string
    schedule = optional(string, "47 3 * * *")
    options  = list(string)
  })
  default = null

  validation {
    condition     = var.prune == null ? true : length(setintersection(["--idle-days", "--keep-latest", "--older-than", "--user-data-idle-days"], var.prune.options)) > 0
    error_message = "prune.options must say what goes: --idle-days, --keep-latest, --older-than or --user-data-idle-days."
  }

  validation {
    condition     = var.prune == null ? true : can(regex("^[^[:space:]]+( [^[:space:]]+){4}$", var.prune.schedule))
    error_message = "prune.schedule has 5 fields, as '47 3 * * *': minute, hour, day of the month, month, day of the week."
  }
}

variable "region" {
  description = "Region of the services, the database and the bucket."
  type        = string
  default     = "europe-west1"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "A region of Cloud Run, such as europe-west1; multi-regions are refused."
  }
}

variable "secrets" {
  description = "Secrets of Secret Manager that the agent gets, by the environment variable that has each: { API_KEY = { secret = \"api-key\" } }. The service account may read these; version is a number, or latest."
  type = map(object({
    secret  = string
    version = optional(string, "latest")
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name in keys(var.secrets) : can(regex("^[A-Za-z_][A-Za-z0-9_]*$", name)) && !startswith(name, "ADK_STORE_") && name != "PORT"])
    error_message = "Secrets go by environment variables: letters, digits and '_', not PORT and not ADK_STORE_..., which the module sets."
  }

  validation {
    condition = alltrue([
      for each in values(var.secrets) :
      can(regex("^[A-Za-z0-9_-]{1,255}$", each.secret)) && can(regex("^(latest|[0-9]+)$", each.version))
    ])
    error_message = "A secret is one of this project by its id (letters, digits, '-' and '_'), and its version a number or latest."
  }
}

variable "vpc" {
  description = "Network and subnetwork that the service, the jobs and the inspector send through, with network tags, and whether all traffic goes there or only that to private addresses. Null sends through Google's own network."
  type = object({
    egress     = optional(string, "PRIVATE_RANGES_ONLY")
    network    = string
    subnetwork = string
    tags       = optional(list(string), [])
  })
  default = null

  validation {
    condition     = var.vpc == null ? true : contains(["ALL_TRAFFIC", "PRIVATE_RANGES_ONLY"], var.vpc.egress)
    error_message = "vpc.egress is ALL_TRAFFIC or PRIVATE_RANGES_ONLY."
  }
}

variable "web" {
  description = "Whether the image serves ADK's pages too, for developers and testers (ADK_WEB). They show every user's sessions, so iap_members must say who may open them."
  type        = bool
  default     = false
  nullable    = false
}
