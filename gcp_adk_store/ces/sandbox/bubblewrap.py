"""Run user code in namespaces that bubblewrap makes, each call in a fresh process forked from a warm one.

Inside there is an interpreter with its libraries, read-only, and nothing else of the host: no network, no
other process, no environment. ``docs/ces-sandbox.md`` says what protects from what.
"""

import asyncio
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from gcp_adk_store.ces.sandbox.environment import Environment, carry_code, installed_folder, open_environment
from gcp_adk_store.ces.sandbox.frames import encoded
from gcp_adk_store.ces.sandbox.inside.keeping import DEVICES
from gcp_adk_store.ces.sandbox.interface import (
    GUEST,
    Answer,
    Clock,
    Limits,
    SandboxUnavailableError,
    reported,
)
from gcp_adk_store.ces.sandbox.seccomp import program
from gcp_adk_store.ces.sandbox.supervision import supervise
from gcp_adk_store.ces.sandbox.zygotes import Zygote, ZygoteProcess
from gcp_adk_store.kernel.concurrency import Limiter

_ZYGOTE: Final = "gcp_adk_store.ces.sandbox.inside.zygote"
_SITE: Final = "/sandbox/site"
_CODE: Final = "/sandbox/code.zip"
_START: Final = f"""\
import sys; sys.path.insert(0, {_CODE!r})
import {_ZYGOTE} as inside; inside.main(sys.argv[1], int(sys.argv[2]))"""
_NOBODY: Final = 65_534
_ZONES: Final = "/usr/share/zoneinfo"
_RIGHTS: Final = re.compile(r"^CapEff:\s*([0-9a-f]+)$", re.MULTILINE)
_SYS_ADMIN: Final = 1 << 21
_ATTEMPTS: Final = 3
"""If a zygote ends, a process of it does not begin, and a second is refused."""
_STARTS_AT_ONCE: Final = 64
"""Far fewer than fill the queue of a socket, or are more descriptors on their way than the kernel allows."""


def path_of_bubblewrap(named: str | None = None) -> str:
    """Return the path of bubblewrap: of the command *named*, or of the one on ``PATH``.

    Raises:
        SandboxUnavailableError: it is not installed.
    """
    found = shutil.which(named or "bwrap")
    if found is None:
        raise SandboxUnavailableError(
            "bubblewrap is not installed; the sandbox needs it. Install Debian's packages:\n"
            "  sudo apt-get install --no-install-recommends bubblewrap libseccomp2"
        )
    return found


@dataclass(kw_only=True, eq=False)
class BubblewrapSandbox:
    """A sandbox of bubblewrap, seccomp and resource limits; it starts with its first run."""

    entry: str = GUEST
    """``package.module:function`` that runs inside; its package is carried there alone."""
    environment: Path | None = None
    """Folder that ``gcp-adk-store ces install`` made; by default the user's."""
    preload: tuple[str, ...] = ("numpy", "google.protobuf.struct_pb2")
    """Modules that each run after the first finds loaded, beside the entry's own."""
    runs_at_once: int = 8
    """Runs at a time; further ones wait for their turn, before their time begins."""
    patience_s: float = 30.0
    """Seconds that a start may take."""
    bwrap: str | None = None
    """Path of bubblewrap; by default the one on ``PATH``."""

    def __post_init__(self) -> None:
        self._limiter = Limiter(at_once=self.runs_at_once)
        self._starts = Limiter(at_once=_STARTS_AT_ONCE)
        self._guard = threading.Lock()
        self._zygote: Zygote | None = None

    async def run(
        self,
        request: Mapping[str, Any],
        answer: Answer,
        *,
        limits: Limits = Limits(),  # noqa: B008  # frozen
        on_output: Callable[[str], None] | None = None,
        clock: Clock | None = None,
    ) -> dict[str, Any]:
        """Run the entry once, in a process of its own; see ``Sandbox.run``."""
        first = await encoded("request", request, limits)
        clock, printed = clock or Clock(), bytearray()
        async with self._limiter.permit():
            # The clock of the keeper ignores stops; it is for a host that does not end a run in time.
            process = await self._started(replace(limits, wall_s=limits.wall_s + clock.longest_stop_s))
            with reported(lambda: printed.decode(errors="replace"), on_output), closing(process):
                return await supervise(process, first, answer, printed, limits=limits, clock=clock)

    async def start(self) -> None:
        """Start the sandbox and a process in it, before its first run.

        Raises:
            SandboxUnavailableError: it cannot run here; the message says what to install or to allow.
        """
        async with self._limiter.permit():
            (await self._started(Limits())).close()

    async def close(self) -> None:
        """End the sandbox; runs that have not ended raise a SandboxCrashError."""
        with self._guard:
            zygote, self._zygote = self._zygote, None
        if zygote is not None and zygote.owner_pid == os.getpid():
            zygote.close()
            await asyncio.shield(asyncio.wrap_future(zygote.over))

    async def _started(self, limits: Limits) -> ZygoteProcess:
        for _ in range(_ATTEMPTS):
            zygote = self._current_zygote()
            async with self._starts.permit():
                process = zygote.process(limits)
                if process is not None and await self._begins(zygote, process):
                    return process
            if zygote.is_over:
                zygote.close()
                why = await asyncio.shield(asyncio.wrap_future(zygote.over))
                if not zygote.has_begun:
                    raise why
        raise SandboxUnavailableError("the sandbox ends right after its start")

    async def _begins(self, zygote: Zygote, process: ZygoteProcess) -> bool:
        begins = False
        try:
            async with asyncio.timeout(self.patience_s):
                begins = await process.begins()
        except TimeoutError as exc:
            if not zygote.has_begun:
                zygote.close()
            says = f"the sandbox did not start a process within the {self.patience_s:g} s of patience_s"
            raise SandboxUnavailableError(says) from exc
        finally:
            if not begins:
                process.close()
        zygote.has_begun |= begins
        return begins

    def _current_zygote(self) -> Zygote:
        with self._guard:
            if self._zygote is None or self._zygote.is_over:
                self._zygote = Zygote(self._command)
                self._zygote.start()
            return self._zygote

    def _command(self, code: BinaryIO) -> list[str]:
        """Return the command of a zygote, without the number of its socket, and fill *code*."""
        bwrap = path_of_bubblewrap(self.bwrap)
        folder = (self.environment or installed_folder()).absolute()  # bubblewrap starts in another one
        environment = open_environment(folder)
        carry_code([_ZYGOTE, self.entry.partition(":")[0]], code)
        is_root = _is_privileged()
        config = {
            "entry": self.entry,
            "paths": (_SITE, _CODE),
            "preload": self.preload,
            "uid": _NOBODY if is_root else None,
            "filter": program().hex(),
        }
        command = _command(bwrap, environment, folder / "site", code.fileno(), is_root=is_root)
        return [*command, json.dumps(config)]


def _command(bwrap: str, environment: Environment, site: Path, code: int, *, is_root: bool) -> list[str]:
    interpreter = environment.interpreter
    seen = [interpreter.executable, *interpreter.library, *environment.libraries]
    # Folders that bubblewrap makes by itself are its user's alone, and a run is another user.
    above = {str(each) for path in (*seen, _SITE, _CODE, _ZONES, "/dev/null") for each in Path(path).parents}
    binds = [argument for path in sorted(above - {"/"}) for argument in ("--dir", path)]
    binds += [argument for path in seen for argument in ("--ro-bind", path, path)]
    for folder in interpreter.library:
        for name in ("site-packages", "dist-packages"):
            if Path(folder, name).is_dir():  # the host's own packages
                binds += ["--tmpfs", f"{folder}/{name}"]
    # For root, bubblewrap makes no user namespace; each run later becomes the user nobody in one of its own.
    # For another user, bubblewrap makes one at the start.
    rights = (
        ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        if is_root
        else ["--unshare-user", "--cap-drop", "ALL"]
    )
    return [
        bwrap,
        *rights,
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"),
        *(word for pair in _variables(environment).items() for word in ("--setenv", *pair)),
        *binds,
        *("--ro-bind", str(site), _SITE, "--perms", "0444", "--ro-bind-data", str(code), _CODE),
        *("--ro-bind-try", _ZONES, _ZONES),
        *(word for path in DEVICES for word in ("--dev-bind", path, path)),
        *("--dir", "/tmp", "--proc", "/proc", "--remount-ro", "/", "--chdir", "/"),  # noqa: S108  # inside
        "--",
        *(interpreter.executable, "-I", "-S", "-B", "-X", "utf8", "-c", _START),
    ]


def _variables(environment: Environment) -> dict[str, str]:
    """Return the environment variables of a run."""
    folders = sorted({str(Path(path).parent) for path in environment.libraries})
    return {
        "LD_LIBRARY_PATH": ":".join(folders),
        # A fork loses a second thread, and the locks that it held stay locked.
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",  # else each thread takes 64 MiB of memory_bytes
        "LANG": "C.UTF-8",
    }


def _is_privileged() -> bool:
    """Whether this process is root with all rights, unlike root in a container."""
    found = _RIGHTS.search(Path("/proc/self/status").read_text(encoding="utf-8"))
    return os.geteuid() == 0 and found is not None and bool(int(found[1], 16) & _SYS_ADMIN)
