"""Fork sessions: what a fork takes over, what it leaves, and what both do afterwards."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from gcp_adk_store import (
    GarbageKind,
    PayloadMissingError,
    Point,
    SessionExistsError,
    SessionLimits,
    SessionMissingError,
    Store,
    UnavailableError,
)
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import Origin, StoredSession
from gcp_adk_store.testing.conformance.running import reference
from tests.support.clock import in_days
from tests.support.local_commits import before_commits
from tests.support.small_pieces import set_numbers

OWNER: dict[str, Any] = {"app_name": "app", "user_id": "user"}
WHO: dict[str, Any] = {**OWNER, "session_id": "session"}
GUEST: dict[str, Any] = {**WHO, "user_id": "guest"}
LIMITS = SessionLimits(seal_tail_bytes=1000, inline_bytes=100, state_value_bytes=100, event_text_bytes=2000)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store in memory that seals often and spills early."""
    async with Store.local(":memory:", session_limits=LIMITS) as store:
        yield store


def said(number: int, *, data: int = 0, text: str = "", delta: dict[str, Any] | None = None) -> Event:
    """Return an event that may have large content."""
    parts = [types.Part(text=f"event {number} {text}")]
    if data:
        parts.append(types.Part(inline_data=types.Blob(data=b"%d" % number * data, mime_type="image/png")))
    return Event(
        id=f"e{number}",
        invocation_id=f"turn-{number}",
        author="user",
        timestamp=1000.0 + number,
        content=types.Content(role="user", parts=parts),
        actions=EventActions(state_delta=delta or {}),
    )


async def fill(store: Store, count: int = 12, *, who: dict[str, Any] = WHO, first: int = 0) -> Session:
    """Make a session with segments, payloads of every kind, and state that changes."""
    large = {"n": -1, "was": "w" * 300, "stays": "s" * 300, "user:name": "Ada", "fill": "f" * 70_000}
    session = await store.sessions.create_session(**who, state=large)
    for number in range(first, count):
        delta = {"n": number, "large": f"{number}" * 200}
        if number == count - 1:
            delta["was"] = None
        event = said(
            number,
            data=200 if number % 3 == 0 else 0,
            text="t" * 3000 if number == 4 else "",  # one event is a payload as a whole
            delta=delta,
        )
        await store.sessions.append_event(session, event)
    return session


async def stored(store: Store, session: Session) -> StoredSession:
    """Return the document of a session."""
    key = SessionKey(app=session.app_name, user=session.user_id, session=session.id)
    found = await store.sessions._reader.stored(key)  # what no reader of sessions shows
    assert found is not None
    return found


async def required(store: Store, session: Session) -> Session:
    """Return a session as another caller reads it."""
    found = await store.sessions.get_session(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id
    )
    assert found is not None
    return found


async def save(store: Store, filename: str, text: str, **who: Any) -> int:
    """Save a version of an artifact."""
    return await store.artifacts.save_artifact(
        **{**WHO, **who}, filename=filename, artifact=types.Part(text=text)
    )


async def texts_of(store: Store, session: Session) -> dict[str, dict[int, str | None]]:
    """Return the artifacts of a session: filename -> version -> text."""
    who: dict[str, Any] = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}
    found: dict[str, dict[int, str | None]] = {}
    for filename in await store.artifacts.list_artifact_keys(**who):
        for version in await store.artifacts.list_versions(**who, filename=filename):
            part = await store.artifacts.load_artifact(**who, filename=filename, version=version)
            found.setdefault(filename, {})[version] = part.text if part else None
    return found


async def test_a_tail_over_its_bound_is_sealed(store: Store) -> None:
    """As an append does it, so that a fork's document is no larger than others'."""
    await fill(store)
    small = SessionLimits(seal_tail_bytes=1)
    fork = await store.fork_session(**WHO, at=Point.position(1), to_session_id="fork")
    store.sessions._forks._limits = small  # of a process with other limits
    sealed = await store.fork_session(**WHO, at=Point.position(1), to_session_id="sealed")

    first, second = await stored(store, fork), await stored(store, sealed)
    assert (0, 1) == (first.sealed, len(first.tail))
    assert (1, 0, 1000.0) == (second.sealed, len(second.tail), second.sealed_max)
    assert sealed == await required(store, sealed)


async def test_a_fork_knows_its_origin(store: Store) -> None:
    """Also the one of a fork, whose origin is the fork."""
    await fill(store)
    source = await stored(store, await required(store, await fill(store, who={**WHO, "session_id": "x"})))
    fork = await store.fork_session(**OWNER, session_id="x", at=Point.position(7), to_session_id="y")
    again = await store.fork_session(**OWNER, session_id="y", to_session_id="z")

    made = await stored(store, fork)
    assert Origin(app="app", user="user", session="x", epoch=source.epoch, position=7) == made.origin
    expected = Origin(app="app", user="user", session="y", epoch=made.epoch, position=7)
    assert expected == (await stored(store, again)).origin
    assert source.origin is None


async def test_a_fork_of_a_guests_session_belongs_to_the_user_who_logged_in(store: Store) -> None:
    """With the user's own state, and the guest's stays with the guest."""
    await store.sessions.create_session(
        **{**WHO, "session_id": "old"}, state={"user:name": "Ada", "user:known": True}
    )
    guest = await store.sessions.create_session(**GUEST, state={"user:name": "guest", "cart": ["book"]})
    await store.sessions.append_event(guest, said(1, delta={"user:seen": 1}))
    await save(store, "cart.txt", "book", user_id="guest")
    await save(store, "user:face.png", "of the guest", user_id="guest")
    fork = await store.fork_session(**GUEST, to_user_id="user")

    assert {"cart": ["book"], "user:name": "Ada", "user:known": True} == fork.state
    assert fork == await required(store, fork)
    assert fork.id != guest.id
    assert {"cart.txt": {0: "book"}} == await texts_of(store, fork)
    assert {"name": "guest", "seen": 1} == await store.sessions.get_user_state(
        app_name="app", user_id="guest"
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"f": {0: "f0", 1: "f1"}, "g": {0: "g0"}}),
        ({"at": Point.position(2)}, {"f": {0: "f0", 1: "f1"}, "g": {0: "g0"}}),
        ({"at": Point.position(1)}, {"f": {0: "f0"}}),
        ({"at": Point.position(0)}, {}),
        ({"at": Point.position(0), "artifacts": "all"}, {"f": {0: "f0", 1: "f1"}, "g": {0: "g0"}}),
        ({"artifacts": "none"}, {}),
    ],
)
async def test_artifacts_are_those_of_the_point(
    store: Store, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Under the same numbers, each with its own bytes; a save into the fork goes on from there."""
    session = await store.sessions.create_session(**WHO)
    for number, saved in enumerate([["f"], ["f", "g"]]):
        named = {name: await save(store, name, f"{name}{number if name == 'f' else 0}") for name in saved}
        event = said(number)
        event.actions.artifact_delta = named
        await store.sessions.append_event(session, event)
    fork = await store.fork_session(**WHO, to_session_id="fork", **options)

    assert expected == await texts_of(store, fork)
    assert len(expected.get("f", ())) == await save(store, "f", "next", session_id="fork")
    assert {0: "f0", 1: "f1"} == (await texts_of(store, session))["f"]


async def test_a_reference_leads_to_the_copy_in_the_fork(store: Store) -> None:
    """The original may be deleted."""
    session = await store.sessions.create_session(**WHO)
    await save(store, "f", "content")
    uri = "artifact://apps/app/users/user/sessions/session/artifacts/f/versions/0"
    part = types.Part(file_data=types.FileData(file_uri=uri, mime_type="text/plain"))
    await store.artifacts.save_artifact(**WHO, filename="link", artifact=part)
    fork = await store.fork_session(**WHO, to_session_id="fork", to_user_id="other")
    await store.artifacts.delete_session_artifacts(**WHO)

    assert {"f": {0: "content"}, "link": {0: "content"}} == await texts_of(store, fork)
    assert {} == await texts_of(store, session)


async def test_a_reference_to_a_file_of_the_user_that_names_the_session_is_followed_in_the_fork(
    store: Store,
) -> None:
    """ADK writes such URIs where it has both."""
    await store.sessions.create_session(**WHO)
    await save(store, "user:f", "of the user")
    await store.artifacts.save_artifact(
        **WHO, filename="link", artifact=reference({**WHO, "filename": "user:f"})
    )
    await store.fork_session(**WHO, to_session_id="fork")
    found = await store.artifacts.load_artifact(**OWNER, session_id="fork", filename="link")

    assert types.Part(text="of the user") == found


async def test_an_id_that_is_taken_is_refused(store: Store) -> None:
    """By a session, also one with artifacts, or by artifacts that one left; neither is changed."""
    await fill(store)
    taken = await store.sessions.create_session(**OWNER, session_id="taken", state={"k": 1})
    for session_id in ("session", "taken", "left"):
        await save(store, "f", f"of {session_id}", session_id=session_id)
    for to in ("taken", "session"):
        restored = partial(store.restore_session, **WHO, at=Point.position(1), keep_as=to)
        plain = partial(store.fork_session, **WHO, to_session_id=to, artifacts="none")
        for call in (partial(store.fork_session, **WHO, to_session_id=to), plain, restored):
            with pytest.raises(SessionExistsError, match=r"another session has this id$"):
                await call()
    with pytest.raises(SessionExistsError, match=r"^fork_.*an earlier session.*delete_session_artifacts"):
        await store.fork_session(**WHO, to_session_id="left")

    assert taken == await required(store, taken)
    assert await store.sessions.get_session(**OWNER, session_id="left") is None
    assert {"f": {0: "of taken"}} == await texts_of(store, taken)
    assert ["f"] == await store.artifacts.list_artifact_keys(**OWNER, session_id="left")


async def test_two_forks_to_one_id_make_one_session(store: Store) -> None:
    """The other call gets that error, and its artifacts are not among those of the first."""
    await fill(store)
    for name in ("f", "g", "h"):
        await save(store, name, name)
    results = await asyncio.gather(
        store.fork_session(**WHO, to_session_id="fork"),
        store.fork_session(**WHO, at=Point.position(5), to_session_id="fork", artifacts="all"),
        return_exceptions=True,
    )
    won = [result for result in results if isinstance(result, Session)]
    assert 1 == len(won)
    assert 1 == len([result for result in results if isinstance(result, SessionExistsError)])
    assert won[0] == await required(store, won[0])
    assert {name: {0: name} for name in ("f", "g", "h")} == await texts_of(store, won[0])


async def test_a_fork_beside_a_deletion_is_whole_or_absent(store: Store) -> None:
    """The error says that the source is gone."""
    for number in range(3):
        who = {**WHO, "session_id": f"s{number}"}
        expected = await fill(store, who=who)
        await save(store, "f", "content", session_id=who["session_id"])
        made, _ = await asyncio.gather(
            store.fork_session(**who, to_session_id=f"fork{number}"),
            store.sessions.delete_session(**who),
            return_exceptions=True,
        )
        found = await store.sessions.get_session(**OWNER, session_id=f"fork{number}")
        if isinstance(made, Session):
            assert expected.events == made.events
            assert made == found
        else:
            assert isinstance(made, SessionMissingError | PayloadMissingError), made
            assert found is None


async def test_a_fork_lives_as_new_sessions_of_its_store_do(tmp_path: Path) -> None:
    """By the service's own default, not by the source's."""
    opened = partial(Store.local, tmp_path, session_limits=LIMITS)
    async with opened() as lasting, opened(default_ttl_seconds=90) as brief:
        await fill(lasting)
        assert (await stored(lasting, await lasting.fork_session(**WHO))).expiry is None
        expiry = (await stored(brief, await brief.fork_session(**WHO, to_session_id="brief"))).expiry
        assert expiry is not None
        assert 90 == expiry.ttl_s
        assert expiry.parts_at is not None
        assert (await stored(lasting, await lasting.fork_session(**OWNER, session_id="brief"))).expiry is None


class Stopped(BaseException):
    """A process that stops in the middle."""


def before_commit(patch: pytest.MonkeyPatch, number: int, act: Callable[[], Awaitable[object]]) -> None:
    """Let *act* happen before the commit of this number, of those from now on."""
    numbers = itertools.count(1)

    async def see(_: Any) -> None:
        if next(numbers) == number:
            await act()

    before_commits(patch, see)


async def stopped(store: Store, monkeypatch: pytest.MonkeyPatch, *, after: int, **options: Any) -> None:
    """Fork, and stop after so many commits."""

    async def stop() -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        before_commit(patch, after + 1, stop)
        with pytest.raises(Stopped):
            await store.fork_session(**WHO, **options)


async def collected(store: Store) -> list[GarbageKind]:
    """Remove all garbage in two days; return what it was."""
    with in_days(2):
        found = [garbage async for garbage in store.find_garbage()]
        assert all([await store.remove_garbage(garbage) for garbage in found])
    return [garbage.kind for garbage in found]


async def test_the_collector_removes_what_a_stopped_fork_left(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments, payloads and artifacts; the id is free again, and other artifacts stay."""
    set_numbers(monkeypatch, segments_per_commit=1)
    await fill(store)
    for name in ("f", "g"):
        await save(store, name, name)
    await collected(store)  # values that were replaced
    await stopped(store, monkeypatch, after=3, to_session_id="fork")
    assert [] == [fault async for fault in store.check(full=True)]
    await save(store, "mine", "saved meanwhile", session_id="fork")
    with pytest.raises(SessionExistsError):
        await store.fork_session(**WHO, to_session_id="fork")
    assert GarbageKind.DELETION in await collected(store)

    assert [] == await collected(store)
    assert ["mine"] == await store.artifacts.list_artifact_keys(**OWNER, session_id="fork")
    await store.artifacts.delete_session_artifacts(**OWNER, session_id="fork")
    fork = await store.fork_session(**WHO, to_session_id="fork")
    assert fork == await required(store, fork)
    assert {name: {0: name} for name in ("f", "g")} == await texts_of(store, fork)


async def test_a_collector_without_the_artifacts_leaves_a_stopped_fork_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so; the store's own removes it."""
    await fill(store, 1)
    await save(store, "f", "f")
    await stopped(store, monkeypatch, after=1, to_session_id="fork")
    with in_days(2):
        (garbage,) = [one async for one in store.sessions.find_garbage() if one.kind is GarbageKind.DELETION]
        assert not await store.sessions.remove_garbage(garbage)
        assert await store.remove_garbage(garbage)
        assert await store.remove_garbage(garbage)


async def test_a_fork_that_was_collected_cannot_be_completed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that sleeps for two days in the middle gets an error; nothing of its fork is left."""
    set_numbers(monkeypatch, segments_per_commit=1)
    await fill(store)
    await collected(store)

    async def sleep() -> None:
        assert GarbageKind.DELETION in await collected(store)

    before_commit(monkeypatch, 3, sleep)
    with pytest.raises(UnavailableError, match=r"^fork_session .*a collector removed this fork"):
        await store.fork_session(**WHO, to_session_id="fork")
    monkeypatch.undo()

    assert await store.sessions.get_session(**OWNER, session_id="fork") is None
    assert GarbageKind.DELETION not in await collected(store)


async def test_a_deletion_of_the_id_leaves_a_running_fork_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork is made after it."""
    set_numbers(monkeypatch, segments_per_commit=1)
    await fill(store)
    before_commit(monkeypatch, 3, lambda: store.sessions.delete_session(**OWNER, session_id="fork"))
    fork = await store.fork_session(**WHO, to_session_id="fork")
    assert fork == await required(store, fork)


async def test_a_fork_that_seals_events_keeps_the_latest_time_of_them(tmp_path: Path) -> None:
    """An append that merges may have an earlier time than the event before it; reads go by the latest one."""
    async with Store.local(tmp_path) as store:
        session = await store.sessions.create_session(**WHO)
        for number in (2, 1):
            await store.sessions.append_event(session, said(number, text="t" * 1000))
    async with Store.local(tmp_path, session_limits=LIMITS) as store:
        await store.fork_session(**WHO, to_session_id="copy")
        late = GetSessionConfig(after_timestamp=1001.5)
        copy = await store.sessions.get_session(**WHO | {"session_id": "copy"}, config=late)

    assert copy is not None
    assert ["e2"] == [event.id for event in copy.events]
