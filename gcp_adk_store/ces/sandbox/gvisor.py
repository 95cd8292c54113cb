"""Run user code in gVisor, whose kernel is a process of its own: each call in a fresh container.

Stronger than namespaces and a filter, as the host's kernel is not what user code speaks to; slower, for a
container is made for every call.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gcp_adk_store.ces.sandbox.clock import Clock
from gcp_adk_store.ces.sandbox.containers import Container, Recipe
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
from gcp_adk_store.ces.sandbox.supervision import supervise
from gcp_adk_store.operations.limiter import Limiter

_ALONE: Final = "gcp_adk_store.ces.sandbox.inside.alone"
_SITE: Final = "/sandbox/site"
_CODE: Final = "/sandbox/code"
_NOBODY: Final = 65_534
_RUNS: Final = "runs"
_TO_INSTALL: Final = """\
gVisor's runsc is not on PATH. Install it (https://gvisor.dev/docs/user_guide/install), or Debian's package:
  sudo apt-get install --no-install-recommends runsc"""


class GvisorSandbox:
    """A container of gVisor for every run: no network, and nothing of the host but the interpreter."""

    def __init__(
        self,
        *,
        entry: str = GUEST,
        environment: Path | None = None,
        runs_at_once: int = 8,
        patience_s: float = 30.0,
        runsc: str | None = None,
        platform: str | None = None,
    ) -> None:
        """Create a sandbox; each run starts its own container.

        Args:
            entry: ``package.module:function`` that runs inside; its package is carried there alone.
            environment: Folder that ``gcp-adk-store ces install`` made; by default the user's.
            runs_at_once: Runs at a time; further ones wait for their turn, before their time begins.
            patience_s: Seconds that the start of a container may take.
            runsc: Path of gVisor's command; by default the one on ``PATH``.
            platform: How gVisor intercepts system calls, such as ``systrap``; by default its own choice.
        """
        self._entry = entry
        self._environment = environment
        self._patience_s = patience_s
        self._runsc = runsc
        self._platform = platform
        self._runs_at_once = runs_at_once
        self._limiter = Limiter(at_once=runs_at_once)

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
        """Run the entry once, in a container of its own; see ``Sandbox.run``."""
        first = spelled("request", {"request": request}, limits)
        clock = clock or Clock()
        async with self._limiter.permit(_RUNS):
            container = _container(lambda: self._recipe(limits))
            try:
                await container.began(self._patience_s)
                result = await supervise(
                    container, first, answer, limits=limits, on_output=on_output, clock=clock
                )
            except GeneratorExit:  # the event loop was closed, and nothing can be waited for
                container.close()
                raise
            except BaseException:
                await _closed(container)
                raise
            await _closed(container)
            return result

    async def close(self) -> None:
        """Do nothing: every run ended what it started."""

    def _recipe(self, limits: Limits) -> Recipe:
        runsc = shutil.which(self._runsc or "runsc")
        if runsc is None:
            raise SandboxUnavailableError(_TO_INSTALL)
        environment = open_environment(self._environment or installed_folder())
        code = carried_code(environment, [_ALONE, self._entry.partition(":")[0]])
        return Recipe(
            command=(
                runsc,
                *(["--rootless"] if os.geteuid() != 0 else []),
                *([f"--platform={self._platform}"] if self._platform else []),
                *("--network=none", "--ignore-cgroups"),
            ),
            python=environment.interpreter.executable,
            description=json.dumps(_description(environment, code, self._entry, limits)),
        )


def _container(prepare: Callable[[], Recipe]) -> Container:
    try:
        return Container(prepare)
    except OSError as exc:
        raise SandboxUnavailableError(f"no container can be asked for now: {exc}") from exc


async def _closed(container: Container) -> None:
    """Wait until nothing of *container* is left; a cancellation is raised after that."""
    gone = asyncio.wrap_future(container.close())
    cancelled: asyncio.CancelledError | None = None
    while not gone.done():
        try:
            await asyncio.wait((gone,))
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        raise cancelled


def _description(environment: Environment, code: Path, entry: str, limits: Limits) -> dict[str, Any]:
    """Return the container's description, as the Open Container Initiative specifies it."""
    interpreter = environment.interpreter
    seen = [interpreter.executable, *interpreter.library, *environment.libraries]
    binds = {path: path for path in seen} | {_SITE: str(environment.site), _CODE: str(code)}
    config = {
        "entry": entry,
        "paths": [_SITE, _CODE],
        "limits": limits.as_json(),
    }
    start = f"import sys; sys.path.insert(0, {_CODE!r}); import {_ALONE} as a; a.main(sys.argv[1])"
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": _NOBODY, "gid": _NOBODY},
            "args": [interpreter.executable, "-I", "-S", "-B", "-X", "utf8", "-c", start, json.dumps(config)],
            "env": [
                "LD_LIBRARY_PATH="
                + ":".join(sorted({str(Path(path).parent) for path in environment.libraries})),
                "OPENBLAS_NUM_THREADS=1",
                "MALLOC_ARENA_MAX=1",
                "LANG=C.UTF-8",
            ],
            "cwd": "/",
            "noNewPrivileges": True,
            "oomScoreAdj": 1000,  # the highest score: rather a call than its host, where memory runs out
            "capabilities": {
                kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")
            },
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "sandbox",
        "mounts": [
            *(
                {"destination": inside, "source": outside, "type": "bind", "options": ["ro", "rbind"]}
                for inside, outside in binds.items()
            ),
            {
                "destination": "/tmp",  # noqa: S108  # of the container
                "source": "tmpfs",
                "type": "tmpfs",
                "options": ["nosuid", "nodev", "noexec", f"size={limits.file_bytes}", "mode=1777"],
            },
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "mount", "network", "uts")]},
    }
