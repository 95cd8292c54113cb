"""Read tests of tools from YAML, and find the line of each error in them.

::

    tests:
      - name: finds an account
        tool: look_up_account
        args: {number: "12"}
        variables: {verified: true}        # or a list of names: those with their declared defaults
        expectations:
          response: [{path: $.result.owner, operator: equals, value: Ada}]
          variables: [{path: $.account, operator: is_not_null}]

``context`` in place of ``variables`` is the whole of the context; ``mockConfig`` answers the tools that the
tool calls, as in the platform's API.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gcp_adk_store.ces.apps.paths import JsonPath
from gcp_adk_store.ces.testing.expectations import OPERATORS, WITHOUT_VALUE, Expectation
from gcp_adk_store.ces.testing.nodes import Nodes, line_of, text_of

_FIELDS: Final = frozenset(
    {"name", "tool", "args", "variables", "context", "expectations", "mockConfig", "agrs"}
)
_HIDDEN: Final = frozenset({"agrs"})
"""A misspelling in many files of the platform."""
_PARTS: Final = frozenset({"path", "operator", "value"})
_EXPECTED: Final = frozenset({"response", "variables"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTest:
    """One call of a tool, and what must come of it."""

    path: str
    """Of the file."""
    line: int
    """Counted from 1."""
    name: str
    tool: str
    args: Mapping[str, Any]
    variables: Mapping[str, Any]
    """Those that are given."""
    declared: tuple[str, ...]
    """Those that are wanted with their declared defaults."""
    context: Mapping[str, Any] | None
    """In place of variables."""
    mock_config: Mapping[str, Any] | None
    response: tuple[Expectation, ...]
    """Of ``{"result": ...}``."""
    variables_after: tuple[Expectation, ...]


def read_tool_tests(path: Path, shown: str) -> list[ToolTest]:
    """Return the tests of the file *path*.

    Args:
        path: A file of YAML.
        shown: How errors and tests name it.

    Raises:
        MalformedTestError: the file is not YAML, or a test is malformed.
    """
    return _Reading(shown).tests(text_of(path, shown))


class _Reading(Nodes):
    def tests(self, text: str) -> list[ToolTest]:
        root = self.root(text)
        tests = self.members(root).get("tests")
        if tests is None:
            raise self.wrong(root, "it has no tests")
        found = [self._test(each) for each in self.items(tests, "tests")]
        if not found:
            raise self.wrong(tests, "it has no tests")
        return found

    def _test(self, node: yaml.Node) -> ToolTest:
        members = self.members(node, "a test", _FIELDS, hidden=_HIDDEN)
        if "agrs" in members:
            if "args" in members:
                raise self.wrong(members["args"], "args is given twice, once as agrs")
            members["args"] = members.pop("agrs")
        if "variables" in members and "context" in members:
            raise self.wrong(members["context"], "a test has variables or context, not both")
        variables, declared = self._variables(members.get("variables"))
        expected: dict[str, yaml.Node] = {}
        if "expectations" in members:
            expected = self.members(members["expectations"], "expectations", _EXPECTED)
        name, tool = self.text(node, members, "name"), self.text(node, members, "tool")
        response = tuple(self._expectations(expected.get("response"), "response"))
        variables_after = tuple(self._expectations(expected.get("variables"), "variables"))
        if not (response or variables_after):
            raise self.wrong(node, f"the test {name} expects nothing, so it cannot fail: add expectations")
        return ToolTest(
            path=self.shown,
            line=line_of(node),
            name=name,
            tool=tool,
            args=self.object(members.get("args"), "args"),
            variables=variables,
            declared=declared,
            context=self.object(members["context"], "context") if "context" in members else None,
            mock_config=self.object(members["mockConfig"], "mockConfig") if "mockConfig" in members else None,
            response=response,
            variables_after=variables_after,
        )

    def _variables(self, node: yaml.Node | None) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return those that are given, and the names of those that are wanted as declared."""
        if isinstance(node, yaml.SequenceNode):
            return {}, tuple(str(self.value(each)) for each in node.value)
        given = self.object(node, "variables")
        return (
            {name: value for name, value in given.items() if value is not None},
            tuple(name for name, value in given.items() if value is None),
        )

    def _expectations(self, node: yaml.Node | None, what: str) -> Iterator[Expectation]:
        for each in () if node is None else self.items(node, f"expectations of {what}"):
            members = self.members(each, "an expectation", _PARTS)
            operator = self.text(each, members, "operator")
            if operator not in OPERATORS:
                raise self.wrong(
                    members["operator"], f"unknown operator {operator}; known: {', '.join(OPERATORS)}"
                )
            if "value" not in members and operator not in WITHOUT_VALUE:
                raise self.wrong(each, f"{operator} needs a value")
            try:
                path = JsonPath.of(self.text(each, members, "path"))
            except ValueError as exc:
                raise self.wrong(members["path"], str(exc)) from exc
            value = self.value(members["value"]) if "value" in members else None
            yield Expectation(path=path, operator=operator, value=value, line=line_of(each))
