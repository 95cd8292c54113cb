"""Fork, as each line of standard input says; report as JSON how children and parent went on.

Run as a process of its own. For each line it is forked before it has done anything but import.
"""

import asyncio
import gc
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

from google.adk.events import Event
from google.cloud.firestore import AsyncClient
from google.cloud.storage import Client
from google.genai import types

from gcp_adk_store import Store, StoreError
from gcp_adk_store.cloud import forked_grpc

LONGEST_S = 120.0
USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}


async def append(store: Store, session_id: str) -> None:
    """Make a session, append to it, and read it again."""
    session = await store.sessions.create_session(**USER, session_id=session_id)
    await store.sessions.append_event(session, Event(author="user"))
    read = await store.sessions.get_session(**USER, session_id=session_id)
    assert read == session


async def save(store: Store, session_id: str) -> None:
    """Save a version, and load it."""
    part = types.Part(text=session_id)
    await store.artifacts.save_artifact(**USER, session_id=session_id, filename="f", artifact=part)
    loaded = await store.artifacts.load_artifact(**USER, session_id=session_id, filename="f")
    assert loaded == part


def outcome(work: Callable[[Store, str], Awaitable[None]], store: Store, session_id: str) -> str:
    """Return the name of the error that *work* ends with in a fresh loop, or "done"."""

    async def run() -> None:
        async with asyncio.timeout(LONGEST_S):
            await work(store, session_id)

    try:
        asyncio.run(run())
    except (StoreError, TimeoutError) as exc:
        return type(exc).__name__
    return "done"


def use(store: Store, whose: str) -> dict[str, str]:
    """Use both services, each in a loop of its own; report how that ended."""
    return {"sessions": outcome(append, store, whose), "artifacts": outcome(save, store, whose)}


class Traffic:
    """Calls of both services that are under way on another thread until they are asked to end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._may_end = threading.Event()
        self.begun = threading.Event()
        self.done = 0
        self.thread = threading.Thread(target=asyncio.run, args=(self._run(),))
        self.thread.start()
        assert self.begun.wait(LONGEST_S)

    async def _run(self) -> None:
        async def go_on(number: int) -> None:
            while not self._may_end.is_set():
                for work in (append, save):
                    await work(self._store, f"traffic-{number}-{self.done}")
                    self.done += 1
                    self.begun.set()

        await asyncio.gather(*(go_on(number) for number in range(20)))

    def end(self) -> None:
        """End it; raise what it failed with."""
        before = self.done
        self.begun.clear()
        assert self.begun.wait(LONGEST_S)
        self._may_end.set()
        self.thread.join()
        assert self.done > before


def connect(*flags: str) -> Store:
    """Return the store that the environment describes, perhaps over borrowed clients, or in a folder."""
    bucket, project = os.environ["ADK_STORE_BUCKET"], os.environ["ADK_STORE_PROJECT"]
    if "local" in flags:
        return Store.local(os.environ["FOLDER"])
    if "borrowed" not in flags:
        return Store.from_env()
    return Store.from_clients(
        firestore=AsyncClient(project=project), storage=Client(project=project), bucket=bucket
    )


def in_a_child(work: Callable[[], object], *, through_multiprocessing: bool) -> Any:
    """Return what *work* returns in a child, which is killed where it takes too long."""
    reading, writing = os.pipe()

    def report() -> None:
        os.write(writing, json.dumps(work()).encode())

    if through_multiprocessing:
        process = multiprocessing.get_context("fork").Process(target=report)
        process.start()
        process.join(LONGEST_S)
        status = process.exitcode
        process.kill()
    else:
        child = os.fork()
        if child == 0:
            report()
            sys.exit(0)
        killing = threading.Timer(LONGEST_S, os.kill, (child, 9))
        killing.start()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        killing.cancel()
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    return {**json.loads(answer or b"{}"), "status": status}


def end_late() -> None:
    """Let gRPC's threads end once somebody waits for one, as threads do that wait for the processor."""
    join, is_awaited = threading.Thread.join, threading.Event()

    def noted(thread: threading.Thread, timeout: float | None = None) -> None:
        if forked_grpc._POLLS in thread.name:
            is_awaited.set()
        join(thread, timeout)

    def held(frame: FrameType, what: str, _: object) -> None:
        is_run = what == "return" and frame.f_code is threading.Thread.run.__code__
        if is_run and forked_grpc._POLLS in threading.current_thread().name:
            is_awaited.wait(LONGEST_S)

    threading.Thread.join = noted  # type: ignore[assignment,method-assign]
    threading.setprofile(held)


def main(*flags: str) -> None:
    """Fork."""
    if "slow-threads" in flags:
        forked_grpc._LATE_S = LONGEST_S  # type: ignore[misc]  # here a thread has all the time
        end_late()
    store = connect(*flags)
    kept = asyncio.new_event_loop()
    for used, prefix in ((store, ""), (connect(*flags), "other-")):
        if f"{prefix}used" in flags:
            assert {"sessions": "done", "artifacts": "done"} == use(used, "before")
        if f"{prefix}open-loop" in flags:
            kept.run_until_complete(append(used, "before"))
        if f"{prefix}closed" in flags:
            kept.run_until_complete(used.close())
    traffic = Traffic(store) if "traffic" in flags else None
    children = []
    for number in range(2):
        child = in_a_child(
            lambda number=number: use(store, f"child-{number}"),  # type: ignore[misc]  # mypy's lambdas take none
            through_multiprocessing="multiprocessing" in flags,
        )
        children.append(child)
    if traffic is not None:
        traffic.end()
    if "open-loop" in flags:
        kept.run_until_complete(append(store, "after"))
    parent = {} if "borrowed" in flags else use(store, "parent")
    print(json.dumps({"children": children, "parent": parent}), flush=True)  # noqa: T201  # what the test reads


if __name__ == "__main__":
    gc.freeze()  # else each interpreter that ends goes through all modules
    for line in sys.stdin:
        forker = os.fork()
        if forker == 0:
            flags, variables = json.loads(line)
            os.environ.update(variables)
            main(*flags)
            sys.exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(forker, 0)[1])
        print(json.dumps({"status": ended}), flush=True)  # noqa: T201  # what the test reads
