"""A sandbox may have one process ready for the next run: as fresh as any, and gone with the sandbox."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcp_adk_store.ces.sandbox import BubblewrapSandbox, SandboxTimeoutError
from tests.ces.sandbox.conftest import ENTRY, processes_of_runs, run_in, zygotes
from tests.ces.sandbox.test_lifetimes import begun
from tests.support.ended import has_ended

SIZE = """
import os
handle = os.open("/tmp/a", os.O_CREAT | os.O_WRONLY)
result = os.write(handle, b"x" * 8192)
"""
MARKS = """
import json, os, random
result = [getattr(json, "mark", None), os.path.exists("/tmp/mark"), random.random()]
json.mark = 1
open("/tmp/mark", "w").write("x")
"""


@pytest.fixture
async def box(environment_folder: Path) -> AsyncIterator[BubblewrapSandbox]:
    """A sandbox with a spare process."""
    made = BubblewrapSandbox(entry=ENTRY, environment=environment_folder, preload=(), has_spare=True)
    yield made
    await made.close()


async def test_a_spare_is_ready_after_each_run_and_serves_one_run(box: BubblewrapSandbox) -> None:
    """It has what no run left, random numbers of its own, and ends with the sandbox."""
    before = processes_of_runs(), zygotes()
    found = [await run_in(box, MARKS) for _ in range(4)]
    spare = await appears(before[0])

    assert [[None, False]] * 4 == [each[:2] for each in found]
    assert 4 == len({each[2] for each in found})
    assert 1 == len(spare)
    await box.close()
    assert all(has_ended(number) for number in spare)
    assert set() == zygotes() - before[1]


def parent(number: int) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])


async def appears(before: set[int]) -> set[int]:
    """Return the processes of runs beside those of *before*, once there is one."""
    async with asyncio.timeout(60):
        while not (found := processes_of_runs() - before):  # noqa: ASYNC110  # /proc notifies nobody
            await asyncio.sleep(0)
    return found


async def test_runs_at_a_time_and_of_other_limits_have_their_own(box: BubblewrapSandbox) -> None:
    """A process and limits; the wall time is that of the run, whichever process serves it.

    That time passes for real here: it proves that the sandbox ends a run. The code has no end, so the outcome
    is the same however slow the machine is.
    """
    running = [await begun(box) for _ in range(3)]
    assert 8192 == await run_in(box, SIZE)
    assert 4096 == await run_in(box, SIZE, file_bytes=4096)
    assert 8192 == await run_in(box, SIZE)
    with pytest.raises(SandboxTimeoutError, match=r"0\.2 s of wall_s"):
        await run_in(box, "while True: pass", wall_s=0.2)
    assert 1 == await run_in(box, "result = 1", wall_s=10**9)  # longer than the kernel waits at a time
    for task in running:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_spare_that_was_killed_costs_no_run(box: BubblewrapSandbox) -> None:
    """As where the kernel needs its memory."""
    before = processes_of_runs()
    assert 1 == await run_in(box, "result = 1")
    for number in await appears(before):
        keeper = parent(number)
        os.kill(number, signal.SIGKILL)
        assert has_ended(keeper)

    assert 2 == await run_in(box, "result = 2")


WATCH = """
import os, signal, socket, sys
from gcp_adk_store.ces.sandbox.inside import keeping
keeping._GRACE_S = 0.1
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
code = os.fork()
if code == 0:
    signal.pause()
if {message!r}:
    ours.send({message!r})
else:
    ours.shutdown(socket.SHUT_WR)
print(keeping._watch(code, theirs.fileno())[0])
"""


@pytest.mark.parametrize("message", [b"0.3", b""])
def test_a_keeper_ends_its_process_when_its_time_is_over_or_the_host_says_so(message: bytes) -> None:
    """A process that would never end; a host that blocks does not matter."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH.format(message=message)], capture_output=True, text=True, check=False
    )

    assert signal.SIGKILL == int(done.stdout)
