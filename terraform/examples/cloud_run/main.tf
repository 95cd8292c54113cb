terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0, < 9.0"
    }
  }
}

provider "google" {
  project = var.project_id
}

locals {
  _apis = concat(
    ["aiplatform.googleapis.com", "run.googleapis.com"],
    length(local._jobs) == 0 ? [] : ["cloudscheduler.googleapis.com"],
    local._asks_iap ? ["iap.googleapis.com"] : [],
    length(var.secrets) == 0 ? [] : ["secretmanager.googleapis.com"],
    var.binary_authorization ? ["binaryauthorization.googleapis.com"] : [],
  )

  _asks_iap = length(var.iap_members) + length(var.inspectors) > 0
}

data "google_project" "this" {
  count = local._asks_iap ? 1 : 0

  project_id = var.project_id
}

resource "google_project_service" "needed" {
  for_each = toset(local._apis)

  project            = var.project_id
  service            = each.value
  disable_on_destroy = false
}

module "adk_store" {
  source = "../../modules/adk_store"

  alerts              = { notification_channels = var.notification_channels }
  cors_origins        = var.cors_origins
  dashboards          = true
  database            = var.database
  deletion_protection = var.deletion_protection
  labels              = var.labels
  location            = var.region
  project_id          = var.project_id
}
