"""Watch what is committed to stores in folders."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from gcp_adk_store.local.documents import LocalDocuments


def before_commits(patch: pytest.MonkeyPatch, see: Callable[[Sequence[Any]], Awaitable[None]]) -> None:
    """Let *see* get the writes of each commit before it is done; what it raises refuses the commit."""
    commit = LocalDocuments.commit

    async def watched(documents: LocalDocuments, writes: Sequence[Any], **options: Any) -> Any:
        await see(writes)
        return await commit(documents, writes, **options)

    patch.setattr(LocalDocuments, "commit", watched)


def events_in(writes: Sequence[Any]) -> list[int]:
    """Return how many events the writes append to each session."""
    return [len(write.union["tail"]) for write in writes if getattr(write, "union", {}).get("tail")]
