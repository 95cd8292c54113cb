"""Send messages to one session, in a process of its own that is stopped or killed at any moment.

Run as ``python -m tests.turns.worker PLACE NAME COUNT``; each line that goes out is JSON: what became of a
message, and how long it waited for its first event.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any, Final, Literal

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.runners import Runner
from google.genai import types

from gcp_adk_store import Store, TurnLostError
from gcp_adk_store.errors import StoreError
from tests.services.racing_process import open_store

LEASE_S: Final = 1.5
WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session"}


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


async def send(store: Store, said: str, on_busy: Literal["wait", "enqueue"]) -> dict[str, Any]:
    """Send one message; return what became of it."""
    began, first_s, count = time.monotonic(), None, 0
    message = types.Content(role="user", parts=[types.Part(text=said)])
    events = store.turns.run(
        runner_of(store),
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
        return {"said": said, "became": "lost"}
    except StoreError as exc:
        return {"said": said, "became": f"failed: {exc!r}"}
    return {"said": said, "became": "answered" if count else "waits", "wait_s": first_s}


async def main(place: str, name: str, count: str) -> None:
    """Send all messages, by turns as one that waits and as one that is left to the holder."""
    async with open_store(json.loads(place)) as store:
        for number in range(int(count)):
            told = await send(store, f"{name}-{number}", "enqueue" if number % 2 else "wait")
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
