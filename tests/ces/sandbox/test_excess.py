"""Attack from inside, by excess: time, memory, output, threads and calls end a run, and no other."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces.sandbox import (
    BubblewrapSandbox,
    Limits,
    SandboxCrashError,
    SandboxError,
    SandboxMemoryError,
    SandboxOutputError,
    SandboxProtocolError,
    SandboxTimeoutError,
)
from tests.ces.sandbox.attacks import THREADS
from tests.ces.sandbox.conftest import ASKS_AND_GOES_ON, Run, outside, processes_of_runs, too_late
from tests.support.clock import PassingTime
from tests.support.lengths import at_length

ENDLESS = {
    "a loop that ignores signals": (
        "import signal\nfor n in (2, 14, 15, 24): signal.signal(n, signal.SIG_IGN)\n"
        f"{ASKS_AND_GOES_ON}while True: pass"
    ),
    "a sleep": f"{ASKS_AND_GOES_ON}import time; time.sleep(600)",
    "a match": f"{ASKS_AND_GOES_ON}import re; re.match('(a+)+$', 'a' * 40 + 'b')",
}
ENDS: dict[str, tuple[str, dict[str, Any], type[SandboxError]]] = {
    "processor time": ("while True: pass", {"cpu_s": 1}, SandboxTimeoutError),
    "4 GB": ("x = bytearray(4 * 10**9)", {}, SandboxMemoryError),
    "memory little by little": (
        "x = []\nwhile True: x.append(bytearray(10**7))",
        {"memory_bytes": 400 * 2**20},
        SandboxMemoryError,
    ),
    "a flood of text": ("while True: print('x' * 10_000)", {}, SandboxOutputError),
    "a flood past Python": ("import os\nwhile True: os.write(1, b'x' * 10_000)", {}, SandboxOutputError),
    "a large result": ("result = 'x' * 30_000_000", {}, SandboxOutputError),
    "os._exit": ("import os; os._exit(0)", {}, SandboxCrashError),
    "abort": ("import os; os.abort()", {}, SandboxCrashError),
    "a bad pointer": ("import ctypes; ctypes.string_at(8)", {}, SandboxCrashError),
    "a closed way to the host": ("import os; os.close(3)\nwhile True: pass", {}, SandboxCrashError),
    "no JSON": ("result = {1, 2}", {}, SandboxCrashError),
    "no text": ("result = chr(0xD800)", {}, SandboxCrashError),
    "sys.exit": ("import sys; sys.exit(3)", {}, SandboxCrashError),
    "noise as a frame": ("import os; os.write(3, b'noise' * 10)\nwhile True: pass", {}, SandboxProtocolError),
    "a frame of 4 GB": ("import os; os.write(3, b'\\xff' * 8)\nwhile True: pass", {}, SandboxProtocolError),
    "too many calls": ("for _ in range(9): call_host({})", {"host_calls": 5}, SandboxProtocolError),
}


@pytest.fixture(scope="module")
def ended(sandbox: BubblewrapSandbox) -> dict[str, BaseException | None]:
    """How each of them ended; they run beside one another."""

    async def answer(call: dict[str, Any]) -> dict[str, Any]:
        return call

    async def end_of(code: str, limits: dict[str, Any]) -> BaseException | None:
        try:
            await sandbox.run({"code": f"print('begun')\n{code}"}, answer, limits=Limits(**limits))
        except SandboxError as exc:
            return exc
        return None

    async def all_of_them() -> list[BaseException | None]:
        return await asyncio.gather(*(end_of(code, limits) for code, limits, _ in ENDS.values()))

    return dict(zip(ENDS, asyncio.run(all_of_them()), strict=True))


@pytest.mark.parametrize("name", ENDS)
def test_a_run_that_goes_too_far_is_ended(ended: dict[str, BaseException | None], name: str) -> None:
    """With an error of its kind, which has what it printed, up to a limit."""
    found, kind = ended[name], ENDS[name][2]

    assert isinstance(found, SandboxError)
    assert kind is type(found), found
    assert found.output.startswith("begun\n")
    assert len(found.output) <= Limits().output_bytes


@pytest.mark.parametrize("name", at_length([*ENDLESS][:2], [*ENDLESS]))  # a match is killed as a loop is
async def test_a_run_that_takes_too_long_is_ended(
    sandbox: BubblewrapSandbox, passing: PassingTime, name: str
) -> None:
    """Whatever it does; an hour passes once it is about to do that."""
    with pytest.raises(SandboxTimeoutError, match="wall_s") as caught:
        await sandbox.run({"code": f"print('begun')\n{ENDLESS[name]}"}, too_late(passing))

    assert "begun\n" == caught.value.output


@pytest.mark.usefixtures("ended")
async def test_after_all_of_them_the_next_run_works(run: Run) -> None:
    """Beside and after them nothing is ended but they."""
    assert 2 == await run("result = 1 + 1")


async def test_threads_are_limited(run: Run) -> None:
    """As many as are promised start, with Python's stacks and memory of their own; beyond, one fails."""
    code = """
import threading
done = threading.Event()
def work():
    kept = [bytearray(1000) for _ in range(1000)]
    done.wait()
threads = [threading.Thread(target=work) for _ in range(60)]
for each in threads: each.start()
done.set()
for each in threads: each.join()
result = len(threads)
"""
    assert 60 == await run(code)
    code = f"{THREADS}\nresult = made"
    assert 20 < await run(code, threads=40) < 40
    assert 199 == outside(code)


def score(number: int) -> int:
    """Return how readily the kernel ends a process where memory runs out."""
    return int(Path(f"/proc/{number}/oom_score_adj").read_text())


async def test_where_memory_runs_out_a_run_ends_before_its_host(sandbox: BubblewrapSandbox) -> None:
    """Its limit is one of many; the kernel takes what has the highest score."""
    before = processes_of_runs()

    async def answer(_call: dict[str, Any]) -> dict[str, Any]:
        return {"scores": [score(number) for number in processes_of_runs() - before]}

    found = await sandbox.run({"code": "result = call_host({})['scores']"}, answer)

    assert {"result": [1000]} == found
