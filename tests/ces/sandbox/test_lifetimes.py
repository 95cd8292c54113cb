"""End what was started: runs that are cancelled, sandboxes that are closed, hosts that die or fork."""

import asyncio
import contextlib
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces.sandbox import (
    BubblewrapSandbox,
    Limits,
    SandboxCrashError,
    SandboxError,
    SandboxTimeoutError,
    SandboxUnavailableError,
)
from gcp_adk_store.ces.sandbox.zygotes import ZygoteProcess
from tests.ces.host.runs import Gate
from tests.ces.sandbox.conftest import ENTRY, Makes, no_host, processes_of_runs, run_in, zygotes
from tests.support.ended import has_ended
from tests.support.lengths import at_length

RUNS = at_length(40, 120)
ASKS = {"code": "call_host({})"}
ENDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("result = 1", {}),
    ("while True: pass", {"wall_s": 0.05}),
    ("import os; os._exit(1)", {}),
    ("import os; os.write(3, b'noise' * 10)", {}),
    ("import os; os.write(1, b'x' * 4096)", {"output_bytes": 100}),
    ("call_host({})", {}),
)


async def begun(box: BubblewrapSandbox) -> asyncio.Task[dict[str, Any]]:
    """Return a run that waits for its host."""
    answer = Gate()
    task = asyncio.create_task(box.run(ASKS, answer))
    await answer.begun.wait()
    return task


def descriptors() -> list[int]:
    """Return what this process has open."""
    return [int(each.name) for each in Path("/proc/self/fd").iterdir()]


async def test_a_cancelled_run_leaves_nothing(sandbox: BubblewrapSandbox) -> None:
    """No process, task or descriptor, also if it is cancelled again while it ends."""
    before, runs, tasks = zygotes(), processes_of_runs(), asyncio.all_tasks()
    for again in (False, True, True):
        task = await begun(sandbox)
        of_this = processes_of_runs() - runs
        assert (1, True) == (len(of_this), of_this < zygotes() - before)
        task.cancel()
        while again and not task.done():
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (runs, tasks) == (processes_of_runs(), asyncio.all_tasks())
        assert 2 == await run_in(sandbox, "result = 1 + 1")


def test_a_cancelled_run_whose_event_loop_ends_waits_for_its_process(
    sandbox: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop cancels all tasks, also those that wait for the end of the process."""
    close = ZygoteProcess.close
    ended: list[bool] = []

    async def cancelled() -> None:
        task = await begun(sandbox)
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)

    def closing(process: ZygoteProcess) -> None:
        ended.append(process._ended is not None)
        close(process)

    monkeypatch.setattr(ZygoteProcess, "close", closing)
    asyncio.run(cancelled())

    assert [True] == ended


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_run_whose_event_loop_is_closed_under_it_is_killed(sandbox: BubblewrapSandbox) -> None:
    """And the next event loop has a turn."""
    gc.freeze()  # what earlier tests left is not collected here
    loop = asyncio.new_event_loop()
    before = processes_of_runs()
    loop.run_until_complete(begun(sandbox))
    of_this = processes_of_runs() - before
    loop.set_exception_handler(lambda *_: None)  # it reports a task that was destroyed, which is so
    loop.close()
    gc.collect()

    assert [True] == [has_ended(number) for number in of_this]
    assert 2 == asyncio.run(run_in(sandbox, "result = 1 + 1"))


async def test_runs_leave_no_file_thread_or_process_however_they_end(
    sandbox: BubblewrapSandbox,
) -> None:
    """The second time of each takes what the first gave back."""

    async def all_of_them() -> None:
        for code, limits in ENDS:
            with contextlib.suppress(SandboxError, AssertionError):
                await sandbox.run({"code": code}, no_host, limits=Limits(**limits))

    await all_of_them()
    gc.collect()  # what other tests left to it may end at any time
    open_before, threads, processes = len(descriptors()), set(threading.enumerate()), zygotes()
    await all_of_them()

    assert len(descriptors()) <= open_before
    assert not set(threading.enumerate()) - threads
    assert all(has_ended(number) for number in zygotes() - processes)


@contextlib.contextmanager
def no_more_descriptors() -> Iterator[None]:
    """Have this process open nothing more for a block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(descriptors()) + 1, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_host_without_descriptors_refuses_a_run_and_ends_no_other(sandbox: BubblewrapSandbox) -> None:
    """The runs under way have theirs."""
    answer = Gate({"a": 1})
    task = asyncio.create_task(sandbox.run({"code": "result = call_host({})"}, answer))
    await answer.begun.wait()
    with no_more_descriptors(), pytest.raises(SandboxUnavailableError, match="Too many open files"):
        await run_in(sandbox, "result = 1")
    answer.opened.set()

    assert {"result": {"a": 1}} == await task
    assert 2 == await run_in(sandbox, "result = 1 + 1")


def nothing_is_started(error: Exception) -> Callable[..., None]:
    """Return what starts nothing, as where a process may have no more, or for a reason nobody foresaw."""

    def start(*_: Any, **__: Any) -> None:
        raise error

    return start


@pytest.mark.parametrize(
    ("of", "name", "error", "shown"),
    [
        (threading.Thread, "start", RuntimeError("can't start new thread"), SandboxUnavailableError),
        (subprocess, "Popen", LookupError("unforeseen"), LookupError),
    ],
)
async def test_a_sandbox_that_does_not_start_is_reported_to_who_waits_and_starts_later(
    fresh: Makes, of: Any, name: str, error: Exception, shown: type[Exception]
) -> None:
    """Nobody waits for a start that never began."""
    box, before = fresh(), descriptors()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of, name, nothing_is_started(error))
        for _ in range(2):
            with pytest.raises(shown, match=str(error)):
                await run_in(box, "result = 1")
    assert len(descriptors()) == len(before)

    assert 1 == await run_in(box, "result = 1")


async def test_a_process_that_is_ended_before_it_begins_is_made_again_and_ends_no_other(
    sandbox: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where memory runs out for its keeper."""
    begins = ZygoteProcess.begins
    ended: list[ZygoteProcess] = []

    async def once_ended(process: ZygoteProcess) -> bool:
        if ended:
            return await begins(process)
        ended.append(process)
        return False

    other = await begun(sandbox)
    monkeypatch.setattr(ZygoteProcess, "begins", once_ended)

    assert 2 == await run_in(sandbox, "result = 1 + 1")
    assert 1 == len(ended)
    assert not other.done()
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other


async def test_hundreds_of_runs_can_be_asked_for_at_once(fresh: Makes) -> None:
    """More than fit into the queue of a socket."""
    box = fresh(runs_at_once=RUNS)

    found = await asyncio.gather(*(run_in(box, f"result = {number}") for number in range(RUNS)))

    assert list(range(RUNS)) == found
    assert RUNS == box.runs_at_once


async def test_a_sandbox_that_was_ended_or_closed_starts_again(fresh: Makes) -> None:
    """A run that was under way gets an error; closing twice, and before a start, is nothing."""
    box = fresh()
    await box.close()
    before = zygotes()
    running = await begun(box)
    # Not the run's own: its keeper would report that, if it was faster.
    for number in sorted(zygotes() - before - processes_of_runs()):
        with contextlib.suppress(ProcessLookupError):  # ended with another of them
            os.kill(number, signal.SIGKILL)
    with pytest.raises(SandboxCrashError, match="ended while"):
        await running
    assert 1 == await run_in(box, "result = 1")
    for _ in range(2):
        await box.close()
    assert set() == zygotes() - before
    assert 1 == await run_in(box, "result = 1")


HOST = """
import asyncio, os, sys
from pathlib import Path
from gcp_adk_store import ForkedProcessError
from gcp_adk_store.ces.sandbox import BubblewrapSandbox
box = BubblewrapSandbox(entry={entry!r}, environment=Path({folder!r}), preload=())
async def run(answer=None):
    code = "call_host({{}})" if answer else "import os; result = os.getpid()"
    return await box.run({{"code": code}}, answer)
"""


def host(script: str, folder: Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start a host that does *script*."""
    text = HOST.format(entry=ENTRY, folder=str(folder)) + script
    return subprocess.Popen([sys.executable, "-W", "ignore", "-c", text], stdout=subprocess.PIPE, **options)


def test_the_sandbox_ends_with_its_host(environment_folder: Path) -> None:
    """Killed, it leaves neither a zygote nor code that runs."""
    before = zygotes()
    script = """
async def answer(call):
    print("called", flush=True)
    await asyncio.sleep(600)
asyncio.run(run(answer))
"""
    with host(script, environment_folder) as process:
        assert process.stdout is not None
        assert b"called\n" == process.stdout.readline()
        of_this = zygotes() - before
        process.kill()

    assert len(of_this) >= 3
    assert all(has_ended(number) for number in of_this)


def test_a_fork_of_the_host_cannot_use_its_sandbox(environment_folder: Path) -> None:
    """It ends nothing of its parent's, and keeps nothing of it alive."""
    script = """
asyncio.run(run())
reads, writes = os.pipe()
child = os.fork()
if child == 0:
    asyncio.run(box.close())
    try:
        asyncio.run(run())
    except ForkedProcessError:
        os.write(writes, b"refused")
    import time; time.sleep(600)
print(os.read(reads, 7).decode(), asyncio.run(run())["result"], flush=True)
asyncio.run(box.close())
print("closed", flush=True)
os.kill(child, 9)
os.waitpid(child, 0)
"""
    with host(script, environment_folder, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    assert b"refused 1\nclosed\n" == said


async def test_a_run_ends_when_its_wall_time_is_over(sandbox: BubblewrapSandbox) -> None:
    """That time passes for real here: it proves that the sandbox ends a run.

    The code has no end, so the outcome is the same however slow the machine is.
    """
    with pytest.raises(SandboxTimeoutError, match=r"0\.2 s of wall_s"):
        await run_in(sandbox, "while True: pass", wall_s=0.2)
    assert 1 == await run_in(sandbox, "result = 1", wall_s=10**9)  # longer than the kernel waits at a time


WATCH = """
import os, signal, socket, sys
from gcp_adk_store.ces.sandbox.inside import keeping
keeping._GRACE_S = 0.1
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
code = os.fork()
if code == 0:
    signal.pause()
if {is_told}:
    ours.shutdown(socket.SHUT_WR)
print(keeping._watch(code, theirs.fileno(), 60 if {is_told} else 0.2)[0])
"""


@pytest.mark.parametrize("is_told", [True, False])
def test_a_keeper_ends_its_process_when_its_time_is_over_or_the_host_says_so(*, is_told: bool) -> None:
    """A process that would never end; a host that blocks does not matter."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH.format(is_told=is_told)], capture_output=True, text=True, check=False
    )

    assert signal.SIGKILL == int(done.stdout)
