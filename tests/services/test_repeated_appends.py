"""An event that the tail holds is never counted again, whatever the handle has seen."""

import asyncio
import copy
import json
import pickle
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from gcp_adk_store import SessionLimits, SessionService, Store
from gcp_adk_store.model.sessions import Append, Marker
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.sessions.read.session_objects import marker_of
from gcp_adk_store.sessions.read.tails import KnownTails

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}
PATH = "adk_apps/app/adk_users/user/adk_sessions/s"


def said(number: int, **options: Any) -> Event:
    """Return the event of a number, always the same."""
    content = types.Content(role="user", parts=[types.Part(text=f"event {number}")])
    return Event(id=f"e{number}", author="user", timestamp=1000.0 + number, content=content, **options)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store with a session of three events."""
    async with Store.local(tmp_path) as store:
        session = await store.sessions.create_session(**WHO)
        for number in range(3):
            await store.sessions.append_event(session, said(number))
        yield store


async def require_exact(store: Store, count: int) -> None:
    """Require that the session counts its events exactly, and that the chain proves them."""
    (document,) = await store.sessions.storage.documents.get([PATH])
    assert document is not None
    assert (count, count) == (document.fields["rev"], len(document.fields["tail"]))  # type: ignore[arg-type]
    proof = await store.verify_session(**WHO)
    assert (count, None) == (proof.events, proof.broken)
    assert [] == [fault async for fault in store.check()]


async def test_a_handle_that_was_read_without_the_event_does_not_count_it_again(
    store: Store, tmp_path: Path
) -> None:
    """By another process, with any number of recent events."""
    for recent in (0, 1, 2):
        async with Store.local(tmp_path) as other:
            config = GetSessionConfig(num_recent_events=recent)
            held = await other.sessions.get_session(**WHO, config=config)
            assert held is not None
            await other.sessions.append_event(held, said(0))
            await other.sessions.append_event(held, said(3 + recent))

        await require_exact(store, 4 + recent)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda held: pickle.loads(pickle.dumps(held))])  # noqa: S301
async def test_a_handle_of_which_nothing_is_known_does_not_count_it_again(
    copied: Callable[[Session], Session], store: Store, tmp_path: Path
) -> None:
    """One that was copied, emptied, or came from another process."""
    held = await store.sessions.get_session(**WHO)
    assert held is not None
    other = copied(held)
    other.events.clear()
    async with Store.local(tmp_path) as process:
        await process.sessions.append_event(other, said(1))
        await process.sessions.append_event(other, said(3))

    await require_exact(store, 4)


async def test_a_handle_without_a_marker_does_not_count_it_again(store: Store, tmp_path: Path) -> None:
    """As a client's JSON makes one."""
    held = await store.sessions.get_session(**WHO)
    assert held is not None
    travelled = Session.model_validate_json(held.model_dump_json(exclude={"events"}))
    async with Store.local(tmp_path) as process:
        await process.sessions.append_event(travelled, said(1))

    await require_exact(store, 3)


async def test_a_merging_handle_from_before_does_not_count_it_again(store: Store, tmp_path: Path) -> None:
    """It learns what others appended, then finds its own event there."""
    async with Store.local(tmp_path, on_conflict="merge") as merging:
        stale = await merging.sessions.get_session(**WHO)
        held = await store.sessions.get_session(**WHO)
        assert stale is not None
        assert held is not None
        await store.sessions.append_event(held, said(3))
        await merging.sessions.append_event(stale, said(3))
        await merging.sessions.append_event(stale, said(4))
        await merging.sessions.append_event(stale, said(1))

    await require_exact(store, 5)


@pytest.mark.parametrize("durability", ["event", "turn"])
async def test_of_appends_that_go_together_those_that_are_stored_go_alone(
    durability: Any, store: Store, tmp_path: Path
) -> None:
    """No event that is new is lost, and none that is stored is counted again."""
    async with Store.local(tmp_path, durability=durability, on_conflict="merge") as process:
        held = await process.sessions.get_session(**WHO, config=GetSessionConfig(num_recent_events=0))
        assert held is not None
        numbers = (3, 1, 4, 0, 5)
        await asyncio.gather(*(process.sessions.append_event(held, said(number)) for number in numbers))
        await process.sessions.flush()

    events = (await store.sessions.get_session(**WHO)).events  # type: ignore[union-attr]
    assert [0, 1, 2, 3, 4, 5] == sorted(int(event.id[1:]) for event in events)
    await require_exact(store, 6)


async def test_an_event_that_another_process_delivered_first_takes_no_other_of_its_group_along(
    store: Store, tmp_path: Path
) -> None:
    """The group's first event is there, and so the second was taken for stored, and was lost."""
    async with Store.local(tmp_path, on_conflict="merge") as process:
        stale = await process.sessions.get_session(**WHO)
        held = await store.sessions.get_session(**WHO)
        assert stale is not None
        assert held is not None
        await store.sessions.append_event(held, said(3))
        await asyncio.gather(*(process.sessions.append_event(stale, said(number)) for number in (8, 3, 4)))

    await require_exact(store, 6)


async def test_events_of_a_sealed_tail_may_come_again(tmp_path: Path) -> None:
    """They are other events then, and are counted and stored."""
    limits = SessionLimits(seal_tail_bytes=1)
    async with Store.local(tmp_path, session_limits=limits) as store:
        held = await store.sessions.create_session(**WHO)
        await store.sessions.append_event(held, said(0))
    async with Store.local(tmp_path, session_limits=limits) as store:
        read = await store.sessions.get_session(**WHO, config=GetSessionConfig(num_recent_events=0))
        assert read is not None
        await store.sessions.append_event(read, said(0))
        proof = await store.verify_session(**WHO)

    assert (2, None) == (proof.events, proof.broken)


async def test_tails_that_are_forgotten_are_unknown() -> None:
    """Memory for them is bounded; one that is unknown may hold anything, but for a new session's."""
    tails = KnownTails()
    append = Append(texts=("{}",), timestamp=1.0, delta=ScopedState())
    first = Marker(epoch="first", revision=0, update_time="1.0", chain=bytes(32))
    tails.appended(first, append)
    known = first.advanced(append, "2.0", None)
    other = Append(texts=('{"a":1}',), timestamp=1.0, delta=ScopedState())

    assert (False, True) == (tails.may_hold(known, other), tails.may_hold(known, append))
    large = Append(
        texts=[f'{{"n":{number}}}' for number in range(60_000)], timestamp=1.0, delta=ScopedState()
    )
    for number in range(20):
        tails.appended(replace(first, epoch=f"{number}"), large)
    assert tails.may_hold(known, other)


@pytest.mark.usefixtures("store")
async def test_a_tail_is_known_by_the_digests_alone(tmp_path: Path) -> None:
    """A read without events takes the digests, so a new event needs no read more."""
    async with Store.local(tmp_path) as other:
        service: SessionService = other.sessions
        held = await service.get_session(**WHO, config=GetSessionConfig(num_recent_events=0))
        assert held is not None
        base = marker_of(held)
        assert base is not None
        new = Append(texts=(json.dumps({"new": 1}),), timestamp=1.0, delta=ScopedState())

        assert not service._reader.tails.may_hold(base, new)
