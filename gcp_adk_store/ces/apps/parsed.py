"""Hold a file of user code as its rules read it."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from gcp_adk_store.ces.apps.findings import Finding, finding
from gcp_adk_store.ces.guest.scanning import Scan, scan
from gcp_adk_store.ces.sandbox.interpreters import PLATFORM_VERSION

Function = ast.FunctionDef | ast.AsyncFunctionDef

_ALLOWS: Final = re.compile(r"#\s*noqa:\s*(?:CES\d{3}[\s,]*)+")
_CODE: Final = re.compile(r"CES\d{3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A file of user code."""

    path: str
    """As findings name it."""
    tree: ast.Module
    scanned: Scan
    allowed: Mapping[int, frozenset[str]]
    """Codes that a comment ``# noqa: CES104`` lets pass, by line."""

    @classmethod
    def of(cls, source: str, path: str) -> Self | Finding:
        """Return *source*, parsed; or what is wrong with it.

        Args:
            source: The text of the file.
            path: As findings name it.
        """
        try:
            tree = ast.parse(source, path)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
            line, column = getattr(exc, "lineno", None) or 1, getattr(exc, "offset", None) or 1
            reader = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
            says = f"{reader} cannot read it: {getattr(exc, 'msg', None) or str(exc) or type(exc).__name__}"
            fix = "the platform drops the tool or callback: mend the syntax"
            if sys.version_info < PLATFORM_VERSION:
                fix += "; if it is of Python 3.12, run lint with that"
            return finding("CES002", says, fix, path=path, line=line, column=column)
        return cls(path=path, tree=tree, scanned=scan(tree), allowed=dict(_allowed(source)))

    @property
    def functions(self) -> list[Function]:
        """Those of the module, in order."""
        return [node for node in self.tree.body if isinstance(node, Function)]

    def found(self, code: str, says: str, fix: str, node: ast.AST | None = None) -> Finding:
        """Return a finding at *node*."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        return finding(code, says, fix, path=self.path, line=line, column=column)


def _allowed(source: str) -> Iterator[tuple[int, frozenset[str]]]:
    for number, line in enumerate(source.split("\n"), start=1):
        if comment := _ALLOWS.search(line):
            yield number, frozenset(_CODE.findall(comment[0]))
