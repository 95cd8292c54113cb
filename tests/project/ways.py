"""Count files and frames from a public method to the port of its backend: ``python -m tests.project.ways``.

With the name of a way, such as ``append``, it lists its files, too, in the order in which the call comes to
them.

A file counts if a function of it runs on the way, a frame if it stands above the call of the port, in this
task or in one that waits for it.
"""

import asyncio
import json
import re
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from google.adk.events import Event
from google.adk.sessions import Session
from google.genai import types

import gcp_adk_store
from gcp_adk_store import Store
from gcp_adk_store.kernel import concurrency

Call = Callable[[], Awaitable[object]]
"""A public method with its arguments."""

PACKAGE: Final = f"{Path(gcp_adk_store.__file__).parent}/"
PORTS: Final = {"local/documents.py": {"commit", "get", "query"}, "local/objects.py": {"create"}}
WHO: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user"}
SESSION: Final = {**WHO, "session_id": "s"}


class Way:
    """The files and frames between a call and the port that it comes to first."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        """In the order in which the call comes to them."""
        self.frames = 0
        self.names: dict[str, set[str]] = {}
        """Where functions with a public name are that run on the way."""
        self._has_come = False

    def __call__(self, frame: FrameType, what: str, _: object) -> None:
        """Take note of a function that is called."""
        name = _file_of(frame.f_code)
        if what != "call" or self._has_come or name is None:
            return
        if frame.f_code.co_name in PORTS.get(name, ()):
            self._has_come = True
            self.frames = sum(1 for _ in _frames_above(frame.f_back))
        else:
            self.files[name] = None
            full = frame.f_code.co_qualname
            if re.fullmatch(r"([A-Za-z]\w*\.)?[a-z]\w*", full):  # no private, local or nameless function
                self.names.setdefault(frame.f_code.co_name, set()).add(f"{name}: {full}")

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow what the block calls."""
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
        assert self._has_come, "the call came to no port: does PORTS name it?"


def _file_of(code: CodeType) -> str | None:
    path = code.co_filename
    return path.removeprefix(PACKAGE) if path.startswith(PACKAGE) else None


def _frames_above(frame: FrameType | None) -> Iterator[str]:
    """Yield the package's functions that wait for *frame*, those of waiting tasks too."""
    while frame is not None:
        if _file_of(frame.f_code):
            yield frame.f_code.co_name
        frame = frame.f_back
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        waits: Any = task.get_coro()
        while waits is not None:
            if code := getattr(waits, "cr_code", None):
                if _file_of(code):
                    yield code.co_name
                waits = waits.cr_await
            else:
                waits = None


def spoken() -> Event:
    """Return an event with a text."""
    return Event(author="user", content=types.Content(role="user", parts=[types.Part(text="hello")]))


def append(store: Store, session: Session) -> Call:
    """Append to the session."""
    return partial(store.sessions.append_event, session, spoken())


def get(store: Store, _: Session) -> Call:
    """Read the session."""
    return partial(store.sessions.get_session, **SESSION)


def save(store: Store, _: Session) -> Call:
    """Save a version of the artifact."""
    part = types.Part(text="y")
    return partial(store.artifacts.save_artifact, **SESSION, filename="f", artifact=part)


def remember(store: Store, session: Session) -> Call:
    """Remember what the session has."""
    return partial(store.memory.add_session_to_memory, session)


def search(store: Store, _: Session) -> Call:
    """Search the memories."""
    return partial(store.memory.search_memory, **WHO, query="hello")


def erase(store: Store, _: Session) -> Call:
    """Erase the user."""
    return partial(store.erase_user, **WHO)


async def followed() -> dict[str, Way]:
    """Return each way, in a store that has taken it before; on a slow machine, a computation pauses on it."""
    found = {}
    concurrency._LONGEST_S = 0.0  # type: ignore[misc]  # so that it pauses on each machine
    async with Store.local(":memory:") as store:
        session = await store.sessions.create_session(**SESSION)
        for call in (append, get, save, remember, search, erase):
            await call(store, session)()
            way, again = Way(), call(store, session)
            with way.followed():
                await again()
            found[call.__name__] = way
    return found


def main(name: str | None) -> None:
    """Print the counts of all ways, names that several functions on them have, and the files of one way."""
    ways = asyncio.run(followed())
    counts = {each: (len(way.files), way.frames) for each, way in ways.items()}
    names: defaultdict[str, set[str]] = defaultdict(set)
    for way in ways.values():
        for each, places in way.names.items():
            names[each] |= places
    shared = {each: sorted(places) for each, places in names.items() if len(places) > 1}
    files = [] if name is None else ways[name].files
    sys.stdout.write("\n".join([json.dumps(counts), json.dumps(shared), *files]))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
