"""Print what each operation and turn takes: ``python -m tests.simulation.budgets``, or ``make budgets``.

A message takes a second each way and nothing else takes time, so an operation takes as many round trips,
one after the other, as it takes pairs of seconds. The requests are those at the ports; tests/services counts
them on the wire. ``budgets.json`` beside this file has what is agreed; any other figure is an error, a lower
one, too. ``--write`` agrees to what is measured, ``--json`` prints it.
"""

import asyncio
import io
import itertools
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from a2a.types import ListTasksRequest, TaskPushNotificationConfig, TaskState
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from rich.console import Console
from rich.table import Table

from gcp_adk_store import Point, SessionBusyError, SessionConflictError, SessionLimits, SessionService, Store
from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written
from gcp_adk_store.inspector import create_app
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.moving import copy, export_jsonl, import_jsonl, records_of
from gcp_adk_store.testing.simulation import Faults, Process, Service, World, simulate
from gcp_adk_store.turns.service import OnBusyRun
from tests.inspector.story import CALM_PLACE, Read, client_of, fill_calm
from tests.inspector.story import LIMITS as STORY_LIMITS
from tests.moving.hardest import APP, fill, many
from tests.simulation.events import said
from tests.simulation.keys import NEW, OLD, envelope_of
from tests.support.stored import change, put_upload
from tests.tasks.conftest import of as context_of
from tests.tasks.conftest import task as new_task
from tools.benchmarks.memory_embedder import PartsEmbedder
from tools.benchmarks.stub_agent import runner

AGREED: Final = Path(__file__).with_suffix(".json")
WAY_S: Final = 1.0
WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session"}
USER: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user"}
FILE: Final[dict[str, Any]] = {**WHO, "filename": "notes.txt"}
KEY: Final = SessionKey(app="app", user="user", session="session")
OF_ADA: Final = {"app": "support", "user": "ada"}
SEALED: Final = SessionLimits(seal_tail_bytes=2_000)
"""A session of 60 short events has several segments."""


@dataclass(slots=True)
class Billed:
    """Operations of Firestore as Google bills them."""

    reads: int = 0
    writes: int = 0
    deletes: int = 0


class BilledDocuments:
    """The documents of a service, with a count of what is billed."""

    def __init__(self, documents: Documents, billed: Billed) -> None:
        self._documents = documents
        self.billed = billed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._documents, name)

    async def get(self, paths: Sequence[str], **more: Any) -> list[Document | None]:
        """As the port; missing documents are billed, too."""
        self.billed.reads += len(paths)
        return await self._documents.get(paths, **more)

    async def query(
        self, parent: str, collection: str, *, page: Page | None = None, **more: Any
    ) -> list[Document]:
        """As the port; a query that finds nothing is billed as one read."""
        found = await self._documents.query(parent, collection, page=page, **more)
        self.billed.reads += max(1, len(found))
        return found

    async def commit(self, writes: Sequence[Write | Delete], **more: Any) -> list[Written]:
        """As the port; a commit that is refused is not billed."""
        written = await self._documents.commit(writes, **more)
        deletes = sum(isinstance(each, Delete) for each in writes)
        self.billed.deletes += deletes
        self.billed.writes += len(writes) - deletes
        return written


Figures: TypeAlias = dict[str, int]
"""Round trips one after the other, requests by kind, and billed reads, writes and deletes; zeros left out."""


@dataclass(slots=True)
class Budgets:
    """A service, and what operations of its processes take."""

    world: World
    service: Service
    figures: dict[str, Figures] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def store(self, **options: Any) -> "Measured":
        """Return the store of a process that knows nothing yet."""
        process = self.world.process(f"process {next(self._numbers)}")
        return Measured(self, process, self.service.store_of(process, **options))

    @asynccontextmanager
    async def counted(self, name: str) -> AsyncIterator[None]:
        """Count what happens in the block, under a *name* of its own."""
        assert name not in self.figures, name
        documents = self.service.backend.documents
        assert isinstance(documents, BilledDocuments)
        billed = documents.billed
        billed.reads = billed.writes = billed.deletes = 0
        before, began = Counter(self.world.fates.counts), self.world.now
        yield
        kinds = Counter(self.world.fates.counts)
        kinds.subtract(before)
        found = {
            "trips": round((self.world.now - began) / (2 * WAY_S)),
            **{what: number for (what, _), number in sorted(kinds.items())},
            "billed reads": billed.reads,
            "billed writes": billed.writes,
            "billed deletes": billed.deletes,
        }
        self.figures[name] = {what: number for what, number in found.items() if number}


@dataclass(slots=True)
class Measured:
    """The store of one process."""

    budgets: Budgets
    process: Process
    store: Store

    async def does(self, work: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        """Run *work* in the process."""
        return await self.process.start(work, *args, **options)

    async def measure(
        self, name: str, work: Callable[..., Awaitable[Any]], *args: Any, **options: Any
    ) -> Any:
        """Run *work* in the process, and count what it takes."""
        async with self.budgets.counted(name):
            return await self.does(work, *args, **options)


def event(text: str, **delta: Any) -> Event:
    """Return an event of the user."""
    return Event(author="user", content=said(text), actions=EventActions(state_delta=delta))


def summary_of(events: Sequence[Event]) -> Event:
    """Return the summary of *events*, as ADK's event compaction makes it."""
    times = [each.timestamp for each in events]
    made = EventCompaction(
        start_timestamp=min(times), end_timestamp=max(times), compacted_content=said("all of it")
    )
    return Event(author="user", actions=EventActions(compaction=made))


async def sessions(budgets: Budgets) -> None:
    """Sessions, short and with segments, by processes that know them and that do not."""
    one = budgets.store()
    service = one.store.sessions
    held = await one.measure("create_session", service.create_session, **WHO, state={"mine": 1})
    await one.measure("append_event", service.append_event, held, event("hello"))
    await one.measure(
        "append_event with state of user and app",
        service.append_event,
        held,
        event("x", **{"user:a": 1, "app:a": 1}),
    )
    await one.measure("get_session, known", service.get_session, **WHO)
    other = budgets.store()
    await other.measure("get_session, unknown", other.store.sessions.get_session, **WHO)
    await other.measure("list_sessions of a user", other.store.sessions.list_sessions, **USER)
    await other.measure("list_sessions of an app", other.store.sessions.list_sessions, app_name="app")
    page = other.store.sessions.list_sessions_page
    await other.measure("list_sessions_page of a user", page, **USER)
    await other.measure("list_sessions_page of an app", page, app_name="app")
    await other.measure(
        "list_sessions_page of an app, without state", page, app_name="app", include_state=False
    )
    await other.measure("get_session_info", other.store.sessions.get_session_info, **WHO)
    await other.measure("update_session_info", other.store.sessions.update_session_info, **WHO, title="One")
    await one.measure("append_event after an update_session_info", service.append_event, held, event("y"))
    await other.measure("get_user_state", other.store.sessions.get_user_state, **USER)
    await one.measure("delete_session", service.delete_session, **WHO)


async def behind(budgets: Budgets) -> None:
    """Appends that return before they are stored."""
    one = budgets.store(durability="turn")
    service = one.store.sessions
    held = await one.does(service.create_session, **WHO)

    async def append_and_flush() -> None:
        for number in range(3):
            await service.append_event(held, event(f"{number}"))
        await service.flush()

    await one.measure("flush of 3 events, durability=turn", append_and_flush)
    await one.measure("flush of nothing", service.flush)


async def long_session(budgets: Budgets) -> Session:
    """Make a session of 60 events, most of them in segments."""
    plain = budgets.service.beside(session_limits=SEALED)
    held = await plain.sessions.create_session(**WHO)
    for number in range(60):
        each = event(f"{number} " * 20)
        each.timestamp = 1_000.0 + number
        await plain.sessions.append_event(held, each)
    return held


async def long_sessions(budgets: Budgets) -> None:
    """A session of 60 events, most of them in segments."""
    held = await long_session(budgets)
    one = budgets.store(session_limits=SEALED)
    service = one.store.sessions
    await one.measure("get_session with segments, unknown", service.get_session, **WHO)
    await one.measure("get_session with segments, known", service.get_session, **WHO)
    new = budgets.store(session_limits=SEALED)
    await new.measure("get_session_at", new.store.sessions.get_session_at, **WHO, at=Point.position(20))
    for what, work, ids in (
        ("iter_events", SessionService.iter_events, WHO),
        ("iter_user_events", SessionService.iter_user_events, USER),
        ("check", SessionService.check, {}),
    ):
        reader = budgets.store(session_limits=SEALED)
        await reader.measure(what, all_of, work, reader.store.sessions, **ids)
    reader = budgets.store(session_limits=SEALED)
    await reader.measure("get_session_usage", reader.store.sessions.get_session_usage, **WHO)
    await new.measure("verify_session", new.store.sessions.verify_session, **WHO)
    await new.measure(
        "fork_session", new.store.sessions.fork_session, **WHO, at=Point.position(50), to_session_id="fork"
    )
    await new.measure("restore_session", new.store.sessions.restore_session, **WHO, at=Point.position(50))
    await budgets.service.beside().sessions.fork_session(**WHO, to_session_id="back")
    back = {**WHO, "session_id": "back"}
    at = Point.position(5)
    await new.measure("restore_session, far back", new.store.sessions.restore_session, **back, at=at)
    await new.measure(
        "redact_event", new.store.sessions.redact_event, **WHO, event_id=held.events[5].id, reason="asked"
    )
    await new.measure("delete_session with segments", new.store.sessions.delete_session, **WHO)


async def parts_of_sessions(budgets: Budgets) -> None:
    """Some events of such a session, and those of a user; each by a process that knows nothing yet."""
    held = await long_session(budgets)
    last = held.events[-1].timestamp
    for what, config in (
        ("the newest event", GetSessionConfig(num_recent_events=1)),
        ("no event", GetSessionConfig(num_recent_events=0)),
        ("the newest 30 events", GetSessionConfig(num_recent_events=30)),
        ("events after a time", GetSessionConfig(after_timestamp=last)),
    ):
        one = budgets.store(session_limits=SEALED)
        await one.measure(f"get_session, {what}", one.store.sessions.get_session, **WHO, config=config)
    for what, more in (("oldest", {}), ("newest", {"direction": "backward"})):
        one = budgets.store(session_limits=SEALED)
        await one.measure(
            f"iter_events, the {what} event", all_of, one.store.sessions.iter_events, **WHO, limit=1, **more
        )
    found = await one.does(all_of, one.store.sessions.iter_user_events, **USER)
    for what, place in (
        ("after a time in segments", {"after": held.events[30].timestamp}),
        ("after the time of the last one", {"after": last}),
        ("after a cursor", {"cursor": found[-1].cursor}),
    ):
        one = budgets.store(session_limits=SEALED)
        await one.measure(
            f"iter_user_events, {what}", all_of, one.store.sessions.iter_user_events, **USER, **place
        )
    for number in range(20):
        short = await one.does(one.store.sessions.create_session, app_name="app", user_id="other")
        await one.does(one.store.sessions.append_event, short, event(f"{number}"))
    of_other: dict[str, Any] = {"app_name": "app", "user_id": "other"}
    await one.measure(
        "iter_user_events of 20 sessions", all_of, one.store.sessions.iter_user_events, **of_other
    )


async def usage(budgets: Budgets) -> None:
    """No payload is read, except for one that is a whole event; what is known is not read again."""
    held = await long_session(budgets)
    plain = budgets.service.beside(session_limits=SEALED)
    one = budgets.store(session_limits=SEALED)
    await one.does(one.store.sessions.get_session_usage, **WHO)
    shown = Event(
        author="user",
        content=types.Content(parts=[types.Part.from_bytes(data=bytes(100_000), mime_type="a/b")]),
    )
    for what, last in (("a picture", shown), ("a long event", event("x" * 300_000))):
        await plain.sessions.append_event(held, last)
        await one.measure(
            f"get_session_usage, known, with {what}", one.store.sessions.get_session_usage, **WHO
        )


async def pages(budgets: Budgets) -> None:
    """Pages of sessions of several users, by labels, and beside large state of the app."""
    one = budgets.store()
    service = one.store.sessions
    for number in range(9):
        who: dict[str, Any] = {"app_name": "app", "user_id": f"u{number % 5}", "session_id": f"{number}"}
        await one.does(service.create_session, **who)
        if number < 4:
            labels = {"team": "x", "even": str(number % 2 == 0)}
            await one.does(service.update_session_info, **who, labels=labels)
    page = partial(one.measure, work=service.list_sessions_page, app_name="app")
    await page("list_sessions_page, one session of a user", user_id="u0", page_size=1)
    await page("list_sessions_page, two sessions of an app", page_size=2)
    plain: dict[str, Any] = {"include_state": False}
    await page("list_sessions_page by a label", labels={"team": "x"}, **plain)
    await page("list_sessions_page by a label, then another", labels={"team": "x", "even": "True"}, **plain)
    await page(
        "list_sessions_page by the other, then the first", labels={"even": "True", "team": "x"}, **plain
    )
    await one.does(service.create_session, app_name="app", user_id="u9", state={"app:large": "x" * 70_000})
    await page("list_sessions_page, four sessions beside large state", page_size=4)


async def handles(budgets: Budgets) -> None:
    """Appends through sessions that a process did not read, or read in part."""
    one, other = budgets.store(), budgets.store()
    held = await one.does(one.store.sessions.create_session, **WHO)
    for number in range(5):
        await one.does(one.store.sessions.append_event, held, event(f"{number}"))
    append = other.store.sessions.append_event
    await other.measure("append_event, session of another process", append, held, event("first"))
    await other.measure("append_event, the next of such a session", append, held, event("second"))
    for recent in (None, 3, 0):
        new = budgets.store()
        config = GetSessionConfig(num_recent_events=recent)
        read = await new.does(new.store.sessions.get_session, **WHO, config=config)
        name = f"append_event, session read with num_recent_events={recent}"
        await new.measure(name, new.store.sessions.append_event, read, event(f"{recent}"))
    travelled = Session.model_validate_json(read.model_dump_json())
    await new.measure(
        "append_event, session without a marker", new.store.sessions.append_event, travelled, event("x")
    )
    merging = budgets.store(on_conflict="merge")
    behind = await merging.does(merging.store.sessions.get_session, **WHO)
    await new.does(new.store.sessions.append_event, travelled, event("y"))
    await merging.measure(
        "append_event, merged after another", merging.store.sessions.append_event, behind, event("z")
    )


async def seals(budgets: Budgets) -> None:
    """What sealing adds to appends: a read, and two writes for each segment."""
    one = budgets.store(session_limits=SEALED)
    held = await one.does(one.store.sessions.create_session, **WHO)

    async def append_twenty() -> None:
        for number in range(20):
            await one.store.sessions.append_event(held, event(f"{number} " * 20))
        await one.store.sessions.flush()

    await one.measure("append_event, 20 events", append_twenty)


async def renewals(budgets: Budgets) -> None:
    """A session with a time to live: its parts are renewed once in that time."""
    one = budgets.store(session_limits=SEALED)
    service = one.store.sessions
    held = await one.measure(
        "create_session with a time to live", service.create_session, **WHO, ttl_seconds=9000
    )
    for number in range(40):
        await one.does(service.append_event, held, event(f"{number} " * 20))
    stale = held.model_copy(deep=True)
    await asyncio.sleep(6000)
    await one.measure("append_event, before parts are renewed", service.append_event, held, event("early"))
    await asyncio.sleep(6000)
    large = event("late", large="x" * 70_000)
    await one.measure("append_event that renews parts, with a payload", service.append_event, held, large)
    with suppress(SessionConflictError):
        await one.measure("append_event after another writer", service.append_event, stale, event("too late"))


async def forks(budgets: Budgets) -> None:
    """Forks of a long session, and of one with a payload and an artifact."""
    await long_session(budgets)
    one = budgets.store(session_limits=SEALED)
    fork = one.store.fork_session
    await one.measure("fork_session, unknown", fork, **WHO)
    await one.measure("fork_session to another user, known", fork, **WHO, to_user_id="other")
    await one.measure("fork_session of half a session, known", fork, **WHO, at=Point.position(30))
    who = {**WHO, "session_id": "files"}
    held = await one.does(one.store.sessions.create_session, **who)
    picture = types.Part.from_bytes(data=bytes(100_000), mime_type="a/b")
    await one.does(
        one.store.sessions.append_event, held, Event(author="user", content=types.Content(parts=[picture]))
    )
    await one.measure("fork_session with a payload", fork, **who)
    for name in ("f", "g"):
        await one.does(
            one.store.artifacts.save_artifact, **who, filename=name, artifact=types.Part(text=name)
        )
    await one.measure("fork_session with a payload and two artifacts", fork, **who, artifacts="all")


async def all_of(work: Callable[..., AsyncIterator[Any]], *args: Any, **options: Any) -> list[Any]:
    """Return all that *work* yields."""
    return [each async for each in work(*args, **options)]


async def archived(budgets: Budgets) -> None:
    """Such a session, of which the first segments go to the bucket."""
    await long_session(budgets)
    new, old = budgets.store(session_limits=SEALED), budgets.store(session_limits=SEALED)
    before = Point.position(22)
    await new.measure("archive_session", new.store.sessions.archive_session, **WHO, before=before)
    await old.measure("get_session with archived segments, unknown", old.store.sessions.get_session, **WHO)
    at = Point.position(5)
    await old.measure("get_session_at an archived event", old.store.sessions.get_session_at, **WHO, at=at)


async def summarized(budgets: Budgets) -> None:
    """The same with a summary of these events, and some after it."""
    held = await long_session(budgets)
    plain = budgets.service.beside(session_limits=SEALED)
    for _ in range(2):
        await plain.sessions.append_event(held, summary_of(held.events))
        for number in range(4):
            await plain.sessions.append_event(held, event(f"{number} " * 20))
    one = budgets.store(session_limits=SEALED, history="since_compaction")
    await one.measure("get_session since a compaction, unknown", one.store.sessions.get_session, **WHO)
    await one.measure("get_session since a compaction, known", one.store.sessions.get_session, **WHO)
    for number in range(9):
        held = await one.does(one.store.sessions.get_session, **WHO)
        await one.does(one.store.sessions.append_event, held, event(f"{number} " * 20))
    other = budgets.store(session_limits=SEALED, history="since_compaction")
    await other.measure("get_session since a compaction, sealed", other.store.sessions.get_session, **WHO)


async def turns(budgets: Budgets) -> None:
    """Turns of six events: a message, two calls of a tool with their responses, and the answer."""
    for durability in ("turn", "event"):
        who = {**WHO, "session_id": durability}
        await budgets.service.beside().sessions.create_session(**who)
        one = budgets.store(durability=durability)
        speaking = runner(one.store.sessions, app="app", calls=2)

        async def run(one: Measured = one, speaking: Any = speaking, session: str = durability) -> None:
            events = one.store.turns.run(
                speaking, user_id="user", session_id=session, new_message=said("hello")
            )
            assert len([each async for each in events]) == 5  # without the message

        for known in ("unknown", "known"):
            await one.measure(f"a turn of six events, durability={durability}, {known}", run)
            speaking.agent.model.calls += 2  # type: ignore[attr-defined]  # those of the turn before are answered
    who = {**WHO, "session_id": "turn"}
    holder, other = budgets.store(), budgets.store()
    await other.measure("turns.repair of a session with nothing to repair", other.store.turns.repair, **who)
    async with budgets.counted("begin of turns.hold"):
        await holder.does(holder.store.turns.take, **who)
    await other.measure("turns.status", other.store.turns.status, **who)


async def busy_turns(budgets: Budgets) -> None:
    """Messages to a session of 60 events, most of them in segments, while a turn runs."""
    await long_session(budgets)
    one, other, third = (budgets.store(session_limits=SEALED) for _ in range(3))

    async def left(by: Measured, name: str, on_busy: OnBusyRun = "enqueue") -> None:
        await by.measure(f"turns.run with on_busy={on_busy} during a turn, {name}", run, by.store, on_busy)

    await one.does(run, one.store)
    hold = await one.does(one.store.turns.begin, **WHO)
    await left(one, "in the process that holds it")
    await left(other, "unknown")
    await left(other, "known")
    await left(third, "unknown", "reject")
    await left(third, "known", "reject")
    waiting = (await one.does(one.store.turns.status, **WHO)).waiting
    assert 3 == len(waiting)
    await third.measure("turns.withdraw", third.store.turns.withdraw, **WHO, message_id=waiting[0])
    await third.measure("turns.enqueue", third.store.turns.enqueue, **WHO, new_message=said("hello"))
    await third.measure("turns.request_abort", third.store.turns.request_abort, **WHO)
    await one.does(one.store.turns._end, hold)
    await other.does(other.store.turns.take, **WHO)
    await left(one, "in the process of the turn before")


async def run(store: Store, on_busy: OnBusyRun = "wait") -> None:
    """Say something in the session; nothing is heard while a turn of it runs."""
    speaking = runner(store.sessions, app="app", calls=0)
    who: dict[str, Any] = {"user_id": "user", "session_id": "session"}
    with suppress(SessionBusyError):
        async for _ in store.turns.run(speaking, **who, new_message=said("hello"), on_busy=on_busy):
            assert on_busy == "wait"


async def artifacts(budgets: Budgets) -> None:
    """Versions of a small file."""
    one, other = budgets.store(), budgets.store()
    part = types.Part(text="notes")
    await one.measure("save_artifact, unknown", one.store.artifacts.save_artifact, **FILE, artifact=part)
    await one.measure("save_artifact, known", one.store.artifacts.save_artifact, **FILE, artifact=part)
    await one.measure("load_artifact, known", one.store.artifacts.load_artifact, **FILE)
    await other.measure("load_artifact, unknown", other.store.artifacts.load_artifact, **FILE)
    await other.measure("load_artifact of a version", other.store.artifacts.load_artifact, **FILE, version=0)
    await other.measure("list_artifact_keys", other.store.artifacts.list_artifact_keys, **WHO)
    await other.measure("list_versions", other.store.artifacts.list_versions, **FILE)
    await other.measure("delete_artifact of 2 versions", other.store.artifacts.delete_artifact, **FILE)


async def files(budgets: Budgets) -> None:
    """Files of 9 MiB, which go in two parts, a copy, and the upload of a browser."""
    one, other = budgets.store(), budgets.store()
    saved, copied = one.store.artifacts, {"to_filename": "copy.txt"}
    large, upload = bytes(9 * 1024 * 1024), "0" * 32
    save = saved.save_artifact_file
    await one.measure("save_artifact_file of 9 MiB, unknown", save, **FILE, source=io.BytesIO(large))
    await one.measure("save_artifact_file of 1 byte, known", save, **FILE, source=io.BytesIO(b"1"))
    load = other.store.artifacts.load_artifact_to
    await other.measure("load_artifact_to of 9 MiB", load, **FILE, target=io.BytesIO(), version=0)
    await one.measure("get_artifact_version of the latest", saved.get_artifact_version, **FILE)
    await one.measure("list_artifact_versions", saved.list_artifact_versions, **FILE)
    await one.measure("open_artifact", saved.open_artifact, **FILE)
    await one.measure("load_artifact of none", saved.load_artifact, **{**FILE, "filename": "none"})
    await one.measure("copy_artifact, unknown target", saved.copy_artifact, **FILE, **copied)
    await one.measure("copy_artifact, known target", saved.copy_artifact, **FILE, **copied)
    await one.measure("get_artifact_version of a version", saved.get_artifact_version, **FILE, version=0)
    await put_upload(budgets.service.beside(), FILE, upload, b"uploaded")
    sweep = saved.delete_session_artifacts
    await one.measure("delete_session_artifacts, dry run", sweep, **WHO, dry_run=True)
    await other.measure("finalize_upload", other.store.artifacts.finalize_upload, **FILE, upload_id=upload)


async def tasks(budgets: Budgets) -> None:
    """A task of A2A, and who is notified of it."""
    one, other, context = budgets.store(), budgets.store(), context_of("user")
    saved, found = one.store.tasks, other.store.tasks
    config = TaskPushNotificationConfig(id="a", task_id="t1", url="https://example.com")
    await one.measure("save of a new task", saved.save, new_task(), context)
    await other.measure("get of a task", found.get, "t1", context)
    ended = new_task(state=TaskState.TASK_STATE_COMPLETED)
    await one.measure("save of another object of a task", saved.save, ended, context)
    await one.measure("save of the same object of a task", saved.save, ended, context)
    await other.measure("list of tasks", found.list, ListTasksRequest(), context)
    set_by, read_by = one.store.push_notification_configs, other.store.push_notification_configs
    await one.measure("set_info of a push config", set_by.set_info, "t1", config, context)
    await other.measure("get_info of push configs", read_by.get_info, "t1", context)
    await other.measure("get_info_for_dispatch", read_by.get_info_for_dispatch, "t1")
    await other.measure("delete_info of push configs", read_by.delete_info, "t1", context)
    await other.measure("delete of a task", found.delete, "t1", context)
    for number in range(3):
        await one.does(saved.save, new_task(f"t{number}"), context)
    await one.does(set_by.set_info, "t1", config, context)
    await one.measure("delete_owner_configs of 1 config", set_by.delete_owner_configs, owner="user")
    await one.measure("delete_owner_tasks of 3 tasks", saved.delete_owner_tasks, owner="user")


async def memories(budgets: Budgets) -> None:
    """Memories of a user, found by words."""
    one, other = budgets.store(), budgets.store()
    memory = MemoryEntry(content=said("Ada likes tea"))
    await one.measure("add_memory", one.store.memory.add_memory, **USER, memories=[memory])
    await other.measure("search_memory, unknown", other.store.memory.search_memory, **USER, query="tea")
    await other.measure("search_memory, known", other.store.memory.search_memory, **USER, query="tea")
    held = await one.does(one.store.sessions.create_session, **WHO)
    await one.does(one.store.sessions.append_event, held, event("Bob likes milk"))
    await one.measure("add_session_to_memory", one.store.memory.add_session_to_memory, held)
    page = await other.measure("list_memories", other.store.memory.list_memories, **USER)
    of: dict[str, Any] = {**USER, "memory_id": page.memories[0].id}
    await other.measure("update_memory", other.store.memory.update_memory, **of, content=said("Ada likes it"))
    await other.measure("delete_memory", other.store.memory.delete_memory, **of)


async def many_memories(budgets: Budgets) -> None:
    """Memories of 3 kB each, which divide their documents; found by words, and then by vectors, too."""
    for what, embedder in (("words", None), ("vectors", PartsEmbedder(2560))):
        of: dict[str, Any] = {"app_name": "app", "user_id": what}
        one, other = budgets.store(embedder=embedder), budgets.store(embedder=embedder)
        memory, turns = one.store.memory, [event("first"), event("second")]
        for name, events in (("unknown", turns[:1]), ("known", turns), ("nothing new", turns)):
            held = Session(id="s", events=events, **of)
            await one.measure(f"add_session_to_memory, {what}, {name}", memory.add_session_to_memory, held)
        # Of the same length: a shard takes in an earlier one only if that is no larger, by a byte.
        notes = [event(f"note {number:04} {'x ' * 1500}") for number in range(140)]
        add = memory.add_events_to_memory
        await one.measure(f"add_events_to_memory, {what}, 140 events", add, events=notes, **of)
        search, cold = memory.search_memory, other.store.memory.search_memory
        await one.measure(f"search_memory, {what}, 140 known", search, query="second", **of)
        await one.measure(f"delete_memory, {what}, of 140", memory.delete_memory, memory_id=notes[0].id, **of)
        await other.measure(f"search_memory, {what}, 140 unknown", cold, query="second", **of)
        if embedder:
            plain = budgets.store()
            by_words = plain.store.memory.search_memory
            await plain.measure("search_memory of vectors by words, unknown", by_words, query="second", **of)
            await other.measure("reindex_memories", other.store.memory.reindex_memories, **of)
        await one.measure(f"delete_user_memory, {what}, of 140", memory.delete_user_memory, **of)


PAGES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("", {}),
    ("usage", OF_ADA),
    ("find", {**OF_ADA, "errors": 1}),
    ("users", {"app": "support"}),
    ("sessions", OF_ADA),
    ("session", CALM_PLACE),
    ("session", {**CALM_PLACE, "order": "newest"}),
    ("events", CALM_PLACE),
    ("timeline", CALM_PLACE),
    ("search", {**CALM_PLACE, "errors": 1}),
    ("compare", {**CALM_PLACE, "other": "s1"}),
    ("matrix", CALM_PLACE),
    ("state", CALM_PLACE),
    ("state", {**CALM_PLACE, "event": 5}),
    ("difference", CALM_PLACE),
    ("vitals", CALM_PLACE),
    ("raw", CALM_PLACE),
    ("memories", OF_ADA),
    ("memories", {**OF_ADA, "q": "parcel"}),
    ("artifacts", CALM_PLACE),
    ("artifact", {**CALM_PLACE, "name": "plot.png"}),
    ("artifact", {**CALM_PLACE, "name": "notes.txt"}),
    ("artifact", {**CALM_PLACE, "name": "notes.txt", "against": 0}),
    ("content", {**CALM_PLACE, "name": "plot.png", "version": 0}),
)
"""Pages of the inspector in order: the process knows segments that earlier pages read."""


async def inspector(budgets: Budgets) -> None:
    """The pages on an agent's story, and one link of each kind that a conversation and a matrix have."""
    await fill_calm(budgets.service.beside(session_limits=STORY_LIMITS))
    one = budgets.store(session_limits=STORY_LIMITS)
    app = create_app(one.store, authorize=lambda *asked: True, reveal="always")  # noqa: ARG005

    async def shown(name: str, address: str, asked: dict[str, Any] | None = None) -> str:
        answer = await one.measure(f"inspector, {name}", client.get, address, params=asked)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    async with client_of(app) as client:
        for path, parameters in PAGES:
            more = [f"{key}={value}" for key, value in parameters.items() if key not in CALM_PLACE]
            page = await shown(" ".join([f"/{path}", *more]), f"/{path}", parameters)
            if path in ("session", "matrix") and not more:
                found = (link.get("href") or link["src"] for link in _links(page))
                links = {each.partition("?")[0]: each for each in found if each.startswith("/")}
                assert links.keys() >= {"session": {"/event", "/part"}, "matrix": {"/change"}}[path]
                for kind in sorted(links.keys() & {"/event", "/part", "/change"}):
                    await shown(f"link to {kind} of /{path}", links[kind])


def _links(page: str) -> list[dict[str, Any]]:
    read = Read(page)
    return [*read.all("a"), *read.all("img")]


async def copies(budgets: Budgets) -> None:
    """Sessions of two users, one of which has 60 events, from a service of ADK's and out of this store."""
    source, options = InMemorySessionService(), {"session_limits": SEALED}
    await fill(source, [("ada", "s1", many(60)), ("ada", "s2", []), ("bob", "s1", many(3))])
    one, other, third = (budgets.store(**options) for _ in range(3))
    await one.measure("copy of 3 sessions", copy, source, one.store.sessions, app_name=APP)
    await other.measure("copy of 3 sessions that are there", copy, source, other.store.sessions, app_name=APP)
    file = io.BytesIO()
    records = records_of(third.store.sessions, APP)
    await third.measure("export_jsonl of 3 sessions", export_jsonl, records, file, place={}, on_event=id)
    file.seek(0)
    new, users = budgets.store(**options), {"ada": "eve", "bob": "rob"}
    await new.measure("import_jsonl of 3 sessions", import_jsonl, file, new.store.sessions, users=users)


async def erasures(budgets: Budgets) -> None:
    """A user with a session, an artifact and a memory."""
    plain = budgets.service.beside()
    held = await plain.sessions.create_session(**WHO, state={"user:a": 1})
    await plain.sessions.append_event(held, event("hello"))
    await plain.artifacts.save_artifact(**FILE, artifact=types.Part(text="notes"))
    await plain.memory.add_memory(**USER, memories=[MemoryEntry(content=said("Ada likes tea"))])
    one = budgets.store()
    await one.measure("erase_user", one.store.erase_user, **USER)


async def upkeep(budgets: Budgets) -> None:
    """A session with a wrong number of events, an upload that nobody finalized, and a week."""
    plain, one = budgets.service.beside(), budgets.store()
    held = await plain.sessions.create_session(**WHO)
    await plain.sessions.append_event(held, event("hello"))
    await change(plain, plain.sessions.storage.layout.session(KEY), {"tail_bytes": 7})
    faults = await one.does(all_of, one.store.check)
    assert faults == await one.measure("repair", one.store.repair, faults)
    await put_upload(plain, FILE, "0" * 32, b"uploaded")
    await asyncio.sleep(7 * 86_400)
    (garbage,) = await one.measure("find_garbage", all_of, one.store.find_garbage)
    await one.measure("remove_garbage of an upload", one.store.remove_garbage, garbage)
    await one.measure("prune of a session", one.store.prune, app_name="app", idle_days=1.0)


async def encrypted(budgets: Budgets) -> None:
    """A session of a store that encrypts, and its data key."""
    old, new = (envelope_of(*keys, artifacts=True, cache_s=300.0) for keys in ((OLD,), (NEW, OLD)))
    one, other, third = (
        budgets.store(encryption=old),
        budgets.store(encryption=old),
        budgets.store(encryption=new),
    )
    service = one.store.sessions
    held = await one.measure("create_session, encrypted, the first of a user", service.create_session, **WHO)
    await one.measure("append_event, encrypted", service.append_event, held, event("hello"))
    await other.measure("get_session, encrypted, unknown key", other.store.sessions.get_session, **WHO)
    await other.measure("get_session, encrypted, known key", other.store.sessions.get_session, **WHO)
    await third.measure("rotate_keys of a user", third.store.rotate_keys)


SCENARIOS: Final = (
    sessions,
    behind,
    long_sessions,
    parts_of_sessions,
    usage,
    pages,
    handles,
    seals,
    renewals,
    forks,
    archived,
    summarized,
    turns,
    busy_turns,
    artifacts,
    files,
    tasks,
    memories,
    many_memories,
    upkeep,
    encrypted,
    erasures,
    inspector,
    copies,
)


def measured() -> dict[str, Figures]:
    """Return the figures of all operations, by name."""
    found: dict[str, Figures] = {}

    async def scenario(world: World) -> None:
        for each in SCENARIOS:
            service = Service(world)
            billed = Billed()
            documents: Any = BilledDocuments(service.backend.documents, billed)
            service.backend = replace(service.backend, documents=documents)
            keys: Any = BilledDocuments(service._keys, billed)
            service._keys = keys
            budgets = Budgets(world, service)
            await each(budgets)
            found.update(budgets.figures)

    simulate(scenario, seeds=[0], faults=Faults(latency_s=(WAY_S, WAY_S)))
    return found


def differences(found: dict[str, Figures], agreed: dict[str, Figures]) -> list[str]:
    """Return a line for each figure that is not what is agreed."""
    return [
        f"{name}: {what} {found.get(name, {}).get(what, 0)}, agreed {agreed.get(name, {}).get(what, 0)}"
        for name in sorted({*found, *agreed})
        for what in sorted({*found.get(name, {}), *agreed.get(name, {})})
        if found.get(name, {}).get(what, 0) != agreed.get(name, {}).get(what, 0)
    ]


def shown(found: dict[str, Figures]) -> str:
    """Return the table."""
    table = Table("operation", "trips", "requests", "billed: reads", "writes", "deletes", box=None)
    for name, figures in found.items():
        requests = [
            f"{number} {what}"
            for what, number in figures.items()
            if what != "trips" and not what.startswith("billed")
        ]
        billed = (str(figures.get(f"billed {what}", 0)) for what in ("reads", "writes", "deletes"))
        table.add_row(name, str(figures.get("trips", 0)), ", ".join(requests), *billed)
    out = io.StringIO()
    Console(file=out, width=140).print(table)
    return out.getvalue()


def main(arguments: Sequence[str]) -> int:
    """Print the figures; return 1 if one of them is not what is agreed."""
    found = measured()
    text = json.dumps(found, indent=2) + "\n"
    sys.stdout.write(text if "--json" in arguments else shown(found))
    if "--write" in arguments:
        AGREED.write_text(text)
        return 0
    wrong = differences(found, json.loads(AGREED.read_text()))
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    if wrong:
        sys.stderr.write("agree to them: python -m tests.simulation.budgets --write\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
