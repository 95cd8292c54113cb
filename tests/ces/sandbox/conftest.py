"""Start one sandbox for all tests: it is used from the event loop of each."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces.sandbox import (
    BubblewrapSandbox,
    Limits,
    Sandbox,
    SandboxUnavailableError,
    bubblewrap,
    seccomp,
)
from tests.support.clock import PassingTime

ENTRY = "tests.ces.sandbox.entry.code:run"
_DEPTH_OF_ZYGOTES = 2
_ALLOW_ALL = bytes([0x06, 0, 0, 0, 0, 0, 0xFF, 0x7F])

Run = Callable[..., Awaitable[Any]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder: what they try is Linux' own."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker("linux")


@pytest.fixture(scope="session")
def environment_folder(working_environment: Path) -> Path:
    """What user code runs in."""
    return working_environment


@pytest.fixture(scope="session")
def sandbox(environment_folder: Path) -> Iterator[BubblewrapSandbox]:
    """The sandbox that runs text."""
    yield from _started(BubblewrapSandbox(entry=ENTRY, environment=environment_folder))


@pytest.fixture(scope="session")
def guest(environment_folder: Path) -> Iterator[BubblewrapSandbox]:
    """The sandbox that runs tools and callbacks."""
    yield from _started(BubblewrapSandbox(environment=environment_folder, preload=()))


@pytest.fixture(scope="session")
def unfiltered(environment_folder: Path) -> Iterator[BubblewrapSandbox]:
    """The same with every system call: what namespaces and rights alone keep out."""
    made = BubblewrapSandbox(entry=ENTRY, environment=environment_folder, preload=())
    yield from _started(made, program=lambda: _ALLOW_ALL)


Makes = Callable[..., BubblewrapSandbox]


@pytest.fixture
async def fresh(environment_folder: Path) -> AsyncIterator[Makes]:
    """Make sandboxes of a test's own, which run text."""
    made: list[BubblewrapSandbox] = []

    def make(**options: Any) -> BubblewrapSandbox:
        given = {"entry": ENTRY, "environment": environment_folder, "preload": (), **options}
        made.append(BubblewrapSandbox(**given))
        return made[-1]

    yield make
    for each in made:
        await each.close()


def _started(
    made: BubblewrapSandbox, *, program: Callable[[], bytes] = seccomp.program
) -> Iterator[BubblewrapSandbox]:
    with pytest.MonkeyPatch.context() as patch:  # sandboxes that start later have the filter
        patch.setattr(bubblewrap, "program", program)
        try:
            asyncio.run(made.start())
        except SandboxUnavailableError as exc:
            pytest.fail(f"the sandbox cannot run here: {exc}", pytrace=False)
    yield made
    asyncio.run(made.close())


THREADS = """
import threading
done, made = threading.Event(), 0
threading.stack_size(64 * 1024)
try:
    for made in range(200):
        threading.Thread(target=done.wait).start()
except RuntimeError:
    pass
done.set()
"""
"""Starts threads until one fails; `made` is how many there were, 199 where none did."""


async def no_host(call: dict[str, Any]) -> dict[str, Any]:
    """Refuse to be called."""
    raise AssertionError(f"the host was called: {call}")


async def run_in(box: Sandbox, code: str, **limits: Any) -> Any:
    """Return what *code* leaves in ``result``; an exception of its own is raised as an AssertionError."""
    found = await box.run({"code": code}, no_host, limits=Limits(**limits))
    assert "error" not in found, found["error"]
    return found["result"]


ASKS_AND_GOES_ON = """
import json, os
asked = json.dumps({"call": {}}).encode()
os.write(3, len(asked).to_bytes(4, "big") + asked)
"""
"""Code that calls the host, and does not wait for its answer."""


def too_late(passing: PassingTime) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
    """Return a host that answers after every limit of a run."""

    async def answer(_: dict[str, Any]) -> dict[str, Any]:
        passing.after(3600)
        await asyncio.Event().wait()
        raise AssertionError("it was woken")

    return answer


@pytest.fixture
def run(sandbox: BubblewrapSandbox) -> Run:
    """Run code inside."""

    async def inside(code: str, **limits: Any) -> Any:
        return await run_in(sandbox, code, **limits)

    return inside


def outside(code: str) -> Any:
    """Return what *code* leaves in ``result`` in an ordinary process: the control of an attack."""
    shown = f"{code}\nimport json as _json; print(_json.dumps(result))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def number_of(name: str) -> int:
    """Return the number of a system call on this machine."""
    from gcp_adk_store.ces.sandbox.seccomp import _library  # noqa: PLC0415

    found = int(_library().seccomp_syscall_resolve_name(name.encode()))
    assert found >= 0, f"{name} is no system call here"
    return found


def zygotes() -> set[int]:
    """Return the processes of sandboxes that this process, or one that it started, has made."""
    parents, found = {}, set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (path / "status").read_text(), (path / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(path.name)] = int(_field(status, "PPid")[0])
        if b"inside.zygote" in command:
            found.add(int(path.name))
    return {each for each in found if os.getpid() in _above(each, parents)}


def processes_of_runs() -> set[int]:
    """Return the processes of runs: those in a namespace within that of a zygote."""
    found = set()
    for number in zygotes():
        try:
            status = Path(f"/proc/{number}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if len(_field(status, "NSpid")) > _DEPTH_OF_ZYGOTES:
            found.add(number)
    return found


def _above(number: int, parents: dict[int, int]) -> Iterator[int]:
    while number in parents:
        number = parents[number]
        yield number


def _field(status: str, name: str) -> list[str]:
    return next(line for line in status.splitlines() if line.startswith(f"{name}:")).split()[1:]
