"""Fill a store with everything that a user can put into it."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from a2a.types import Message, Part, Role, TaskPushNotificationConfig
from google.adk.events import Event, EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from gcp_adk_store import ErasureProgress, ErasureReceipt, FunctionEmbedder, Point, SessionLimits, Store
from gcp_adk_store.codec.stored import read_session
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.testing.emulators import Emulator
from tests.support.stored import put_upload
from tests.support.stores import STORES
from tests.support.temporary import temporary_folder
from tests.support.traces import in_folder, on_emulators
from tests.tasks.conftest import of, task

APP = "app"
USER = "canary-user"
OTHER = "somebody-else"
OWNER = "canary-owner"
LIMITS = SessionLimits(seal_tail_bytes=1000, inline_bytes=100, state_value_bytes=100, event_text_bytes=2000)

PLACES = (
    "tail", "sealed", "inline", "large-event", "event-id", "event-metadata", "error", "transcription",
    "redactor", "reason", "state", "large-state", "key-name", "initial", "large-initial", "user-state",
    "large-user-state", "user-key-name", "title", "label", "label-name", "inbox", "memory", "large-memory",
    "memory-shard", "memory-metadata", "memory-author", "remembered", "vector", "artifact", "first-version",
    "user-artifact", "metadata", "display-name", "file-name", "upload", "task", "task-metadata",
    "push-config", "push-url", "fork", "deleted",
)  # fmt: skip
"""Every place into which a user can put content, each of which gets a canary of its name."""

Stored = Callable[[], dict[str, bytes]]


def canary(place: str) -> str:
    """Return the text that stands for one place."""
    return f"here-{place}-here"


def replaced(texts: Sequence[str]) -> list[str]:
    """Put a canary into texts, as a redactor does that replaces what it finds."""
    return [text.replace("to-redact", canary("redactor")) for text in texts]


async def embed(texts: Sequence[str], _: str) -> list[list[float]]:
    """Return vectors whose bytes encode a canary: the largest number, 127, is stored as it is."""
    return [[127.0, *map(float, canary("vector").encode())] for _ in texts]


FILLED: Any = {
    "session_limits": LIMITS,
    "redactors": [replaced],
    "embedder": FunctionEmbedder(embed, name="canaries", dimensions=1 + len(canary("vector"))),
}
"""Options of a store in which :func:`fill` reaches every place."""


@pytest.fixture(params=STORES)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Stored]]:
    """A store that seals often and spills early, and what returns all that it keeps."""
    if request.param == "folder":
        folder = tmp_path / "store"
        async with Store.local(folder, **FILLED) as store:
            yield store, lambda: in_folder(folder)
        return
    bucket: str = request.getfixturevalue("adk_store_bucket")
    project: str = request.getfixturevalue("project")
    storage: Emulator = request.getfixturevalue("storage_emulator")
    async with Store.connect(project=project, bucket=bucket, **FILLED) as store:
        yield store, lambda: on_emulators(project, bucket, storage.address)


async def erase(
    store: Store, user: str = USER, **options: Any
) -> tuple[list[ErasureProgress], ErasureReceipt]:
    """Erase a user; return the progress and the receipt."""
    steps = [step async for step in store.erase_user(app_name=APP, user_id=user, **options)]
    assert isinstance(steps[-1], ErasureReceipt)
    return [step for step in steps if isinstance(step, ErasureProgress)], steps[-1]


def said(text: str, *, data: bytes = b"", delta: dict[str, Any] | None = None) -> Event:
    """Return an event of the user."""
    parts = [types.Part(text=text)]
    if data:
        parts.append(types.Part(inline_data=types.Blob(data=data, mime_type="image/png")))
    content = types.Content(role="user", parts=parts)
    return Event(author="user", content=content, actions=EventActions(state_delta=delta or {}))


@pytest.fixture(scope="session")
def filled_once() -> Iterator[Path]:
    """A folder with a store of the user; tests take copies."""

    async def make() -> None:
        async with Store.local(folder, **FILLED) as store:
            await fill(store)

    with temporary_folder() as folder:
        asyncio.run(make())
        yield folder


@pytest.fixture
def filled_folder(filled_once: Path, tmp_path: Path) -> Path:
    """A folder with a store of the user."""
    return shutil.copytree(filled_once, tmp_path / "filled")


@pytest.fixture
async def filled(filled_folder: Path) -> AsyncIterator[Store]:
    """A store of the user."""
    async with Store.local(filled_folder, session_limits=LIMITS) as store:
        yield store


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store in memory that seals often and spills early."""
    async with Store.local(":memory:", session_limits=LIMITS) as store:
        yield store


async def fill(store: Store, user: str = USER, owner: str = OWNER) -> None:  # one after another
    """Put a canary into every place, for *user* and the owner of A2A tasks."""
    who: dict[str, Any] = {"app_name": APP, "user_id": user}
    there: dict[str, Any] = {**who, "session_id": "s"}
    session = await store.sessions.create_session(
        **there, state={"a": canary("initial"), "b": canary("large-initial") * 9000}
    )
    for event in (
        said("to-redact " + canary("sealed") + "x" * 1200),
        said("picture", data=canary("inline").encode() * 20),
        said(canary("large-event") * 300),
        said("state", delta={"key": canary("state"), "large": canary("large-state") * 40}),
        said("u", delta={"user:key": canary("user-state"), "user:large": canary("large-user-state") * 40}),
        said("names", delta={canary("key-name"): 1, f"user:{canary('user-key-name')}": 1}),
        *_of_rare_fields(),
        said("rest", delta={"app:name": "of the app"}),
        said("gone", delta={"key": "replaced " + canary("state")}),
    ):
        await store.sessions.append_event(session, event)
    await store.redact_event(**there, event_id="redacted", reason=canary("reason"))
    reread = await read(store.sessions, there)
    await store.sessions.append_event(reread, said(canary("tail")))
    labels = {"name": canary("label"), canary("label-name"): "1"}
    await store.sessions.update_session_info(**there, title=canary("title"), labels=labels)
    async with store.turns.hold(**there):
        message = types.Content(role="user", parts=[types.Part(text=canary("inbox"))])
        await store.turns.enqueue(**there, new_message=message)
    await store.fork_session(**there, to_session_id=canary("fork"))
    await store.restore_session(**{**there, "session_id": canary("fork")}, at=Point.position(2))
    gone = await store.sessions.create_session(**who, session_id="gone")
    await store.sessions.append_event(
        gone, said(canary("deleted") + "x" * 1200, data=canary("deleted").encode() * 9)
    )
    await _delete_half(store, who)
    await _memories(store, who)
    await _artifacts(store, who)
    await _tasks(store, owner)


def _of_rare_fields() -> list[Event]:
    """Return events with content in fields that few events have, and one to be redacted."""
    rare = said("rare")
    rare.id = canary("event-id")
    rare.custom_metadata = {"note": canary("event-metadata")}
    rare.error_message = canary("error")
    rare.input_transcription = types.Transcription(text=canary("transcription"))
    redacted = said("what is redacted")
    redacted.id = "redacted"
    return [rare, redacted]


async def _memories(store: Store, who: dict[str, Any]) -> None:
    def entry(text: str, **more: Any) -> MemoryEntry:
        return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **more)

    for number in range(4):
        await store.memory.add_memory(**who, memories=[entry(f"{number} {canary('memory-shard')} " * 1000)])
    named = entry("a name", author=canary("memory-author"))
    metadata = {"note": canary("memory-metadata")}
    await store.memory.add_memory(**who, memories=[named], custom_metadata=metadata)
    await store.memory.add_events_to_memory(**who, session_id="s", events=[said(canary("remembered"))])
    memories = [entry(canary("memory")), entry(canary("large-memory") * 3000)]
    await store.memory.add_memory(**who, memories=memories)


async def _tasks(store: Store, owner: str) -> None:
    message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=canary("task"))])
    saved = task(history=[message])
    saved.metadata.update({"note": canary("task-metadata")})
    await store.tasks.save(saved, of(owner))
    url = f"https://example.test/{canary('push-url')}"
    config = TaskPushNotificationConfig(id="c1", url=url, token=canary("push-config"))
    await store.push_notification_configs.set_info("t1", config, of(owner))


async def _delete_half(store: Store, who: dict[str, Any]) -> None:
    """Delete a session as a process does that is killed after the first commit: its parts stay."""
    storage = store.sessions.storage
    key = SessionKey(app=who["app_name"], user=who["user_id"], session="gone")
    (document,) = await storage.documents.get([storage.layout.session(key)])
    assert document is not None
    await storage.documents.commit(storage.layout.delete(read_session(document)))


async def _artifacts(store: Store, who: dict[str, Any]) -> None:
    there = {**who, "session_id": "s"}
    for place in ("first-version", "artifact"):
        await store.artifacts.save_artifact(
            **there,
            filename="report.txt",
            artifact=types.Part(text=canary(place)),
            custom_metadata={"note": canary("metadata")},
        )
    named = types.Blob(data=b"data", mime_type="text/plain", display_name=canary("display-name"))
    await store.artifacts.save_artifact(
        **there, filename=f"a/{canary('file-name')}", artifact=types.Part(inline_data=named)
    )
    await store.artifacts.save_artifact(
        **who, filename="user:mine.txt", artifact=types.Part(text=canary("user-artifact"))
    )
    await put_upload(
        store, {**who, "session_id": "s", "filename": "sent.txt"}, "0" * 32, canary("upload").encode()
    )
