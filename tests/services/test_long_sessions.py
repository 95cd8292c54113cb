"""A session of 10,000 events costs a turn what a session of ten does."""

from typing import Any

import pytest
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store import SessionLimits, SessionService
from gcp_adk_store.testing.conformance.running import event, read
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, Emulator
from gcp_adk_store.testing.meters import FirestoreFigures, FirestoreMeter
from tests.services.conftest import WHO, texts
from tests.support.lengths import at_length

pytestmark = pytest.mark.emulators

EVENTS = at_length(500, 2000)
LIMITS = SessionLimits(seal_tail_bytes=SessionLimits().seal_tail_bytes * EVENTS // 10_000)
"""So little that as many segments are sealed as of 10,000 events by default."""


def billed(figures: FirestoreFigures) -> tuple[dict[str, int], int, int]:
    """Return RPCs by name, documents read and written."""
    return dict(figures.rpcs), figures.reads, figures.writes


@pytest.mark.long
async def test_cost_does_not_grow_with_the_history(
    connect: Any, meter: FirestoreMeter, firestore_emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends and warm reads, in RPCs, billed operations and bytes sent.

    Times are given, so that every event is as long each time and the same appends seal.
    """
    service: SessionService = connect(limits=LIMITS)
    held = await service.create_session(**WHO)
    meter.take()
    await service.append_event(held, event(f"{0:06}", at=1e6, delta={"n": 0, "user:n": 0, "app:n": 0}))
    first = meter.take()
    monkeypatch.setenv(FIRESTORE_VARIABLE, firestore_emulator.address)
    writer = connect(limits=LIMITS)
    for number in range(1, EVENTS - 2):
        await writer.append_event(held, event(f"{number:06}", at=1e6 + number))
    # Another service wrote the tail: the first append after it looks at it.
    await service.append_event(held, event(f"{EVENTS:06}", at=1e6 + EVENTS))
    meter.take()
    await service.append_event(held, event(f"{1:06}", at=2e6, delta={"n": 1, "user:n": 1, "app:n": 1}))
    last = meter.take()
    cold = await service.get_session(**WHO)
    reading = meter.take()
    warm = await service.get_session(**WHO)
    again = meter.take()
    newest = await read(service, WHO, config=GetSessionConfig(num_recent_events=10))
    part = meter.take()
    await writer.close()
    await service.close()
    segments = reading.reads - 3

    assert ({"Commit": 1}, 0, 3) == billed(first) == billed(last)
    assert last.sent_bytes <= first.sent_bytes + 50
    assert 30 <= segments <= 60
    assert ({"BatchGetDocuments": 2}, 3 + segments, 0) == billed(reading)
    assert ({"BatchGetDocuments": 1}, 3, 0) == billed(again)
    assert ({"BatchGetDocuments": 1}, 3, 0) == billed(part)
    assert EVENTS == len(held.events)
    assert held == cold == warm
    assert texts(held.events[-10:]) == texts(newest.events)
