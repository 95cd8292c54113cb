"""Run user code in namespaces that bubblewrap makes, each call in a fresh process forked from a warm one.

Inside there is an interpreter with its libraries, read-only, and nothing else of the host: no network, no
other process, no environment. ``docs/ces-sandbox.md`` says what protects from what.
"""

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gcp_adk_store.ces.sandbox.clock import Clock
from gcp_adk_store.ces.sandbox.environment import (
    Environment,
    carried_code,
    installed_folder,
    open_environment,
)
from gcp_adk_store.ces.sandbox.errors import SandboxUnavailableError
from gcp_adk_store.ces.sandbox.frames import spelled
from gcp_adk_store.ces.sandbox.interface import GUEST, Answer
from gcp_adk_store.ces.sandbox.limits import Limits
from gcp_adk_store.ces.sandbox.seccomp import program
from gcp_adk_store.ces.sandbox.supervision import supervise
from gcp_adk_store.ces.sandbox.zygotes import Zygote, ZygoteConfig, ZygoteProcess
from gcp_adk_store.operations.limiter import Limiter

_ZYGOTE: Final = "gcp_adk_store.ces.sandbox.inside.zygote"
_SITE: Final = "/sandbox/site"
_CODE: Final = "/sandbox/code"
_ZONES: Final = "/usr/share/zoneinfo"
_NOBODY: Final = 65_534
_SYS_ADMIN: Final = 1 << 21
_RUNS: Final = "runs"
_STARTS: Final = "starts"
_ATTEMPTS: Final = 3
"""Where a zygote ended, a process does not begin, the next is refused, and the one after that is made."""
_STARTS_AT_ONCE: Final = 64
"""Far fewer than fill the queue of a socket, or are more descriptors on their way than the kernel allows."""
_TO_INSTALL: Final = """\
bubblewrap is not installed, and user code runs in it. Install Debian's packages:
  sudo apt-get install --no-install-recommends bubblewrap libseccomp2"""


class BubblewrapSandbox:
    """A sandbox of bubblewrap, seccomp and resource limits; it starts with its first run."""

    def __init__(
        self,
        *,
        entry: str = GUEST,
        environment: Path | None = None,
        preload: tuple[str, ...] = ("numpy", "google.protobuf.struct_pb2"),
        runs_at_once: int = 8,
        patience_s: float = 30.0,
        bwrap: str | None = None,
    ) -> None:
        """Create a sandbox, which starts with its first run.

        Args:
            entry: ``package.module:function`` that runs inside; its package is carried there alone.
            environment: Folder that ``gcp-adk-store ces install`` made; by default the user's.
            preload: Modules that every run finds loaded, beside the entry's own.
            runs_at_once: Runs at a time; further ones wait for their turn, before their time begins.
            patience_s: Seconds that a start may take.
            bwrap: Path of bubblewrap; by default the one on ``PATH``.
        """
        self._entry = entry
        self._environment = environment
        self._preload = preload
        self._patience_s = patience_s
        self._bwrap = bwrap
        self._runs_at_once = runs_at_once
        self._limiter = Limiter(at_once=runs_at_once)
        self._starts = Limiter(at_once=_STARTS_AT_ONCE)
        self._guard = threading.Lock()
        self._zygote: Zygote | None = None

    @property
    def runs_at_once(self) -> int:
        """Runs at a time; see ``Sandbox.runs_at_once``."""
        return self._runs_at_once

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
        first = spelled("request", {"request": request}, limits)
        clock = clock or Clock()
        async with self._limiter.permit(_RUNS):
            # The keeper's clock knows of no stops, and is for a host that does not end a run in time.
            process = await self._process(replace(limits, wall_s=limits.wall_s + clock.longest_stop_s))
            try:
                return await supervise(
                    process, first, answer, limits=limits, on_output=on_output, clock=clock
                )
            finally:
                process.close()

    async def start(self) -> str:
        """Start it before its first run, and return the version of Python that code runs in.

        Raises:
            SandboxUnavailableError: it cannot run here; the message says what to install or to allow.
        """
        return await _version(self._living())

    async def close(self) -> None:
        """End it; runs that are under way end with a SandboxCrashError."""
        with self._guard:
            zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.close()
        if zygote is not None and zygote.is_ours:
            await asyncio.shield(asyncio.wrap_future(zygote.over))

    async def _process(self, limits: Limits) -> ZygoteProcess:
        for _ in range(_ATTEMPTS):
            zygote = self._living()
            await _version(zygote)
            async with self._starts.permit(_STARTS):
                process = _spawned(zygote, limits)
                if process is not None and await self._begins(process):
                    return process
            if process is None:
                zygote.close()
        raise SandboxUnavailableError("the sandbox ends as soon as it is started")

    async def _begins(self, process: ZygoteProcess) -> bool:
        begins = False
        try:
            async with asyncio.timeout(self._patience_s):
                begins = await process.began()
        except TimeoutError as exc:
            raise SandboxUnavailableError(
                f"the sandbox made no process within the {self._patience_s:g} s of patience_s"
            ) from exc
        finally:
            if not begins:
                process.close()
        return begins

    def _living(self) -> Zygote:
        with self._guard:
            if self._zygote is not None and not self._zygote.is_ours:
                self._zygote.close()
            if self._zygote is None or self._zygote.is_over:
                self._zygote = Zygote(self._prepare, patience_s=self._patience_s)
                self._zygote.start()
            return self._zygote

    def _prepare(self) -> tuple[list[str], ZygoteConfig]:
        bwrap = shutil.which(self._bwrap or "bwrap")
        if bwrap is None:
            raise SandboxUnavailableError(_TO_INSTALL)
        environment = open_environment(self._environment or installed_folder())
        code = carried_code(environment, [_ZYGOTE, self._entry.partition(":")[0]])
        is_root = _may_become_others()
        config = ZygoteConfig(
            entry=self._entry,
            paths=(_SITE, _CODE),
            preload=self._preload,
            uid=_NOBODY if is_root else None,
            program=program(),
        )
        return _command(bwrap, environment, code, is_root=is_root), config


def _spawned(zygote: Zygote, limits: Limits) -> ZygoteProcess | None:
    """Return a process that is to begin; None where the zygote ended since it was last needed."""
    try:
        return zygote.spawn(limits)
    except ConnectionError:
        return None
    except OSError as exc:
        raise SandboxUnavailableError(f"no process can be asked for now: {exc}") from exc


async def _version(zygote: Zygote) -> str:
    return await asyncio.shield(asyncio.wrap_future(zygote.ready))


def _command(bwrap: str, environment: Environment, code: Path, *, is_root: bool) -> list[str]:
    """Return the command for a zygote; the number of its socket is to be added."""
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
    search = sorted({str(Path(path).parent) for path in environment.libraries})
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
        *("--setenv", "LD_LIBRARY_PATH", ":".join(search)),
        # A second thread would be lost in a fork, and what it held would stay locked.
        *("--setenv", "OPENBLAS_NUM_THREADS", "1"),
        *("--setenv", "MALLOC_ARENA_MAX", "1"),  # else each thread takes 64 MiB of memory_bytes
        *("--setenv", "LANG", "C.UTF-8"),
        *binds,
        *("--ro-bind", str(environment.site), _SITE, "--ro-bind", str(code), _CODE),
        *("--ro-bind-try", _ZONES, _ZONES),
        *("--dev-bind", "/dev/null", "/dev/null", "--dev-bind", "/dev/urandom", "/dev/urandom"),
        *("--dir", "/tmp", "--proc", "/proc", "--remount-ro", "/", "--chdir", "/"),  # noqa: S108  # inside
        *("--", interpreter.executable, "-I", "-S", "-B", "-X", "utf8"),
        *(
            "-c",
            f"import sys; sys.path.insert(0, {_CODE!r}); import {_ZYGOTE} as z; z.main(int(sys.argv[1]))",
        ),
    ]


def _may_become_others() -> bool:
    """Whether this is root with its rights, and not one who is called so in a container."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return os.geteuid() == 0 and bool(int(value, 16) & _SYS_ADMIN)
    return False
