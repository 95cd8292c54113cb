"""Run test files of callbacks by pytest: each in a process of its own, which reports only on its own file."""

import asyncio
import contextlib
import math
import os
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from google.adk.events import Event
from google.genai import types
from pydantic import TypeAdapter

from gcp_adk_store.ces.apps import CODE_FILE
from gcp_adk_store.ces.apps.layout import load_code, load_tools
from gcp_adk_store.ces.host.results import CallbackRun
from gcp_adk_store.ces.host.runtime import PythonRuntime
from gcp_adk_store.ces.host.settings import SessionKey
from gcp_adk_store.ces.sandbox.bubblewrap import path_of_bubblewrap
from gcp_adk_store.ces.sandbox.frames import encoded
from gcp_adk_store.ces.sandbox.interface import Limits, SandboxRunError, SandboxUnavailableError
from gcp_adk_store.ces.sandbox.supervision import Conversation
from gcp_adk_store.ces.testing.outcomes import Outcome
from gcp_adk_store.ces.testing.tool_tests import Checks
from gcp_adk_store.ces.tools.declarations import MockTool, Tool, without
from gcp_adk_store.errors import InvalidInputError, OverloadedError

PLUGIN: Final = "gcp_adk_store.testing.callback_tests"
"""By name: what is used in production imports nothing of the testing kit."""

_OURS: Final = Path(__file__).parents[2]
"""The package that this is in."""
_SYSTEM: Final = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/ld.so.conf.d")
_TMP_BYTES: Final = 64 * 1024 * 1024
_SAID_BYTES: Final = 16 * 1024


def _walled(command: Sequence[str], folder: Path, packages: str) -> list[str]:
    return [
        path_of_bubblewrap(),
        *("--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"),
        *("--clearenv", "--hostname", "sandbox"),
        *("--setenv", "HOME", "/tmp", "--setenv", "PATH", "/usr/bin:/bin"),  # noqa: S108  # inside
        *("--setenv", "LANG", "C.UTF-8", "--setenv", "PYTHONDONTWRITEBYTECODE", "1"),
        *("--setenv", "PYTHONPATH", packages),
        *("--dev", "/dev", "--proc", "/proc", "--size", str(_TMP_BYTES), "--tmpfs", "/tmp"),  # noqa: S108
        *(argument for path in _seen(folder) for argument in ("--ro-bind-try", path, path)),
        *("--chdir", str(folder), "--remount-ro", "/", "--", *command),
    ]


def _packages() -> list[Path]:
    """Return the folders that packages are imported from, the one of this package first."""
    found = [_OURS.parent]
    found += [Path(each) for each in sys.path if Path(each).name in {"site-packages", "dist-packages"}]
    return list(dict.fromkeys(found))


def _seen(folder: Path) -> Iterator[str]:
    """Yield what is mounted: of the folder that holds this package, only the package."""
    _, *others = _packages()
    yield from _SYSTEM
    yield from dict.fromkeys((sys.base_prefix, sys.prefix))
    yield from map(str, others)
    yield str(_OURS)
    yield str(folder)


async def _said(stream: asyncio.StreamReader | None) -> str:
    """Return the end of what *stream* had, once it ends."""
    kept = b""
    while stream is not None and (piece := await stream.read(_SAID_BYTES)):
        kept = (kept + piece)[-_SAID_BYTES:]
    return kept.decode(errors="replace").strip()


_SENT_BYTES: Final = 32 * 1024 * 1024
"""Of all messages of a process: this process keeps the outcomes, and a test file is untrusted."""
_MESSAGES: Final = 30_000
_FUNCTIONS: Final = 1000
"""Tests of a file that time is given for."""
_START_TIMEOUT_S: Final = 60.0
"""Until pytest begins with the file; before that it imports ADK."""
_EXIT_TIMEOUT_S: Final = 5.0
"""Until it ends after its last message."""
_FINISHED: Final = (0, 1, 5)
"""Exit codes of a pytest that reported every test: all passed, some failed, the file has no test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A run of a callback that a test wants."""

    said: str | None
    state: dict[str, Any]
    tools: dict[str, Any]
    """What is answered in place of tools."""
    subjects: dict[Literal["llm_request", "llm_response", "tool", "args", "tool_response"], Any]


_ASKED: Final = TypeAdapter(Asked)
_OUTCOME: Final = TypeAdapter(Outcome)


async def run_callback_tests(checks: Checks, files: Iterable[Path], *, walled: bool) -> list[Outcome]:
    """Return what becomes of the tests of callbacks in *files*.

    Args:
        checks: What they are run on.
        files: Of tests.
        walled: Whether the tests themselves see nothing of the host.

    Raises:
        SandboxUnavailableError: no test, or no callback, can be run here.
    """
    return [outcome for file in files for outcome in await _File(checks, file, walled=walled).run()]


@dataclass(slots=True)
class _File:
    """One file of tests, and the process that runs it."""

    checks: Checks
    file: Path
    walled: bool
    """In namespaces; else as anything that the user starts, which protects nothing."""
    _outcomes: list[Outcome] = field(default_factory=list)
    _begun: Outcome | None = None
    _whole: bool = False
    _clock: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(_START_TIMEOUT_S))
    _last: float = math.inf
    """When the time of the whole file is over, on the clock of the event loop."""

    async def run(self) -> list[Outcome]:
        """Return what becomes of the tests of the file; raises as `run_callback_tests`."""
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        with ours:
            with theirs:
                process = await self._start(theirs.fileno())
            output = asyncio.create_task(_said(process.stdout))
            wrong: str | None = "the run was cancelled"
            try:
                wrong = await self._listen(ours)
            finally:
                # Behind walls nothing that follows the last message is seen: pytest's summary takes its time.
                is_over = wrong is not None or (self._whole and self.walled)
                await _end(process, at_once=is_over)
                said = await output
        if self._begun is None and not self._whole:
            raise SandboxUnavailableError(f"pytest {wrong or f'ended with {process.returncode}'}:\n{said}")
        if self._begun is not None and not self._whole:
            why = wrong or f"pytest ended with {process.returncode}:\n{said}"
            says = (why, "later tests of this file did not run")
            self._outcomes.append(replace(self._begun, status="error", says=says))
        no_test = "it has no test: write a function whose name begins with test_"
        return self._outcomes or [Outcome.of_file(str(self.file), no_test)]

    async def _start(self, channel: int) -> asyncio.subprocess.Process:
        """Start the tests, which talk over the socket of the number *channel*; raises as :meth:`run`."""
        folder = self.checks.app.folder.absolute()
        command = [
            *(sys.executable, "-P", "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider"),
            *("-c", os.devnull, f"--rootdir={folder}", "--import-mode=importlib"),
            "--continue-on-collection-errors",
            *(f"--ces-channel={channel}", *(["--ces-walled"] if self.walled else [])),
            str(self.file.absolute()),
        ]
        packages = os.pathsep.join(map(str, _packages()))
        return await asyncio.create_subprocess_exec(
            *(_walled(command, folder, packages) if self.walled else command),
            pass_fds=[channel],
            env={**os.environ, "PYTHONPATH": packages},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def _listen(self, frames: socket.socket) -> str | None:
        """Handle messages until the end; return why this process ended the tests, or None."""
        limits = Limits(received_bytes=_SENT_BYTES, host_calls=_MESSAGES)
        try:
            async with self._clock:
                first = await encoded("request", {}, limits)
                result = await Conversation(frames, self._handle, limits).run(first)
        except TimeoutError:
            return f"did not end within {_START_TIMEOUT_S if self._begun is None else self._wall_s:g} s"
        except InvalidInputError as exc:
            return str(exc)
        except (SandboxRunError, ValueError) as exc:
            return f"sent an invalid message: {exc}"
        self._whole = result is not None and result.get("status") in _FINISHED
        return None

    @property
    def _wall_s(self) -> float:
        return (self.checks.options["settings"].limits or Limits()).wall_s

    async def _handle(self, message: dict[str, Any]) -> dict[str, Any]:
        match message:
            case {"began": content}:
                now = asyncio.get_running_loop().time()
                if self._begun is None:  # what the file says from now on gives it no more time
                    self._last = now + self._wall_s * _functions(self.file)
                self._begun = self._outcome(content)
                self._clock.reschedule(min(now + self._wall_s, self._last))
            case {"outcome": content}:
                self._outcomes.append(self._outcome(content))
            case {"callback": content}:
                try:
                    ran = await self._run(_ASKED.validate_python(content))
                except (InvalidInputError, OverloadedError, SandboxRunError) as exc:
                    return {"failed": str(exc)}
                return {"run": {**asdict(ran), "changed": sorted(ran.changed)}}
            case _:
                raise ValueError(f"it is of no known kind: {str([*message])[:80]}")
        return {}

    async def _run(self, asked: Asked) -> CallbackRun:
        """Run the callback beside the test on a session of its own."""
        checks, code = self.checks, self.file.parent / CODE_FILE
        if not code.resolve().is_relative_to(checks.app.folder.resolve()):
            raise InvalidInputError(f"{code} is outside of the folder of the app")
        session = await checks.session(asked.state)
        if asked.said is not None:
            content = types.Content(role="user", parts=[types.Part(text=asked.said)])
            event = Event(author="user", invocation_id="turn", content=content)
            await checks.sessions.append_event(session, event)
        tools: list[Tool] = [MockTool(name=name, response=each) for name, each in asked.tools.items()]
        tools += without(load_tools(checks.app), asked.tools)
        async with PythonRuntime(checks.sessions, tools=tools, **checks.options) as runtime:
            return await runtime.run_callback(
                self._kind(code),
                load_code(code),
                SessionKey.of_session(session),
                invocation_id="turn",
                **asked.subjects,
            )

    def _kind(self, code: Path) -> str:
        """Return which callback *code* is: as the app's configuration has it, else by its folder."""
        callbacks, path = self.checks.app.callbacks, code.resolve()
        listed = (each.callback for each in callbacks if each.path.resolve() == path)
        return next(listed, code.parent.parent.name.removesuffix("_callbacks"))

    def _outcome(self, message: object) -> Outcome:
        """Return the outcome that the process reports, always as one of this file."""
        return replace(_OUTCOME.validate_python(message), path=str(self.file))


def _functions(file: Path) -> int:
    """Return how many functions *file* has that are tests, as its text says, and at least 1."""
    try:
        found = file.read_bytes().count(b"def test")
    except OSError:
        return 1
    return min(max(found, 1), _FUNCTIONS)


async def _end(process: asyncio.subprocess.Process, *, at_once: bool) -> None:
    with contextlib.suppress(ProcessLookupError, TimeoutError):
        if not at_once:
            async with asyncio.timeout(_EXIT_TIMEOUT_S):
                await process.wait()
        if process.returncode is None:
            process.kill()
    await process.wait()
