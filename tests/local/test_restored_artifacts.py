"""Take the artifacts of a session back with it, also after a crash between the two."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types

from gcp_adk_store import GarbageKind, OutcomeUnknownError, Point, Store, UnavailableError
from gcp_adk_store.testing.conformance.running import read
from tests.support.clock import in_days
from tests.support.stored import put_object

APP, USER, SESSION = "app", "user", "session"
OWNER: dict[str, Any] = {"app_name": APP, "user_id": USER}
WHO: dict[str, Any] = {**OWNER, "session_id": SESSION}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store in memory."""
    async with Store.local(":memory:") as store:
        yield store


async def save(store: Store, filename: str, words: str) -> int:
    """Save a version without an event, as an upload does."""
    return await store.artifacts.save_artifact(
        **WHO, filename=filename, artifact=types.Part(text=words), custom_metadata={"of": words}
    )


async def load(store: Store, filename: str) -> str | None:
    """Return the latest version's text."""
    part = await store.artifacts.load_artifact(**WHO, filename=filename)
    return None if part is None else part.text


async def turn(store: Store, session: Any, number: int, **files: str) -> None:
    """Save *files* in a turn, and append its event."""
    delta = {f"{name}.txt": await save(store, f"{name}.txt", words) for name, words in files.items()}
    event = Event(
        id=f"e{number}",
        invocation_id=f"turn-{number}",
        author="agent",
        actions=EventActions(artifact_delta=delta),
    )
    await store.sessions.append_event(session, event)


async def filled(store: Store) -> Any:
    """Make a session of three turns that change files."""
    session = await store.sessions.create_session(**WHO)
    await turn(store, session, 0, changed="old", same="same")
    await save(store, "upload", "before")
    await turn(store, session, 1, changed="middle")
    await turn(store, session, 2, changed="new", made="made")
    await save(store, "upload", "after")
    await store.artifacts.save_artifact(**OWNER, filename="user:f", artifact=types.Part(text="of all"))
    return session


async def test_a_version_of_another_writer_comes_back_without_metadata_that_leaves_no_room(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Its bytes and type do; the older version keeps the metadata."""
    full = {"key": "x" * (8 * 1024 - len("key"))}  # Cloud Storage takes no more
    await put_object(store, f"{APP}/{USER}/{SESSION}/report.txt/0", b"old", metadata=full)
    session = await store.sessions.create_session(**WHO)
    await turn(store, session, 0)
    await turn(store, session, 1, report="new")
    await store.restore_session(**WHO, at=Point.position(1))
    first, _, copied = await store.artifacts.list_artifact_versions(**WHO, filename="report.txt")
    part = await store.artifacts.load_artifact(**WHO, filename="report.txt")

    assert part is not None
    assert part.inline_data is not None
    assert b"old" == part.inline_data.data
    assert (full, {}) == (first.custom_metadata, copied.custom_metadata)
    assert "copied without its metadata" in caplog.text

    await store.fork_session(**WHO, to_session_id="fork")
    fork = await store.artifacts.list_artifact_versions(**OWNER, session_id="fork", filename="report.txt")
    assert {} == fork[0].custom_metadata


async def test_the_session_service_alone_leaves_artifacts_as_they_are(store: Store) -> None:
    """It does not know them."""
    await filled(store)
    await store.sessions.restore_session(**WHO, at=Point.position(0))

    assert ["new", "made"] == [await load(store, name) for name in ("changed.txt", "made.txt")]


async def test_a_restore_to_where_nothing_was_after_changes_no_file(store: Store) -> None:
    """Nor does the same restore again."""
    await filled(store)
    await store.restore_session(**WHO, at=Point.position(3))
    before = await store.artifacts.list_versions(**WHO, filename="changed.txt")
    await store.restore_session(**WHO, at=Point.position(1))
    await store.restore_session(**WHO, at=Point.position(1))

    assert [0, 1, 2] == before
    assert [0, 1, 2, 3] == await store.artifacts.list_versions(**WHO, filename="changed.txt")


async def interrupted(store: Store) -> None:
    """Restore a session, and fail before its artifacts are taken back."""
    await filled(store)

    async def fail(*_: Any, **__: Any) -> None:
        raise UnavailableError("on purpose")

    names = ("choose", "copy", "remove_copies", "put_back")
    failing: Any = SimpleNamespace(**dict.fromkeys(names, fail))
    with pytest.raises(OutcomeUnknownError, match="restored, but perhaps not all of its artifacts"):
        await store.sessions.restore_session(**WHO, at=Point.position(1), artifacts=failing)


async def test_the_next_restore_finishes_one_that_was_interrupted(store: Store) -> None:
    """Once, whatever its own point, and after appends of others."""
    await interrupted(store)
    session = await read(store.sessions, WHO)
    await turn(store, session, 7, same="newer")
    await store.restore_session(**WHO, at=Point.position(2))
    await store.restore_session(**WHO, at=Point.position(2))

    assert ["old", "newer", "before", None] == [
        await load(store, name) for name in ("changed.txt", "same.txt", "upload", "made.txt")
    ]
    assert [0, 1, 2, 3] == await store.artifacts.list_versions(**WHO, filename="changed.txt")


async def test_a_later_version_whose_metadata_leave_no_room_keeps_no_restore_from_its_end(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays as it is; the log says that nothing tells which version it follows."""
    await interrupted(store)
    full = {"key": "x" * (8 * 1024 - len("key"))}
    await put_object(store, f"{APP}/{USER}/{SESSION}/changed.txt/3", b"newer", metadata=full)
    await store.restore_session(**WHO, at=Point.position(1))

    assert "has no room for the note of a restore" in caplog.text
    assert [0, 1, 2, 3] == await store.artifacts.list_versions(**WHO, filename="changed.txt")
    assert [] == [one async for one in store.find_garbage(older_than_s=3600)]


async def test_the_collector_finishes_a_restore_that_was_interrupted(store: Store) -> None:
    """The session service alone leaves it to the store, because it does not know the artifacts."""
    await interrupted(store)
    young = [one async for one in store.find_garbage(older_than_s=3600)]
    with in_days(1):
        (found,) = [one async for one in store.find_garbage(older_than_s=3600)]
    alone = await store.sessions.remove_garbage(found)

    assert ([], GarbageKind.RESTORE, False) == (young, found.kind, alone)
    assert await store.remove_garbage(found)
    assert ["old", None] == [await load(store, name) for name in ("changed.txt", "made.txt")]
    assert [] == [one async for one in store.find_garbage(older_than_s=3600)]


async def test_a_session_that_can_have_no_artifacts_is_restored(store: Store) -> None:
    """ADK reserves its id for the user's own artifacts."""
    who = {**WHO, "session_id": "user"}
    session = await store.sessions.create_session(**who)
    await store.sessions.append_event(session, Event(author="user"))

    assert [] == (await store.restore_session(**who, at=Point.position(0))).events
