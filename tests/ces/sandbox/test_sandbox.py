"""Run code in the sandbox: what it gets, asks, prints and returns, and what becomes of its output."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces.sandbox import (
    Answer,
    BubblewrapSandbox,
    InProcessSandbox,
    Limits,
    Sandbox,
    SandboxCrashError,
    SandboxError,
    SandboxMemoryError,
    SandboxOutputError,
    SandboxProtocolError,
    SandboxTimeoutError,
    SandboxUnavailableError,
    UnsafeSandboxWarning,
)
from tests.ces.sandbox import late_entry
from tests.ces.sandbox.conftest import ENTRY, Makes, Run, no_host, processes_of_runs, run_in, too_late
from tests.support.clock import PassingTime

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


PRINTS = """
import os, sys
def tool():
    print("out")
    print("error", file=sys.stderr)
    os.write(1, b"native\\n")
    print("no end", end="", flush=False)
"""
PRINTED = "out\nerror\nnative\nno end"


def request(code: str, **settings: Any) -> dict[str, Any]:
    """Return a request to run the function ``tool`` of *code*."""
    file = {"source": code, "filename": "tool.py", "name": "tool"}
    return {"kind": "tool", "code": [file], "settings": settings}


async def ended(
    box: Sandbox, code: str, answer: Answer = no_host, **limits: Any
) -> tuple[BaseException, list[str]]:
    """Return what ended a tool that printed before it went too far, and what *on_output* got.

    An error of the sandbox has the same.
    """
    outputs: list[str] = []
    asks = {**request(f"{PRINTS}    {code}"), "tools": ["other"]}
    with pytest.raises((SandboxError, AssertionError)) as caught:
        await box.run(asks, answer, limits=Limits(**limits), on_output=outputs.append)
    if isinstance(caught.value, SandboxError):
        assert [caught.value.output] == outputs
    return caught.value, outputs


async def test_what_a_tool_printed_is_shown_whatever_ends_it(
    guest: BubblewrapSandbox, passing: PassingTime
) -> None:
    """To both streams and past them, in order, also the line that has no end yet.

    Its time, a crash, memory that runs out, the end of all of the sandbox, and any error of its host.
    """

    async def kill_the_run(_call: dict[str, Any]) -> dict[str, Any]:
        for number in processes_of_runs():
            os.kill(number, signal.SIGKILL)
        return await asyncio.Future[dict[str, Any]]()

    async def end_the_sandbox(_call: dict[str, Any]) -> dict[str, Any]:
        await guest.close()
        return await asyncio.Future[dict[str, Any]]()

    async def refuses(_call: dict[str, Any]) -> dict[str, Any]:
        raise SandboxProtocolError("no question")

    asks = "tools.other({})"
    for code, answer, kind in (
        (asks, too_late(passing), SandboxTimeoutError),
        ("import ctypes; ctypes.string_at(8)", no_host, SandboxCrashError),
        (asks, kill_the_run, SandboxMemoryError),
        (asks, end_the_sandbox, SandboxCrashError),
        (asks, refuses, SandboxProtocolError),
        (asks, no_host, AssertionError),
    ):
        caught, outputs = await ended(guest, code, answer)
        assert (kind, [PRINTED]) == (type(caught), outputs)


async def test_a_flood_of_a_tool_is_cut_and_the_tool_goes_on(guest: BubblewrapSandbox) -> None:
    """At its own limit, whatever its characters take; past it the run is ended. Small writes are shown."""
    outputs: list[str] = []
    flood = "def tool():\n    for _ in range(400): print('\\U0001f600' * 1000, end='')\n    return 7"
    small = "def tool():\n    for number in range(20_000): print(number, end=' ')"
    answer = await guest.run(request(flood), no_host, on_output=outputs.append)
    await guest.run(request(small), no_host, on_output=outputs.append)
    native, shown = await ended(guest, "while True: os.write(2, b'x' * 4096)", output_bytes=10_000)
    _, cut = await ended(guest, "print('x' * 300_000); os._exit(3)")

    assert 7 == answer["result"]
    assert outputs == [
        "\U0001f600" * 262_144 + "\n[output was cut here]\n",
        " ".join(map(str, range(20_000))) + " ",
    ]
    assert (SandboxOutputError, 10_000) == (type(native), len(shown[0]))
    assert cut[0].endswith("xxx\n[output was cut here]\n")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("call_host({})", SandboxTimeoutError),
        ("import sys; sys.exit(1)", SandboxCrashError),
        ("raise MemoryError", SandboxMemoryError),
        ("result = {1}", SandboxError),
    ],
)
async def test_without_a_sandbox_what_was_shown_is_reported_as_well(
    code: str, kind: type[SandboxError], passing: PassingTime
) -> None:
    """What an entry shows; what is printed past it, this process prints."""
    with pytest.warns(UnsafeSandboxWarning):
        box = InProcessSandbox(entry="tests.ces.sandbox.entry.code:run")
    outputs: list[str] = []
    with pytest.raises(kind) as caught:
        await box.run({"code": f"show('a')\n{code}"}, too_late(passing), on_output=outputs.append)
    await box.run({"code": "show('b')"}, no_host, on_output=outputs.append)

    assert ["a", "a", "b"] == [caught.value.output, *outputs]


async def test_a_run_that_was_given_up_takes_no_streams_later() -> None:
    """Its thread may come to its code when its caller has gone."""
    with pytest.warns(UnsafeSandboxWarning):
        box = InProcessSandbox(entry=f"{late_entry.__name__}:run")
    before = sys.stdin, sys.stdout, sys.stderr
    running = asyncio.create_task(box.run(request("def tool():\n    return 1"), no_host))
    await asyncio.to_thread(late_entry.has_come.wait, 60)
    running.cancel()
    await asyncio.wait([running])
    late_entry.begins.set()
    assert await asyncio.to_thread(late_entry.has_ended.wait, 60)

    assert ["HostGoneError"] == [each["error"]["type"] for each in late_entry.answers]
    assert before == (sys.stdin, sys.stdout, sys.stderr)


async def test_runs_at_once_give_the_streams_back_without_a_sandbox() -> None:
    """Also if the first to begin is the first to end."""
    with pytest.warns(UnsafeSandboxWarning):
        box = InProcessSandbox()
    before = sys.stdin, sys.stdout, sys.stderr
    others = {"first": asyncio.Event(), "second": asyncio.Event()}

    async def run(name: str, until: asyncio.Event) -> None:
        async def answer(_: dict[str, Any]) -> dict[str, Any]:
            others[name].set()
            await until.wait()
            return {"status_code": 200, "reason": "", "text": "{}"}

        code = "def tool():\n    tools.other({})"
        await box.run({**request(code), "tools": ["other"]}, answer)

    first = asyncio.create_task(run("first", others["second"]))
    await others["first"].wait()
    first_ended = asyncio.Event()
    first.add_done_callback(lambda _: first_ended.set())
    await asyncio.gather(first, run("second", first_ended))

    assert before == (sys.stdin, sys.stdout, sys.stderr)


async def test_runs_within_a_run_have_their_own_output_without_a_sandbox() -> None:
    """What a called tool prints is not its caller's."""
    with pytest.warns(UnsafeSandboxWarning):
        box = InProcessSandbox()
    outer: list[str] = []
    inner: list[str] = []

    async def answer(_call: dict[str, Any]) -> dict[str, Any]:
        await box.run(request("def tool():\n    print('inner')"), no_host, on_output=inner.append)
        return {"status_code": 200, "reason": "", "text": "{}"}

    code = "def tool():\n    print('before')\n    tools.other({})\n    print('after')"
    await box.run({**request(code), "tools": ["other"]}, answer, on_output=outer.append)

    assert (["inner\n"], ["before\nafter\n"]) == (inner, outer)
