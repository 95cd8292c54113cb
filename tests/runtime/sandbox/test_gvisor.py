"""Run code in gVisor; left out where its command runsc is not installed, which tests/conftest.py says."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.runtime.sandbox import (
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
from tests.runtime.sandbox.conftest import ENTRY, no_host

pytestmark = pytest.mark.xdist_group("sandbox")


@pytest.fixture
def gvisor(environment_folder: Path) -> GvisorSandbox:
    """Containers that run text, with the way of intercepting that works on any machine."""
    return GvisorSandbox(entry=ENTRY, environment=environment_folder, platform="ptrace", runs_at_once=2)


async def test_code_runs_with_host_calls_and_nothing_of_the_host(gvisor: GvisorSandbox) -> None:
    """Neither files, nor environment, nor a network, nor more processes than it may have."""
    code = """
import os, socket
def outcome(act):
    try:
        act()
    except OSError as exc:
        return type(exc).__name__
    return "done"
def forks():
    for _ in range(200):
        if os.fork() == 0:
            os._exit(0)
result = [
    call_host({"a": 1}), dict(os.environ), __import__("pydantic").VERSION,
    outcome(lambda: open("/etc/passwd")), outcome(lambda: open("/sandbox/new", "w")),
    outcome(lambda: socket.create_connection(("192.0.2.1", 80), 5)),
    outcome(forks),
]
print("printed")
"""

    async def answer(call: dict[str, Any]) -> dict[str, Any]:
        return {"got": call}

    told: list[str] = []
    found = await gvisor.run({"code": code}, answer, limits=Limits(threads=20), on_output=told.append)

    assert [{"got": {"a": 1}}, {}, "2.11.6", "FileNotFoundError"] == found["result"][:4]
    assert found["result"][4] in ("PermissionError", "OSError")
    assert ["OSError", "BlockingIOError"] == found["result"][5:]
    assert ["printed\n"] == told


async def test_code_that_goes_too_far_is_ended(gvisor: GvisorSandbox) -> None:
    """With the same errors as by the other sandbox; its containers are gone."""
    cases: list[tuple[str, dict[str, Any], type[SandboxError]]] = [
        ("import time; time.sleep(600)", {"wall_s": 2.0}, SandboxTimeoutError),
        ("while True: pass", {"cpu_s": 1}, SandboxTimeoutError),
        ("x = bytearray(4 * 10**9)", {}, SandboxMemoryError),
        ("import os; os._exit(3)", {}, SandboxCrashError),
        ("while True: print('x' * 10_000)", {}, SandboxOutputError),
        ("import os; os.write(11, b'noise' * 10)\nwhile True: pass", {}, SandboxProtocolError),
    ]
    ended = await asyncio.gather(
        *(gvisor.run({"code": code}, no_host, limits=Limits(**limits)) for code, limits, _ in cases),
        return_exceptions=True,
    )

    assert [kind for _, _, kind in cases] == [type(each) for each in ended]
    assert [] == _containers()


def _containers() -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"gcp-adk-store-gvisor-" in path.read_bytes():
                found.append(path)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


async def test_where_gvisor_is_missing_its_installation_is_told(environment_folder: Path) -> None:
    """With a command."""
    box = GvisorSandbox(entry=ENTRY, environment=environment_folder, runsc="/nowhere/runsc")

    with pytest.raises(SandboxUnavailableError, match="apt-get install --no-install-recommends runsc"):
        await box.run({"code": ""}, no_host)
