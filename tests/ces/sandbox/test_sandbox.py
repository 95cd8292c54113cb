"""Run code in the sandbox: what it gets, asks and returns, and how long what was started lives."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces.sandbox import (
    BubblewrapSandbox,
    InProcessSandbox,
    Limits,
    SandboxUnavailableError,
    UnsafeSandboxWarning,
)
from tests.ces.sandbox.conftest import ENTRY, Makes, Run, no_host, run_in

THREADS = """
import threading
found = {}
def ask(number):
    found[number] = call_host({"number": number})["double"]
threads = [threading.Thread(target=ask, args=(number,)) for number in range(10)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
result = [found[number] for number in range(10)]
"""


async def test_code_returns_json_and_is_the_platforms_python(run: Run) -> None:
    """With the packages of the platform's releases, each call as the only process there is."""
    found = await run(
        "import os, sys, numpy, pydantic, google.protobuf as p\n"
        "result = [sys.version_info[:2], pydantic.VERSION, numpy.__version__, p.__version__, os.getpid()]"
    )

    assert found[1:] == ["2.11.6", "2.3.1", "5.29.1", 1]
    assert found[0] in ([3, 12], list(sys.version_info[:2]))


async def test_the_standard_library_works(run: Run) -> None:
    """Event loops, threads, databases, time zones, compression, temporary files, C structures."""
    assert [3, 4, 5, "CET", b"x".hex(), "y", 4] == await run("""
import asyncio, concurrent.futures, ctypes, lzma, sqlite3, tempfile, zoneinfo, datetime
async def three():
    await asyncio.sleep(0)
    return await asyncio.to_thread(lambda: 3)
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    four = pool.submit(lambda: 4).result()
five = sqlite3.connect("/tmp/x.db").execute("select 5").fetchone()[0]
zone = datetime.datetime(2025, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).tzname()
with tempfile.TemporaryFile("w+") as file:
    file.write("y"); file.seek(0)
    y = file.read()
result = [asyncio.run(three()), four, five, zone, lzma.decompress(lzma.compress(b"x")).hex(), y,
          ctypes.sizeof(ctypes.c_int)]
""")


async def doubled(call: dict[str, Any]) -> dict[str, Any]:
    """Answer the number of a call with its double."""
    return {"double": 2 * call["number"]}


async def test_threads_ask_the_host_one_after_the_other(sandbox: BubblewrapSandbox) -> None:
    """And each gets its own answer."""
    assert {"result": list(range(0, 20, 2))} == await sandbox.run({"code": THREADS}, doubled)


async def test_large_requests_answers_and_results_pass(sandbox: BubblewrapSandbox) -> None:
    """Up to the limit of a frame, in both directions."""
    text = "ä€😀" * 500_000

    async def answer(call: dict[str, Any]) -> dict[str, Any]:
        assert call == {"text": text}
        return call

    code = "result = call_host({'text': request['text']})['text']"

    assert {"result": text} == await sandbox.run(
        {"code": code, "text": text}, answer, limits=Limits(frame_bytes=32 * 2**20)
    )


async def test_what_is_no_json_or_too_large_is_refused_before_any_run(
    sandbox: BubblewrapSandbox,
) -> None:
    """On the host's side; the message names the limit, which is a positive number."""
    with pytest.raises(InvalidInputError, match="is not JSON"):
        await sandbox.run({"code": object()}, no_host)
    with pytest.raises(InvalidInputError, match=r"the 100 of frame_bytes; go on in .*, or raise it"):
        await sandbox.run({"code": "x" * 200}, no_host, limits=Limits(frame_bytes=100))
    wrong: tuple[Any, ...] = (0, -1, 1.5, True, float("inf"), "1")
    for value in wrong:
        with pytest.raises(InvalidInputError, match="threads"):
            Limits(threads=value)


async def test_what_the_answer_raises_ends_the_run(sandbox: BubblewrapSandbox) -> None:
    """As it is, whatever it is; a TimeoutError of the host's is none of the sandbox's."""

    async def fails(_call: dict[str, Any]) -> dict[str, Any]:
        raise TimeoutError("of the host")

    with pytest.raises(TimeoutError, match="of the host"):
        await sandbox.run({"code": "call_host({})"}, fails)
    with pytest.raises(AssertionError, match="the host was called"):
        await sandbox.run({"code": "try:\n  call_host({})\nexcept BaseException:\n  result = 1"}, no_host)


def test_it_serves_several_event_loops_and_threads(sandbox: BubblewrapSandbox) -> None:
    """At the same time, and after those that started it have ended."""

    def work(number: int) -> int:
        return int(asyncio.run(run_in(sandbox, f"result = {number}")))

    with ThreadPoolExecutor(4) as threads:
        assert [0, 1, 2, 3] == list(threads.map(work, range(4)))


@pytest.mark.usefixtures("sandbox")
def test_a_user_without_rights_has_the_same_sandbox(environment_folder: Path) -> None:
    """Where root's is another way into it."""
    with tempfile.TemporaryDirectory() as folder:  # whose parents everybody enters, unlike those of tmp_path
        Path(folder).chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-m", "tests.ces.sandbox.plain_user", str(environment_folder), folder],
            capture_output=True,
            text=True,
            check=False,
        )
    assert "" == done.stderr
    answer = json.loads(done.stdout)

    assert answer["uid"] != 0
    assert [1, [], False, True, {"a": 1}] == answer["found"]
    assert "PermissionError: [Errno 1] Operation not permitted" == answer["killed"]
    # Another run is refused while there is no room for its process; the one under way ends well.
    assert "Resource temporarily unavailable" in answer["crowded"]["refused"]


async def test_what_is_missing_is_named_with_the_command_that_installs_it(
    fresh: Makes, tmp_path: Path
) -> None:
    """bubblewrap, the environment, the entry."""
    with pytest.raises(SandboxUnavailableError, match="apt-get install --no-install-recommends bubblewrap"):
        await fresh(bwrap=str(tmp_path / "bwrap")).start()
    with pytest.raises(SandboxUnavailableError, match="gcp-adk-store ces install"):
        await run_in(fresh(environment=tmp_path), "result = 1")
    with pytest.raises(SandboxUnavailableError, match="ModuleNotFoundError"):
        await fresh(entry="tests.ces.sandbox.entry.absent:run").start()


REFUSES = """
import json, os, socket, sys
with socket.socket(fileno=int(sys.argv[-1])) as host:
    _, (_, _, status), *_ = socket.recv_fds(host, 65536, 3)
    os.write(status, json.dumps({"failed": sys.argv[1]}).encode())
    host.recv(1)
"""
OF_SANDBOX = "echo '{said}' >&2; exit 1"
OF_PROCESS = "exec {python} {folder}/refuses.py '{said}' \"$@\""


@pytest.mark.parametrize(
    ("refuses", "said", "is_of_rights"),
    [
        (OF_SANDBOX, "bwrap: No permissions to create new namespace", True),
        (OF_SANDBOX, "bwrap: setting up uid map: Permission denied", True),
        (OF_SANDBOX, "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", True),
        (OF_SANDBOX, "bwrap: Unknown option --clearenv", False),
        (OF_PROCESS, "unshare: No space left on device", True),
        (OF_PROCESS, "out of processes", False),
    ],
)
async def test_why_a_sandbox_or_its_process_does_not_start_is_reported(
    refuses: str, said: str, fresh: Makes, tmp_path: Path, *, is_of_rights: bool
) -> None:
    """As it was said; and how namespaces are allowed, where it is they that are not.

    bubblewrap may get its namespaces, and a process of a run none of its own.
    """
    (tmp_path / "refuses.py").write_text(REFUSES)
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\n" + refuses.format(said=said, python=sys.executable, folder=tmp_path))
    bwrap.chmod(0o755)
    what = "sandbox" if refuses == OF_SANDBOX else "process of the code"

    with pytest.raises(SandboxUnavailableError, match=f"the {what} could not be started: {said}") as caught:
        await fresh(bwrap=str(bwrap)).start()
    assert is_of_rights == ("user namespaces" in str(caught.value))


async def test_without_a_sandbox_code_is_warned_of_and_does_the_same() -> None:
    """In this process: results, host calls and their failures."""
    with pytest.warns(UnsafeSandboxWarning, match="only for debugging"):
        box = InProcessSandbox(entry=ENTRY)

    assert {"result": list(range(0, 20, 2))} == await box.run({"code": THREADS}, doubled)
    assert os.getpid() == await run_in(box, "import os; result = os.getpid()")
    with pytest.raises(AssertionError, match="the host was called"):
        await run_in(box, "call_host({})")
    with pytest.raises(InvalidInputError):
        await box.run({"code": object()}, doubled)
    await box.close()
