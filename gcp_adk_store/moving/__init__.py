"""Copy, export and import sessions between stores."""

from gcp_adk_store.moving.copying import copy
from gcp_adk_store.moving.parquet import export_parquet
from gcp_adk_store.moving.report import Note, Report
from gcp_adk_store.moving.session_files import export_jsonl, import_jsonl, records_of

__all__ = ["Note", "Report", "copy", "export_jsonl", "export_parquet", "import_jsonl", "records_of"]
