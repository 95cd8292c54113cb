"""Copy, export and import sessions between stores."""

from gcp_adk_store.moving.copying import copy
from gcp_adk_store.moving.report import Note, Report

__all__ = ["Note", "Report", "copy"]
