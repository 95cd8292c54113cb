"""Print what each operation and turn takes: ``python -m tests.simulation.budgets``, or ``make budgets``.

A message takes a second each way and nothing else takes time, so an operation takes as many round trips,
one after the other, as it takes pairs of seconds. The requests are those at the ports; tests/services counts
them on the wire. ``budgets.json`` beside this file has what is agreed; any other figure is an error, a lower
one, too. ``--write`` agrees to what is measured, ``--json`` prints it.
"""

import io
import itertools
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from rich.console import Console
from rich.table import Table

from gcp_adk_store import Point, SessionBusyError, SessionLimits, Store
from gcp_adk_store.codec.writes import Delete, Document, Page, Write, Written
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.testing.simulation import Faults, Process, Service, World, simulate
from gcp_adk_store.turns.service import OnBusyRun
from tests.simulation.test_turns import said
from tools.benchmarks.stub_agent import runner

AGREED: Final = Path(__file__).with_suffix(".json")
WAY_S: Final = 1.0
WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session"}
USER: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user"}
FILE: Final[dict[str, Any]] = {**WHO, "filename": "notes.txt"}
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

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self.billed = Billed()

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
        documents.billed = Billed()
        before, began = Counter(self.world.fates.counts), self.world.now
        yield
        kinds = Counter(self.world.fates.counts)
        kinds.subtract(before)
        billed = documents.billed
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
    await other.measure("get_session_info", other.store.sessions.get_session_info, **WHO)
    await other.measure("update_session_info", other.store.sessions.update_session_info, **WHO, title="One")
    await one.measure("append_event after an update_session_info", service.append_event, held, event("y"))
    await other.measure("get_user_state", other.store.sessions.get_user_state, **USER)
    await one.measure("delete_session", service.delete_session, **WHO)


async def long_sessions(budgets: Budgets) -> None:
    """A session of 60 events, most of them in segments."""
    plain = budgets.service.beside(session_limits=SEALED)
    held = await plain.sessions.create_session(**WHO)
    for number in range(60):
        await plain.sessions.append_event(held, event(f"{number} " * 20))
    one = budgets.store(session_limits=SEALED)
    service = one.store.sessions
    await one.measure("get_session with segments, unknown", service.get_session, **WHO)
    await one.measure("get_session with segments, known", service.get_session, **WHO)
    new = budgets.store(session_limits=SEALED)
    await new.measure("get_session_at", new.store.sessions.get_session_at, **WHO, at=Point.position(20))
    await new.measure("verify_session", new.store.sessions.verify_session, **WHO)
    await new.measure(
        "fork_session", new.store.sessions.fork_session, **WHO, at=Point.position(50), to_session_id="fork"
    )
    await new.measure("restore_session", new.store.sessions.restore_session, **WHO, at=Point.position(50))
    await new.measure(
        "redact_event", new.store.sessions.redact_event, **WHO, event_id=held.events[5].id, reason="asked"
    )
    await new.measure("delete_session with segments", new.store.sessions.delete_session, **WHO)


async def archived(budgets: Budgets) -> None:
    """Such a session, of which the first segments go to the bucket."""
    plain = budgets.service.beside(session_limits=SEALED)
    held = await plain.sessions.create_session(**WHO)
    for number in range(60):
        await plain.sessions.append_event(held, event(f"{number} " * 20))
    new, old = budgets.store(session_limits=SEALED), budgets.store(session_limits=SEALED)
    before = Point.position(22)
    await new.measure("archive_session", new.store.sessions.archive_session, **WHO, before=before)
    await old.measure("get_session with archived segments, unknown", old.store.sessions.get_session, **WHO)
    at = Point.position(5)
    await old.measure("get_session_at an archived event", old.store.sessions.get_session_at, **WHO, at=at)


async def summarized(budgets: Budgets) -> None:
    """The same with a summary of these events, and some after it."""
    plain = budgets.service.beside(session_limits=SEALED)
    held = await plain.sessions.create_session(**WHO)
    for number in range(60):
        await plain.sessions.append_event(held, event(f"{number} " * 20))
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
    async with budgets.counted("begin of turns.hold"):
        await holder.does(holder.store.turns.take, **who)
    await other.measure("turns.status", other.store.turns.status, **who)


async def busy_turns(budgets: Budgets) -> None:
    """Messages to a session of 60 events, most of them in segments, while a turn runs."""
    plain = budgets.service.beside(session_limits=SEALED)
    held = await plain.sessions.create_session(**WHO)
    for number in range(60):
        await plain.sessions.append_event(held, event(f"{number} " * 20))
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
    assert 3 == len((await one.does(one.store.turns.status, **WHO)).waiting)
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


async def memories(budgets: Budgets) -> None:
    """Memories of a user, found by words."""
    one, other = budgets.store(), budgets.store()
    memory = MemoryEntry(content=said("Ada likes tea"))
    await one.measure("add_memory", one.store.memory.add_memory, **USER, memories=[memory])
    await other.measure("search_memory, unknown", other.store.memory.search_memory, **USER, query="tea")
    await other.measure("search_memory, known", other.store.memory.search_memory, **USER, query="tea")


async def erasures(budgets: Budgets) -> None:
    """A user with a session, an artifact and a memory."""
    plain = budgets.service.beside()
    held = await plain.sessions.create_session(**WHO, state={"user:a": 1})
    await plain.sessions.append_event(held, event("hello"))
    await plain.artifacts.save_artifact(**FILE, artifact=types.Part(text="notes"))
    await plain.memory.add_memory(**USER, memories=[MemoryEntry(content=said("Ada likes tea"))])
    one = budgets.store()
    await one.measure("erase_user", one.store.erase_user, **USER)


SCENARIOS: Final = (
    sessions,
    long_sessions,
    archived,
    summarized,
    turns,
    busy_turns,
    artifacts,
    memories,
    erasures,
)


def measured() -> dict[str, Figures]:
    """Return the figures of all operations, by name."""
    found: dict[str, Figures] = {}

    async def scenario(world: World) -> None:
        for each in SCENARIOS:
            service = Service(world)
            documents: Any = BilledDocuments(service.backend.documents)
            service.backend = replace(service.backend, documents=documents)
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
