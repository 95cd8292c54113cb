"""Tell which tests of an app a saved file concerns."""

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gcp_adk_store.ces.apps.layout import AgentApp
from gcp_adk_store.ces.guest.scanning import OWNERS, scan
from gcp_adk_store.ces.testing.callback_checks import tested_code
from gcp_adk_store.ces.testing.nodes import MalformedTestError
from gcp_adk_store.ces.testing.tool_tests import read_tool_tests


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """The tools that a file of code calls."""

    names: frozenset[str]
    any_tool: bool
    """Whether it computes names, so that it may call any tool."""


def tool_tests_of(app: AgentApp, files: Sequence[Path], saved: Collection[Path]) -> list[Path]:
    """Return those of *files*, tests of tools in YAML, that *saved* files concern.

    A file of tests concerns itself. Code concerns the tests of its tool, and those of code that calls the
    tool, also by another tool. Any other file, such as a configuration, concerns all tests.
    """
    code = concerned(app, saved)
    paths = {tool.name: tool.path.resolve() for tool in app.tools}
    return [
        file
        for file in files
        if code is None
        or _is_among(file, saved)
        or not code.isdisjoint(paths.get(name) for name in _tools_of(file))
    ]


def callback_tests_of(app: AgentApp, files: Sequence[Path], saved: Collection[Path]) -> list[Path]:
    """Return those of *files*, tests of callbacks in Python, that *saved* files concern; as for tools."""
    code = concerned(app, saved)
    return [
        file
        for file in files
        if code is None or _is_among(file, saved) or tested_code(app, file).resolve() in code
    ]


def concerned(app: AgentApp, saved: Collection[Path]) -> frozenset[Path] | None:
    """Return the code of *app* that *saved* files concern; None is all of it."""
    calls = {path.resolve(): _calls(path) for path in _code(app)}
    found = {path.resolve() for path in saved} & calls.keys()
    if any(path.resolve() not in found and not _is_test(path) for path in saved):
        return None
    names = {tool.path.resolve(): tool.name for tool in app.tools}
    while more := {*_callers(calls, {names[path] for path in found if path in names})} - found:
        found |= more
    return frozenset(found)


def _is_test(path: Path) -> bool:
    """Whether *path* is a file of tests, which changes no other test."""
    return "tool_tests" in path.parts[:-1] or path.name == "test.py" or path.name.startswith("test_")


def _is_among(file: Path, saved: Collection[Path]) -> bool:
    return file.resolve() in {path.resolve() for path in saved}


def _tools_of(file: Path) -> list[str]:
    """Return the tools that *file* tests; of a malformed file none, until somebody mends it."""
    try:
        return [test.tool for test in read_tool_tests(file, str(file))]
    except MalformedTestError:
        return []


def _code(app: AgentApp) -> list[Path]:
    return [*(tool.path for tool in app.tools), *(callback.path for callback in app.callbacks)]


def _callers(calls: Mapping[Path, _Calls], tools: Collection[str]) -> Iterable[Path]:
    """Return the files that call one of *tools*."""
    return [
        path for path, each in calls.items() if tools and (each.any_tool or not each.names.isdisjoint(tools))
    ]


def _calls(path: Path) -> _Calls:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return _Calls(names=frozenset(), any_tool=False)
    nodes = [*ast.walk(tree)]
    owners = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    alone = (
        node for node in nodes if isinstance(node, ast.Name) and node.id in OWNERS and node not in owners
    )
    return _Calls(names=frozenset(each.name for each in scan(tree).tools), any_tool=any(alone))
