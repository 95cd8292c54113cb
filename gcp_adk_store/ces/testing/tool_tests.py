"""Run the tests of tools, and count how tests end."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from google.adk.sessions import InMemorySessionService, Session

from gcp_adk_store.ces.apps.layout import AgentApp, load_code, load_tools
from gcp_adk_store.ces.host.results import ToolRun
from gcp_adk_store.ces.host.runtime import PythonRuntime
from gcp_adk_store.ces.host.settings import SessionKey
from gcp_adk_store.ces.sandbox.interface import SandboxRunError
from gcp_adk_store.ces.testing.matching import OPERATORS, WITHOUT_VALUE, Expectation, JsonPath
from gcp_adk_store.ces.testing.nodes import Nodes, line_of, read_all
from gcp_adk_store.ces.testing.outcomes import Case, Outcome
from gcp_adk_store.ces.tools.declarations import MockConfig
from gcp_adk_store.errors import InvalidInputError

_FIELDS: Final = frozenset({"name", "tool", "args", "variables", "context", "expectations", "mockConfig"})
_MISSPELLED: Final = {"agrs": "args"}
"""In many files of the platform."""
_PARTS: Final = frozenset({"path", "operator", "value"})
_EXPECTED: Final = frozenset({"response", "variables"})
_STATE: Final = ("state", "variables")
"""The variables of a context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTest(Case):
    """One call of the tool that is its subject, and what must come of it."""

    args: Mapping[str, Any]
    variables: Mapping[str, Any]
    """None for those that are wanted with their declared defaults."""
    context: Mapping[str, Any] | None
    """In place of variables."""
    mock_config: Mapping[str, Any] | None
    response: tuple[Expectation, ...]
    """Of ``{"result": ...}``."""
    variables_after: tuple[Expectation, ...]


def read_tool_tests(path: Path) -> list[ToolTest]:
    """Return the tests of the file *path*.

    Raises:
        MalformedTestError: the file is not YAML, or a test is malformed.
    """
    reading = _Reading(path)
    root = reading.root()
    tests = reading.members(root).get("tests")
    found = [reading.test(each) for each in reading.items(tests, "tests")]
    if not found:
        raise reading.wrong(tests or root, "it has no tests")
    return found


class _Reading(Nodes):
    def test(self, node: yaml.Node) -> ToolTest:
        members = self.members(node, "a test", _FIELDS, _MISSPELLED)
        if "variables" in members and "context" in members:
            raise self.wrong(members["context"], "a test has variables or context, not both")
        context = self.object(members["context"], "context") if "context" in members else None
        for state in _STATE:
            if not isinstance((context or {}).get(state) or {}, dict):
                raise self.wrong(members["context"], f"{state} of the context must be an object")
        expected = self.members(members.get("expectations"), "expectations", _EXPECTED)
        name, tool = self.text(node, members, "name"), self.text(node, members, "tool")
        response = tuple(self._expectations(expected.get("response"), "response"))
        variables_after = tuple(self._expectations(expected.get("variables"), "variables"))
        if not (response or variables_after):
            raise self.wrong(node, f"the test {name} expects nothing, so it cannot fail: add expectations")
        return ToolTest(
            path=str(self.path),
            line=line_of(node),
            name=name,
            subject=tool,
            args=self.object(members.get("args"), "args"),
            variables=self.variables(members.get("variables")),
            context=context,
            mock_config=self.object(members["mockConfig"], "mockConfig") if "mockConfig" in members else None,
            response=response,
            variables_after=variables_after,
        )

    def _expectations(self, node: yaml.Node | None, what: str) -> Iterator[Expectation]:
        for each in self.items(node, f"expectations of {what}"):
            members = self.members(each, "an expectation", _PARTS)
            operator = self.text(each, members, "operator")
            if operator not in OPERATORS:
                says = f"unknown operator {operator}; known: {', '.join(OPERATORS)}"
                raise self.wrong(members["operator"], says)
            if "value" not in members and operator not in WITHOUT_VALUE:
                raise self.wrong(each, f"{operator} needs a value")
            written = self.text(each, members, "path")
            try:
                path = JsonPath.of(written)
            except ValueError as exc:
                raise self.wrong(members["path"], str(exc)) from exc
            value = self.value(members.get("value"))
            yield Expectation(path=path, operator=operator, value=value, line=line_of(each))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What tests of an app are run on."""

    app: AgentApp
    options: Mapping[str, Any]
    """Of each :class:`PythonRuntime`, such as ``sandbox`` and ``settings``."""
    variables: Mapping[str, Any]
    """In place of declared defaults, or beside them."""
    sessions: InMemorySessionService = field(default_factory=InMemorySessionService, init=False)

    async def session(self, state: Mapping[str, Any]) -> Session:
        """Return a new session, with *state* beside the variables of the app."""
        everything = {**self.app.variables, **self.variables, **state}
        return await self.sessions.create_session(app_name="ces-test", user_id="test", state=everything)


async def run_tool_tests(checks: Checks, files: Iterable[Path]) -> list[Outcome]:
    """Return what becomes of the tests of tools in *files*.

    Raises:
        SandboxUnavailableError: no code can be run here.
    """
    tests = read_all(files, read_tool_tests)
    tools = load_tools(checks.app) if tests else ()
    async with PythonRuntime(checks.sessions, tools=tools, **checks.options) as runtime:
        return [
            each if isinstance(each, Outcome) else await _outcome_of(each, checks, runtime) for each in tests
        ]


async def _outcome_of(test: ToolTest, checks: Checks, runtime: PythonRuntime) -> Outcome:
    began = time.perf_counter()
    try:
        run = await _call(test, checks, runtime)
    except (InvalidInputError, SandboxRunError) as exc:
        output = exc.output if isinstance(exc, SandboxRunError) else ""
        return test.ended("error", [str(exc)], stdout=output, began=began)
    wrong = [
        f"{where} {failure} ({test.path}:{each.line})"
        for where, document, expected in (
            ("response", run.response, test.response),
            ("variables", run.variables, test.variables_after),
        )
        for each in expected
        if (failure := each.failure(document))
    ]
    if run.error is not None and not (wrong or any(map(_is_of_error, test.response))):
        wrong.append("the tool raised an exception that the test does not expect")
    if wrong and run.error is not None:
        wrong.append(run.error.traceback.rstrip() or str(run.error))
    return test.ended("failed" if wrong else "passed", wrong, stdout=run.stdout, began=began)


async def _call(test: ToolTest, checks: Checks, runtime: PythonRuntime) -> ToolRun:
    context = dict(test.context or {})
    given = {name: value for name, value in test.variables.items() if value is not None}
    missing = test.variables.keys() - {*given, *checks.app.variables, *checks.variables}
    if missing:
        raise InvalidInputError(f"the app declares no variable {min(missing)} with a default")
    state: dict[str, Any] = {}
    for name in _STATE:
        state |= context.pop(name, None) or {}
    said = [context.pop(name, None) for name in ("userContent", "user_content")]
    session = await checks.session({**state, **given})
    key = SessionKey.of_session(session)
    options: dict[str, Any] = {"user_content": said[0] or said[1], "context": context or None}
    if test.mock_config is not None:
        options["mocks"] = MockConfig.from_json(test.mock_config)
    tool = next((each for each in checks.app.tools if each.name == test.subject), None)
    if tool is None:
        return await runtime.call_tool(test.subject, test.args, key, **options)
    # Mocks are of what it calls, not of the tool that is tested.
    options |= {"execution": tool.execution, "timeout_s": tool.timeout_s}
    run = await runtime.run_tool(load_code(tool.path), tool.name, test.args, key, **options)
    return await run.finished()


def _is_of_error(expectation: Expectation) -> bool:
    """Whether a test names the error of a tool that raises, by its path or in its value."""
    value = expectation.value
    within = value.get("result", value) if isinstance(value, dict) else None
    return expectation.path.has("error") or (isinstance(within, dict) and "error" in within)
