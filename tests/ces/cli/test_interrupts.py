"""Ctrl-C ends a command at once, whatever its code does."""

import asyncio
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from gcp_adk_store.cli.ces.options import until_interrupted
from tests.ces.conversation.apps import write_app, write_files
from tests.support.ready_programs import ready_programs

LOOPS = '''def loop() -> dict:
    """Never answer."""
    while True:
        pass
'''
ASKS = '''def ask(url: str) -> dict:
    """Ask a server again and again, since each request has its time limit."""
    while True:
        ces_requests.get(url)
'''


@pytest.mark.usefixtures("ces_environment")
def test_ctrl_c_ends_an_evaluation_and_its_tools_at_once(tmp_path: Path) -> None:
    """One asks a server that never answers, another works in the background; each has an hour."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
        agents, tools = {"root": {"tools": ["loop", "ask"]}}, {"loop": LOOPS, "ask": ASKS}
        write_app(tmp_path / "app", agents, tools=tools, asynchronous=("loop",))
        calls: list[object] = [{"name": "loop"}, {"name": "ask", "args": {"url": f"http://{host}/"}}]
        golden = {"conversations": [{"name": "a", "user": "Hi", "agent": "Done."}]}
        files = {"app/evals/goldens/a.yaml": golden, "script.yaml": [{"calls": calls}, "Done."]}
        write_files(tmp_path, files)
        options = ("--script", tmp_path / "script.yaml", "--allow-host", host, "--timeout", "3600")
        line: list[str | Path] = [
            ready_programs() / "gcp-adk-store",
            "ces",
            "eval",
            tmp_path / "app",
            *options,
        ]
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
        try:
            process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        finally:
            signal.signal(signal.SIGINT, before)
        server.settimeout(60)
        with process:
            try:
                with server.accept()[0]:
                    process.send_signal(signal.SIGINT)
                    out, err = process.communicate(timeout=120)
            finally:
                process.kill()

    assert (1, b"") == (process.returncode, out)
    assert err.endswith(b"Aborted!\n")


def test_a_command_leaves_signals_as_they_were() -> None:
    """Also where Ctrl-C is ignored, as in the background."""

    async def handler() -> object:
        return signal.getsignal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert signal.default_int_handler is not until_interrupted(handler())
        assert signal.default_int_handler is signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.SIG_IGN is until_interrupted(handler())
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_ctrl_c_does_not_interrupt_the_end() -> None:
    """What a command began, such as a sandbox, is ended whole."""
    ended: list[str] = []

    async def ends_by_an_error() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("a block of HTTP was interrupted in its first line") from None

    async def waits() -> None:
        other = asyncio.create_task(closes())
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGINT)
        await other

    async def closes() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            signal.raise_signal(signal.SIGINT)
            ended.append("whole")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for work in (waits, ends_by_an_error):
            with pytest.raises(KeyboardInterrupt):
                until_interrupted(work())
        assert signal.default_int_handler is signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)

    assert ["whole"] == ended
