"""Let pytest run test files of callbacks; ``gcp-adk-store ces test`` loads it.

A test file lies beside the callback's ``python_code.py``, which it imports by that name. There the code has
the runtime's names, in this process and unprotected, as in the harness that such files are written for: tests
replace ``python_code.tools`` and call the function. The fixture ``ces_callback`` runs the callback in the
sandbox instead.
"""

import asyncio
import importlib.util
import json
import sys
import types
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from google.genai import types as genai

from gcp_adk_store.runtime import CallbackRun, MockTool, PythonRuntime, SessionKey
from gcp_adk_store.runtime.apps.layout import CODE_FILE, AgentApp, read_app
from gcp_adk_store.runtime.apps.loading import load_code, load_tools
from gcp_adk_store.runtime.apps.outcomes import Outcome, Status
from gcp_adk_store.runtime.guest.context import ToolContext
from gcp_adk_store.runtime.guest.contract import RunSettings
from gcp_adk_store.runtime.guest.namespace import (
    INTERNAL_MODULE,
    PUBLIC_MODULE,
    module_globals,
    runtime_names,
)
from gcp_adk_store.runtime.sandbox import SandboxUnavailableError
from gcp_adk_store.runtime.sandboxes import open_sandbox
from gcp_adk_store.testing.plugin import SANDBOX_RUNS

if TYPE_CHECKING:
    from gcp_adk_store.runtime.sandbox import Sandbox

MODULE: Final = "python_code"
ELSEWHERE: Final = "cxas_scrapi.utils.callback_libs"
"""Where other harnesses have the runtime's names, and test files import them from."""

_FUNCTION: Final = "ces_callback"
_APP: Final = "ces-test"
_AGENT: Final = -4
_CALLBACK: Final = -2
"""Places of the two in ``agents/{agent}/{kind}_callbacks/{callback}/test.py``."""


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
        vars(module).update(module_globals(_names(), RunSettings()))
        super().exec_module(module)


class _Finder(MetaPathFinder):
    """Finds the callback of the test file that is at work."""

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
_outcomes: list[Outcome] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what the command tells."""
    group = parser.getgroup("callbacks of agents")
    group.addoption("--ces-report", type=Path, help="Where to write what became of the tests, as JSON.")
    group.addoption("--ces-sandbox", help="Sandbox of ces_callback: bubblewrap, gvisor or inprocess.")


def pytest_configure() -> None:
    """Make the runtime's names importable, and the callback beside each test."""
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
    """Turn to the callback of a test file before it is imported."""
    if isinstance(collector, pytest.Module):
        _finder.turn_to(collector.path.parent)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Turn to the callback of a test before it runs: it may import it then."""
    _finder.turn_to(item.path.parent)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Keep what kept a file from being collected."""
    if report.failed:
        _keep(report, "error", line=1, name="the file")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what became of a test."""
    if report.when == "call" or not report.passed:
        status = cast("Status", report.outcome) if report.when == "call" or report.skipped else "error"
        _keep(report, status, line=(report.location[1] or 0) + 1, name=report.nodeid.partition("::")[2])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what became of all."""
    file = session.config.getoption("--ces-report")
    if file is not None:
        file.write_text(json.dumps([asdict(each) for each in _outcomes]), encoding="utf-8")


def _keep(report: pytest.TestReport | pytest.CollectReport, status: Status, *, line: int, name: str) -> None:
    path = report.nodeid.partition("::")[0]
    _outcomes.append(
        Outcome(
            path=path,
            line=line,
            name=name,
            subject=_subject(Path(path)),
            status=status,
            says=() if status == "passed" else (report.longreprtext,),
            stdout=report.capstdout,
            duration_s=getattr(report, "duration", 0.0),
        )
    )


def _subject(path: Path) -> str:
    parts = path.parts
    return f"{parts[_AGENT]}/{parts[_CALLBACK]}" if len(parts) >= -_AGENT else str(path.parent)


@pytest.fixture(scope="session")
def ces_test_sandbox(request: pytest.FixtureRequest) -> "Iterator[Sandbox]":
    """What ``ces_callback`` runs in."""
    sandbox, _ = open_sandbox(request.config.getoption("--ces-sandbox"), runs_at_once=SANDBOX_RUNS)
    yield sandbox
    asyncio.run(sandbox.close())


@pytest.fixture
def ces_callback(request: pytest.FixtureRequest, ces_test_sandbox: "Sandbox") -> Callable[..., CallbackRun]:
    """Run the callback beside the test in the sandbox, as a turn does, on a session that nobody keeps.

    It has the app's tools, and its variables with their declared defaults::

        ran = ces_callback(said="hello", state={"greeted": True}, tools={"look_up": {"result": 3}})
        assert ran.override is None

    ``said`` is what the user said last, ``state`` are variables, ``tools`` answers in place of tools (or
    functions of their arguments), ``llm_request``, ``llm_response``, ``tool``, ``args`` and ``tool_response``
    are what callbacks get. What comes back is a :class:`~gcp_adk_store.runtime.CallbackRun`; a callback that
    raised fails the test, with its traceback.
    """
    callback = _Callback.beside(request.path)

    def run(
        said: str | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        tools: Mapping[str, Any] | None = None,
        **subjects: Any,
    ) -> CallbackRun:
        if callback.kind == "before_model":
            subjects.setdefault("llm_request", {})
        turn = callback.turn(ces_test_sandbox, said, state or {}, tools or {}, subjects)
        try:
            ran = asyncio.run(turn)
        except SandboxUnavailableError as exc:
            pytest.fail(str(exc), pytrace=False)
        if ran.error is not None:
            pytest.fail(f"{ran.stdout}{ran.error.traceback}", pytrace=False)
        return ran

    return run


@dataclass(frozen=True, slots=True)
class _Callback:
    """The callback of a test file."""

    folder: Path
    kind: str
    app: AgentApp

    @classmethod
    def beside(cls, test: Path) -> "_Callback":
        folder = test.parent
        in_app = folder.parents[2].name == "agents"
        app = read_app(folder.parents[3]) if in_app else AgentApp(folder=folder)
        return cls(folder, folder.parent.name.removesuffix("_callbacks"), app)

    async def turn(
        self,
        sandbox: "Sandbox",
        said: str | None,
        state: Mapping[str, Any],
        tools: Mapping[str, Any],
        subjects: Mapping[str, Any],
    ) -> CallbackRun:
        """Make a session, let the user say something, and run the callback."""
        sessions = InMemorySessionService()
        session = await sessions.create_session(
            app_name=_APP, user_id="test", session_id=uuid.uuid4().hex, state={**self.app.variables, **state}
        )
        if said is not None:
            content = genai.Content(role="user", parts=[genai.Part(text=said)])
            await sessions.append_event(session, Event(author="user", invocation_id="turn", content=content))
        mocked = [MockTool(name=name, response=response) for name, response in tools.items()]
        others = [each for each in load_tools(self.app) if getattr(each, "name", None) not in tools]
        async with PythonRuntime(sessions, tools=[*others, *mocked], sandbox=sandbox) as runtime:
            return await runtime.run_callback(
                self.kind,
                load_code(self.folder / CODE_FILE),
                SessionKey(_APP, "test", session.id),
                invocation_id="turn",
                **subjects,
            )


def _names() -> dict[str, Any]:
    """Return the runtime's names, with nothing to reach."""
    reached = {name: cast("Any", _NotThere(name)) for name in ("tools", "async_tools", "ces_requests")}
    return runtime_names(
        ToolContext(),
        synchronous=reached["tools"],
        asynchronous=reached["async_tools"],
        requests=reached["ces_requests"],
        logger_stream=None,
    )
