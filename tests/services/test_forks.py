"""Show that services work in processes that were forked, or say at the first call why they cannot."""

import asyncio
import functools
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gcp_adk_store.testing.emulators import Emulator

Fork = Callable[..., Awaitable[dict[str, Any]]]
WELL = {"sessions": "done", "artifacts": "done", "status": 0}
WITHOUT_GRPC = {"sessions": "ForkedProcessError", "artifacts": "done", "status": 0}

STILL = {"GRPC_ENABLE_FORK_SUPPORT": "0"}
"""Keeps gRPC from going on in a child with the calls that were under way in its parent, which may crash."""

FREED = """
from gcp_adk_store.kernel import forks

class Channel:
    def __del__(self):
        print("freed")

forks.keep(Channel())
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
    forking: Callable[..., subprocess.Popen[str]],
) -> Fork:
    """Let a process fork; return how its two children and itself went on."""
    assert firestore_emulator.address

    async def run(*flags: str, **variables: str) -> dict[str, Any]:
        process = await asyncio.to_thread(forking, **variables)
        assert process.stdin
        assert process.stdout
        store = {"ADK_STORE_PROJECT": project, "ADK_STORE_BUCKET": adk_store_bucket}
        process.stdin.write(f"{json.dumps([flags, {**os.environ, **store, **variables}])}\n")
        process.stdin.flush()
        told: dict[str, Any] = {}
        async with asyncio.timeout(300):
            while "status" not in told:
                told |= json.loads(await asyncio.to_thread(process.stdout.readline))
        assert 0 == told["status"]
        return told

    return run


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("multiprocessing",),
        ("used", "slow-threads"),
        ("used", "multiprocessing"),
        ("only-artifacts",),
        ("open-loop", "closed"),
    ],
)
async def test_a_store_that_was_made_before_a_fork_works_in_parent_and_children(
    fork: Fork, flags: tuple[str, ...]
) -> None:
    """Unused, used in loops that have ended as a server's start does, or closed; a thread may end late."""
    told = await fork(*flags)

    assert [WELL, WELL] == told["children"]
    assert {"sessions": "done", "artifacts": "done"} == told["parent"]


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        (("open-loop",), {}),
        (("open-loop",), STILL),
        (("traffic",), STILL),
        (("used", "traffic", "multiprocessing"), STILL),
    ],
)
async def test_a_child_of_a_process_in_which_grpc_runs_is_told_so_at_its_first_call(
    fork: Fork, flags: tuple[str, ...], variables: dict[str, str]
) -> None:
    """Artifacts work in it, and it ends in order; the parent goes on with what was under way at the fork."""
    told = await fork(*flags, **variables)

    assert [WITHOUT_GRPC, WITHOUT_GRPC] == told["children"]
    assert {"sessions": "done", "artifacts": "done"} == told["parent"]


@pytest.mark.parametrize(("used", "expected"), [("only-artifacts", WELL), ("used", WITHOUT_GRPC)])
async def test_clients_that_were_lent_before_a_fork_work_in_its_children(
    fork: Fork, used: str, expected: dict[str, Any]
) -> None:
    """That of artifacts also after the parent used it, with connections of the child's own."""
    told = await fork("borrowed", used)

    assert [expected, expected] == told["children"]


async def test_what_is_kept_of_the_parent_is_not_freed_when_the_interpreter_ends() -> None:
    """A channel of gRPC would wait for threads of the parent, and end the child with a signal."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FREED, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()

    assert (0, b"") == (process.returncode, out)
