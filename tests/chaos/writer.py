"""Do one thing after the other to sessions and artifacts, and write down each before and after."""

import asyncio
import hashlib
import io
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from gcp_adk_store import (
    ArtifactConflictError,
    ArtifactService,
    MemoryService,
    OutcomeUnknownError,
    Point,
    PointMissingError,
    SessionBusyError,
    SessionConflictError,
    SessionExistsError,
    SessionInboxFullError,
    SessionMissingError,
    SessionService,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.turns import Turns
from tests.chaos.journal import Journal, Outcome
from tests.chaos.places import (
    APP,
    ARTIFACTS,
    EXPIRING,
    MORTAL,
    RESTORED,
    SHARED,
    TURNED,
    USER,
    WITH_BUCKET,
    WITHOUT_BUCKET,
    Place,
)
from tests.chaos.turn_writer import TurnActs

NOTHING_WRITTEN: Final = (
    UnavailableError,
    SessionBusyError,
    SessionConflictError,
    SessionExistsError,
    SessionInboxFullError,
    SessionMissingError,
    SessionBusyError,
    SessionInboxFullError,
    PointMissingError,
    ArtifactConflictError,
)
"""Errors that promise that nothing was written."""

_TIME_TO_LIVE_S: Final = 3600.0
_LARGE_FILE_BYTES: Final = 9 * 2**20  # over the size from which a file is uploaded in pieces
_PATIENCE_S: Final = 0.05

_ACTIONS: Final = {
    "append to a shared session": 44,
    "append to an own session": 18,
    "append to a session that ends": 8,
    "append to a session that is deleted": 12,
    "append to a session that is restored": 12,
    "take a turn": 16,
    "leave a message": 8,
    "stop a turn": 1,
    "restore a session": 4,
    "fork a session": 2,
    "describe a session": 4,
    "delete a session": 3,
    "save an artifact": 14,
    "save a file": 1,
    "remember": 8,
    "forget": 3,
}


@dataclass(frozen=True, slots=True)
class Services:
    """What the writers of a process write through."""

    sessions: Mapping[str, Sequence[SessionService]]
    """By prefix: one that merges, one that raises."""
    turns: Mapping[str, Sequence[Turns]]
    """By prefix: of both of these, and of one whose appends return before they are stored."""
    memories: Mapping[str, MemoryService]
    """By prefix; they share the connections of sessions."""
    artifacts: ArtifactService

    async def close(self) -> None:
        """Close them all."""
        for services in self.sessions.values():
            for service in services:
                await service.close()
        for turns in self.turns.values():
            await turns[-1].sessions.close()
        await self.artifacts.close()


class Writer(TurnActs):
    """One task; its name is in everything it writes, so that nobody else writes the same."""

    def __init__(
        self, name: str, random: Random, services: Services, journal: Journal, *, lease_s: float
    ) -> None:
        self._name = name
        self._lease_s = lease_s
        self._random = random
        self._services = services
        self._journal = journal
        self._count = 0
        self._handles: dict[Place, Session] = {}
        self._remembered: list[tuple[str, Event, str]] = []

    async def run(self, stopping: asyncio.Event) -> None:
        """Act until *stopping*."""
        while not stopping.is_set():
            await self.step()

    async def step(self) -> None:
        """Act once."""
        (action,) = self._random.choices(list(_ACTIONS), weights=list(_ACTIONS.values()))
        await self._act(action)

    async def _act(self, action: str) -> None:
        own = Place(self._random.choice((WITH_BUCKET, WITHOUT_BUCKET)), f"own-{self._name}")
        acts: Mapping[str, tuple[Callable[[Place], Awaitable[None]], Sequence[Place]]] = {
            "append to a shared session": (self._append, SHARED),
            "append to an own session": (self._append, (own,)),
            "append to a session that ends": (self._append, EXPIRING),
            "append to a session that is deleted": (self._append, MORTAL),
            "append to a session that is restored": (self._append, RESTORED),
            "take a turn": (self._take_turn, TURNED),
            "leave a message": (self._enqueue, TURNED),
            "stop a turn": (self._stop, TURNED),
            "restore a session": (self._restore, RESTORED),
            "fork a session": (self._fork, SHARED),
            "describe a session": (self._describe, SHARED),
            "delete a session": (self._delete, MORTAL),
        }
        if action in acts:
            act, places = acts[action]
            await act(self._random.choice(places))
            return
        others = {
            "save an artifact": self._save,
            "save a file": self._save_file,
            "remember": self._remember,
            "forget": self._forget,
        }
        await others[action]()

    async def _append(self, place: Place) -> None:
        handle = await self._handle(place)
        if handle is None:
            await asyncio.sleep(_PATIENCE_S)
            return
        event, digest = self._event(place)
        original = event.model_copy(deep=True)
        outcome = await self._deliver(place, handle, event, digest)
        again = {"acknowledged": 0.05, "unknown": 0.6}.get(outcome, 0.0)
        if self._random.random() < again:
            await self._deliver_again(place, handle, original, digest)

    async def _deliver_again(self, place: Place, before: Session, event: Event, digest: str) -> None:
        """Deliver an equal event once more, as a caller does that was not answered."""
        handle = await self._load(place, None)
        if handle is not None and handle.state["life"] == before.state["life"]:
            await self._deliver(place, handle, event, digest)

    async def _deliver(self, place: Place, handle: Session, event: Event, digest: str) -> Outcome:
        number = self._journal.begin(
            "append",
            place=str(place),
            life=handle.state["life"],
            event=event.id,
            delta=_persistent(event.actions.state_delta),
            digest=digest,
        )
        outcome = await self._outcome(number, self._service(place).append_event(handle, event))
        if outcome == "acknowledged":
            self._handles[place] = handle
        else:
            self._handles.pop(place, None)
        return outcome

    async def _handle(self, place: Place) -> Session | None:
        """Return a handle, known or read or newly made; ``None`` if there is none to be had now."""
        known = self._handles.get(place)
        if known is not None and self._random.random() < 0.9:
            return known
        recent = GetSessionConfig(num_recent_events=self._random.randrange(8))
        found = await self._load(place, self._random.choice((None, recent, recent)))
        return found or await self._create(place)

    async def _load(self, place: Place, config: GetSessionConfig | None) -> Session | None:
        try:
            return await self._service(place).get_session(**_who(place), config=config)
        except UnavailableError:
            return None
        except StoreError as exc:
            self._journal.end(self._journal.begin("read", place=str(place)), "failed", **_reported(exc))
            return None

    async def _create(self, place: Place) -> Session | None:
        life = self._next_id()
        state = {"life": life, "k0": 0, f"user:made-{place.session}-{self._name}": life}
        number = self._journal.begin("create", place=str(place), life=life, delta=state)
        made: list[Session] = []
        ttl_seconds = _TIME_TO_LIVE_S if place in EXPIRING else None

        async def create() -> None:
            service = self._service(place)
            made.append(await service.create_session(**_who(place), state=state, ttl_seconds=ttl_seconds))

        await self._outcome(number, create())
        return made[0] if made else None

    async def _delete(self, place: Place) -> None:
        seen = await self._load(place, GetSessionConfig(num_recent_events=0))
        if seen is None:
            return
        number = self._journal.begin("delete", place=str(place), life=seen.state["life"])
        await self._outcome(number, self._service(place).delete_session(**_who(place)))

    async def _restore(self, place: Place) -> None:
        seen = await self._load(place, None)
        if seen is None:
            return
        at = Point.position(max(0, len(seen.events) - self._random.randrange(1, 12)))
        number = self._journal.begin("restore", place=str(place), life=seen.state["life"])
        await self._outcome(number, self._service(place).restore_session(**_who(place), at=at))
        self._handles.pop(place, None)

    async def _fork(self, place: Place) -> None:
        seen = await self._load(place, None)
        if seen is None:
            return
        at = Point.position(self._random.randrange(len(seen.events) + 1))
        target = Place(place.prefix, f"fork-{self._next_id()}")
        number = self._journal.begin("fork", place=str(target), source=str(place))
        service = self._service(place)
        forking = service.fork_session(**_who(place), at=at, to_session_id=target.session)
        await self._outcome(number, forking)

    async def _describe(self, place: Place) -> None:
        title = self._next_id()
        number = self._journal.begin("describe", place=str(place), title=title)
        await self._outcome(number, self._service(place).update_session_info(**_who(place), title=title))

    async def _save(self) -> None:
        name = self._random.choice((*ARTIFACTS, f"own/{self._name}"))
        data = f"{self._next_id()} ".encode() + self._random.randbytes(self._random.randrange(3000))
        part = types.Part(inline_data=types.Blob(data=data, mime_type="application/octet-stream"))
        number = self._journal.begin("save", artifact=name, digest=hashlib.sha256(data).hexdigest())
        saved = self._services.artifacts.save_artifact(**_artifact(name), artifact=part)
        await self._outcome(number, saved, result="version")

    async def _save_file(self) -> None:
        block = f"{self._next_id()} ".encode() + self._random.randbytes(1000)
        data = block * (_LARGE_FILE_BYTES // len(block))
        name = "shared/file"
        number = self._journal.begin("save", artifact=name, digest=hashlib.sha256(data).hexdigest())
        saved = self._services.artifacts.save_artifact_file(**_artifact(name), source=io.BytesIO(data))
        await self._outcome(number, saved, result="version")

    async def _remember(self) -> None:
        prefix = self._random.choice((WITH_BUCKET, WITHOUT_BUCKET))
        event, digest = self._event(Place(prefix, "memories"))
        outcome = await self._add(prefix, event, digest)
        if outcome == "acknowledged":
            self._remembered.append((prefix, event, digest))
        if self._random.random() < {"acknowledged": 0.1, "unknown": 0.6}.get(outcome, 0.0):
            await self._add(prefix, event, digest)

    async def _forget(self) -> None:
        """Forget what this writer remembered; now and then add it again, which must not bring it back."""
        if not self._remembered:
            return
        prefix, event, digest = self._remembered.pop(self._random.randrange(len(self._remembered)))
        number = self._journal.begin("forget", place=prefix, event=event.id)
        removed = self._services.memories[prefix].delete_memory(
            app_name=APP, user_id=USER, memory_id=event.id
        )
        if await self._outcome(number, removed) == "acknowledged" and self._random.random() < 0.3:
            await self._add(prefix, event, digest)

    async def _add(self, prefix: str, event: Event, digest: str) -> Outcome:
        number = self._journal.begin("remember", place=prefix, event=event.id, digest=digest)
        added = self._services.memories[prefix].add_events_to_memory(
            app_name=APP, user_id=USER, events=[event], session_id="memories"
        )
        return await self._outcome(number, added)

    async def _outcome(self, number: int, work: Awaitable[Any], *, result: str = "") -> Outcome:
        """Await *work* and write down what became of it."""
        outcome: Outcome = "acknowledged"
        fields: dict[str, Any] = {}
        try:
            returned = await work
        except NOTHING_WRITTEN as exc:
            outcome, fields = "refused", _reported(exc)
        except OutcomeUnknownError as exc:
            outcome, fields = "unknown", _reported(exc)
        except Exception as exc:  # noqa: BLE001  # whatever it is, the run reports it and goes on
            outcome, fields = "failed", _reported(exc)
        else:
            fields = {result: returned} if result else {}
        self._journal.end(number, outcome, **fields)
        return outcome

    def _event(self, place: Place) -> tuple[Event, str]:
        """Return an event and the digest of its text and data; now and then one with large content."""
        name = self._next_id()
        text = f"{name} " + "word " * self._random.randrange(40)
        parts = [types.Part(text=text)]
        data = b""
        size = self._random.random()
        if size < 0.08:
            data = name.encode() + self._random.randbytes(self._random.randrange(3000, 20_000))
            parts.append(types.Part(inline_data=types.Blob(data=data, mime_type="image/png")))
        elif size < 0.12:
            more = "".join(f"{self._random.randrange(10**9)} " for _ in range(2000))
            text += more
            parts = [types.Part(text=text)]
        event = Event(
            id=name,
            author=self._name,
            content=types.Content(role="user", parts=parts),
            actions=EventActions(state_delta=self._delta(place, name)),
        )
        return event, hashlib.sha256(text.encode() + data).hexdigest()

    def _delta(self, place: Place, name: str) -> dict[str, Any]:
        """Return changes of some scopes: keys of its own in shared state, keys of all in the session's."""
        own = f"{place.session}-{self._name}"
        large = f"{name} " * 200
        values: list[Any] = [name, self._count, [name, [1, None]], None, large]
        delta: dict[str, Any] = {}
        for key, share in (
            (f"k{self._random.randrange(6)}", 0.6),
            (f"user:{own}", 0.3),
            (f"app:{own}", 0.3),
            ("temp:note", 0.1),
        ):
            if self._random.random() < share:
                (delta[key],) = self._random.choices(values, weights=[6, 6, 3, 1, 1])
        return delta

    def _service(self, place: Place) -> SessionService:
        return self._random.choice(self._services.sessions[place.prefix])

    def _turns(self, place: Place) -> tuple[Turns, bool]:
        known = self._services.turns[place.prefix]
        chosen = self._random.choice(known)
        return chosen, chosen is known[-1]

    def _next_id(self) -> str:
        self._count += 1
        return f"{self._name}.{self._count}"


def _persistent(delta: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in delta.items() if not key.startswith("temp:")}


def _who(place: Place) -> dict[str, Any]:
    return {"app_name": APP, "user_id": USER, "session_id": place.session}


def _artifact(name: str) -> dict[str, Any]:
    session, _, filename = name.partition("/")
    return {"app_name": APP, "user_id": USER, "session_id": session, "filename": filename}


def _reported(exc: Exception) -> dict[str, str]:
    return {"error": type(exc).__name__, "message": str(exc)}
