"""Measure what a turn takes of sessions: create, append, get, delete, and whole turns."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from google.adk.events import Event
from google.adk.integrations.firestore import FirestoreSessionService as AdkFirestoreSessionService
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig

from gcp_adk_store import FirestoreSessionService, HistoryConfig, Point
from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.turns import Turns
from tools.benchmarks.floors import (
    appends_at_once,
    commits_at_once,
    one_append,
    one_commit,
    one_turn,
    parsing,
    same_commit,
    tasks_that_sleep,
    two_commits,
)
from tools.benchmarks.lines import Line
from tools.benchmarks.scenario import Begin, Scenario, Step
from tools.benchmarks.stock import APP, SUMMARIZED, USER, Stock, event, who
from tools.benchmarks.stub_agent import message, runner, take_turn
from tools.benchmarks.subjects import (
    ADKS,
    DATABASE,
    FLOOR,
    IN_MEMORY,
    OURS,
    PARSING,
    RAW_BATCH_GET,
    RAW_COMMIT,
    SAME_COMMIT,
    SLEEPING,
    SMALLER,
    SQLITE,
    TWO_COMMITS,
)

_NETWORK: Final = (OURS, ADKS)
_ALL: Final = (OURS, ADKS, SQLITE, DATABASE)
_LOCAL_AT_MOST: Final = 1000
"""Events that the services on files are given; each is a transaction of its own."""
_DELTAS: Final[dict[str, dict[str, Any]]] = {
    "no delta": {},
    "session delta": {"mine": 1},
    "all scopes": {"mine": 1, "user:n": 2, "app:m": 3},
}


HELD_TURN: Final = "turn of 6 events, with a lease"


@dataclass(frozen=True, slots=True)
class On:
    """A subject's sessions over one line."""

    line: Line
    subject: str
    service: BaseSessionService


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How far scenarios go."""

    histories: tuple[int, ...]
    """Events of the conversations that are read."""
    long_history: int
    """Events of the one that is appended to."""
    deleted: int
    """Events of those that are deleted."""
    states: dict[str, int]
    """Name of a size -> how many values of 1 KB."""
    turns: int
    """Turns of the conversation whose bill is drawn."""
    sessions: int
    tasks: int
    """Tasks of each session that append at once."""


FULL: Final = Sizes(
    histories=(10, 100, 1000, 10_000),
    long_history=10_000,
    deleted=100,
    states={"1 KB": 1, "500 KB": 500},
    turns=100,
    sessions=64,
    tasks=32,
)
QUICK: Final = Sizes(
    histories=(20,),
    long_history=20,
    deleted=20,
    states={"1 KB": 1, "100 KB": 100},
    turns=10,
    sessions=8,
    tasks=4,
)


def session_scenarios(stock: Stock, sizes: Sizes) -> Iterable[Scenario]:
    """Return all of them, those that others stand on first."""
    yield _create()
    for name, delta in _DELTAS.items():
        yield _append(f"append, {name}", delta, stock.new_session)
    yield _turn(stock)
    yield _turn_by_choice(stock)
    yield _held_turn(stock)
    for events in sizes.histories:
        for cold in (False, True):
            for last in (None, 20):
                yield _get(stock, events, cold=cold, last=last)
        yield _get_at(stock, events)
    yield _get_since_compaction(stock, sizes.long_history)
    few, many = _at_history(stock, 10), _at_history(stock, sizes.long_history)
    yield _append("append at 10 events", {}, few)
    yield _append(
        f"append at {sizes.long_history:,} events", {}, many, _who_has(sizes.long_history), smaller=few
    )
    small, large = (_at_state(stock, values) for values in sizes.states.values())
    names = [f"append at {name} of state" for name in sizes.states]
    yield _append(names[0], {"k0": "y" * 1000}, small)
    yield _append(names[1], {"k0": "y" * 1000}, large, smaller=small)
    yield _throughput(stock, sizes)
    yield _delete(stock, sizes.deleted)
    yield _fork(stock, min(sizes.long_history, _LOCAL_AT_MOST))
    yield _restore(stock, sizes.long_history)
    yield _conversation(stock, sizes.turns)


def service_of(line: Line, subject: str) -> BaseSessionService | None:
    """Return the sessions of *subject* over *line*; ``None`` for files, unless it is the plain line."""
    ours: dict[str, BaseSessionService] = {OURS: line.sessions, ADKS: line.adk_sessions, **line.local}
    return ours.get(subject)


def _of(subjects: Iterable[str], make: Callable[[On], Awaitable[Step]]) -> dict[str, Begin]:
    def begin(subject: str) -> Begin:
        async def on(line: Line) -> Step | None:
            service = service_of(line, subject)
            return None if service is None else await make(On(line, subject, service))

        return on

    return {subject: begin(subject) for subject in subjects}


def _who_has(events: int) -> tuple[str, ...]:
    return _ALL if events <= _LOCAL_AT_MOST else _NETWORK


def _create() -> Scenario:
    async def make(on: On) -> Step:
        return Step(lambda: on.service.create_session(app_name=APP, user_id=USER))

    return Scenario(name="create", subjects={**_of(_ALL, make), RAW_COMMIT: one_commit})


def _append(
    name: str,
    delta: dict[str, Any],
    session: Callable[[str], Awaitable[Session]],
    subjects: tuple[str, ...] = _ALL,
    *,
    smaller: Callable[[str], Awaitable[Session]] | None = None,
) -> Scenario:
    """Append to what *session* makes; ours in turns with one that has less, to see what more costs."""

    async def make(on: On) -> Step:
        return await steps(on, session)

    async def make_smaller(line: Line) -> Step:
        assert smaller is not None
        return await steps(On(line, OURS, line.sessions), smaller)

    async def steps(on: On, session: Callable[[str], Awaitable[Session]]) -> Step:
        held = await session(on.subject)
        made = event(0, delta)

        async def before() -> None:
            nonlocal made
            made = event(0, delta)

        return Step(lambda: on.service.append_event(held, made), before)

    other: dict[str, Begin] = {} if smaller is None else {SMALLER: make_smaller}
    floors = {RAW_COMMIT: one_commit, SAME_COMMIT: same_commit(delta), FLOOR: one_append(delta)}
    return Scenario(name=name, subjects={**_of(subjects, make), **other, **floors})


def _at_history(stock: Stock, events: int) -> Callable[[str], Awaitable[Session]]:
    async def session(subject: str) -> Session:
        if events < _LOCAL_AT_MOST:
            return await stock.new_session(subject, events)
        # Its last event is enough to append to it.
        return await stock.read(subject, await stock.copied_conversation(subject, events), last=1)

    return session


def _at_state(stock: Stock, values: int) -> Callable[[str], Awaitable[Session]]:
    async def session(subject: str) -> Session:
        return await stock.new_session(subject, state={f"k{number}": "x" * 1000 for number in range(values)})

    return session


def _turn(stock: Stock) -> Scenario:
    async def make(on: On) -> Step:
        return _turns(on, stock)

    return Scenario(name="turn of 6 events", subjects=_of(_ALL, make), share=0.2)


def _turn_by_choice(stock: Stock) -> Scenario:
    """Take the same turn, ours with commits behind its appends; at its end all of it is stored."""

    async def begin(line: Line) -> Step:
        return _turns(On(line, OURS, line.turn_sessions), stock)

    async def make(on: On) -> Step:
        return _turns(on, stock)

    return Scenario(
        name='turn of 6 events, durability="turn"',
        subjects={OURS: begin, **_of((ADKS,), make)},
        share=0.2,
        counted_far=True,
    )


def _turns(on: On, stock: Stock) -> Step:
    speaking = runner(on.service, app=APP, calls=2)
    session = ""

    async def before() -> None:
        nonlocal session
        session = (await stock.new_session(on.subject)).id

    return Step(lambda: take_turn(speaking, user=USER, session=session), before)


def _held_turn(stock: Stock) -> Scenario:
    """Take the same turn under a lease, in a process that had the session's last turn.

    Beside it: the same turn in memory, which is what the runner and the agent take, and two round trips.
    """

    async def begin(line: Line) -> Step:
        speaking, turns = runner(line.turn_sessions, app=APP, calls=2), Turns(line.turn_sessions)
        session = ""

        async def take() -> None:
            said = message()
            async for _ in turns.run(speaking, user_id=USER, session_id=session, new_message=said):
                pass

        async def before() -> None:
            nonlocal session
            session = (await stock.new_session(OURS)).id
            async with turns.hold(**who(session)):
                await line.turn_sessions.get_session(**who(session))

        return Step(take, before)

    async def in_memory(line: Line) -> Step | None:
        if line.meters:
            return None
        service = InMemorySessionService()
        speaking = runner(service, app=APP, calls=2)
        session = ""

        async def before() -> None:
            nonlocal session
            session = (await service.create_session(app_name=APP, user_id=USER)).id

        return Step(lambda: take_turn(speaking, user=USER, session=session), before)

    return Scenario(
        name=HELD_TURN,
        subjects={OURS: begin, IN_MEMORY: in_memory, TWO_COMMITS: two_commits, FLOOR: one_turn(6)},
        share=0.2,
        counted_far=True,
    )


def _get(stock: Stock, events: int, *, cold: bool, last: int | None) -> Scenario:
    config = None if last is None else GetSessionConfig(num_recent_events=last)

    async def make(on: On) -> Step:
        session = who(await stock.conversation(on.subject, events))
        asked = on.service

        async def read() -> None:
            await asked.get_session(**session, config=config)

        async def forget() -> None:
            nonlocal asked
            asked = _newcomer(on.line, on.subject, on.service)

        if not cold:
            await read()
        return Step(read, forget if cold else None)

    async def batch_get(line: Line) -> Step:
        paths = _paths(await stock.conversation(OURS, events))
        return Step(lambda: line.documents.get(paths))

    whole = "whole" if last is None else f"last {last}"
    length = events if last is None else min(events, last)
    return Scenario(
        name=f"get {events:,} events, {whole}, {'cold' if cold else 'warm'}",
        subjects={
            **_of(_who_has(events), make),
            RAW_BATCH_GET: batch_get,
            PARSING: parsing(stock, events, last=last),
        },
        share=min(0.5, 50 / length),
        # ADK's own takes seconds for the longest, and does the same cold.
        at_least=3 if length <= _LOCAL_AT_MOST else 1 if cold else 2,
        large=last is None and not cold and events >= _LOCAL_AT_MOST,
    )


def _get_at(stock: Stock, events: int) -> Scenario:
    """Only this library looks at the past: at the middle of the conversation, whose segments it knows."""

    async def begin(line: Line) -> Step:
        session = who(await stock.conversation(OURS, events))
        at = Point.position(events // 2)
        await line.sessions.get_session(**session)
        return Step(lambda: line.sessions.get_session_at(**session, at=at))

    return Scenario(
        name=f"get {events:,} events at a point, warm",
        subjects={OURS: begin, PARSING: parsing(stock, events)},
        share=min(0.5, 50 / events),
    )


def _get_since_compaction(stock: Stock, events: int) -> Scenario:
    """Read what a turn needs of a long history with summaries; beside it, of one of two summaries."""

    async def steps(line: Line, events: int) -> Step:
        session = who(await stock.summarized_conversation(events))
        config = HistoryConfig(history="since_compaction")
        await line.sessions.get_session(**session, config=config)
        return Step(lambda: line.sessions.get_session(**session, config=config))

    async def begin(line: Line) -> Step:
        return await steps(line, events)

    async def smaller(line: Line) -> Step:
        return await steps(line, min(events, 2 * SUMMARIZED))

    return Scenario(
        name=f"get {events:,} events, since compaction, warm", subjects={OURS: begin, SMALLER: smaller}
    )


def _newcomer(line: Line, subject: str, service: BaseSessionService) -> BaseSessionService:
    """Return a service that knows nothing yet, over a connection that is open."""
    if subject == OURS:
        return FirestoreSessionService(client=line.client)
    if subject == ADKS:
        return AdkFirestoreSessionService(client=line.adk_sessions.client)
    return service


def _paths(session: str) -> list[str]:
    layout = Layout("adk")
    return [
        layout.session(SessionKey(app=APP, user=USER, session=session)),
        layout.app(APP),
        layout.user(UserKey(app=APP, user=USER)),
    ]


def _throughput(stock: Stock, sizes: Sizes) -> Scenario:
    appends = sizes.sessions * sizes.tasks

    async def make(on: On) -> Step:
        todo: list[tuple[Session, Event]] = []

        async def before() -> None:
            held = [await stock.new_session(on.subject) for _ in range(sizes.sessions)]
            todo[:] = [(session, event()) for session in held for _ in range(sizes.tasks)]

        async def work() -> None:
            await asyncio.gather(*(on.service.append_event(session, made) for session, made in todo))

        return Step(work, before)

    return Scenario(
        name=f"{sizes.sessions} sessions x {sizes.tasks} tasks, an append",
        subjects={
            **_of(_NETWORK, make),
            RAW_COMMIT: commits_at_once(appends, sizes.sessions),
            FLOOR: appends_at_once(sizes.sessions, sizes.tasks),
            SLEEPING: tasks_that_sleep(appends),
        },
        share=0.005,
        at_least=1,
        operations=appends,
    )


def _delete(stock: Stock, events: int) -> Scenario:
    async def make(on: On) -> Step:
        session: dict[str, Any] = {}

        async def before() -> None:
            session.update(who((await stock.new_session(on.subject, events)).id))

        return Step(lambda: on.service.delete_session(**session), before)

    return Scenario(
        name=f"delete a session of {events} events", subjects=_of(_NETWORK, make), share=0.05, at_least=3
    )


def _fork(stock: Stock, events: int) -> Scenario:
    """Only this library forks; each time by a service that knows no segment yet."""

    async def begin(line: Line) -> Step:
        session = who(await stock.conversation(OURS, events))
        asked = line.sessions

        async def forget() -> None:
            nonlocal asked
            asked = _newcomer(line, OURS, line.sessions)  # type: ignore[assignment]  # of the same class

        return Step(lambda: asked.fork_session(**session), forget)

    return Scenario(name=f"fork a session of {events:,} events", subjects={OURS: begin}, share=0.05)


def _restore(stock: Stock, events: int) -> Scenario:
    """Only this library restores; each time a copy of the conversation, to its middle."""

    async def begin(line: Line) -> Step:
        session: dict[str, Any] = {}
        at = Point.position(events // 2)

        async def copy() -> None:
            session.update(who(await stock.copied_conversation(OURS, events)))

        return Step(lambda: line.sessions.restore_session(**session, at=at), copy)

    return Scenario(
        name=f"restore a session of {events:,} events",
        subjects={OURS: begin, PARSING: parsing(stock, events)},
        share=0.02,
        at_least=3,
    )


def _conversation(stock: Stock, turns: int) -> Scenario:
    """Draw the bill of a conversation: the runner reads the session once a turn, and appends twice."""

    async def make(on: On) -> Step:
        speaking = runner(on.service, app=APP, calls=0)
        session = uuid.uuid4().hex

        async def before() -> None:
            await stock.services()[on.subject].create_session(**who(session))

        async def work() -> None:
            for _ in range(turns):
                await take_turn(speaking, user=USER, session=session)

        return Step(work, before)

    return Scenario(name=f"conversation of {turns} turns", subjects=_of(_NETWORK, make), timed=False)
