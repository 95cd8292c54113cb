"""Damage what a session service stored, at random, and call everything that reads it."""

import asyncio
import uuid
from collections.abc import Coroutine, Iterator
from enum import Enum, auto
from typing import Any, TypeVar

import pytest
import requests
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.api_core.exceptions import InvalidArgument
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore, storage
from google.cloud.firestore_v1 import GeoPoint
from google.genai import types
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gcp_adk_store import (
    FirestoreSessionService,
    PayloadMissingError,
    SessionConflictError,
    SessionLimits,
    SessionMissingError,
    SessionService,
    StoredDataError,
    StoreError,
)
from gcp_adk_store.testing.emulators import Emulator, create_bucket
from tests.golden.raw import Documents, Objects, take_documents, take_objects
from tests.support import damage
from tests.support.damage import HUSH, damaged
from tests.support.lengths import at_length

T = TypeVar("T")

BOUNDS = settings(max_examples=at_length(3, 20), derandomize=True, suppress_health_check=list(HealthCheck))

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}
LIMITS = SessionLimits(
    seal_tail_bytes=1500,
    inline_bytes=50,
    event_text_bytes=1500,
    state_value_bytes=50,
    # What is remembered would be no damage.
    segment_cache_bytes=0,
)


class Foreign(Enum):
    """A field of a kind that the service never writes."""

    GEO_POINT = auto()
    REFERENCE = auto()


def event(number: int) -> Event:
    """Return an event with text, perhaps with bytes or too long to stay in its document, and state."""
    parts = [types.Part(text=f"{HUSH} {number}")]
    if number % 3 == 1:
        parts.append(types.Part(inline_data=types.Blob(data=HUSH.encode() * 50, mime_type="a/b")))
    if number % 3 == 2:
        parts.append(types.Part(text=f"{HUSH} " * 500))
    delta = {f"{scope}{number % 2}": [HUSH] * number * 4 for scope in ("", "user:", "app:")}
    return Event(
        id=f"e{number}",
        author="agent",
        timestamp=1000.0 + number,
        content=types.Content(role="model", parts=parts),
        actions=EventActions(state_delta=delta),
    )


class Stored:
    """A session as the service left it, in documents and objects, and how it comes back."""

    def __init__(self, project: str, bucket: str, host: str, runner: asyncio.Runner) -> None:
        self.project = project
        self.bucket = bucket
        self._host = host
        self._runner = runner
        self.service = FirestoreSessionService(project=project, bucket=bucket, limits=LIMITS)
        self.run(self._fill())
        found = self.run(self.service.get_session(**WHO))
        assert found is not None
        self.session: Session = found
        self.documents: Documents = take_documents(project)
        self.objects: Objects = take_objects(bucket)
        self.client = firestore.Client(project=project)
        self._storage: Any = storage.Client(project=project, credentials=AnonymousCredentials())

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Await *call* in the one event loop of the test."""
        return self._runner.run(call)

    async def _fill(self) -> None:
        session = await self.service.create_session(**WHO, state={"n": 1, "user:u": HUSH, "app:a": [1]})
        # Payloads in documents and in the bucket, as where a deployment was given one later.
        without_bucket = FirestoreSessionService(project=self.project, limits=LIMITS)
        for number in range(9):
            service = without_bucket if number < 5 else self.service
            await service.append_event(session, event(number))
        await without_bucket.close()

    def restore(self) -> None:
        """Bring every document and object back, and remove all others."""
        root = f"http://{self._host}/emulator/v1/projects/{self.project}/databases/(default)/documents"
        requests.delete(root, timeout=60).raise_for_status()
        batch = self.client.batch()
        for path, fields in self.documents.items():
            batch.set(self.client.document(path), fields)
        batch.commit()
        for name in self.objects:
            self.put_object(name, self.objects[name]["data"])

    def put_object(self, name: str, data: bytes | None) -> None:
        """Write an object of these bytes, or remove it."""
        blob = self._storage.bucket(self.bucket).blob(name)
        if data is not None:
            blob.upload_from_string(data, content_type="application/octet-stream")
        elif blob.exists():
            blob.delete()

    def close(self) -> None:
        """Close what was opened here."""
        self.run(self.service.close())
        self.client.close()
        self._storage.close()

    def write(self, path: str, fields: dict[str, Any]) -> None:
        """Write a document as it is; what no client can write is no damage."""
        try:
            self.client.document(path).set(self._raw(fields))
        except (InvalidArgument, ValueError):
            assume(condition=False)

    def _raw(self, value: Any, *, in_list: bool = False) -> Any:
        match value:
            case Foreign.GEO_POINT:
                return GeoPoint(1.0, 2.0)
            case Foreign.REFERENCE:
                return self.client.document("a/b")
            case dict():
                return {name: self._raw(one) for name, one in value.items()}
            case list() if in_list:
                return {"list": self._raw(value)}  # no list holds a list in Firestore
            case list():
                return [self._raw(one, in_list=True) for one in value]
        return value


@pytest.fixture(scope="module")
def once_stored(firestore_emulator: Emulator, storage_emulator: Emulator) -> Iterator[Stored]:
    """A session of every kind of document and object."""
    name = uuid.uuid4().hex[:20]
    create_bucket(name, storage_emulator.address)
    with asyncio.Runner() as runner:
        stored = Stored(f"demo-{name}", name, firestore_emulator.address, runner)
        yield stored
        stored.close()


@pytest.fixture
def stored(once_stored: Stored) -> Iterator[Stored]:
    """The session as it was made."""
    yield once_stored
    once_stored.restore()


def kinds_of(stored: Stored) -> set[str]:
    """Return the collections that *stored* has documents of."""
    return {path.split("/")[-2] for path in stored.documents}


async def outcomes(service: SessionService, held: Session) -> dict[str, Any]:
    """Return what each call gives, or the error of this library that it raises."""

    async def iterated() -> list[Event]:
        return [one.event async for one in service.iter_events(**WHO)]

    async def of_the_user() -> list[Event]:
        return [one.event async for one in service.iter_user_events(**USER)]

    calls: dict[str, Coroutine[Any, Any, Any]] = {
        "get_session": service.get_session(**WHO),
        "recent": service.get_session(**WHO, config=GetSessionConfig(num_recent_events=2)),
        "after": service.get_session(**WHO, config=GetSessionConfig(after_timestamp=1007.0)),
        "header": service.get_session(**WHO, config=GetSessionConfig(num_recent_events=0)),
        "list_sessions": service.list_sessions(**USER),
        "list_all": service.list_sessions(app_name="app"),
        "page": service.list_sessions_page(**USER),
        "page_without_state": service.list_sessions_page(**USER, include_state=False),
        "iter_events": iterated(),
        "usage": service.get_session_usage(**WHO),
        "user_events": of_the_user(),
        "user_state": service.get_user_state(**USER),
        # The last two change what is stored.
        "append_event": service.append_event(held, event(100)),
        "delete_session": service.delete_session(**WHO),
    }
    found: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            found[name] = await call
        except StoreError as exc:
            found[name] = exc
    return found


def require_typed(found: dict[str, Any]) -> None:
    """Check that what failed says where, and nothing of the content."""
    for name, result in found.items():
        if not isinstance(result, StoreError):
            continue
        text = str(result)
        allowed = {
            "append_event": (StoredDataError, SessionConflictError, SessionMissingError),
            "iter_events": (StoredDataError, SessionMissingError),
            "usage": (StoredDataError, SessionMissingError),
        }.get(name, (StoredDataError,))
        assert isinstance(result, allowed), (name, result)
        assert HUSH not in text
        assert "adk_apps/app" in text or "app_name='app'" in text


def require_whole(found: dict[str, Any], original: Session, *, events: int, ordered: bool) -> None:
    """Check that what was read is all that there is: so many events, in their order.

    A document that is not *ordered*, without the field that pages are ordered by, is on none: no query of
    Firestore's finds it.
    """
    ids = [one.id for one in original.events]
    for name, expected in (("get_session", events), ("iter_events", events), ("recent", min(2, events))):
        result = found[name]
        if result is None or isinstance(result, StoreError):
            continue
        read = [one.id for one in (result if name == "iter_events" else result.events)]
        wanted = ids[len(ids) - expected :] if name == "recent" else ids
        assert expected == len(read)
        assert sum(one != other for one, other in zip(read, wanted, strict=False)) <= 1
    if not isinstance(found["usage"], StoreError):
        assert events == found["usage"].events
    if not isinstance(found["user_events"], StoreError) and found["header"] is not None:
        assert (events if ordered else 0) == len(found["user_events"])
    for name in ("list_sessions", "list_all", *(("page", "page_without_state") if ordered else ())):
        result = found[name]
        if not isinstance(result, StoreError) and found["header"] is not None:
            unreadable = [one.session_id for one in getattr(result, "unreadable", [])]
            assert ["session"] == [*(one.id for one in result.sessions), *unreadable]


def test_no_damage_of_a_document_crashes_a_reader_or_gives_a_part(stored: Stored) -> None:
    """Every call on a session with one damaged document: a typed error that says where, or all events."""
    assert {"adk_apps", "adk_users", "adk_sessions", "adk_segments", "adk_chunks"} == kinds_of(stored)
    kinds = {kind: [p for p in stored.documents if p.split("/")[-2] == kind] for kind in kinds_of(stored)}
    (session_path,) = kinds["adk_sessions"]
    tail = len(stored.documents[session_path]["tail"])

    @BOUNDS
    @given(st.data(), st.sampled_from(["raise", "merge"]))
    def damage_one(data: st.DataObject, on_conflict: Any) -> None:
        path = data.draw(st.sampled_from(sorted(kinds)).flatmap(lambda kind: st.sampled_from(kinds[kind])))
        original = stored.documents[path]
        fields = data.draw(st.none() | damaged(original, others=damage.FIELDS | st.sampled_from(Foreign)))
        service = FirestoreSessionService(
            project=stored.project, bucket=stored.bucket, limits=LIMITS, on_conflict=on_conflict
        )
        try:
            held = stored.run(service.get_session(**WHO))
            assert held is not None
            assert stored.session.model_dump() == held.model_dump()
            if fields is None:
                stored.client.document(path).delete()
            else:
                stored.write(path, fields)
            found = stored.run(outcomes(service, held))
        finally:
            stored.run(service.close())
            stored.restore()
        require_typed(found)
        header = (fields or {}) if path == session_path else stored.documents[session_path]
        left = header.get("tail")
        events = len(stored.session.events) - (tail - len(left) if isinstance(left, list) else 0)
        require_whole(found, stored.session, events=events, ordered="last_update_time" in header)

    damage_one()


def test_no_damage_of_a_payload_gives_other_content(stored: Stored) -> None:
    """An object that is gone, cut or another is an error; one that nobody refers to any more is none."""
    kinds = set()
    for number, name in enumerate(sorted(stored.objects)[:: at_length(4, 2)]):
        data = stored.objects[name]["data"]
        stored.put_object(name, [None, b"", data[:-1], data[::-1] + HUSH.encode()][number % 4])
        found = stored.run(outcomes(stored.service, stored.session.model_copy(deep=True)))
        stored.restore()
        require_typed(found)
        read = found["get_session"]
        kinds.add(type(read))

        assert isinstance(read, StoreError) or stored.session.model_dump() == read.model_dump()
    assert {Session, PayloadMissingError} == kinds
