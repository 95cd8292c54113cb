"""Let pytest run test files of callbacks; ``gcp-adk-store ces test`` loads it.

A test file lies beside the callback's ``python_code.py``, which it imports by that name. There the code has
the runtime's names, in pytest's process, as in the harness that such files are written for: tests replace
``python_code.tools`` and call the function. The fixture ``ces_callback`` asks the command for a run of the
callback instead, as a turn runs it.

The command starts pytest in namespaces of its own; the filter and the limits of user code are added here,
before a file of the app is read.
"""

import importlib.util
import resource
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any, Final, cast

import pytest
from pydantic import TypeAdapter

from gcp_adk_store.ces.apps import CODE_FILE
from gcp_adk_store.ces.guest.callbacks import GUARDRAIL_GLOBALS
from gcp_adk_store.ces.guest.context import ToolContext
from gcp_adk_store.ces.guest.contract import SUBJECTS, RunSettings
from gcp_adk_store.ces.guest.models import sendable
from gcp_adk_store.ces.guest.namespace import INTERNAL_MODULE, PUBLIC_MODULE, module_globals, runtime_names
from gcp_adk_store.ces.host.results import CallbackRun
from gcp_adk_store.ces.sandbox.inside import keeping
from gcp_adk_store.ces.sandbox.inside.running import Conversation
from gcp_adk_store.ces.sandbox.interface import Limits
from gcp_adk_store.ces.sandbox.seccomp import program
from gcp_adk_store.ces.testing.outcomes import Outcome, Status

MODULE: Final = "python_code"
ELSEWHERE: Final = "cxas_scrapi.utils.callback_libs"
"""Where other harnesses have the runtime's names, and test files import them from."""

_FUNCTION: Final = "ces_callback"
_AGENT: Final = -4
_CALLBACK: Final = -2
"""Places of the two in ``agents/{agent}/{kind}_callbacks/{callback}/test.py``."""
_MEMORY_BYTES: Final = 2 * 1024**3
_KEPT_CHARS: Final = 256 * 1024
_RUN: Final = TypeAdapter(CallbackRun)


class _NotThere:
    """Stands for what a callback reaches out with, and a test has to replace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self._name}.{name} is reached by no test: replace python_code.{self._name}, or use {_FUNCTION}"
        )


class _Loader(SourceFileLoader):
    """Runs a file with the runtime's names."""

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(module_globals(_names(), RunSettings()) | GUARDRAIL_GLOBALS)
        super().exec_module(module)


class _Finder(MetaPathFinder):
    """Finds the callback of the running test file."""

    def __init__(self) -> None:
        self.folder = Path()
        self._loaded: dict[Path, types.ModuleType] = {}

    def turn_to(self, folder: Path) -> None:
        """Let the module be that of *folder* from now on."""
        if MODULE in sys.modules:
            self._loaded[self.folder] = sys.modules.pop(MODULE)
        self.folder = folder
        if folder in self._loaded:
            sys.modules[MODULE] = self._loaded[folder]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the file beside the test, or the first on ``sys.path``."""
        del path, target
        if fullname != MODULE:
            return None
        for folder in (self.folder, *map(Path, sys.path)):
            file = folder / CODE_FILE
            if file.is_file():
                loader = _Loader(MODULE, str(file))
                return importlib.util.spec_from_file_location(MODULE, file, loader=loader)
        return None


_finder = _Finder()
_commands: list[Conversation] = []
"""One, where the command started this pytest: the command is the host of this process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command's settings."""
    group = parser.getgroup("callbacks of agents")
    group.addoption("--ces-channel", type=int, help="Number of the socket that the command listens to.")
    group.addoption("--ces-walled", action="store_true", help="Allow what user code may do alone.")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Make the runtime's names importable, and shut the doors before a file of the app is read."""
    _make_importable()
    options = early_config.known_args_namespace
    if options.ces_channel is not None:
        _commands.append(Conversation(options.ces_channel, frame_bytes=Limits().sent_frame_bytes))
        _commands[0].request()
    if options.ces_walled:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        keeping.filter_system_calls(program(sets_times=False))  # bubblewrap shows the host's devices


def _make_importable() -> None:
    sys.meta_path.insert(0, _finder)
    names = _names()
    for name in (PUBLIC_MODULE, INTERNAL_MODULE):
        sys.modules[name] = names[name]
    parents = [ELSEWHERE.rpartition(".")[0], ELSEWHERE.partition(".")[0]]
    if importlib.util.find_spec(parents[-1]) is None:
        for name in parents:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = []
    stand_in = types.ModuleType(ELSEWHERE)
    vars(stand_in).update({name: value for name, value in names.items() if not name.startswith("_")})
    sys.modules[ELSEWHERE] = stand_in


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Select the callback of a test file before the file's import."""
    if isinstance(collector, pytest.Module):
        _finder.turn_to(collector.path.parent)
        _send("began", _outcome(collector.nodeid, "error", line=1, name="the file"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Select the callback of a test before it runs, because the test may import it then."""
    _finder.turn_to(item.path.parent)
    name = item.nodeid.partition("::")[2]
    _send("began", _outcome(item.nodeid, "error", line=(item.location[1] or 0) + 1, name=name))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Report the error that kept pytest from collecting a file."""
    if not report.passed:
        status: Status = "skipped" if report.skipped else "error"
        _send("outcome", _of_report(report, status, line=1, name="the file"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Report the outcome of a test."""
    if report.when == "call" or not report.passed:
        status = cast("Status", report.outcome) if report.when == "call" or report.skipped else "error"
        name = report.nodeid.partition("::")[2]
        _send("outcome", _of_report(report, status, line=(report.location[1] or 0) + 1, name=name))


def pytest_sessionfinish(exitstatus: int) -> None:
    """Report to the command that the run ended."""
    for each in _commands:
        each.finish({"status": int(exitstatus)})


def _send(what: str, outcome: Outcome) -> None:
    for each in _commands:
        each.call({what: asdict(outcome)})


def _of_report(
    report: pytest.TestReport | pytest.CollectReport, status: Status, *, line: int, name: str
) -> Outcome:
    return _outcome(
        report.nodeid,
        status,
        line=line,
        name=name,
        says=() if status == "passed" else (sendable(report.longreprtext[-_KEPT_CHARS:]),),
        stdout=sendable(report.capstdout[:_KEPT_CHARS]),
        duration_s=getattr(report, "duration", 0.0),
    )


def _outcome(node: str, status: Status, *, line: int, name: str, **more: Any) -> Outcome:
    path = node.partition("::")[0]
    return Outcome(path=path, line=line, name=name, subject=_subject(Path(path)), status=status, **more)


def _subject(path: Path) -> str:
    parts = path.parts
    return f"{parts[_AGENT]}/{parts[_CALLBACK]}" if len(parts) >= -_AGENT else str(path.parent)


@pytest.fixture
def ces_callback(request: pytest.FixtureRequest) -> Callable[..., CallbackRun]:
    """Run the callback beside the test in the sandbox, as a turn does, on a session that nobody keeps.

    It has the app's tools, and its variables with their declared defaults::

        ran = ces_callback(said="hello", state={"greeted": True}, tools={"look_up": {"result": 3}})
        assert ran.override is None

    ``said`` is what the user said last, ``state`` are variables, ``tools`` answers in place of tools, and
    ``llm_request``, ``llm_response``, ``tool``, ``args`` and ``tool_response`` are what callbacks get. What
    comes back is a :class:`~gcp_adk_store.ces.CallbackRun`; a callback that raised fails the test, with its
    traceback.
    """
    if not _commands:
        pytest.fail(f"{_FUNCTION} is there for the tests that gcp-adk-store ces test runs", pytrace=False)
    (host,) = _commands

    def run(
        said: str | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        tools: Mapping[str, Any] | None = None,
        **subjects: Any,
    ) -> CallbackRun:
        unknown = sorted(set(subjects) - set(SUBJECTS))
        if unknown:
            raise TypeError(f"{_FUNCTION} has no argument {unknown[0]}; there are {', '.join(SUBJECTS)}")
        if request.path.parent.parent.name == "before_model_callbacks":
            subjects.setdefault("llm_request", {})
        if functions := [name for name, answer in (tools or {}).items() if callable(answer)]:
            raise TypeError(
                f"{functions[0]} of tools is a function: give its answer, or replace {MODULE}.tools"
            )
        asked = {
            "said": said,
            "state": dict(state or {}),
            "tools": dict(tools or {}),
            "subjects": {name: value for name, value in subjects.items() if value is not None},
        }
        found = host.call({"callback": asked})
        if "run" not in found:
            pytest.fail(found["failed"], pytrace=False)
        ran = _RUN.validate_python(found["run"])
        if ran.error is not None:
            pytest.fail(f"{ran.stdout}{ran.error.traceback}", pytrace=False)
        return ran

    return run


def _names() -> dict[str, Any]:
    """Return the runtime's names, with nothing to reach."""
    reached = {name: cast("Any", _NotThere(name)) for name in ("tools", "async_tools", "ces_requests")}
    return runtime_names(
        ToolContext(),
        synchronous=reached["tools"],
        asynchronous=reached["async_tools"],
        requests=reached["ces_requests"],
    )
