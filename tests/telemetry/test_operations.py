"""Every public operation has a span, whose counts are those of the meters."""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from opentelemetry.trace import SpanKind

from gcp_adk_store import MemoryService, SessionLimits, SessionService, Store, StoreError
from gcp_adk_store.testing.conformance.running import binary, event
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from gcp_adk_store.testing.meters import FirestoreMeter
from tests.services.conftest import picture
from tests.support.clock import in_days
from tests.support.methods import CONTENT, GOOD, arguments, finished, options_of, public_methods
from tests.telemetry.watched import Watched, attributes_of, own
from tools.benchmarks.memory_embedder import PartsEmbedder

OWNER: dict[str, Any] = {"app_name": "app", "user_id": "user"}
WHO: dict[str, Any] = {**OWNER, "session_id": "session"}
SESSION: dict[str, Any] = {**OWNER, "session_id": "s"}
"""That which the arguments of every method name."""
FILE: dict[str, Any] = {**WHO, "filename": "f"}
LARGE = bytes(9 * 1024 * 1024)
"""Google's client sends it in several requests, and a file of it in pieces."""
NO_OPERATIONS = {"close", "flush", "flush_session"}


async def prepare(store: Store) -> None:
    """Make what the arguments of a call name, as far as it is not there."""
    with contextlib.suppress(StoreError):
        held = await store.sessions.create_session(**SESSION, state={"user:n": 1, "app:m": 2})
        for number in range(3):
            await store.sessions.append_event(held, event(f"{number}", delta={"mine": number}))
    await store.artifacts.save_artifact(**SESSION, filename="f", artifact=types.Part(text="f"))
    await store.memory.add_memory(**OWNER, memories=[MemoryEntry(id="m", content=CONTENT)])


def calls_of(store: Store) -> Iterator[tuple[Callable[..., Any], dict[str, Any]]]:
    """Yield each public method of the services with arguments that it takes, and what differs by its size."""
    memory = MemoryService(store.sessions.storage, embedder=PartsEmbedder(2))
    for service in (store.sessions, store.artifacts, memory):
        for method in public_methods(service):
            given = {"session_id": "s"} if "session_id" in options_of(method) else {}
            given |= {"to_filename": "copy"} if method.__name__ == "copy_artifact" else {}
            yield method, arguments(method, {**GOOD, "target": io.BytesIO()}, **given)
    of_file = {**SESSION, "filename": "f"}
    yield store.artifacts.save_artifact, {**of_file, "artifact": binary(LARGE)}
    yield store.artifacts.save_artifact_file, {**of_file, "source": io.BytesIO(LARGE)}


async def test_every_operation_has_a_span_with_the_counts_of_the_meters(
    watched: Watched, meter: FirestoreMeter, storage_proxy: StorageProxy, store: Store
) -> None:
    """RPCs and requests as they arrive, bytes as they pass; metrics say the same."""
    counted = 0
    for method, given in calls_of(store):
        operation, outcomes = method.__name__, {"ok"}
        await prepare(store)
        meter.take()
        watched.take_spans()
        watched.take_metrics()
        before = storage_proxy.figures.calls
        try:
            await finished(method, given)
        except StoreError:
            outcomes = {"failed", "refused"}
        figures, sent = meter.take(), (storage_proxy.figures.calls - before).total()
        spans, measured = watched.take_spans(), watched.take_metrics()
        if operation in NO_OPERATIONS:
            assert [] == spans
            continue
        (span,) = spans
        counts = own(span)
        counted += figures.rpc_count + sent > 0

        assert f"gcp_adk_store.{operation}" == span.name
        assert (operation, figures.rpc_count, sent) == (
            *(operation, counts["firestore.rpcs"]),
            counts["storage.requests"],
        )
        assert figures.rpc_count == measured.of("requests", operation, backend="firestore")
        assert sent == measured.of("requests", operation, backend="storage")
        assert 1 == measured.of("operation.duration", operation, outcome=counts["outcome"])
        assert SpanKind.CLIENT is span.kind
        assert counts["outcome"] in outcomes, operation
        assert (0, 0) == (counts["retries"], counts["conflicts"])
        assert (figures.rpc_count + sent > 0) <= counts["attempts"] <= 1  # signing sends nothing
        if not sent:
            assert figures.sent_bytes == counts["sent.bytes"]
            assert figures.received_bytes == counts["received.bytes"]
        is_of_documents = method.__self__ is not store.artifacts  # type: ignore[attr-defined]  # it is bound
        system = "gcp.firestore" if is_of_documents else "gcp.storage"
        assert (operation, system) == (operation, attributes_of(span)["db.system.name"])
        of_all = {"check", "find_garbage", "remove_garbage", "repair"}
        assert (None if operation in of_all else "app") == counts.get("app"), operation

    assert 40 < counted


@pytest.mark.usefixtures("firestore_proxy")  # whose clock is the one of the test
async def test_what_a_collector_does_is_measured(
    watched: Watched, connect: Callable[..., SessionService], meter: FirestoreMeter
) -> None:
    """It has no app."""
    service = connect(limits=SessionLimits(state_value_bytes=10))
    held = await service.create_session(**WHO)
    await service.append_event(held, event(delta={"mine": "a long value"}))
    await service.append_event(held, event(delta={"mine": "another long value"}))
    watched.take_spans()
    meter.take()
    with in_days(2):
        found = [garbage async for garbage in service.find_garbage()]
    looked, looks = watched.take_span(), meter.take()
    (removed,) = [await service.remove_garbage(garbage) for garbage in found]
    removal, removals = watched.take_span(), meter.take()

    assert removed
    assert ["gcp_adk_store.find_garbage", "gcp_adk_store.remove_garbage"] == [looked.name, removal.name]
    assert looks.rpc_count == own(looked)["firestore.rpcs"]
    assert removals.rpc_count == own(removal)["firestore.rpcs"]
    assert "app" not in own(looked)


async def test_sizes_of_content_are_reported(
    watched: Watched, store: Store, storage_proxy: StorageProxy
) -> None:
    """Of artifacts their bytes; of large content of events what left for payloads, and the rest."""
    assert storage_proxy.address
    held = await store.sessions.create_session(**WHO)
    watched.take_spans()
    watched.take_metrics()
    await store.sessions.append_event(held, picture(bytes(200_000)))
    appended, measured = own(watched.take_span()), watched.take_metrics()
    await store.artifacts.save_artifact_file(**FILE, source=io.BytesIO(LARGE))
    saved = own(watched.take_span())
    await store.artifacts.load_artifact_to(**FILE, target=io.BytesIO())
    loaded = own(watched.take_span())

    assert 200_000 == appended["spilled.bytes"] == measured.of("spilled", "append_event", place="bucket")
    assert 200_000 < appended["sent.bytes"] < 202_000
    assert len(LARGE) == saved["sent.bytes"] == loaded["received.bytes"]
    assert 0 == saved["received.bytes"] == loaded["sent.bytes"]


async def test_parts_that_are_read_of_an_artifact_have_spans(watched: Watched, store: Store) -> None:
    """Each is a request of its own, after the call that opened it has ended."""
    await store.artifacts.save_artifact(**FILE, artifact=types.Part(text="0123456789"))
    reader = await store.artifacts.open_artifact(**FILE)
    assert reader is not None
    watched.take_spans()
    parts = [await reader.read(4), await reader.read()]
    spans = watched.take_spans()

    assert [b"0123", b"456789"] == parts
    assert ["gcp_adk_store.read_artifact"] * 2 == [span.name for span in spans]
    assert [("app", 1, 4), ("app", 1, 6)] == [
        (own(span)["app"], own(span)["storage.requests"], own(span)["received.bytes"]) for span in spans
    ]
