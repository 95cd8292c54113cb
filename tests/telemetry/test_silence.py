"""Nothing that users say, and nothing that they are called, leaves the process as telemetry."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gcp_adk_store import (
    ArtifactService,
    FirestoreSessionService,
    GcsArtifactService,
    SessionLimits,
    SessionService,
    StoreError,
)
from gcp_adk_store.testing.faults import Delay, RandomFaults, Refuse, no_faults
from gcp_adk_store.testing.faults.firestore_proxy import FirestoreProxy
from gcp_adk_store.testing.faults.plans import COMMON_FAULTS
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from tests.support.damage import HUSH
from tests.support.lengths import at_length
from tests.telemetry.watched import Watched

WHOSE = "whose"
"""In every id of a user, a session and an artifact."""
OWNER: dict[str, Any] = {"app_name": "app", "user_id": f"{WHOSE} user"}
FIELDS = {"operation", "app", "attempts", "error_type"}
FAULTS = [fault for fault in COMMON_FAULTS if not isinstance(fault, Delay)]
LIMITS = SessionLimits(state_value_bytes=50, inline_bytes=50, event_text_bytes=400, seal_tail_bytes=500)


class Unspeakable:
    """What JSON cannot hold, and whose text says all."""

    def __repr__(self) -> str:
        return f"{HUSH} of an object"


SAID = st.text(max_size=200).map(lambda text: f"{HUSH} {text}")
VALUES = SAID | st.lists(SAID, max_size=2) | st.builds(Unspeakable)


class Heard(logging.Handler):
    """Keeps the records of this library."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep *record*, unless it is of the proxies."""
        if not record.name.startswith("gcp_adk_store.testing"):
            self.records.append(record)


@pytest.fixture
def heard() -> Iterator[Heard]:
    """What the library logs, at every level."""
    logger, handler = logging.getLogger("gcp_adk_store"), Heard()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)


async def talk(
    sessions: SessionService, artifacts: ArtifactService, number: int, said: list[Any], words: str
) -> None:
    """Say things in a session of this *number*, and read them again; each call may fail."""
    who = {**OWNER, "session_id": f"{WHOSE} session {number}"}
    file = {**who, "filename": f"{WHOSE}.txt"}
    with contextlib.suppress(StoreError):
        held = await sessions.create_session(**who, state={"mine": said[0], "user:mine": said[-1]})
        for value in said:
            part = types.Part(text=words)
            event = Event(author="user", content=types.Content(parts=[part]))
            event.actions = EventActions(state_delta={"mine": value, "app:mine": value})
            await sessions.append_event(held, event)
    with contextlib.suppress(StoreError):
        await sessions.get_session(**who)
    with contextlib.suppress(StoreError):
        await sessions.get_session(**{**who, "session_id": f"{WHOSE} none"})
    with contextlib.suppress(StoreError):
        part, custom = types.Part(text=words), {"about": words}
        await artifacts.save_artifact(**file, artifact=part, custom_metadata=custom)
        await artifacts.load_artifact(**file)
    with contextlib.suppress(StoreError):
        await artifacts.save_artifact(**file, artifact=types.Part())
    with contextlib.suppress(StoreError):
        await artifacts.finalize_upload(**file, upload_id=words)


def texts_of(watched: Watched) -> str:
    """Return all that left as spans and metrics."""
    spans = [span.to_json() for span in watched.take_spans()]
    points = [repr(point) for point in watched.take_metrics().points]
    return "\n".join([*spans, *points])


@pytest.mark.usefixtures("passing")
def test_telemetry_contains_nothing_that_was_said(
    watched: Watched,
    heard: Heard,
    firestore_proxy: FirestoreProxy,
    storage_proxy: StorageProxy,
    project: str,
    adk_store_bucket: str,
) -> None:
    """Whatever is said, and whatever goes wrong with it; records have no fields but four."""
    numbers = iter(range(10**6))
    outcomes: set[str] = set()

    @example(said=[HUSH], words=HUSH, seed=1, rate=0.0)
    @example(said=[Unspeakable()], words=HUSH, seed=1, rate=1.0)
    @given(
        said=st.lists(VALUES, min_size=1, max_size=2),
        words=SAID,
        seed=st.integers(0, 2**32),
        rate=st.sampled_from([0.0, 0.3, 1.0]),
    )
    @settings(max_examples=at_length(3, 25), suppress_health_check=list(HealthCheck), database=None)
    def check(said: list[Any], words: str, seed: int, rate: float) -> None:
        faults = [Refuse("PERMISSION_DENIED")] if rate == 1 else FAULTS
        firestore_proxy.plan = storage_proxy.plan = RandomFaults(seed, rate, faults)
        sessions = FirestoreSessionService(project=project, limits=LIMITS, bucket=adk_store_bucket)
        artifacts = GcsArtifactService(adk_store_bucket)

        async def run() -> None:
            await talk(sessions, artifacts, next(numbers), said, words)
            await sessions.close()
            await artifacts.close()

        asyncio.run(run())
        spans = texts_of(watched)
        outcomes.update(one for one in ("ok", "refused", "failed") if f'outcome": "{one}"' in spans)

        assert HUSH not in spans
        assert WHOSE not in spans
        for record in heard.records:
            assert HUSH not in record.getMessage()
            extra = set(vars(record)) - set(vars(logging.makeLogRecord({}))) - {"message", "taskName"}
            assert extra <= FIELDS
            assert not any(HUSH in str(getattr(record, name)) for name in extra)
            assert not any(WHOSE in str(getattr(record, name)) for name in extra)

    check()
    firestore_proxy.plan = storage_proxy.plan = no_faults

    assert {"ok", "refused", "failed"} == outcomes
    assert any(hasattr(record, "operation") for record in heard.records)
