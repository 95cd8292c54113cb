"""Show what code printed, whatever became of its run."""

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

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
    UnsafeSandboxWarning,
)
from tests.ces.sandbox import late_entry
from tests.ces.sandbox.conftest import no_host, processes_of_runs, too_late
from tests.support.clock import PassingTime

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
