"""Do one call after the other in a process of its own: one of those that race each other."""

import asyncio
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import Point, SessionLimits, SessionService, Store
from gcp_adk_store.errors import SessionExistsError, StoreError
from tests.services.conftest import WHO, event

LIMITS = SessionLimits(seal_tail_bytes=2000, event_text_bytes=1500, state_value_bytes=500)
TASKS = 4
STORED = "stored"
At = Mapping[str, str]
"""A store: ``project`` and ``bucket`` on the emulators, or ``folder``."""


def open_store(at: At, **options: Any) -> Store:
    """Return the store *at* its place."""
    if "folder" in at:
        return Store.local(at["folder"], **options)
    return Store.connect(project=at["project"], bucket=at.get("bucket"), **options)


class Racer:
    """The services of one process, and the session that it holds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stores: dict[str, Store] = {}
        self._held: Session | None = None

    async def reload(self, at: At, who: dict[str, Any]) -> Any:
        """Hold the session as it is now; return what it shows."""
        self._held = await self._service(at).get_session(**who)
        return self.show()

    def show(self) -> Any:
        """Return what the held session shows."""
        return None if self._held is None else self._held.model_dump(mode="json")

    async def create(self, at: At, who: dict[str, Any], state: dict[str, Any], *, until_made: bool) -> str:
        """Make a session and hold it, perhaps as soon as its id is free."""
        while True:
            try:
                self._held = await self._service(at).create_session(**who, state=state)
            except SessionExistsError as exc:
                if not until_made:
                    return type(exc).__name__
            else:
                return STORED

    async def append(
        self, at: At, on_conflict: str, deltas: Sequence[dict[str, Any]], size: int
    ) -> list[tuple[str, str]]:
        """Append events one by one to the held session; return what each one says, and its outcome."""
        assert self._held is not None
        outcomes = []
        for number, delta in enumerate(deltas):
            words = f"{self._name}.{number} "
            try:
                await self._service(at, on_conflict).append_event(
                    self._held, event(words + "x" * size, delta=delta)
                )
            except StoreError as exc:
                outcomes.append((words, type(exc).__name__))
            else:
                outcomes.append((words, STORED))
        return outcomes

    async def fork(self, at: At, who: dict[str, Any], to_session_id: str) -> str:
        """Fork a session with its artifacts; return the outcome."""
        self._service(at)
        try:
            await self._stores["raise"].fork_session(**who, to_session_id=to_session_id)
        except StoreError as exc:
            return type(exc).__name__
        return STORED

    async def restore(self, at: At, who: dict[str, Any], counts: Sequence[int]) -> list[str]:
        """Take a session back to the first *counts* events, one after the other; return the outcomes."""
        outcomes = []
        for count in counts:
            try:
                await self._service(at).restore_session(**who, at=Point.position(count))
            except StoreError as exc:
                outcomes.append(type(exc).__name__)
            else:
                outcomes.append(STORED)
        return outcomes

    async def describe(self, at: At, who: dict[str, Any], count: int) -> None:
        """Give a session *count* labels of its own, one by one."""
        for number in range(count):
            await self._service(at).update_session_info(**who, labels={f"n{self._name}.{number}": ""})

    async def delete(self, at: At, who: dict[str, Any]) -> None:
        """Delete a session."""
        await self._service(at).delete_session(**who)

    async def save(self, at: At, count: int) -> list[tuple[int, str]]:
        """Save *count* versions of one artifact, some at a time; return their numbers and texts."""
        store = open_store(at)

        async def save_one(number: int) -> tuple[int, str]:
            words = f"{self._name}.{number}"
            part = types.Part(text=words)
            return await store.artifacts.save_artifact(**WHO, filename="shared", artifact=part), words

        saved: list[tuple[int, str]] = []
        for start in range(0, count, TASKS):
            saved += await asyncio.gather(*(save_one(number) for number in range(start, start + TASKS)))
        await store.close()
        return saved

    def _service(self, at: At, on_conflict: Any = "raise") -> SessionService:
        if on_conflict not in self._stores:
            self._stores[on_conflict] = open_store(at, on_conflict=on_conflict, session_limits=LIMITS)
        return self._stores[on_conflict].sessions


def take_part(caller: Connection, name: str) -> None:
    """Do each call that comes, and send its answer; the first one says that everything is imported."""
    asyncio.run(_take_part(caller, name))


async def _take_part(caller: Connection, name: str) -> None:
    racer = Racer(name)
    caller.send("ready")
    while True:
        method, arguments = await asyncio.to_thread(caller.recv)
        answer = getattr(racer, method)(**arguments)
        caller.send(await answer if asyncio.iscoroutine(answer) else answer)
