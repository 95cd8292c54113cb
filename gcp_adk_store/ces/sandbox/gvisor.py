"""Run user code in gVisor, whose kernel is a process of its own: each call in a fresh container.

Stronger than namespaces and a filter, as the host's kernel is not what user code speaks to; slower, for a
container is made for every call.
"""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from gcp_adk_store.ces.sandbox.clock import Clock
from gcp_adk_store.ces.sandbox.containers import Container, Recipe
from gcp_adk_store.ces.sandbox.environment import Environment
from gcp_adk_store.ces.sandbox.errors import SandboxUnavailableError
from gcp_adk_store.ces.sandbox.interface import GUEST
from gcp_adk_store.ces.sandbox.isolated import (
    CODE,
    NOBODY,
    SITE,
    IsolatedSandbox,
    python_command,
    variables,
    visible_paths,
)
from gcp_adk_store.ces.sandbox.limits import Limits
from gcp_adk_store.ces.sandbox.supervision import finish

_ALONE: Final = "gcp_adk_store.ces.sandbox.inside.alone"
_TO_INSTALL: Final = """\
gVisor's runsc is not on PATH. Install it (https://gvisor.dev/docs/user_guide/install), or Debian's package:
  sudo apt-get install --no-install-recommends runsc"""


class GvisorSandbox(IsolatedSandbox):
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
        super().__init__(
            entry=entry, environment=environment, runs_at_once=runs_at_once, patience_s=patience_s
        )
        self._runsc = runsc
        self._platform = platform

    @asynccontextmanager
    async def _process(self, limits: Limits, clock: Clock) -> AsyncIterator[Container]:
        del clock  # a container's only clock is that of its host
        container = _container(lambda: self._recipe(limits))
        try:
            await container.began(self._patience_s)
            yield container
        except GeneratorExit:  # the event loop was closed; nothing can be awaited
            container.close()
            raise
        except BaseException:
            await _closed(container)
            raise
        await _closed(container)

    async def close(self) -> None:
        """Do nothing: each run ends its own container."""

    def _recipe(self, limits: Limits) -> Recipe:
        runsc = shutil.which(self._runsc or "runsc")
        if runsc is None:
            raise SandboxUnavailableError(_TO_INSTALL)
        environment, code = self._open_environment(_ALONE)
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
        raise SandboxUnavailableError(f"the sandbox cannot start a container now: {exc}") from exc


async def _closed(container: Container) -> None:
    """Remove *container* completely; a cancellation takes effect after that."""
    gone = asyncio.wrap_future(container.close())

    async def removed() -> None:
        if not gone.done():
            await asyncio.wait((gone,))

    await finish(removed)


def _description(environment: Environment, code: Path, entry: str, limits: Limits) -> dict[str, Any]:
    """Return the container's description, as the Open Container Initiative specifies it."""
    binds = {path: path for path in visible_paths(environment)} | {
        SITE: str(environment.site),
        CODE: str(code),
    }
    config = {
        "entry": entry,
        "paths": [SITE, CODE],
        "limits": limits.as_json(),
    }
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": NOBODY, "gid": NOBODY},
            "args": [*python_command(environment, _ALONE, "main(sys.argv[1])"), json.dumps(config)],
            "env": [f"{name}={value}" for name, value in variables(environment).items()],
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
