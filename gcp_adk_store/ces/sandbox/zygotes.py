"""Hold the host's end of a zygote: start it, ask it for processes, and see it end."""

import asyncio
import contextlib
import io
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import BinaryIO, Final

from gcp_adk_store.ces.sandbox.interface import Limits, SandboxCrashError, SandboxUnavailableError

_READ_BYTES: Final = 256 * 1024


async def receive(end: socket.socket | io.FileIO) -> bytes:
    """Return the next bytes out of *end*, which does not block; empty if the other end is closed.

    It has one reader at a time.
    """
    while True:
        try:
            return os.read(end.fileno(), _READ_BYTES)
        except BlockingIOError:
            await _readable(end.fileno())
        except ConnectionResetError:  # closed with something unread
            return b""


async def _readable(handle: int) -> None:
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()
    loop.add_reader(handle, lambda: None if came.done() else came.set_result(None))
    try:
        await came
    finally:
        with contextlib.suppress(RuntimeError):  # the event loop was closed
            loop.remove_reader(handle)


_SAID_BYTES: Final = 4000
_OF_RIGHTS: Final = re.compile(
    r"^bwrap: .*(permi|namespace)|unshare|not permitted", re.IGNORECASE | re.MULTILINE
)
_TO_ALLOW: Final = """
It needs user namespaces. Allow them: in a container by
  docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined ...
on Ubuntu by
  sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0
and on old Debian by
  sudo sysctl kernel.unprivileged_userns_clone=1"""


def _not_started(what: str, said: str) -> SandboxUnavailableError:
    way_out = _TO_ALLOW if _OF_RIGHTS.search(said) else ""
    return SandboxUnavailableError(f"{what} could not be started: {said or 'it ended at once'}{way_out}")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    status: int
    """As ``os.wait`` returns it."""
    cpu_s: float
    """Processor time of all its threads."""


class ZygoteProcess:
    """A call's process, which a zygote forked."""

    def __init__(self, frames: socket.socket, output: io.FileIO, status: socket.socket) -> None:
        self.frames = frames
        self.output = output
        self._status = status
        frames.settimeout(0)
        status.settimeout(0)
        os.set_blocking(output.fileno(), False)
        self._ended: Ended | None = None

    def kill(self) -> None:
        """Have the keeper kill it."""
        with contextlib.suppress(OSError):  # the keeper is gone, and so is its process
            self._status.shutdown(socket.SHUT_WR)

    async def begins(self) -> bool:
        """Wait until it is about to run the entry; return False if its keeper or the zygote has ended before.

        Raises:
            SandboxUnavailableError: the process could not be started.
        """
        packet = await receive(self._status)
        said = json.loads(packet or b"{}")
        if packet and "began" not in said:
            failed = said.get("failed", "it ended while it was set up")
            raise _not_started("the process of the code", failed)
        return bool(packet)

    async def ended(self) -> Ended:
        """Wait for the report of the keeper; raise a SandboxCrashError if the whole sandbox ended."""
        if self._ended is None:
            packet = await receive(self._status)
            if not packet:
                # The keeper does not run user code, so its end means the end of the whole sandbox.
                raise SandboxCrashError("the sandbox ended while the code ran; run it again")
            self._ended = Ended(**json.loads(packet))
        return self._ended

    def close(self) -> None:
        """Close the connections, and kill a process that still runs."""
        self.kill()  # what a fork of the host has copies of is not closed
        for each in (self.frames, self.output, self._status):
            each.close()


class Zygote:
    """A sandbox's process that forks others; it lives until it is closed, or its host ends."""

    def __init__(self, command: Callable[[BinaryIO], list[str]]) -> None:
        """Prepare to start a zygote by *command*, and the number of the zygote's socket.

        *command* may block, and fills a file in memory with the code that runs inside.
        """
        self.has_begun = False
        """Whether one of its processes was about to run its entry."""
        self.over: Future[BaseException] = Future()
        """Done once its processes are gone: why it did not start, if none of them had begun."""
        self._command = command
        self._control, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(0)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()
        self.owner_pid: Final = os.getpid()
        """The process that starts it; a fork of that has no way to use it."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or is closed."""
        try:
            return not self._control.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def start(self) -> None:
        """Start it, in a thread that lives as long: the kernel ends it when the thread that made it ends."""
        try:
            threading.Thread(target=self._live, name="gcp-adk-store-sandbox", daemon=True).start()
        except RuntimeError as exc:  # without the thread, those who wait would wait for ever
            self._theirs.close()
            self._end(_not_started("the sandbox", str(exc)))

    def _live(self) -> None:
        why: BaseException
        try:
            why = _not_started("the sandbox", self._said())
        except (OSError, ValueError) as exc:
            why = _not_started("the sandbox", str(exc))
        except BaseException as exc:  # noqa: BLE001  # those who wait raise it
            why = exc
        self._end(why)

    def _said(self) -> str:
        """Start it, and return the end of what it said, once it has ended."""
        with self._theirs as theirs, os.fdopen(os.memfd_create("code"), "w+b") as code:
            self._process = subprocess.Popen(
                [*self._command(code), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs.fileno(), code.fileno()),
                env={},
                cwd="/",
            )
        said = b""
        with self._process as process:
            while process.stderr is not None and (piece := process.stderr.read(_SAID_BYTES)):
                said = (said + piece)[-_SAID_BYTES:]
        return said.decode(errors="replace").strip()

    def _end(self, why: BaseException) -> None:
        self.close()
        self.over.set_result(why)

    def process(self, limits: Limits) -> ZygoteProcess | None:
        """Return a new process, which waits for its request; None if the zygote has ended.

        Raises:
            SandboxUnavailableError: descriptors are missing, or the zygote is behind; other runs go on.
        """
        try:
            return self._asked_for(limits)
        except ConnectionError:
            return None
        except OSError as exc:
            raise SandboxUnavailableError(f"the sandbox cannot start a process now: {exc}") from exc

    def _asked_for(self, limits: Limits) -> ZygoteProcess:
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            frames, their_frames = socket.socketpair()
            ours.enter_context(frames)
            theirs.enter_context(their_frames)
            status, their_status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.enter_context(status)
            theirs.enter_context(their_status)
            # A pipe: as many small writes fit into it as large ones, which is not so of a socket.
            reads, their_output = os.pipe()
            output = ours.enter_context(io.FileIO(reads))
            theirs.callback(os.close, their_output)
            handles = [their_frames.fileno(), their_output, their_status.fileno()]
            with self._guard:
                if self._control.fileno() < 0:
                    raise ConnectionResetError("the zygote was closed")
                socket.send_fds(self._control, [json.dumps(asdict(limits)).encode()], handles)
            ours.pop_all()
            return ZygoteProcess(frames, output, status)

    def close(self) -> None:
        """End it and all of its processes, without waiting."""
        with self._guard:
            with contextlib.suppress(OSError):  # the zygote ended first
                self._control.shutdown(socket.SHUT_RDWR)  # a fork of the host may have a copy
            if self._process is not None:
                self._process.kill()  # it may load modules, which nobody waits for
            self._control.close()
