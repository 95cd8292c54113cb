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

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gcp_adk_store.ces.apps.paths import JsonPath
from gcp_adk_store.ces.testing.expectations import OPERATORS, WITHOUT_VALUE, Expectation

_FIELDS: Final = frozenset(
    {"name", "tool", "args", "variables", "context", "expectations", "mockConfig"} | {"agrs"}
)
_PARTS: Final = frozenset({"path", "operator", "value"})
_EXPECTED: Final = frozenset({"response", "variables"})
_DEPTH: Final = 100
_VALUES: Final = 100_000
_MERGE: Final = "tag:yaml.org,2002:merge"
_INTEGER: Final = "tag:yaml.org,2002:int"
_PLAIN_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
"""As JSON has it; a YAML of old also has 0123, which is 83, and 12:30, which is 750."""


class MalformedTestError(ValueError):
    """The test file is malformed.

    Attributes:
        path: Of the file.
        line: Counted from 1.
        says: What is wrong there.
    """

    def __init__(self, path: str, line: int, says: str) -> None:
        super().__init__(path, line, says)
        self.path, self.line, self.says = path, line, says

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.says}"


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
    try:
        return _Reading(shown).tests(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as exc:
        raise MalformedTestError(shown, 1, f"it cannot be read: {exc}") from exc


@dataclass(slots=True)
class _Reading:
    shown: str
    values: int = 0
    """Read so far, those that are referred to each time."""

    def tests(self, text: str) -> list[ToolTest]:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
        except RecursionError as exc:
            raise MalformedTestError(self.shown, 1, "it is nested too deep") from exc
        except yaml.YAMLError as exc:
            mark = getattr(exc, "problem_mark", None)
            line = mark.line + 1 if mark else 1
            raise MalformedTestError(
                self.shown, line, f"it is not YAML: {getattr(exc, 'problem', exc)}"
            ) from exc
        finally:
            loader.dispose()
        if root is None:
            raise self._wrong(None, "it is empty")
        tests = self._members(root).get("tests")
        if tests is None:
            raise self._wrong(root, "it has no tests")
        found = [self._test(each) for each in self._items(tests, "tests")]
        if not found:
            raise self._wrong(tests, "it has no tests")
        return found

    def _test(self, node: yaml.Node) -> ToolTest:
        members = self._members(node, "a test", _FIELDS)
        if "agrs" in members:  # a misspelling in many files of the platform
            if "args" in members:
                raise self._wrong(members["args"], "args is given twice, once as agrs")
            members["args"] = members.pop("agrs")
        if "variables" in members and "context" in members:
            raise self._wrong(members["context"], "a test has variables or context, not both")
        variables, declared = self._variables(members.get("variables"))
        expected: dict[str, yaml.Node] = {}
        if "expectations" in members:
            expected = self._members(members["expectations"], "expectations", _EXPECTED)
        name, tool = self._text(node, members, "name"), self._text(node, members, "tool")
        response = tuple(self._expectations(expected.get("response"), "response"))
        variables_after = tuple(self._expectations(expected.get("variables"), "variables"))
        if not (response or variables_after):
            raise self._wrong(node, f"the test {name} expects nothing, so it cannot fail: add expectations")
        return ToolTest(
            path=self.shown,
            line=_line(node),
            name=name,
            tool=tool,
            args=self._object(members.get("args"), "args"),
            variables=variables,
            declared=declared,
            context=self._object(members["context"], "context") if "context" in members else None,
            mock_config=self._object(members["mockConfig"], "mockConfig")
            if "mockConfig" in members
            else None,
            response=response,
            variables_after=variables_after,
        )

    def _variables(self, node: yaml.Node | None) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return those that are given, and the names of those that are wanted as declared."""
        if isinstance(node, yaml.SequenceNode):
            return {}, tuple(str(self._value(each)) for each in node.value)
        given = self._object(node, "variables")
        return (
            {name: value for name, value in given.items() if value is not None},
            tuple(name for name, value in given.items() if value is None),
        )

    def _expectations(self, node: yaml.Node | None, what: str) -> Iterator[Expectation]:
        for each in () if node is None else self._items(node, f"expectations of {what}"):
            members = self._members(each, "an expectation", _PARTS)
            operator = self._text(each, members, "operator")
            if operator not in OPERATORS:
                raise self._wrong(
                    members["operator"], f"unknown operator {operator}; known: {', '.join(OPERATORS)}"
                )
            if "value" not in members and operator not in WITHOUT_VALUE:
                raise self._wrong(each, f"{operator} needs a value")
            try:
                path = JsonPath.of(self._text(each, members, "path"))
            except ValueError as exc:
                raise self._wrong(members["path"], str(exc)) from exc
            value = self._value(members["value"]) if "value" in members else None
            yield Expectation(path=path, operator=operator, value=value, line=_line(each))

    def _members(
        self, node: yaml.Node, what: str = "the file", known: frozenset[str] | None = None
    ) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self._wrong(node, f"{what} must be an object, with names and values")
        members: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._wrong(key, f"a name in {what} is not text")
            if key.tag == _MERGE:
                raise self._wrong(key, f"{key.value} is not read: write the names out")
            if key.value in members:
                raise self._wrong(key, f"{key.value} is given twice")
            if known is not None and key.value not in known:
                there = ", ".join(sorted(known - {"agrs"}))
                raise self._wrong(key, f"unknown name {key.value} in {what}; known: {there}")
            members[str(key.value)] = value
        return members

    def _items(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            raise self._wrong(node, f"{what} must be a list")
        return list(node.value)

    def _text(self, node: yaml.Node, members: dict[str, yaml.Node], name: str) -> str:
        found = members.get(name)
        if not isinstance(found, yaml.ScalarNode) or not found.value:
            raise self._wrong(found or node, f"{name} is missing, or is not text")
        return str(found.value)

    def _object(self, node: yaml.Node | None, what: str) -> dict[str, Any]:
        value = None if node is None else self._value(node)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(node, f"{what} must be an object, not {type(value).__name__}")
        return value or {}

    def _value(self, node: yaml.Node, depth: int = _DEPTH) -> Any:
        """Return the JSON of *node*."""
        if depth == 0:
            raise self._wrong(node, f"it is nested deeper than {_DEPTH} levels, or refers to itself")
        self.values += 1
        if self.values > _VALUES:
            raise self._wrong(
                node, f"it has more than {_VALUES:,} values, those referred to counted each time"
            )
        if isinstance(node, yaml.MappingNode):
            members = self._members(node, "an object")
            return {name: self._value(each, depth - 1) for name, each in members.items()}
        if isinstance(node, yaml.SequenceNode):
            return [self._value(each, depth - 1) for each in node.value]
        if node.tag == _INTEGER and not _PLAIN_INTEGER.fullmatch(node.value):
            raise self._wrong(node, f"{node.value} is read as the number {_number(node)}: put it in quotes")
        return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> Any:
        loader = yaml.SafeLoader("")
        try:
            value = loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as exc:
            raise self._wrong(node, f"it cannot be read: {exc}") from exc
        finally:
            loader.dispose()
        if value is not None and not isinstance(value, bool | int | float | str):
            raise self._wrong(node, f"{node.value} is read as a {type(value).__name__}: put it in quotes")
        return value

    def _wrong(self, node: yaml.Node | None, says: str) -> MalformedTestError:
        return MalformedTestError(self.shown, 1 if node is None else _line(node), says)


def _number(node: yaml.Node) -> int:
    return int(yaml.SafeLoader("").construct_yaml_int(node))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
