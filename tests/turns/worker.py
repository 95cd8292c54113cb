"""Send messages to one session, in a process of its own that is stopped or killed at any moment."""

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.runners import InMemoryRunner, Runner
from google.genai import types

from gcp_adk_store import Store, TurnLostError
from gcp_adk_store.errors import StoreError
from gcp_adk_store.sessions.append.turn import TurnLease
from tests.services.racing_process import At, open_store

LEASE_S: Final = 1.5
WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session"}
_TICK_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a process is to do."""

    at: At
    name: str
    messages: int
    """So many at least, and more until it is told that the others need none."""
    log: Path
    """A file; each line is JSON: a turn that was taken, or what became of a message."""
    environ: Mapping[str, str]
    """Where the emulator is."""


class Slow(BaseAgent):
    """Answers each message by three events, as an agent that calls a tool."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for number in range(3):
            await asyncio.sleep(0.02)
            content = types.Content(role="model", parts=[types.Part(text=f"answer {number}")])
            yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


def runner_of(store: Store) -> Runner:
    """Return a runner of the agent on *store*."""
    return Runner(app_name="app", agent=Slow(name="slow"), session_service=store.sessions)


class Sender:
    """Sends messages, and writes down the turns that it took and the times in which it did not run."""

    def __init__(self, store: Store, log: Path) -> None:
        self._store = store
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._hold: TurnLease | None = None
        self._pauses: list[tuple[float, float]] = []
        self._ticked_at = time.monotonic()
        self._begin = store.turns.begin
        store.turns.begin = self._taken  # type: ignore[method-assign]  # it takes the turn as ever

    async def tick(self) -> None:
        """Note each time in which this event loop did not run for twice as long as it should."""
        while True:
            self._note()
            await asyncio.sleep(_TICK_S)

    async def send(self, said: str, on_busy: Literal["wait", "enqueue"]) -> None:
        """Send one message, and write down what became of it."""
        began, first_s, count = time.monotonic(), None, 0
        message = types.Content(role="user", parts=[types.Part(text=said)])
        events = self._store.turns.run(
            runner_of(self._store),
            user_id="user",
            session_id="session",
            new_message=message,
            on_busy=on_busy,
            wait_s=120,
            lease_s=LEASE_S,
        )
        try:
            async for _ in events:
                count += 1
                first_s = time.monotonic() - began if first_s is None else first_s
        except TurnLostError:
            self._tell(said=said, became="lost", **self._loss())
        except StoreError as exc:
            self._tell(said=said, became=f"failed: {exc!r}")
        else:
            self._tell(said=said, became="answered" if count else "waits", wait_s=first_s)

    async def _taken(self, **options: Any) -> TurnLease | None:
        self._hold = hold = await self._begin(**options)
        if hold is not None:
            self._tell(fence=hold.fence, taken_at=time.monotonic())
        return hold

    def _loss(self) -> dict[str, Any]:
        """Return when the lease of the newest turn was renewed last, and when this process did not run."""
        assert self._hold is not None
        self._note()
        renewed_at = self._hold.renewed_at
        pauses = [pause for pause in self._pauses if pause[1] > renewed_at]
        return {"fence": self._hold.fence, "renewed_at": renewed_at, "pauses": pauses}

    def _note(self) -> None:
        before, self._ticked_at = self._ticked_at, time.monotonic()
        if self._ticked_at - before > 2 * _TICK_S:
            self._pauses.append((before, self._ticked_at))

    def _tell(self, **told: Any) -> None:
        os.write(self._log, json.dumps(told).encode() + b"\n")  # at once, so that a kill leaves no half


def work(task: Task, run: "Connection[bool, bool]") -> None:
    """Say in *run* that all is ready; send messages once something comes there, until it comes again."""
    os.environ |= task.environ
    logging.getLogger("google_adk").setLevel(logging.CRITICAL)  # turns that are lost are what is shown
    asyncio.run(_work(task, run))


async def _work(task: Task, run: "Connection[bool, bool]") -> None:
    # The first run of a process imports hundreds of modules, for seconds if several processes do it at once.
    warm = InMemoryRunner(Slow(name="slow"), app_name="app")
    await warm.session_service.create_session(**WHO)
    message = types.Content(role="user", parts=[types.Part(text="warm")])
    async for _ in warm.run_async(user_id="user", session_id="session", new_message=message):
        pass
    run.send(True)  # noqa: FBT003  # any value
    await asyncio.to_thread(run.recv)
    async with open_store(task.at) as store:
        sender = Sender(store, task.log)
        ticking = asyncio.create_task(sender.tick())
        told = asyncio.create_task(asyncio.to_thread(run.recv))
        # By turns one that waits, and one that is left to the holder.
        for number in count():
            if number >= task.messages and told.done():
                break
            await sender.send(f"{task.name}-{number}", "enqueue" if number % 2 else "wait")
        ticking.cancel()
