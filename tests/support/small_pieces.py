"""Send and store what is large in small pieces: few bytes take several requests, documents or commits."""

from typing import Final

import pytest

PIECE_BYTES: Final = 256 * 1024
"""Of a file, in one request: the least that Cloud Storage takes."""
TASK_PIECE_BYTES: Final = 10 * 1024
"""Of an A2A task, in one document."""


def use_small_pieces(patch: pytest.MonkeyPatch) -> None:
    """Let *patch* do so for this process; forks take commits of two segments."""
    for module in ("artifacts.files", "cloud.storage.resumable", "local.objects"):
        patch.setattr(f"gcp_adk_store.{module}.CHUNK_BYTES", PIECE_BYTES)
    patch.setattr("gcp_adk_store.artifacts.files._PIECE", PIECE_BYTES)
    patch.setattr("gcp_adk_store.tasks.format.CHUNK_BYTES", TASK_PIECE_BYTES)
    patch.setattr("gcp_adk_store.sessions.fork.format.SEGMENTS_PER_COMMIT", 2)
