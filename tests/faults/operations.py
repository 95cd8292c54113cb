"""The operations whose every step is failed: what comes before them, and what their callers do then."""

import asyncio
import contextlib
import io
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from a2a.types import Artifact, ListTasksRequest, Part, Task, TaskPushNotificationConfig
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import (
    ArtifactService,
    MemoryService,
    Point,
    SessionBusyError,
    SessionExistsError,
    SessionService,
    Store,
    StoreError,
)
from gcp_adk_store.codec.names import upload_name
from gcp_adk_store.kernel.calls import operation
from gcp_adk_store.model.keys import ArtifactKey, SessionKey
from gcp_adk_store.sessions.append.turn import HeldTurn, enter, leave
from gcp_adk_store.tasks import PushNotificationConfigStore, TaskStore
from gcp_adk_store.testing.conformance.running import read
from gcp_adk_store.turns import Turns
from tests.faults.world import DAY_S, NOW, World
from tests.support.small_pieces import TASK_PIECE_BYTES
from tests.support.stored import put_session
from tests.tasks.conftest import of
from tools.benchmarks.memory_embedder import PartsEmbedder

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
OWNER: dict[str, Any] = {"app_name": "app", "user_id": "user"}
MESSAGE = types.Content(role="user", parts=[types.Part(text="hello")])
ONE_EACH = {"seal_tail_bytes": 1}
ALL_SCOPES = {"mine": "m" * 200, "small": 1, "user:mine": "u" * 200, "app:mine": "a" * 200}


def event(number: int, *, picture: bool = False, delta: dict[str, Any] | None = None) -> Event:
    """Return an event that is the same in every run."""
    parts = [types.Part(text=f"event {number}")]
    if picture:
        parts.append(
            types.Part(inline_data=types.Blob(data=b"picture %d" % number * 50, mime_type="image/png"))
        )
    return Event(
        id=f"event-{number}",
        author="user",
        invocation_id="invocation",
        timestamp=NOW + number,
        content=types.Content(role="user", parts=parts),
        actions=EventActions(state_delta=delta or {}),
    )


class Operation:
    """One call of a service."""

    def __init__(
        self,
        call: Callable[..., Any] | None = None,
        *,
        writes: bool = True,
        atomic: bool = True,
        **options: Any,
    ) -> None:
        """Prepare *call*, which gets what the caller has at hand; a class that acts by itself has none.

        Args:
            call: What is called.
            writes: Whether it changes anything.
            atomic: Whether it happens as a whole or not at all; else it may be left half done until it is
                called again.
            options: Of the session service; ``bucket`` says where its large content lies.
        """
        self._call = call
        self.writes = writes
        self.atomic = atomic
        self._options = options

    async def prepare(self, world: World) -> None:
        """Make what is there before."""

    async def attach(self, world: World) -> Any:
        """Return what the caller has at hand: services, a session."""
        return world.sessions(acting=True, **self._options)

    async def act(self, held: Any) -> Any:
        """Do it; the steps of this are what fails."""
        assert self._call is not None
        return await self._call(held)

    async def recover(self, world: World) -> None:
        """Do what a caller does who does not know the outcome."""
        await self.act(await self.attach(world))

    async def check(self, world: World, held: Any, before: Any, error: Exception | None) -> None:
        """Compare what the caller holds with what is stored."""

    async def go_on(self, held: Any) -> None:
        """Use what the caller holds, as after any success."""

    def snapshot(self, held: Any) -> Any:
        """Return what a failed call must leave as it was."""
        del held

    def small_segments(self, world: World) -> SessionService:
        """Return a service of which each event is a segment of its own."""
        return world.sessions(limits=ONE_EACH, **self._options)


class Create(Operation):
    """``create_session``."""

    def __init__(self, *, expired: bool = False, state: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(atomic=not expired, **options)  # the old one goes first
        self._state = state
        self._expired = expired

    async def prepare(self, world: World) -> None:
        """Make another session of the user, and an expired one of the id."""
        service = world.sessions(**self._options)
        await service.create_session(**OWNER, session_id="other", state={"user:known": "k", "app:known": "k"})
        if self._expired:
            old = await service.create_session(**WHO, ttl_seconds=1, state={"old": "o" * 200})
            await service.append_event(old, event(0, picture=True))
            world.now = NOW + 2

    async def act(self, held: Any) -> Any:
        return await held.create_session(**WHO, state=self._state)

    async def recover(self, world: World) -> None:
        """Try again; it may exist."""
        try:
            await super().recover(world)
        except SessionExistsError:
            assert await world.sessions(**self._options).get_session(**WHO)


class Append(Operation):
    """``append_event``."""

    def __init__(
        self,
        *,
        earlier: int = 1,
        others: bool = False,
        bare: bool = False,
        ttl_seconds: float | None = None,
        make: Callable[[], Event] = lambda: event(1),
        **options: Any,
    ) -> None:
        self._earlier = earlier
        self._others = others
        self._bare = bare
        self._ttl_seconds = ttl_seconds
        self._make = make
        super().__init__(**options)

    async def prepare(self, world: World) -> None:
        """Make the session and its earlier events."""
        service = world.sessions(**self._options)
        held = await service.create_session(**WHO, state={"mine": "old" * 100}, ttl_seconds=self._ttl_seconds)
        for number in range(self._earlier):
            await service.append_event(held, event(100 + number, picture=True))
        await service.flush()

    async def attach(self, world: World) -> Any:
        others = world.sessions(**self._options)
        held = await read(others, WHO)
        if self._ttl_seconds is not None:
            # Twice nine tenths of its time later: its parts would not outlast it.
            for later_s, number in ((0.9, 300), (1.8, None)):
                world.now = NOW + later_s * self._ttl_seconds
                if number is not None:
                    await others.append_event(held, event(number))
        if self._others:
            other = held.model_copy(deep=True)
            await others.append_event(other, event(200, delta={"other": True}))
        if self._bare:
            held = Session.model_validate_json(held.model_dump_json())
        return world.sessions(acting=True, **self._options), held

    async def act(self, held: Any) -> Any:
        service, session = held
        return await service.append_event(session, self._make())

    async def recover(self, world: World) -> None:
        """Read, and append again if it is not there."""
        service = world.sessions(**self._options)
        session = await read(service, WHO)
        if all(one.id != self._make().id for one in session.events):
            await service.append_event(session, self._make())
        assert session == await world.sessions(**self._options).get_session(**WHO)

    def snapshot(self, held: Any) -> Any:
        return held[1].model_copy(deep=True)

    async def check(self, world: World, held: Any, before: Any, error: Exception | None) -> None:
        """Equal to what is stored, or as it was."""
        session = held[1]
        if error is not None:
            assert before == session
        elif not self._bare and not (self._others and world.may_miss_others):
            # Where what others wrote could not be read, the next append learns it.
            stored = await world.sessions(**self._options).get_session(**WHO)
            # Without the marker: where a seal was not answered, the next append finds that out.
            assert stored is not None
            assert session.model_dump() == stored.model_dump()

    async def go_on(self, held: Any) -> None:
        """Append to the session that the caller has."""
        service, session = held
        await service.append_event(session, event(999))
        if not self._bare:
            assert session.model_dump() == (await service.get_session(**WHO)).model_dump()


@contextlib.contextmanager
def within(hold: HeldTurn) -> Iterator[None]:
    """Let the block be a part of the turn *hold*, as a run of an agent is."""
    enter(hold)
    try:
        yield
    finally:
        leave(hold)


class AppendInTurn(Append):
    """``append_event`` as a part of a turn."""

    async def attach(self, world: World) -> Any:
        service, session = await super().attach(world)
        return service, session, await Turns(service).take(**WHO)

    async def act(self, held: Any) -> Any:
        service, session, hold = held
        with within(hold):
            return await service.append_event(session, self._make())

    async def go_on(self, held: Any) -> None:
        """Append in the turn to the session that the caller has."""
        with within(held[2]):
            await super().go_on(held[:2])


class AppendTogether(Append):
    """Three ``append_event`` at once, which go in one commit."""

    _numbers = (1, 2, 3)

    async def act(self, held: Any) -> Any:
        service, session = held
        calls = [service.append_event(session, event(number)) for number in self._numbers]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def recover(self, world: World) -> None:
        """Read, and append what is not there."""
        service = world.sessions()
        session = await read(service, WHO)
        there = {one.id for one in session.events}
        assert not there & {"event-1", "event-2", "event-3"} or there >= {"event-1", "event-2", "event-3"}
        for number in self._numbers:
            if f"event-{number}" not in there:
                await service.append_event(session, event(number))


class AppendBehind(AppendTogether):
    """Three ``append_event`` with ``durability="turn"``, and the end of their turn."""

    def __init__(self) -> None:
        super().__init__(durability="turn")

    async def attach(self, world: World) -> Any:
        """Let the process know the session's tail: otherwise the first append waits until it is stored."""
        service, session = await super().attach(world)
        await service.get_session(**WHO)
        return service, session

    async def act(self, held: Any) -> Any:
        service, session = held
        for number in self._numbers:
            await service.append_event(session, event(number))
        await service.flush_session(**WHO)

    async def check(self, world: World, held: Any, before: Any, error: Exception | None) -> None:
        """After a failure nothing is stored through the handle."""
        if error is None:
            await super().check(world, held, before, None)
            return
        service, session = held
        with contextlib.suppress(StoreError):
            await service.append_event(session, event(999))
            raise AssertionError("appended after a failure")


class TakeTurn(Operation):
    """The begin of ``store.turns.hold``."""

    async def prepare(self, world: World) -> None:
        """Make the session."""
        await world.sessions().create_session(**WHO)

    async def attach(self, world: World) -> Any:
        return Turns(world.sessions(acting=True))

    async def act(self, held: Any) -> Any:
        return await held.take(**WHO, on_busy="reject")

    async def recover(self, world: World) -> None:
        """Take it, unless it was taken."""
        with contextlib.suppress(SessionBusyError):
            await super().recover(world)


class Turning(Turns):
    """Turns whose renewal is a call."""

    held: HeldTurn

    @operation
    async def renew(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Do what a heartbeat does."""
        del app_name, user_id, session_id
        await self._leases.renew(self.held)


class DuringTurn(Operation):
    """Any call during a turn of the session in which two messages wait."""

    async def prepare(self, world: World) -> None:
        """Make the session."""
        await world.sessions().create_session(**WHO)

    async def attach(self, world: World) -> Any:
        others = Turning(world.sessions())
        with contextlib.suppress(SessionBusyError):
            await others.take(**WHO, on_busy="reject", lease_s=DAY_S)
            for number in range(2):
                await others.enqueue(**WHO, new_message=MESSAGE, message_id=f"m{number}")
        turns = Turning(world.sessions(acting=True))
        stored = await others._leases.header(KEY)
        assert stored.turn is not None
        turns.held = HeldTurn(turns.sessions.storage, KEY, stored, stored.turn, lease_s=DAY_S, since=0.0)
        return turns


class WholeTurn(TakeTurn):
    """``store.turns.hold``: the begin of a turn, and its end."""

    async def act(self, held: Any) -> Any:
        async with held.hold(**WHO, on_busy="reject"):
            pass

    async def recover(self, world: World) -> None:
        """Take a turn, also from one that did not end."""
        async with Turns(world.sessions()).hold(**WHO, on_busy="interrupt", wait_s=0):
            pass


class Repair(Operation):
    """``store.turns.repair`` of a tool call that was not answered."""

    async def prepare(self, world: World) -> None:
        """Make a session that a crash left so."""
        service = world.sessions()
        held = await service.create_session(**WHO)
        async with Turns(service).hold(**WHO):
            pass
        called = event(0)
        called.content = types.Content(
            parts=[types.Part(function_call=types.FunctionCall(id="c", name="look"))]
        )
        await service.append_event(held, called)

    async def attach(self, world: World) -> Any:
        return Turns(world.sessions(acting=True))

    async def act(self, held: Any) -> Any:
        return await held.repair(**WHO)

    async def recover(self, world: World) -> None:
        """Repair it in a turn that is taken from the one that did not end."""
        turns = Turns(world.sessions())
        async with turns.hold(**WHO, on_busy="interrupt", wait_s=0):
            await turns.repair(**WHO)


class Describe(Operation):
    """``update_session_info``."""

    async def prepare(self, world: World) -> None:
        """Make a session that has a title and labels, one of which stays."""
        service = world.sessions()
        held = await service.create_session(**WHO)
        await service.append_event(held, event(0))
        await service.update_session_info(**WHO, title="old", labels={"old": "x", "kept": "x"})


class Delete(Operation):
    """``delete_session``."""

    def __init__(self, events: int, **options: Any) -> None:
        super().__init__(lambda service: service.delete_session(**WHO), atomic=False, **options)
        self._events = events

    async def prepare(self, world: World) -> None:
        """Make a session with segments and payloads, and one that stays."""
        service = self.small_segments(world)
        stays = await service.create_session(**OWNER, session_id="stays")
        await service.append_event(stays, event(0, picture=True, delta=ALL_SCOPES))
        held = await service.create_session(**WHO)
        for number in range(self._events):
            await service.append_event(held, event(number, picture=True))


class Fork(Operation):
    """``fork_session`` of a store."""

    def __init__(
        self,
        events: int,
        *,
        at: Point | None = None,
        artifacts: bool = False,
        large: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._events = events
        self._at = at
        self._large = large
        self._artifacts = artifacts

    async def prepare(self, world: World) -> None:
        """Make a session with segments and payloads of every kind, and artifacts."""
        service = self.small_segments(world)
        held = await service.create_session(**WHO, state=ALL_SCOPES if self._large else None)
        for number in range(self._events):
            delta = {"mine": f"{number}" * 200} if self._large else {}
            await service.append_event(held, event(number, picture=self._large, delta=delta))
        if self._artifacts:
            for filename in ("f", "g"):
                await world.artifacts().save_artifact(
                    **WHO, filename=filename, artifact=types.Part(text=filename)
                )
        await world.collect()  # values that were replaced

    async def attach(self, world: World) -> Any:
        sessions = world.sessions(acting=True, limits=ONE_EACH, **self._options)
        artifacts = world.artifacts(acting=True) if self._artifacts else None
        return Store(sessions=sessions, artifacts=artifacts), []

    async def act(self, held: Any) -> Any:
        store, made = held
        made.append(await store.fork_session(**WHO, at=self._at, to_session_id="fork", to_user_id="other"))
        return made[0]

    async def recover(self, world: World) -> None:
        """Fork again; it may exist."""
        try:
            await super().recover(world)
        except SessionExistsError:
            service = world.sessions(**self._options)
            assert await service.get_session(app_name="app", user_id="other", session_id="fork")

    async def go_on(self, held: Any) -> None:
        """Append to the fork that the caller got."""
        (store, (session,)) = held
        await store.sessions.append_event(session, event(999))
        who = {"app_name": "app", "user_id": "other", "session_id": "fork"}
        assert session.model_dump() == (await store.sessions.get_session(**who)).model_dump()


class Importing:
    """Imports, whose replacement of a session is a call."""

    def __init__(self, service: SessionService) -> None:
        self._sessions = service
        self._bounds = service._bounds

    @operation
    async def replace(self, events: list[Event], *, app_name: str, user_id: str, session_id: str) -> int:
        """Put a session of *events* in the place of the one that is there."""

        async def each() -> AsyncIterator[Event]:
            for one in events:
                yield one

        who = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        header: dict[str, Any] = {
            "state": {"new": "n" * 200},
            "create_time": NOW,
            "last_update_time": NOW,
            "title": "new",
        }
        return await put_session(self._sessions, who, each(), replaces=True, **header)


class Replace(Operation):
    """An import over a session that is there."""

    def __init__(self, events: int, **options: Any) -> None:
        super().__init__(**options)
        self._events = events

    async def prepare(self, world: World) -> None:
        """Make a session with segments and payloads."""
        service = self.small_segments(world)
        held = await service.create_session(**WHO, state={"mine": "m" * 200})
        for number in range(2):
            await service.append_event(held, event(number, picture=True))

    async def attach(self, world: World) -> Any:
        return Importing(world.sessions(acting=True, limits=ONE_EACH, **self._options))

    async def act(self, held: Any) -> Any:
        events = [event(10 + number, picture=number == 0) for number in range(self._events)]
        return await held.replace(events, **WHO)


class EraseUser(Operation):
    """``erase_user``, of a session with segments and payloads, perhaps with artifacts."""

    def __init__(self, *, artifacts: bool = False, **options: Any) -> None:
        super().__init__(atomic=False, **options)
        self._artifacts = artifacts

    async def prepare(self, world: World) -> None:
        """Make two users, and erase a third one: the store then has its key."""
        for user in ("user", "other"):
            service = self.small_segments(world)
            session = await service.create_session(app_name="app", user_id=user, session_id="s")
            await service.append_event(session, event(0, picture=True, delta={"user:mine": "u" * 200}))
        if self._artifacts:
            for user in ("user", "other"):
                await world.artifacts().save_artifact(
                    app_name="app", user_id=user, filename="user:f", artifact=types.Part(text="text")
                )
        await self.act(self._store(world), user="third")

    def _store(self, world: World, *, acting: bool = False) -> Store:
        artifacts = world.artifacts(acting=acting) if self._artifacts else None
        return Store(sessions=world.sessions(acting=acting, **self._options), artifacts=artifacts)

    async def attach(self, world: World) -> Any:
        return self._store(world, acting=True)

    async def act(self, held: Any, *, user: str = "user") -> Any:
        return [step async for step in held.erase_user(app_name="app", user_id=user)]


class Restore(Operation):
    """``restore_session``, of a session with segments and payloads, perhaps with artifacts."""

    def __init__(self, *, artifacts: bool = False, **options: Any) -> None:
        super().__init__(lambda store: store.restore_session(**WHO, at=Point.position(3)), **options)
        self._artifacts = artifacts

    async def prepare(self, world: World) -> None:
        """Make turns that change state and files."""
        service = self.small_segments(world)
        files = world.artifacts()
        held = await service.create_session(**WHO, state={"small": 0, "mine": "i" * 200})
        for number in range(6):
            made = event(number, picture=True, delta={"mine": f"{number}" * 200, "small": number})
            if self._artifacts and number % 2:
                part = types.Part(text=f"version {number}")
                version = await files.save_artifact(**FILE, artifact=part)
                made.actions.artifact_delta = {"f": version}
            await service.append_event(held, made)
        await world.collect()  # what values of the state were at the point is gone

    async def attach(self, world: World) -> Any:
        service = world.sessions(acting=True, **self._options)
        return Store(sessions=service, artifacts=world.artifacts(acting=True) if self._artifacts else None)


class Segmented(Operation):
    """Any call on a session of four segments with payloads and state."""

    def __init__(self, call: Callable[[Any], Any], *, archived: bool = False, **options: Any) -> None:
        super().__init__(call, **options)
        self._archived = archived

    async def prepare(self, world: World) -> None:
        """Make events with pictures and large values, a title that repeats one, and perhaps an archive."""
        service = self.small_segments(world)
        held = await service.create_session(**WHO, state={"mine": "i" * 200})
        for number in range(4):
            made = event(number, picture=True, delta={"mine": f"{number}" * 200, f"of {number}": "v" * 200})
            await service.append_event(held, made)
        await service.update_session_info(**WHO, title="Event 1")
        await world.collect()
        if self._archived:
            await service.archive_session(**WHO, before=Point.position(3))


async def redact(service: SessionService) -> object:
    """Redact an event in a segment, with a payload and state."""
    return await service.redact_event(**WHO, event_id="event-1", reason="ticket", state=True)


async def archive(service: SessionService) -> object:
    """Archive two of the segments."""
    return await service.archive_session(**WHO, before=Point.position(2))


class Read(Operation):
    """Any reading of sessions, compared with what it returns undisturbed."""

    def __init__(self, call: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(call, writes=False, **options)

    async def prepare(self, world: World) -> None:
        """Make two sessions with segments and payloads."""
        service = self.small_segments(world)
        for session_id in ("session", "other"):
            held = await service.create_session(**OWNER, session_id=session_id)
            await service.append_event(held, event(0, picture=True, delta=ALL_SCOPES))
            await service.append_event(held, event(1, picture=True))


class Artifacts(Operation):
    """Any call of the artifact service, after three versions were saved and a file was put."""

    def __init__(
        self,
        call: Callable[[ArtifactService], Any],
        *,
        known: bool = False,
        saves: int | None = None,
        **kind: bool,
    ) -> None:
        """Prepare *call*; *saves* is the number of the version that it makes."""
        super().__init__(call, **kind)
        self._known = known
        self._saves = saves

    async def prepare(self, world: World) -> None:
        """Save versions, a user's artifact, and what a browser put."""
        service = world.artifacts()
        for number in range(3):
            part = types.Part(text=f"version {number}")
            await service.save_artifact(**WHO, filename="f", artifact=part, custom_metadata={"n": number})
        await service.save_artifact(**WHO, filename="user:g", artifact=types.Part(text="of the user"))
        key = ArtifactKey.of(app="app", user="user", session="session", filename="f")
        await world.put_upload(upload_name(key, UPLOAD_ID))

    async def attach(self, world: World) -> Any:
        service = world.artifacts(acting=True)
        if self._known:  # the number of the next version
            await service.save_artifact(**WHO, filename="f", artifact=types.Part(text="known"))
        return service

    async def recover(self, world: World) -> None:
        """Call again; save again only what is not there."""
        service = world.artifacts()
        if self._saves is None or self._saves not in await service.list_versions(**WHO, filename="f"):
            await self.act(service)


class Memories(Operation):
    """Any call of the memory service, after four events were remembered, three of them in a shard."""

    async def prepare(self, world: World) -> None:
        """Remember three events, which become a shard, and one more; and one of another user."""
        service = world.memories(**self._options)
        await service.add_events_to_memory(**OWNER, events=[memorable(n, words=3000) for n in (0, 1, 4)])
        await service.add_events_to_memory(**OWNER, events=[memorable(2)])
        await service.add_events_to_memory(app_name="app", user_id="stays", events=[memorable(3)])

    async def attach(self, world: World) -> Any:
        return world.memories(**self._options, acting=True)


class Vectors(Operation):
    """Any call of a memory service with an embedder, after 17 events were remembered with it.

    Their vectors are in a document, and that of one more event is in the head.
    """

    async def prepare(self, world: World) -> None:
        """Remember the events, in two steps."""
        service = world.memories(embedder=PartsEmbedder(4096))
        for numbers in (range(17), (17,)):
            await service.add_events_to_memory(**OWNER, events=[event(number) for number in numbers])

    async def attach(self, world: World) -> Any:
        return world.memories(acting=True, **self._options)


def memorable(number: int, *, words: int = 2) -> Event:
    """Return an event with bytes that become a payload."""
    made = event(number)
    text = " ".join(f"word{number}" for number in range(words))
    picture = types.Blob(data=b"picture %d" % number * 500, mime_type="image/png")
    made.content = types.Content(parts=[types.Part(text=text), types.Part(inline_data=picture)])
    return made


async def remembered(service: MemoryService) -> list[str | None]:
    """Return the ids of what a search and a listing find."""
    found = await service.search_memory(**OWNER, query="word1")
    listed = await service.list_memories(**OWNER)
    return [memory.id for memory in (*found.memories, *listed.memories)]


class A2aTasks(Operation):
    """Any call of a store of A2A tasks or of their configs, after an owner and another have some of both."""

    def __init__(self, kind: type[Any], call: Callable[[Any], Any], **more: bool) -> None:
        super().__init__(call, **more)
        self._kind = kind

    async def prepare(self, world: World) -> None:
        """Save a small task and one in pieces, and set two configs, of two owners."""
        tasks, configs = world.tasks(TaskStore), world.tasks(PushNotificationConfigStore)
        for caller in (CALLER, ANOTHER):
            small = Task(id="small", context_id="context")
            large = Task(id="large", artifacts=[Artifact(parts=[Part(raw=INCOMPRESSIBLE)])])
            for task in (small, large):
                await tasks.save(task, caller)
                await configs.set_info(task.id, PUSH_CONFIG, caller)

    async def attach(self, world: World) -> Any:
        return world.tasks(self._kind, acting=True)


class SaveAgain(A2aTasks):
    """``save`` of a task in pieces, as its store returned it, and changed since."""

    def __init__(self) -> None:
        super().__init__(TaskStore, lambda held: held[0].save(held[1], CALLER))

    async def attach(self, world: World) -> Any:
        store = await super().attach(world)
        task = await store.get("large", CALLER)
        task.artifacts[0].parts[0].raw = INCOMPRESSIBLE[::-1]
        return store, task


CALLER, ANOTHER = of("caller"), of("another")
PUSH_CONFIG = TaskPushNotificationConfig(id="config", url="https://a.example")
INCOMPRESSIBLE = random.Random(1).randbytes(2 * TASK_PIECE_BYTES - 100)  # noqa: S311  # keeps no secret


KEY = SessionKey(app="app", user="user", session="session")
UPLOAD_ID = "ab" * 16
LARGE = b"0123456789abcdef" * 37_500


async def of_the_user(service: SessionService) -> list[Event]:
    """Return all events of the user."""
    return [one.event async for one in service.iter_user_events(**OWNER)]


async def iterated(service: SessionService) -> list[Event]:
    """Return all events that an iteration yields."""
    return [one.event async for one in service.iter_events(**WHO)]


async def loaded_to_a_file(service: ArtifactService) -> bytes:
    """Return what is written to a file."""
    target = io.BytesIO()
    await service.load_artifact_to(target=target, **FILE)
    return target.getvalue()


async def opened(service: ArtifactService) -> list[bytes]:
    """Return what is read of an artifact in parts."""
    reader = await service.open_artifact(**FILE)
    assert reader is not None
    return [await reader.read(4) for _ in range(3)]


LARGE_CHANGE: dict[str, Any] = {"make": lambda: event(1, picture=True, delta=ALL_SCOPES)}
FILE: dict[str, Any] = {**WHO, "filename": "f"}

OPERATIONS: dict[str, Operation] = {
    "create": Create(state={"mine": 1}),
    "create with large state in chunks": Create(state=ALL_SCOPES),
    "create with large state in a bucket": Create(state=ALL_SCOPES, bucket=True),
    "create over an expired session": Create(expired=True, bucket=True),
    "append": Append(),
    "append to all scopes with chunks": Append(**LARGE_CHANGE),
    "append to all scopes with a bucket": Append(**LARGE_CHANGE, bucket=True),
    "append that seals": Append(earlier=2, limits=ONE_EACH),
    "append that merges": Append(others=True, on_conflict="merge", **LARGE_CHANGE),
    "append without a marker": Append(bare=True, **LARGE_CHANGE),
    "append that renews chunks": Append(ttl_seconds=20_000, limits=ONE_EACH),
    "append that renews objects": Append(ttl_seconds=20_000, bucket=True),
    "append in a turn": AppendInTurn(**LARGE_CHANGE),
    "append in a turn that merges": AppendInTurn(others=True, on_conflict="merge"),
    "appends that go together": AppendTogether(),
    "appends that are stored behind": AppendBehind(),
    "begin of a turn": TakeTurn(),
    "begin and end of a turn": WholeTurn(),
    "renewal of a turn": DuringTurn(lambda turns: turns.renew(**WHO)),
    "request to stop": DuringTurn(lambda turns: turns.request_abort(**WHO)),
    "message that waits": DuringTurn(
        lambda turns: turns.enqueue(**WHO, new_message=MESSAGE, message_id="m2")
    ),
    "message that is withdrawn": DuringTurn(lambda turns: turns.withdraw(**WHO, message_id="m0")),
    "repair": Repair(),
    "describe": Describe(
        lambda service: service.update_session_info(**WHO, title="new", labels={"old": None, "new": "x"})
    ),
    "delete": Delete(0),
    "delete with segments and chunks": Delete(2),
    "delete with segments and objects": Delete(2, bucket=True),
    "fork with chunks": Fork(1),
    "fork at a point with objects": Fork(2, at=Point.position(1), bucket=True),
    "fork in several commits": Fork(3, large=False),
    "fork with artifacts": Fork(1, artifacts=True, large=False),
    "replace by an import": Replace(1),
    "replace by an import in several commits": Replace(5, bucket=True),
    "erase a user with objects and artifacts": EraseUser(artifacts=True, bucket=True),
    "restore": Restore(),
    "redact": Segmented(redact, bucket=True),
    "redact an archived event": Segmented(redact, archived=True, bucket=True),
    "archive": Segmented(archive, bucket=True),
    "restore with objects and artifacts": Restore(artifacts=True, bucket=True),
    "get": Read(lambda service: service.get_session(**WHO)),
    "get with objects": Read(lambda service: service.get_session(**WHO), bucket=True),
    "list of a user": Read(lambda service: service.list_sessions(**OWNER)),
    "list of an app": Read(lambda service: service.list_sessions(app_name="app")),
    "page": Read(lambda service: service.list_sessions_page(**OWNER, page_size=1)),
    "page by labels": Read(lambda service: service.list_sessions_page(**OWNER, labels={"team": "x"})),
    "info": Read(lambda service: service.get_session_info(**WHO)),
    "iteration over events": Read(iterated),
    "usage": Read(lambda service: service.get_session_usage(**WHO)),
    "events of a user": Read(of_the_user),
    "user state": Read(lambda service: service.get_user_state(**OWNER)),
    "save": Artifacts(
        lambda service: service.save_artifact(**FILE, artifact=types.Part(text="new")), saves=3
    ),
    "save of a known artifact": Artifacts(
        lambda service: service.save_artifact(**FILE, artifact=types.Part(text="new")), saves=4, known=True
    ),
    "save of a file in pieces": Artifacts(
        lambda service: service.save_artifact_file(source=io.BytesIO(LARGE), **FILE), saves=3
    ),
    "copy": Artifacts(
        lambda service: service.copy_artifact(**FILE, version=1, to_session_id="session"), saves=3
    ),
    "finalize": Artifacts(lambda service: service.finalize_upload(upload_id=UPLOAD_ID, **FILE)),
    "remember": Memories(
        lambda service: service.add_events_to_memory(**OWNER, events=[memorable(0), memorable(9)])
    ),
    "remember in a bucket": Memories(
        lambda service: service.add_events_to_memory(**OWNER, events=[memorable(9)]), bucket=True
    ),
    "remember so much that it seals and merges": Memories(
        lambda service: service.add_events_to_memory(
            **OWNER, events=[memorable(n, words=3000) for n in (7, 8, 9)]
        )
    ),
    "forget a memory": Memories(
        lambda service: service.delete_memory(**OWNER, memory_id=memorable(0).id), atomic=False
    ),
    "forget a user": Memories(lambda service: service.delete_user_memory(**OWNER), atomic=False),
    "search and list memories": Memories(remembered, writes=False),
    "remember vectors so many that they seal": Vectors(
        lambda service: service.add_events_to_memory(**OWNER, events=[event(n) for n in range(17, 34)]),
        embedder=PartsEmbedder(4096),
    ),
    "forget a memory and its vector": Vectors(
        lambda service: service.delete_memory(**OWNER, memory_id=event(3).id),
        embedder=PartsEmbedder(4096),
        atomic=False,
    ),
    "make vectors anew": Vectors(
        lambda service: service.reindex_memories(**OWNER), embedder=PartsEmbedder(2, "newer"), atomic=False
    ),
    "search by vectors": Vectors(remembered, embedder=PartsEmbedder(4096), writes=False),
    "delete artifact": Artifacts(lambda service: service.delete_artifact(**FILE), atomic=False),
    "delete session artifacts": Artifacts(
        lambda service: service.delete_session_artifacts(**WHO), atomic=False
    ),
    "load": Artifacts(lambda service: service.load_artifact(**FILE), writes=False),
    "load version": Artifacts(lambda service: service.load_artifact(**FILE, version=1), writes=False),
    "load to a file": Artifacts(loaded_to_a_file, writes=False),
    "open": Artifacts(opened, writes=False),
    "list keys": Artifacts(lambda service: service.list_artifact_keys(**WHO), writes=False),
    "list versions": Artifacts(lambda service: service.list_artifact_versions(**FILE), writes=False),
    "get version": Artifacts(lambda service: service.get_artifact_version(**FILE, version=1), writes=False),
    "save of a new task": A2aTasks(TaskStore, lambda store: store.save(Task(id="new"), CALLER)),
    "save of a task in pieces": SaveAgain(),
    "delete task in pieces": A2aTasks(TaskStore, lambda store: store.delete("large", CALLER)),
    "delete tasks of an owner": A2aTasks(
        TaskStore, lambda store: store.delete_owner_tasks(owner="caller"), atomic=False
    ),
    "get task in pieces": A2aTasks(TaskStore, lambda store: store.get("large", CALLER), writes=False),
    "list of tasks": A2aTasks(TaskStore, lambda store: store.list(ListTasksRequest(), CALLER), writes=False),
    "set push config": A2aTasks(
        PushNotificationConfigStore, lambda store: store.set_info("new", PUSH_CONFIG, CALLER)
    ),
    "delete push configs of an owner": A2aTasks(
        PushNotificationConfigStore, lambda store: store.delete_owner_configs(owner="caller"), atomic=False
    ),
    "get push configs of all owners": A2aTasks(
        PushNotificationConfigStore, lambda store: store.get_info_for_dispatch("large"), writes=False
    ),
}
