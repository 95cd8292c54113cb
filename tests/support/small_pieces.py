"""Send and store what is large in small pieces: few bytes take several requests, documents or commits.

Other numbers of the library that are no options have names here, too.
"""

from dataclasses import replace
from typing import Final

import pytest

from gcp_adk_store.moving.records import OwnStore

PIECE_BYTES: Final = 256 * 1024
"""Of a file, in one request: the least that Cloud Storage takes."""
TASK_PIECE_BYTES: Final = 10 * 1024
"""Of an A2A task, in one document."""

_NUMBERS: Final = {
    "adk_events_per_page": "moving.adk_firestore.EVENTS_PER_PAGE",
    "embedder_pause_s": "memory.embedding._PAUSE_S",
    "fresh_vector_bytes": "memory.vectors.FRESH_BYTES",
    "import_line_bytes": "moving.session_files.MAX_LINE_BYTES",
    "inspector_artifacts": "inspector.pages.ARTIFACTS_PER_PAGE",
    "inspector_home_sessions": "inspector.recent_pages.HOME_SESSIONS",
    "inspector_news_s": "inspector.session_pages.NEWS_S",
    "inspector_recent_sessions": "inspector.recent_pages.SESSIONS",
    "inspector_searched_events": "inspector.session_pages.SEARCHED",
    "inspector_segments": "inspector.recent_pages.SEGMENTS",
    "inspector_sessions": "inspector.pages._SESSIONS_PER_PAGE",
    "inspector_thumbnail_bytes": "inspector.pages.THUMBNAIL_BYTES",
    "inspector_timeline_events": "inspector.session_pages.TIMELINE_EVENTS",
    "inspector_versions": "inspector.pages.MAX_LISTED",
    "inspector_waiting": "inspector.site.MAX_WAITING",
    "moved_parquet_rows": "moving.parquet._ROWS",
    "moved_per_page": "moving.records._PER_PAGE",
    "segments_at_once": "sessions.read.events._SEGMENTS_AT_ONCE",
    "refresh_wait_s": "cloud.auth.tokens._LONGEST_REFRESH_S",
    "segments_per_commit": "sessions.fork.format.SEGMENTS_PER_COMMIT",
    "swept_at_once": "local.sweep._AT_ONCE",
    "swept_steps": "local.sweep._STEPS",
    "wait_for_readers_s": "local.database._LONGEST_WAIT_S",
}


def set_numbers(patch: pytest.MonkeyPatch, **numbers: float) -> None:
    """Let *patch* give numbers of the library other values."""
    for name, number in numbers.items():
        patch.setattr(f"gcp_adk_store.{_NUMBERS[name]}", number)


def move_in_pairs(patch: pytest.MonkeyPatch) -> None:
    """Let *patch* copy, export and import two sessions, segments, rows and pages at once."""
    set_numbers(patch, moved_parquet_rows=2, moved_per_page=2, segments_at_once=2, segments_per_commit=2)
    patch.setattr(OwnStore, "traits", replace(OwnStore.traits, at_once=2))


def use_small_pieces(patch: pytest.MonkeyPatch) -> None:
    """Let *patch* do so for this process; forks take commits of two segments."""
    for module in ("artifacts.files", "cloud.storage.resumable", "local.objects"):
        patch.setattr(f"gcp_adk_store.{module}.CHUNK_BYTES", PIECE_BYTES)
    patch.setattr("gcp_adk_store.artifacts.files._PIECE", PIECE_BYTES)
    patch.setattr("gcp_adk_store.tasks.format.CHUNK_BYTES", TASK_PIECE_BYTES)
    set_numbers(patch, segments_per_commit=2)
