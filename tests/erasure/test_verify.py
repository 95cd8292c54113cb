"""The hash chain names where a history was changed, dropped, swapped or cut off."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gcp_adk_store import Store
from gcp_adk_store.model.appends import digests_of
from gcp_adk_store.testing.conformance.running import read
from tests.erasure.conftest import LIMITS, said
from tests.support.stored import change, collection, fields_of, packed, remove, unpacked

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}
SESSION = "adk_apps/app/adk_users/user/adk_sessions/s"

Change = Callable[[list[str]], list[str]]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store with a session of several segments and a tail."""
    async with Store.local(":memory:", session_limits=LIMITS) as store:
        session = await store.sessions.create_session(**WHO)
        for number in range(11):
            await store.sessions.append_event(session, said(f"event {number} {'x' * 150}"))
        yield store


def changed(texts: list[str]) -> list[str]:
    """Change a word of the second event."""
    return [texts[0], texts[1].replace("event", "EVENT"), *texts[2:]]


def dropped(texts: list[str]) -> list[str]:
    """Drop the first event."""
    return texts[1:]


def swapped(texts: list[str]) -> list[str]:
    """Swap two events."""
    return [texts[1], texts[0], *texts[2:]]


def cut(texts: list[str]) -> list[str]:
    """Cut off the last event."""
    return texts[:-1]


def added(texts: list[str]) -> list[str]:
    """Put in an event, as somebody does who makes an agent have said something."""
    return [texts[0], texts[0].replace("event", "forged"), *texts[1:]]


NAMED = {"changed": 1, "dropped": 0, "swapped": 0, "added": 1}
"""Which event of its document is the first one that differs."""


@pytest.mark.parametrize("damage", [changed, dropped, swapped, cut, added])
@pytest.mark.parametrize("place", ["segment", "tail"])
async def test_a_changed_history_is_named_with_its_first_event(
    store: Store, place: str, damage: Change
) -> None:
    """What is before it is proven."""
    first, second, *_ = sorted(await collection(store, "adk_segments"))
    if place == "segment":
        path, before = second, len(unpacked((await fields_of(store, first))["body"]))
        now = damage(unpacked((await fields_of(store, path))["body"]))
        await change(store, path, {"body": packed(now), "count": len(now)})
    else:
        path, tail = SESSION, (await fields_of(store, SESSION))["tail"]
        before, now = 11 - len(tail), damage(tail)
        await change(store, path, {"tail": now, "tail_bytes": sum(len(text) for text in now)})

    broken = (await store.sessions.verify_session(**WHO)).broken

    assert broken is not None
    number = NAMED[damage.__name__] if damage is not cut else len(now)
    there = "" if number >= len(now) or damage is dropped else json.loads(now[number])["id"]
    assert (path, before + number, there) == (broken.path, broken.position, broken.event_id)
    assert (broken.position, damage.__name__) == (broken.last, broken.change)


async def test_a_missing_segment_is_named(store: Store) -> None:
    """With the number of the first event that it held."""
    first, second, *_ = sorted(await collection(store, "adk_segments"))
    count = (await fields_of(store, first))["count"]
    await remove(store, second)

    broken = (await store.sessions.verify_session(**WHO)).broken

    assert broken is not None
    assert (second, count, "", "missing") == (broken.path, broken.position, broken.event_id, broken.change)
    assert "the segment is missing" == broken.says


async def test_with_changed_digests_the_events_of_the_document_are_named(store: Store) -> None:
    """Whoever changes an event and its digest leaves the chain of the document broken."""
    first, second, *_ = sorted(await collection(store, "adk_segments"))
    count = (await fields_of(store, first))["count"]
    now = changed(unpacked((await fields_of(store, second))["body"]))
    await change(store, second, {"body": packed(now), "digests": b"".join(digests_of(now))})

    broken = (await store.sessions.verify_session(**WHO)).broken

    assert broken is not None
    assert (second, count, count + len(now) - 1) == (broken.path, broken.position, broken.last)
    assert "unknown" == broken.change


async def test_a_history_that_was_written_anew_differs_from_an_earlier_proof(store: Store) -> None:
    """Its own chain is right: only what was kept elsewhere shows it."""
    proof = await store.sessions.verify_session(**WHO)
    known: dict[str, Any] = {"known_events": proof.events, "known_head": proof.head}
    session = await read(store.sessions, WHO)
    await store.sessions.append_event(session, said("one more"))
    same = await store.sessions.verify_session(**WHO, **known)
    await store.sessions.delete_session(**WHO)
    forged = await store.sessions.create_session(**WHO)
    for number in range(12):
        await store.sessions.append_event(forged, said(f"forged {number} {'x' * 150}"))

    alone = await store.sessions.verify_session(**WHO)
    compared = await store.sessions.verify_session(**WHO, **known)

    assert same.broken is None
    assert alone.broken is None
    assert compared.broken is not None
    assert "not those of the proof" in compared.broken.says


async def test_a_history_that_was_cut_before_an_earlier_proof_is_noticed(store: Store) -> None:
    """A new session of the id has fewer events."""
    proof = await store.sessions.verify_session(**WHO)
    await store.sessions.delete_session(**WHO)
    await store.sessions.create_session(**WHO)

    now = await store.sessions.verify_session(**WHO, known_events=proof.events, known_head=proof.head)

    assert now.broken is not None
    assert "the proof has 11 events, and 0 are there" == now.broken.says
