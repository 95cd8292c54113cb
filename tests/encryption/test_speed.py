"""What encryption adds to the processor's time of an append."""

import statistics
import time
from collections.abc import Sequence
from typing import Any

import pytest

from gcp_adk_store import Store
from gcp_adk_store.codec.writes import Delete, Write, Written
from gcp_adk_store.local.documents import LocalDocuments
from tests.encryption.conftest import envelope
from tests.erasure.conftest import said

MOST = 1.15
APPENDS = 200
THERE: Any = {"app_name": "app", "user_id": "user", "session_id": "s"}


async def test_an_append_takes_at_most_15_percent_more_of_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An event of 600 characters that changes a state value, on a store in memory.

    The added time is that from the begin of a commit to its being handed on to the database.
    """
    async with Store.local(":memory:", encryption=envelope()) as store:
        session = await store.sessions.create_session(**THERE)
        documents = store.sessions.storage.documents
        sealing = type(documents).commit
        handed = LocalDocuments.commit
        begun = added = 0.0
        took: list[tuple[float, float]] = []

        async def commit(self: Any, writes: Sequence[Write | Delete], **options: Any) -> list[Written]:
            nonlocal begun
            begun = time.process_time()
            return await sealing(self, writes, **options)

        async def hand(self: Any, writes: Sequence[Write | Delete], **options: Any) -> list[Written]:
            nonlocal added
            added += time.process_time() - begun
            return await handed(self, writes, **options)

        for number in range(20):
            await store.sessions.append_event(session, said("x" * 600, delta={"key": number}))
        monkeypatch.setattr(type(documents), "commit", commit)
        monkeypatch.setattr(LocalDocuments, "commit", hand)
        events = [said("x" * 600, delta={"key": number}) for number in range(APPENDS)]
        for event in events:
            added = 0.0
            since = time.process_time()
            await store.sessions.append_event(session, event)
            took.append((added, time.process_time() - since))
    # Medians: another process may take the processor, and an append may seal.
    more, whole = (statistics.median(each) for each in zip(*took, strict=True))

    assert more > 0
    assert whole / (whole - more) <= MOST, f"{more * 1e6:.0f} of {whole * 1e6:.0f} us"
