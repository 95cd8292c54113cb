"""What the sandboxes that isolate code have in common: their folders, their interpreter, and a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

from gcp_adk_store.ces.sandbox.clock import Clock
from gcp_adk_store.ces.sandbox.environment import (
    Environment,
    carried_code,
    installed_folder,
    open_environment,
)
from gcp_adk_store.ces.sandbox.frames import spelled_in_steps
from gcp_adk_store.ces.sandbox.interface import Answer
from gcp_adk_store.ces.sandbox.limits import Limits
from gcp_adk_store.ces.sandbox.supervision import Process, supervise
from gcp_adk_store.operations.limiter import Limiter

SITE: Final = "/sandbox/site"
CODE: Final = "/sandbox/code"
NOBODY: Final = 65_534


class IsolatedSandbox(ABC):
    """Runs each request in a process of its own, which sees only an interpreter and its packages."""

    def __init__(self, *, entry: str, environment: Path | None, runs_at_once: int, patience_s: float) -> None:
        self._entry = entry
        self._environment = environment
        self._patience_s = patience_s
        self._runs_at_once = runs_at_once
        self._limiter = Limiter(at_once=runs_at_once)

    @property
    def runs_at_once(self) -> int:
        """The most runs at a time; see ``Sandbox.runs_at_once``."""
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
        first = await spelled_in_steps("request", {"request": request}, limits)
        clock = clock or Clock()
        async with self._limiter.permit(), self._process(limits, clock) as process:
            return await supervise(process, first, answer, limits=limits, on_output=on_output, clock=clock)

    @abstractmethod
    def _process(self, limits: Limits, clock: Clock) -> AbstractAsyncContextManager[Process]:
        """Start a process for a block, which reads its request; after the block it has ended."""

    def _open_environment(self, module: str) -> tuple[Environment, Path]:
        """Return the environment, and the folder with the packages of *module* and of the entry."""
        environment = open_environment(self._environment or installed_folder())
        return environment, carried_code(environment, [module, self._entry.partition(":")[0]])


def visible_paths(environment: Environment) -> list[str]:
    """Return what a run sees of the host, read-only: the interpreter and its libraries."""
    interpreter = environment.interpreter
    return [interpreter.executable, *interpreter.library, *environment.libraries]


def variables(environment: Environment) -> dict[str, str]:
    """Return the environment variables of a run."""
    folders = sorted({str(Path(path).parent) for path in environment.libraries})
    return {
        "LD_LIBRARY_PATH": ":".join(folders),
        # A fork loses a second thread, and the locks that it held stay locked.
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",  # else each thread takes 64 MiB of memory_bytes
        "LANG": "C.UTF-8",
    }


def python_command(environment: Environment, module: str, call: str) -> list[str]:
    """Return the command that imports *module* from the carried code and evaluates *call* of it."""
    start = f"import sys; sys.path.insert(0, {CODE!r}); import {module} as inside; inside.{call}"
    return [environment.interpreter.executable, "-I", "-S", "-B", "-X", "utf8", "-c", start]
