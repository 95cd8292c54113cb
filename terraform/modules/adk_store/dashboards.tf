# Two dashboards. The first needs nothing but the database and the bucket: it
# shows what Google measures of them. The second shows what the library itself
# measures, and stays empty until its metrics reach Cloud Monitoring
# (docs/telemetry.md).

locals {
  _charts = [
    {
      title    = "Requests to Firestore, by method"
      filter   = "${local._database_filter} AND metric.type = \"firestore.googleapis.com/api/request_count\""
      aligner  = "ALIGN_RATE"
      reducer  = "REDUCE_SUM"
      group_by = ["metric.label.api_method"]
    },
    {
      title    = "Requests to Firestore, by result"
      filter   = "${local._database_filter} AND metric.type = \"firestore.googleapis.com/api/request_count\""
      aligner  = "ALIGN_RATE"
      reducer  = "REDUCE_SUM"
      group_by = ["metric.label.response_code"]
    },
    {
      title    = "Latency of Firestore in seconds, 95th percentile"
      filter   = "${local._database_filter} AND metric.type = \"firestore.googleapis.com/api/request_latencies\""
      aligner  = "ALIGN_DELTA"
      reducer  = "REDUCE_PERCENTILE_95"
      group_by = ["metric.label.api_method"]
    },
    {
      title    = "Documents read"
      filter   = "${local._database_filter} AND metric.type = \"firestore.googleapis.com/document/read_ops_count\""
      aligner  = "ALIGN_RATE"
      reducer  = "REDUCE_SUM"
      group_by = []
    },
    {
      title    = "Documents written"
      filter   = "${local._database_filter} AND metric.type = \"firestore.googleapis.com/document/write_ops_count\""
      aligner  = "ALIGN_RATE"
      reducer  = "REDUCE_SUM"
      group_by = []
    },
    {
      title    = "Bytes of documents and indexes"
      filter   = "${local._database_filter} AND metric.type = \"firestore.googleapis.com/storage/data_and_index_storage_bytes\""
      aligner  = "ALIGN_MEAN"
      reducer  = "REDUCE_SUM"
      group_by = []
    },
    {
      title    = "Requests to Cloud Storage, by result"
      filter   = "${local._bucket_filter} AND metric.type = \"storage.googleapis.com/api/request_count\""
      aligner  = "ALIGN_RATE"
      reducer  = "REDUCE_SUM"
      group_by = ["metric.label.response_code"]
    },
    {
      title    = "Bytes of objects"
      filter   = "${local._bucket_filter} AND metric.type = \"storage.googleapis.com/storage/v2/total_bytes\""
      aligner  = "ALIGN_MEAN"
      reducer  = "REDUCE_SUM"
      group_by = []
    },
  ]

  _services_dashboard = {
    mosaicLayout = {
      columns = 48
      tiles = [
        for number, chart in local._charts : {
          xPos   = number % 2 * 24
          yPos   = floor(number / 2) * 16
          width  = 24
          height = 16
          widget = {
            title = chart.title
            xyChart = {
              dataSets = [{
                plotType = "LINE"
                timeSeriesQuery = {
                  timeSeriesFilter = {
                    filter = chart.filter
                    aggregation = {
                      alignmentPeriod    = "300s"
                      perSeriesAligner   = chart.aligner
                      crossSeriesReducer = chart.reducer
                      groupByFields      = chart.group_by
                    }
                  }
                }
              }]
            }
          }
        }
      ]
    }
  }

  _dashboards = {
    library  = jsondecode(file("${path.module}/dashboards/library.json"))
    services = local._services_dashboard
  }
  _dashboard_titles = { library = "the library", services = "Firestore and Cloud Storage" }
}

resource "google_monitoring_dashboard" "this" {
  for_each = var.dashboards ? toset(keys(local._dashboards)) : []

  project = var.project_id
  dashboard_json = jsonencode(merge(local._dashboards[each.value], {
    displayName = "Store ${var.prefix}: ${local._dashboard_titles[each.value]}"
  }))

  depends_on = [google_project_service.needed]
}
