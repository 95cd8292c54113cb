"""Damage what a session service stored, at random, and call everything that reads it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.cloud import firestore
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
    Store,
    StoredDataError,
    StoreError,
)
from gcp_adk_store.testing.conformance.running import read
from tests.support.damage import HUSH, damaged
from tests.support.lengths import at_length
from tests.support.stored import collection, overwrite, plain_text, session_path
from tests.support.stores import sessions_over

BOUNDS = settings(max_examples=at_length(10, 100), derandomize=True, suppress_health_check=list(HealthCheck))

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
COLLECTIONS = ("adk_apps", "adk_users", "adk_sessions", "adk_segments", "adk_chunks")


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


async def fill(store: Store) -> Session:
    """Make a session of every kind of document and object, and return how it comes back."""
    session = await store.sessions.create_session(**WHO, state={"n": 1, "user:u": HUSH, "app:a": [1]})
    # Payloads in documents and in the bucket, as where a deployment was given one later.
    without_bucket = sessions_over(store.sessions.storage.documents, None, limits=LIMITS)
    for number in range(9):
        service = without_bucket if number < 5 else store.sessions
        await service.append_event(session, event(number))
    return await read(store.sessions, WHO)


def another(store: Store, **options: Any) -> SessionService:
    """Return a service on the same store, which remembers nothing of it."""
    storage = store.sessions.storage
    return sessions_over(storage.documents, store.artifacts.storage.objects, limits=LIMITS, **options)


async def documents_of(store: Store) -> dict[str, dict[str, Any]]:
    """Return all documents that a session needs: path -> fields."""
    return {path: fields for name in COLLECTIONS for path, fields in (await collection(store, name)).items()}


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


def test_no_damage_of_a_document_crashes_a_reader_or_gives_a_part() -> None:
    """Every call on a session with one damaged document: a typed error that says where, or all events."""

    async def damage_one(data: st.DataObject, on_conflict: Any) -> None:
        async with Store.local(":memory:", session_limits=LIMITS) as store:
            session = await fill(store)
            documents = await documents_of(store)
            name = data.draw(st.sampled_from(COLLECTIONS))
            path = data.draw(st.sampled_from([path for path in documents if path.split("/")[-2] == name]))
            fields = data.draw(st.none() | damaged(documents[path]))
            try:
                await overwrite(store.sessions.storage.documents, {path: fields})
            except StoreError:  # what no client can write is no damage
                assume(condition=False)
            service = another(store, on_conflict=on_conflict)
            found = await outcomes(service, session.model_copy(deep=True))
        require_typed(found)
        header = (fields or {}) if path == session_path(WHO) else documents[session_path(WHO)]
        left, tail = header.get("tail"), len(documents[session_path(WHO)]["tail"])
        events = len(session.events) - (tail - len(left) if isinstance(left, list) else 0)
        require_whole(found, session, events=events, ordered="last_update_time" in header)

    @BOUNDS
    @given(st.data(), st.sampled_from(["raise", "merge"]))
    def run(data: st.DataObject, on_conflict: Any) -> None:
        asyncio.run(damage_one(data, on_conflict))

    run()


async def test_no_damage_of_a_payload_gives_other_content() -> None:
    """An object that is gone, cut or another is an error; one that nobody refers to any more is none."""
    kinds = set()
    async with Store.local(":memory:", session_limits=LIMITS) as store:
        await fill(store)
        count = len(await store.artifacts.storage.objects.names("adk-payloads/", delimiter=None))
    for number in range(0, count, at_length(4, 2)):
        async with Store.local(":memory:", session_limits=LIMITS) as store:
            session = await fill(store)
            objects = store.artifacts.storage.objects
            name = sorted(await objects.names("adk-payloads/", delimiter=None))[number]
            whole = await objects.read(name, generation=None)
            assert whole is not None
            damage: bytes | None = [None, b"", whole[0][:-1], whole[0][::-1] + HUSH.encode()][number % 4]
            await objects.delete(name, generation=None)
            if damage is not None:
                await objects.create(name, plain_text(damage))
            found = await outcomes(another(store), session.model_copy(deep=True))
        require_typed(found)
        read_again = found["get_session"]
        kinds.add(type(read_again))
        assert isinstance(read_again, StoreError) or session.model_dump() == read_again.model_dump()

    assert {Session, PayloadMissingError} <= kinds


@pytest.mark.emulators
@pytest.mark.parametrize("kind", ["a place", "a reference"])
async def test_a_field_of_a_kind_that_is_never_written_is_named(project: str, kind: str) -> None:
    """As Google's client writes it."""
    async with FirestoreSessionService(project=project) as service:
        await service.create_session(**WHO)
        client = firestore.Client(project=project)
        value = GeoPoint(1.0, 2.0) if kind == "a place" else client.document("a/b")
        client.document(session_path(WHO)).update({"tail": value})
        client.close()
        with pytest.raises(StoredDataError, match=r"tail is (geo_point|reference)_value"):
            await service.get_session(**WHO)
