"""Run code in containers: those of gVisor, where its command runsc is installed, and of what stands in."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService

from gcp_adk_store.ces import PythonRuntime, PythonTool, RuntimeSettings
from gcp_adk_store.ces.sandbox import (
    GvisorSandbox,
    Limits,
    SandboxCrashError,
    SandboxError,
    SandboxMemoryError,
    SandboxOutputError,
    SandboxProtocolError,
    SandboxTimeoutError,
    SandboxUnavailableError,
)
from tests.ces.sandbox.conftest import ENTRY, no_host
from tests.ces.sandbox.test_lifetimes import descriptors, no_thread

RUNSC = shutil.which("runsc")
Containers = Callable[[], list[str]]
OUTCOME = """
def outcome(act):
    try:
        act()
    except OSError as exc:
        return type(exc).__name__
    return "done"
"""


@pytest.fixture(scope="module", params=["stand-in", *(["runsc"] if RUNSC else [])])
def runsc(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command that makes containers."""
    if request.param == "runsc":
        return str(RUNSC)
    path = tmp_path_factory.mktemp("bin") / "runsc"
    path.write_text(f"#!{sys.executable}\n{(Path(__file__).parent / 'runsc.py').read_text()}")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def gvisor(environment_folder: Path, runsc: str) -> GvisorSandbox:
    """Containers that run text, with the way of intercepting that works on any machine."""
    return GvisorSandbox(entry=ENTRY, environment=environment_folder, runsc=runsc, platform="ptrace")


@pytest.fixture
def containers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Containers]:
    """What is left of this test's containers: their processes, and their folders."""
    with tempfile.TemporaryDirectory() as folder:  # of a short path: sockets lie there
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)

        def left() -> list[str]:
            found = [str(path) for path in Path(folder).iterdir()]
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    if folder.encode() in path.read_bytes():
                        found.append(str(path))
            return found

        yield left


async def test_code_runs_with_host_calls_and_nothing_of_the_host(
    gvisor: GvisorSandbox, runsc: str, containers: Containers
) -> None:
    """Neither files, nor environment, nor a network, nor more processes than it may have."""
    code = f"""{OUTCOME}
import os, socket
def forks():
    for _ in range(200):
        if os.fork() == 0:
            os._exit(0)
result = [
    call_host({{"a": 1}}), dict(os.environ), __import__("pydantic").VERSION,
    outcome(lambda: open("/etc/passwd")), outcome(lambda: open("/sandbox/new", "w")),
    outcome(lambda: socket.create_connection(("192.0.2.1", 80), 5)),
    outcome(forks) if {runsc == RUNSC} else "",
]
print("printed")
"""

    async def answer(call: dict[str, Any]) -> dict[str, Any]:
        return {"got": call}

    told: list[str] = []
    found = await gvisor.run({"code": code}, answer, limits=Limits(threads=20), on_output=told.append)

    assert [{"got": {"a": 1}}, {}, "2.11.6", "FileNotFoundError"] == found["result"][:4]
    assert found["result"][4] in ("PermissionError", "OSError")
    assert ["OSError", "BlockingIOError" if runsc == RUNSC else ""] == found["result"][5:]
    assert ["printed\n"] == told
    assert [] == containers()


ENDS: list[tuple[str, dict[str, Any], type[SandboxError]]] = [
    ("import time; time.sleep(600)", {"wall_s": 2}, SandboxTimeoutError),
    ("while True: pass", {"cpu_s": 1}, SandboxTimeoutError),
    ("x = bytearray(4 * 10**9)", {}, SandboxMemoryError),
    ("import os; os._exit(3)", {}, SandboxCrashError),
    ("while True: print('x' * 10_000)", {}, SandboxOutputError),
    ("import os; os.write(11, b'noise' * 10)\nwhile True: pass", {}, SandboxProtocolError),
]


async def test_code_that_goes_too_far_is_ended_and_has_shown_what_it_printed(
    gvisor: GvisorSandbox, containers: Containers
) -> None:
    """With the same errors as by the other sandbox; its containers are gone."""
    ended = await asyncio.gather(
        *(
            gvisor.run({"code": f"show('begun')\n{code}"}, no_host, limits=Limits(**limits))
            for code, limits, _ in ENDS
        ),
        return_exceptions=True,
    )

    assert [kind for _, _, kind in ENDS] == [type(each) for each in ended]
    assert ["begun"] * len(ENDS) == [each.output[:5] for each in ended if isinstance(each, SandboxError)]
    assert [] == containers()


async def test_a_cancelled_run_leaves_no_container(gvisor: GvisorSandbox, containers: Containers) -> None:
    """While it starts, and while it runs."""
    called = asyncio.Event()

    async def answer(_call: dict[str, Any]) -> dict[str, Any]:
        called.set()
        return await asyncio.Future[dict[str, Any]]()

    starting = asyncio.create_task(gvisor.run({"code": "call_host({})"}, answer))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert not called.is_set()
    assert [] == containers()
    running = asyncio.create_task(gvisor.run({"code": "call_host({})"}, answer))
    await called.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [] == containers()


async def test_tools_run_on_sessions_in_containers(
    environment_folder: Path, runsc: str, containers: Containers
) -> None:
    """One that calls another, and fails: the variables stay, and what both printed is shown."""
    sessions = InMemorySessionService()
    await sessions.create_session(app_name="shop", user_id="ada", session_id="s", state={"count": 1})
    box = GvisorSandbox(environment=environment_folder, runsc=runsc, platform="ptrace")
    settings = RuntimeSettings(max_depth=1)
    double = "def double(number: int) -> int:\n    print('doubling')\n    return 2 * number"
    code = """
def ask(number: int) -> int:
    print("asked")
    set_variable("count", get_variable("count") + 1)
    found = tools.double({"number": number}).json()["result"]
    raise ValueError(str(found))
"""
    async with PythonRuntime(
        sessions,
        tools=[PythonTool(name="double", code=double)],
        sandbox=box,
        settings=settings,
    ) as runtime:
        run = await runtime.run_tool(code, "ask", {"number": 4}, "shop/ada/s")

    assert run.error is not None
    assert ("ValueError", "8", "asked\n") == (run.error.type, run.error.message, run.stdout)
    assert "line 6, in ask" in run.error.traceback
    assert ["doubling\n"] == [call.stdout for call in run.calls]
    assert {"count": 1} == dict(run.variables)
    assert [] == containers()


async def test_a_run_that_is_cancelled_again_while_it_is_removed_leaves_no_container(
    gvisor: GvisorSandbox, containers: Containers
) -> None:
    """However often: what is raised says that nothing is left."""
    called = asyncio.Event()

    async def answer(_call: dict[str, Any]) -> dict[str, Any]:
        called.set()
        return await asyncio.Future[dict[str, Any]]()

    running = asyncio.create_task(gvisor.run({"code": "call_host({})"}, answer))
    await called.wait()
    while not running.done():
        running.cancel()
        await asyncio.sleep(0)

    assert running.cancelled()
    assert [] == containers()


def test_a_host_without_threads_starts_no_container(
    gvisor: GvisorSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And keeps nothing of it open."""

    async def refused() -> None:
        before = descriptors()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(SandboxUnavailableError, match="can't start new thread"):
                await gvisor.run({"code": ""}, no_host)
        assert len(descriptors()) == len(before)

    asyncio.run(refused())


HOST = """
import asyncio
from pathlib import Path
from gcp_adk_store.ces.sandbox import GvisorSandbox
async def answer(call):
    print("called", flush=True)
    return {{}}
box = GvisorSandbox(entry={entry!r}, environment=Path({folder!r}), runsc={runsc!r}, platform="ptrace")
code = "import time; call_host({{}}); time.sleep(600)"
asyncio.run(box.run({{"code": code}}, answer))
"""


async def test_a_container_ends_with_its_host(
    environment_folder: Path, runsc: str, containers: Containers
) -> None:
    """Killed, it leaves a folder, and nobody who runs."""
    text = HOST.format(entry=ENTRY, folder=str(environment_folder), runsc=runsc)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as host:  # noqa: ASYNC220
        assert host.stdout is not None
        assert b"called\n" == host.stdout.readline()
        during = containers()
        host.kill()
    async with asyncio.timeout(30):
        while left := [each for each in containers() if each.startswith("/proc/")]:
            await asyncio.to_thread(os.sched_yield)

    assert len(during) > 1
    assert [] == left


async def test_why_a_container_does_not_start_is_told(
    environment_folder: Path, tmp_path: Path, containers: Containers
) -> None:
    """What to install; what the command said; that it said nothing in time."""
    missing = GvisorSandbox(entry=ENTRY, environment=environment_folder, runsc="/nowhere/runsc")
    with pytest.raises(SandboxUnavailableError, match="apt-get install --no-install-recommends runsc"):
        await missing.run({"code": ""}, no_host)
    for script, patience_s, said in (
        ("echo 'no such platform' >&2; exit 128", 30.0, "could not be started: no such platform"),
        ("sleep 600", 0.05, "within the 0.05 s of patience_s"),
    ):
        broken = tmp_path / "runsc"
        broken.write_text(f"#!/bin/sh\n[ $4 = delete ] || [ $3 = delete ] || {{ {script}; }}\n")
        broken.chmod(0o755)
        box = GvisorSandbox(
            entry=ENTRY, environment=environment_folder, runsc=str(broken), patience_s=patience_s
        )
        with pytest.raises(SandboxUnavailableError, match=said):
            await box.run({"code": ""}, no_host)
    assert [] == containers()
