"""Start one container, see it end, and remove what is left of it, in a thread of its own."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gcp_adk_store.ces.sandbox.channels import Channel
from gcp_adk_store.ces.sandbox.errors import SandboxUnavailableError
from gcp_adk_store.ces.sandbox.inside.alone import BEGAN
from gcp_adk_store.ces.sandbox.supervision import Ended

_SIGNALLED: Final = 128
_SAID_BYTES: Final = 4000
_REMOVAL_S: Final = 30.0
# Asks the kernel to end this process with its parent, which may be gone, and then runs the command.
_END_WITH_HOST: Final = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The parts of a container."""

    command: tuple[str, ...]
    """The runtime's command, such as ``runsc``, with its options."""
    python: str
    """Path of an interpreter outside."""
    description: str
    """The container, as the Open Container Initiative specifies it, in JSON."""


class Container:
    """A call's process: a container, and the command that runs it; it ends with this process."""

    def __init__(self, prepare: Callable[[], Recipe]) -> None:
        """Start it; *prepare* may block.

        Raises:
            OSError, SandboxUnavailableError: this process lacks descriptors or threads.
        """
        self._prepare = prepare
        self._name = f"ces-{uuid.uuid4().hex}"
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        self._made = time.monotonic()
        self._over: Future[int] = Future()
        self._gone: Future[None] = Future()
        (self._reads, asks), (hears, self._writes), (output, self._prints) = _three_pipes()
        self.frames = Channel(hears, asks)
        self.output = Channel(output)
        try:
            threading.Thread(target=self._live, name="gcp-adk-store-container", daemon=True).start()
        except RuntimeError as exc:  # without the thread, its descriptors must be closed here
            for each in (self._reads, self._writes, self._prints):
                os.close(each)
            self.frames.close()
            self.output.close()
            raise SandboxUnavailableError(f"the sandbox cannot start a container now: {exc}") from exc

    async def began(self, patience_s: float) -> None:
        """Wait until the container is about to read its request.

        Raises:
            SandboxUnavailableError: the container did not start, or not within *patience_s* seconds.
        """
        try:
            async with asyncio.timeout(patience_s):
                if await self.frames.read() == BEGAN:
                    return
                await self.ended()
                said = (await self.output.read())[-_SAID_BYTES:].decode(errors="replace").strip()
        except TimeoutError as exc:
            raise SandboxUnavailableError(
                f"the container did not start within the {patience_s:g} s of patience_s"
            ) from exc
        raise SandboxUnavailableError(
            f"a container could not be started: {said or 'the command ended at once'}"
        )

    def kill(self) -> None:
        """Kill the command; the container ends with it."""
        with self._guard:
            self._is_killed = True
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    async def ended(self) -> Ended:
        """Wait for the end of the command, whose status is that of the container's process.

        Raises:
            SandboxUnavailableError: the container never started.
        """
        # After its end, await nothing: a task that is cancelled again and again must still see the end.
        over = self._over.done()
        status = self._over.result() if over else await asyncio.shield(asyncio.wrap_future(self._over))
        # As os.wait tells a signal; a command tells one that the process got like a shell does.
        signalled = -status if status < 0 else max(status - _SIGNALLED, 0)
        told = signalled or status << 8
        # gVisor does not report processor time; it is at most the elapsed time.
        return Ended(told, time.monotonic() - self._made)

    def close(self) -> Future[None]:
        """Kill and remove the container; the future is done when it is removed."""
        self.kill()
        self.frames.close()
        self.output.close()
        return self._gone

    def _live(self) -> None:
        bundle = ""
        try:
            try:
                recipe = self._prepare()
                bundle = tempfile.mkdtemp(prefix="gcp-adk-store-container-")
                process = self._started(recipe, Path(bundle))
            finally:
                for each in (self._reads, self._writes, self._prints):
                    os.close(each)
            status = process.wait()
            with self._guard:
                self._process = None  # the kernel may reuse its number
            self._over.set_result(status)
            self._remove(recipe, Path(bundle))
        except (OSError, subprocess.SubprocessError) as exc:
            self._fail(SandboxUnavailableError(f"a container could not be started: {exc}"))
        except BaseException as exc:  # noqa: BLE001  # the future passes it on
            self._fail(exc)
        finally:
            shutil.rmtree(bundle, ignore_errors=True)
            self._gone.set_result(None)

    def _fail(self, failure: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(failure)

    def _started(self, recipe: Recipe, bundle: Path) -> "subprocess.Popen[bytes]":
        (bundle / "rootfs").mkdir()
        (bundle / "config.json").write_text(recipe.description, encoding="utf-8")
        command = [*recipe.command, f"--root={bundle / 'state'}", "run", f"--bundle={bundle}", self._name]
        with self._guard:
            if self._is_killed:
                raise SandboxUnavailableError("the container was ended before it began")
            self._process = subprocess.Popen(
                [recipe.python, "-I", "-S", "-c", _END_WITH_HOST, str(os.getpid()), *command],
                stdin=self._reads,
                stdout=self._writes,
                stderr=self._prints,
                start_new_session=True,
            )
            return self._process

    def _remove(self, recipe: Recipe, bundle: Path) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*recipe.command, f"--root={bundle / 'state'}", "delete", "--force", self._name],
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=_REMOVAL_S,
            )


def _three_pipes() -> list[tuple[int, int]]:
    """Return pipes, one way each: older releases of gVisor cannot be given sockets."""
    made: list[tuple[int, int]] = []
    try:
        for _ in range(3):
            made.append(os.pipe())  # noqa: PERF401  # those made before one that fails are closed
    except OSError:
        for each in (end for pair in made for end in pair):
            os.close(each)
        raise
    return made
