"""Send what an operation has to send, and parse what it has to parse, and do nothing else.

With the same client, no store is faster. A target that is out of reach becomes a multiple of it.
"""

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any, Final

from google.adk.events import Event
from google.adk.sessions import BaseSessionService

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.writes import Write
from gcp_adk_store.kernel.ports import Documents
from gcp_adk_store.model.appends import Append, Marker, marker_of, text_of, turns_of
from gcp_adk_store.model.keys import SessionKey, UserKey
from gcp_adk_store.model.state import split_scopes
from tools.benchmarks.lines import Line
from tools.benchmarks.scenario import Begin, Step
from tools.benchmarks.stock import USER, Stock, event
from tools.benchmarks.subjects import OURS

_LAYOUT: Final = Layout("adk")
_PARSED_AT_ONCE: Final = 64
"""Events that are parsed before the loop runs other tasks: about 2 ms."""


class RawSession:
    """A session that nothing else uses, and appends to it."""

    def __init__(self, documents: Documents, key: SessionKey, marker: Marker) -> None:
        self._documents = documents
        self._key = key
        self._marker = marker

    @classmethod
    async def create(cls, sessions: BaseSessionService, documents: Documents) -> "RawSession":
        """Create one by *sessions*, which have the same *documents*."""
        session = await sessions.create_session(app_name=f"floor-{uuid.uuid4().hex}", user_id=USER)
        marker = marker_of(session)
        assert marker is not None
        return cls(documents, SessionKey(app=session.app_name, user=USER, session=session.id), marker)

    def encoded(self, events: Sequence[Event]) -> tuple[Append, list[Write]]:
        """Return what a Commit of *events* sends."""
        last = events[-1]
        append = Append(
            texts=tuple(made.model_dump_json(exclude_none=True) for made in events),
            timestamp=last.timestamp,
            delta=split_scopes(last.actions.state_delta),
            turns=turns_of(last),
            last_text=text_of(last),
        )
        return append, _LAYOUT.append_writes(self._key, append, self._marker)

    async def commit(self, append: Append, writes: Sequence[Write]) -> None:
        """Send them."""
        written, *_ = await self._documents.commit(writes)
        self._marker = self._marker.advanced(append, written.update_time, None)

    async def append(self, events: Sequence[Event]) -> None:
        """Encode *events* and send them in one Commit."""
        await self.commit(*self.encoded(events))

    async def read_states(self) -> None:
        """Read what a turn reads of a session that the process knows: the state of its app and user."""
        user = UserKey(app=self._key.app, user=self._key.user)
        await self._documents.get([_LAYOUT.app(self._key.app), _LAYOUT.user(user)])


async def raw_commit(line: Line) -> None:
    """Write one small document."""
    write = Write(path="floor/one", fields={"n": 1}, mask=[("n",)])
    await line.documents.commit([write])


async def one_commit(line: Line) -> Step:
    """Write one small document."""
    return Step(lambda: raw_commit(line))


async def two_commits(line: Line) -> Step:
    """Write one small document twice, one after the other."""

    async def work() -> None:
        await raw_commit(line)
        await raw_commit(line)

    return Step(work)


def commits_at_once(times: int, sessions: int) -> Begin:
    """Write small documents, as many at a time as there are *sessions*."""

    async def begin(line: Line) -> Step | None:
        async def work() -> None:
            todo = iter(range(times))

            async def some() -> None:
                for number in todo:
                    write = Write(path=f"floor/{number % sessions}", fields={"n": 1}, mask=[("n",)])
                    await line.documents.commit([write])

            await asyncio.gather(*(some() for _ in range(sessions)))

        return None if line.meters else Step(work)

    return begin


def same_commit(delta: dict[str, Any]) -> Begin:
    """Send what an append of *delta* sends; it is encoded beforehand."""

    async def begin(line: Line) -> Step:
        session = await RawSession.create(line.sessions, line.documents)
        append, writes = session.encoded([event(0, delta)])

        async def before() -> None:
            nonlocal append, writes
            append, writes = session.encoded([event(0, delta)])

        return Step(lambda: session.commit(append, writes), before)

    return begin


def one_append(delta: dict[str, Any]) -> Begin:
    """Encode an event with *delta* and send what an append of it sends."""

    async def begin(line: Line) -> Step:
        session = await RawSession.create(line.sessions, line.documents)
        made = event(0, delta)

        async def before() -> None:
            nonlocal made
            made = event(0, delta)

        return Step(lambda: session.append([made]), before)

    return begin


def appends_at_once(sessions: int, tasks: int) -> Begin:
    """Encode *tasks* events for each of so many sessions, and send them in one Commit for each session."""

    async def begin(line: Line) -> Step:
        held: list[tuple[RawSession, list[Event]]] = []

        async def before() -> None:
            held[:] = [
                (await RawSession.create(line.sessions, line.documents), [event() for _ in range(tasks)])
                for _ in range(sessions)
            ]

        async def work() -> None:
            await asyncio.gather(*(session.append(events) for session, events in held))

        return Step(work, before)

    return begin


def tasks_that_sleep(times: int) -> Begin:
    """Begin so many tasks at once that wait for a timer, as each append does for its commit."""

    async def begin(line: Line) -> Step | None:
        async def work() -> None:
            await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(times)))

        return None if line.delay_ms or line.meters else Step(work)

    return begin


def one_turn(events: int) -> Begin:
    """Send what a turn of so many events sends: a Commit beside the read of the states, and a Commit."""

    async def begin(line: Line) -> Step:
        session = await RawSession.create(line.sessions, line.documents)
        made = [event(number) for number in range(events)]

        async def before() -> None:
            nonlocal made
            made = [event(number) for number in range(events)]

        async def work() -> None:
            await asyncio.gather(session.append(made[:1]), session.read_states())
            await session.append(made[1:])

        return Step(work, before)

    return begin


def parsing(stock: Stock, events: int, *, last: int | None = None) -> Begin:
    """Parse the texts of the *last* of so many events, or of all."""

    async def begin(line: Line) -> Step | None:
        if line.delay_ms or line.meters:
            return None
        held = await stock.read(OURS, await stock.conversation(OURS, events))
        texts = [made.model_dump_json(exclude_none=True) for made in held.events[-(last or events) :]]

        async def parse() -> list[Event]:
            # All are kept, as whoever returns them has them: the garbage collector looks through them.
            parsed: list[Event] = []
            for number, text in enumerate(texts):
                if number % _PARSED_AT_ONCE == _PARSED_AT_ONCE - 1:
                    await asyncio.sleep(0)
                parsed.append(Event.model_validate_json(text))
            return parsed

        return Step(parse)

    return begin
