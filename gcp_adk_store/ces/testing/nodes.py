"""Read test files of YAML or JSON, and find the line of each error in them."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import yaml

from gcp_adk_store.ces.apps.files import UNREADABLE_YAML
from gcp_adk_store.ces.testing.outcomes import Outcome

Test = TypeVar("Test")

_DEPTH: Final = 100
_VALUES: Final = 100_000
_MERGE: Final = "tag:yaml.org,2002:merge"
_NULL: Final = "tag:yaml.org,2002:null"
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
        super().__init__(f"{path}:{line}: {says}")
        self.path, self.line, self.says = path, line, says


def read_all(files: Iterable[Path], read: Callable[[Path], list[Test]]) -> list[Test | Outcome]:
    """Return the tests that *read* returns of the *files*; of a malformed file, its error."""
    found: list[Test | Outcome] = []
    for file in files:
        try:
            found += read(file)
        except MalformedTestError as exc:
            found.append(Outcome.of_file(exc.path, exc.says, line=exc.line))
    return found


@dataclass(slots=True)
class Nodes:
    """One file, and how much of it was read. A node that is None is a member that is missing."""

    ignores_nulls: ClassVar[bool] = False
    """Whether known members that are null are missing: tools write fields so that nobody set. Objects of JSON
    have their nulls."""
    path: Path
    values: int = 0
    """Read so far, those that are referred to each time."""

    def root(self) -> yaml.Node:
        """Return the root of the file, YAML or JSON.

        Raises:
            MalformedTestError: it cannot be read, is neither, or is empty.
        """
        try:
            root = yaml.compose(self.path.read_text(encoding="utf-8-sig"), yaml.SafeLoader)
        except (OSError, UnicodeDecodeError) as exc:
            raise self.wrong(None, f"it cannot be read: {exc}") from exc
        except RecursionError as exc:
            raise self.wrong(None, "it is nested too deep") from exc
        except yaml.YAMLError as exc:
            mark = getattr(exc, "problem_mark", None)
            says = f"it is not YAML: {getattr(exc, 'problem', exc)}"
            raise MalformedTestError(str(self.path), mark.line + 1 if mark else 1, says) from exc
        if root is None:
            raise self.wrong(None, "it is empty")
        return root

    def members(
        self,
        node: yaml.Node | None,
        what: str = "the file",
        known: frozenset[str] | None = None,
        others: Mapping[str, str] = {},
    ) -> dict[str, yaml.Node]:
        """Return the members of an object by name, each once; *known* are all, *others* stand for some."""
        if node is not None and not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, f"{what} must be an object, with names and values")
        members: dict[str, yaml.Node] = {}
        for key, value in node.value if node is not None else ():
            if not isinstance(key, yaml.ScalarNode):
                raise self.wrong(key, f"a name in {what} is not text")
            if key.tag == _MERGE:
                raise self.wrong(key, f"{key.value} is not read: write the names out")
            name = others.get(key.value, str(key.value))
            if name in members:
                raise self.wrong(key, f"{name} is given twice")
            if known is not None and name not in known:
                there = ", ".join(sorted(known))
                raise self.wrong(key, f"unknown name {name} in {what}; known: {there}")
            members[name] = value
        drops_nulls = self.ignores_nulls and known is not None
        return {name: each for name, each in members.items() if not (drops_nulls and each.tag == _NULL)}

    def items(self, node: yaml.Node | None, what: str) -> list[yaml.Node]:
        """Return the members of a list."""
        if node is not None and not isinstance(node, yaml.SequenceNode):
            raise self.wrong(node, f"{what} must be a list")
        return [] if node is None else list(node.value)

    def text(self, node: yaml.Node, members: dict[str, yaml.Node], name: str) -> str:
        """Return the text *name* among the *members* of *node*."""
        found = members.get(name)
        if not isinstance(found, yaml.ScalarNode) or not found.value:
            raise self.wrong(found or node, f"{name} is missing, or is not text")
        return str(found.value)

    def object(self, node: yaml.Node | None, what: str) -> dict[str, Any]:
        """Return the JSON object of *node*; empty if it is missing."""
        value = self.value(node)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(node, f"{what} must be an object, not {type(value).__name__}")
        return value or {}

    def variables(self, node: yaml.Node | None) -> dict[str, Any]:
        """Return variables by name: of an object, its JSON, or a list of names or of names and values.

        Those that are wanted with their declared defaults are None.
        """
        value = self.value(node)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as exc:
                raise self.wrong(node, f"variables as text have to be JSON: {exc}") from exc
        if isinstance(value, list):
            return {name: below for each in value for name, below in self._named(node, each)}
        if value is not None and not isinstance(value, dict):
            raise self.wrong(node, f"variables must be an object, not {type(value).__name__}")
        return value or {}

    def _named(self, node: yaml.Node | None, each: Any) -> list[tuple[str, Any]]:
        match each:
            case str():
                return [(each, None)]
            case {"name": str() as name, **more} if not more.keys() - {"value"}:
                return [(name, each.get("value"))]
            case dict():
                return list(each.items())
            case _:
                raise self.wrong(node, "variables in a list are names, or objects with name and value")

    def value(self, node: yaml.Node | None, depth: int = _DEPTH) -> Any:
        """Return the JSON of *node*."""
        if node is None:
            return None
        if depth == 0:
            raise self.wrong(node, f"it is nested deeper than {_DEPTH} levels, or refers to itself")
        self.values += 1
        if self.values > _VALUES:
            says = f"it has more than {_VALUES:,} values, those referred to counted each time"
            raise self.wrong(node, says)
        if isinstance(node, yaml.MappingNode):
            members = self.members(node, "an object")
            return {name: self.value(each, depth - 1) for name, each in members.items()}
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, depth - 1) for each in node.value]
        if node.tag == _INTEGER and not _PLAIN_INTEGER.fullmatch(node.value):
            says = f"{node.value} is read as the number {self._scalar(node)}: put it in quotes"
            raise self.wrong(node, says)
        return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> Any:
        loader = yaml.SafeLoader("")
        try:
            value = loader.construct_object(node)
        except (yaml.YAMLError, *UNREADABLE_YAML) as exc:
            raise self.wrong(node, f"it cannot be read: {exc}") from exc
        finally:
            loader.dispose()
        if value is not None and not isinstance(value, bool | int | float | str):
            raise self.wrong(node, f"{node.value} is read as a {type(value).__name__}: put it in quotes")
        return value

    def wrong(self, node: yaml.Node | None, says: str) -> MalformedTestError:
        """Return the error that names the line of *node*."""
        return MalformedTestError(str(self.path), 1 if node is None else line_of(node), says)


def line_of(node: yaml.Node) -> int:
    """Return the line of *node*, counted from 1."""
    return int(node.start_mark.line) + 1
