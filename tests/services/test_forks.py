"""Show that a store that was not used before a fork works after it, and that one that was used raises."""

import asyncio
import functools
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.testing.emulators import Emulator

Fork = Callable[..., Awaitable[dict[str, Any]]]
WELL = {"sessions": "done", "artifacts": "done", "status": 0}
USED = {"sessions": "ForkedProcessError", "artifacts": "ForkedProcessError", "status": 0}
WITHOUT_GRPC = {"sessions": "ForkedProcessError", "artifacts": "done", "status": 0}

STILL = {"GRPC_ENABLE_FORK_SUPPORT": "0"}
"""Keeps gRPC from going on in a child with the calls that were under way in its parent, which may crash."""

FREED = """
import os, sys
from gcp_adk_store.kernel.process import OwnProcess

class Channels:
    def __init__(self):
        self.process = OwnProcess(self)

    def __del__(self):
        print("freed in the child" if child == 0 else "freed in the parent")

used = Channels()
used.process.require_own()
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
del used
"""


@pytest.fixture(scope="module")
def forking() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return the process that forks under some variables, which gRPC reads when it is imported."""
    with ExitStack() as ends:

        @functools.cache
        def process(**variables: str) -> subprocess.Popen[str]:
            started = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.services.forking_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **variables},
                text=True,
            )
            ends.enter_context(started)
            ends.callback(started.kill)
            return started

        yield process


@pytest.fixture
def fork(
    firestore_emulator: Emulator,
    adk_store_bucket: str,
    project: str,
    tmp_path: Path,
    forking: Callable[..., subprocess.Popen[str]],
) -> Fork:
    """Let a process fork; return how its two children and itself went on."""
    assert firestore_emulator.address

    async def run(*flags: str, **variables: str) -> dict[str, Any]:
        process = await asyncio.to_thread(forking, **variables)
        assert process.stdin
        assert process.stdout
        store = {"ADK_STORE_PROJECT": project, "ADK_STORE_BUCKET": adk_store_bucket, "FOLDER": str(tmp_path)}
        process.stdin.write(f"{json.dumps([flags, {**os.environ, **store, **variables}])}\n")
        process.stdin.flush()
        answer: dict[str, Any] = {}
        async with asyncio.timeout(300):
            while "status" not in answer:
                answer |= json.loads(await asyncio.to_thread(process.stdout.readline))
        assert 0 == answer["status"]
        return answer

    return run


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("multiprocessing",),
        ("other-used", "other-closed", "slow-threads"),
        ("borrowed",),
        ("local",),
        ("local", "other-used", "multiprocessing"),
    ],
)
async def test_a_store_that_was_not_used_before_a_fork_works_in_parent_and_children(
    fork: Fork, flags: tuple[str, ...]
) -> None:
    """Also beside one that was used and closed, or used in a folder; a thread of gRPC may end late."""
    answer = await fork(*flags)

    assert [WELL, WELL] == answer["children"]
    assert "borrowed" in flags or answer["parent"] == {"sessions": "done", "artifacts": "done"}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        (("used",), {}),
        (("used", "closed", "multiprocessing"), {}),
        (("traffic",), STILL),
        (("used", "traffic", "multiprocessing"), STILL),
        (("local", "used"), {}),
    ],
)
async def test_a_child_of_a_process_that_used_the_store_raises_at_its_first_call(
    fork: Fork, flags: tuple[str, ...], variables: dict[str, str]
) -> None:
    """The child ends in order, and the parent goes on with what was under way at the fork."""
    answer = await fork(*flags, **variables)

    assert [USED, USED] == answer["children"]
    assert {"sessions": "done", "artifacts": "done"} == answer["parent"]


async def test_a_fork_amid_calls_of_a_store_in_a_folder_harms_neither_side(fork: Fork) -> None:
    """The children raise at their first call, whatever the threads did at the fork."""
    answer = await fork("local", "traffic", "multiprocessing")

    assert [USED, USED] == answer["children"]
    assert {"sessions": "done", "artifacts": "done"} == answer["parent"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("flag", ["open-loop", "other-open-loop"])
@pytest.mark.parametrize("variables", [{}, STILL])
async def test_a_child_of_a_process_in_which_grpc_runs_raises_before_it_calls_firestore(
    fork: Fork, flag: str, variables: dict[str, str]
) -> None:
    """Through whichever store gRPC runs; artifacts, which were not used, need no gRPC."""
    answer = await fork(flag, **variables)

    assert [WITHOUT_GRPC, WITHOUT_GRPC] == answer["children"]
    assert {"sessions": "done", "artifacts": "done"} == answer["parent"]


async def test_clients_that_were_lent_and_used_before_a_fork_raise_in_its_children(fork: Fork) -> None:
    """They are the parent's, as those of the store's own."""
    answer = await fork("borrowed", "used")

    assert [USED, USED] == answer["children"]


async def test_what_the_parent_used_is_not_freed_when_the_interpreter_of_a_child_ends() -> None:
    """A channel of gRPC would wait for threads of the parent, and end the child with a signal."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FREED, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()

    assert (0, b"freed in the parent\n") == (process.returncode, out)
