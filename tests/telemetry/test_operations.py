"""Every public operation has a span, whose counts are those of the meters."""

import asyncio
import inspect
import io
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types
from opentelemetry.trace import SpanKind, StatusCode

from gcp_adk_store import ArtifactService, MemoryService, Point, SessionLimits, SessionService, Store
from gcp_adk_store.testing.conformance.running import binary, event
from gcp_adk_store.testing.faults.storage_proxy import StorageProxy
from gcp_adk_store.testing.meters import FirestoreMeter
from tests.services.conftest import picture
from tests.support.clock import in_days
from tests.telemetry.watched import Watched, attributes_of, own
from tools.benchmarks.memory_embedder import PartsEmbedder

OWNER: dict[str, Any] = {"app_name": "app", "user_id": "user"}
WHO: dict[str, Any] = {**OWNER, "session_id": "session"}
FILE: dict[str, Any] = {**WHO, "filename": "f"}
LARGE = bytes(9 * 1024 * 1024)
"""Google's client sends it in several requests, and a file of it in pieces."""
NO_OPERATIONS = {"close", "flush", "flush_session"}


@dataclass
class Tour:
    """A walk through all operations of a store, in an order in which each has something to do."""

    store: Store
    held: Session | None = None
    upload_id: str = ""

    def steps(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, object]]]]:
        """Yield the operations' names, and what calls them."""
        sessions, artifacts = self.store.sessions, self.store.artifacts
        yield "create_session", self._create
        yield "append_event", lambda: sessions.append_event(self._session, event("one", delta={"mine": 1}))
        yield "append_event", lambda: sessions.append_event(self._session, picture(bytes(300_000)))
        yield "get_session", lambda: sessions.get_session(**WHO)
        yield "get_session_at", lambda: sessions.get_session_at(**WHO, at=Point.position(1))
        yield "fork_session", lambda: self.store.fork_session(**WHO)
        yield "list_sessions", lambda: sessions.list_sessions(**OWNER)
        yield "list_sessions", lambda: sessions.list_sessions(app_name="app")
        yield "list_sessions_page", lambda: sessions.list_sessions_page(**OWNER)
        yield "update_session_info", lambda: sessions.update_session_info(**WHO, title="t")
        yield "get_session_info", lambda: sessions.get_session_info(**WHO)
        yield "get_user_state", lambda: sessions.get_user_state(**OWNER)
        yield "iter_events", lambda: listed(sessions.iter_events(**WHO))
        yield "iter_events", lambda: listed(sessions.iter_events(**WHO, follow=True, limit=1))
        yield "get_session_usage", lambda: sessions.get_session_usage(**WHO)
        at = Point.position(1)
        yield "archive_session", lambda: sessions.archive_session(**WHO, before=at)
        yield "verify_session", lambda: sessions.verify_session(**WHO)
        yield "iter_user_events", lambda: listed(sessions.iter_user_events(**OWNER))
        yield (
            "redact_event",
            lambda: sessions.redact_event(**WHO, event_id=self._session.events[0].id, reason="r"),
        )
        yield "restore_session", lambda: sessions.restore_session(**WHO, at=Point.position(1))
        yield "check", lambda: listed(sessions.check(app_name="app"))
        yield "delete_session", lambda: sessions.delete_session(**WHO)
        yield "save_artifact", lambda: artifacts.save_artifact(**FILE, artifact=types.Part(text="new"))
        yield "save_artifact", lambda: artifacts.save_artifact(**FILE, artifact=binary(LARGE))
        yield "save_artifact_file", lambda: artifacts.save_artifact_file(**FILE, source=io.BytesIO(b"file"))
        yield "save_artifact_file", lambda: artifacts.save_artifact_file(**FILE, source=io.BytesIO(LARGE))
        yield "load_artifact", lambda: artifacts.load_artifact(**FILE)
        yield "load_artifact", lambda: artifacts.load_artifact(**FILE, version=0)
        yield "load_artifact_to", lambda: artifacts.load_artifact_to(**FILE, target=io.BytesIO())
        yield "open_artifact", lambda: artifacts.open_artifact(**FILE)
        yield "copy_artifact", lambda: artifacts.copy_artifact(**FILE, to_filename="copy")
        yield "list_artifact_keys", lambda: artifacts.list_artifact_keys(**WHO)
        yield "list_versions", lambda: artifacts.list_versions(**FILE)
        yield "list_artifact_versions", lambda: artifacts.list_artifact_versions(**FILE)
        yield "get_artifact_version", lambda: artifacts.get_artifact_version(**FILE)
        yield "get_signed_url", lambda: artifacts.get_signed_url(**FILE)
        yield "get_authenticated_url", lambda: artifacts.get_authenticated_url(**FILE)
        yield "create_upload", self._upload
        yield "finalize_upload", lambda: artifacts.finalize_upload(**FILE, upload_id=self.upload_id)
        yield "delete_artifact", lambda: artifacts.delete_artifact(**FILE)
        yield "delete_session_artifacts", lambda: artifacts.delete_session_artifacts(**WHO)
        yield "delete_user_artifacts", lambda: artifacts.delete_user_artifacts(**OWNER)
        yield "find_garbage", lambda: listed(artifacts.find_garbage())
        yield from self._of_memories()

    def _of_memories(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, object]]]]:
        memory = self.store.memory
        new = Session(id="remembered", events=[event("tea")], **OWNER)
        yield "add_session_to_memory", lambda: memory.add_session_to_memory(new)
        yield "add_events_to_memory", lambda: memory.add_events_to_memory(**OWNER, events=[event("rum")])
        entry = MemoryEntry(id="fact", content=types.Content(parts=[types.Part(text="likes tea")]))
        yield "add_memory", lambda: memory.add_memory(**OWNER, memories=[entry])
        yield "search_memory", lambda: memory.search_memory(**OWNER, query="tea")
        yield "search_memories", lambda: memory.search_memories(**OWNER, query="tea")
        yield "list_memories", lambda: memory.list_memories(**OWNER)
        changed = types.Content(parts=[types.Part(text="likes coffee")])
        yield "update_memory", lambda: memory.update_memory(**OWNER, memory_id="fact", content=changed)
        source, another = event("source"), MemoryService(self.store.sessions.storage)
        yield "select_new_events", lambda: another.select_new_events(**OWNER, events=[event()])
        yield (
            "add_extracted",
            lambda: memory.add_extracted(
                **WHO, events=[source], memories=[entry.model_copy(update={"id": None})]
            ),
        )
        embedding = MemoryService(self.store.sessions.storage, embedder=PartsEmbedder(2))
        yield "reindex_memories", lambda: embedding.reindex_memories(**OWNER)
        yield "has_memory", lambda: memory.has_memory(**OWNER, memory_id="fact")
        yield "delete_memory", lambda: memory.delete_memory(**OWNER, memory_id="fact")
        yield "delete_session_memory", lambda: memory.delete_session_memory(**OWNER, session_id="remembered")
        yield "delete_user_memory", lambda: memory.delete_user_memory(**OWNER)

    async def _create(self) -> None:
        self.held = await self.store.sessions.create_session(**WHO, state={"user:n": 1, "app:m": 2})

    async def _upload(self) -> None:
        upload = await self.store.artifacts.create_upload(**FILE)
        self.upload_id = upload.upload_id
        headers = dict(upload.headers)
        await asyncio.to_thread(requests.put, upload.url, data=b"put", headers=headers, timeout=60)

    @property
    def _session(self) -> Session:
        assert self.held is not None
        return self.held


async def listed(items: AsyncIterator[Any]) -> list[Any]:
    """Return all of *items*."""
    return [item async for item in items]


def operations_of(service: type) -> set[str]:
    """Return the names of all that a service does with storage."""
    return {
        name
        for name, method in inspect.getmembers(service)
        if not name.startswith("_")
        and getattr(method, "__module__", "").startswith("gcp_adk_store.")
        and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method))
    } - NO_OPERATIONS


async def test_every_operation_has_a_span_with_the_counts_of_the_meters(
    watched: Watched, meter: FirestoreMeter, storage_proxy: StorageProxy, store: Store
) -> None:
    """RPCs and requests as they arrive, bytes as they pass; metrics say the same."""
    tour = Tour(store)
    await store.artifacts.list_versions(**FILE)  # Google's client looks at the bucket at its first request
    seen: set[str] = set()
    watched.take_spans()
    for operation, call in tour.steps():
        meter.take()
        watched.take_metrics()
        before = storage_proxy.figures.calls
        await call()
        figures = meter.take()
        sent = storage_proxy.figures.calls - before
        if operation == "create_upload":
            sent.subtract({"upload": 1})  # the browser's
        span, measured = watched.take_span(), watched.take_metrics()
        counts = own(span)
        seen.add(operation)

        assert f"gcp_adk_store.{operation}" == span.name
        assert (operation, figures.rpc_count) == (operation, counts["firestore.rpcs"])
        assert (operation, sent.total()) == (operation, counts["storage.requests"])
        assert figures.rpc_count == measured.of("requests", operation, backend="firestore")
        assert sent.total() == measured.of("requests", operation, backend="storage")
        assert 1 == measured.of("operation.duration", operation, outcome="ok")
        assert SpanKind.CLIENT is span.kind
        assert StatusCode.UNSET is span.status.status_code
        assert ("ok", 0, 0) == (counts["outcome"], counts["retries"], counts["conflicts"])
        assert 1 == counts["attempts"]  # of signing too, which sends nothing
        if not sent.total():
            assert figures.sent_bytes == counts["sent.bytes"]
            assert figures.received_bytes == counts["received.bytes"]
        services = (SessionService, MemoryService)
        is_of_documents = operation != "find_garbage" and any(hasattr(each, operation) for each in services)
        system = "gcp.firestore" if is_of_documents else "gcp.storage"
        assert (operation, system) == (operation, attributes_of(span)["db.system.name"])
        assert (None if operation == "find_garbage" else "app") == counts.get("app")

    kinds = (SessionService, MemoryService, ArtifactService)
    theirs = {name for kind in kinds for name in operations_of(kind)}
    assert theirs == seen | {"remove_garbage", "repair"}


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
