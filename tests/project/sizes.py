"""Count files, lines and docstrings of the package by folder: ``python -m tests.project.sizes [REVISION]``.

A revision is counted as git has it, the working tree without one. The columns are files, lines, the longest
file, lines a file, per cent of lines in docstrings, characters of a line that has some, and lines of a
function.
"""

import ast
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.documents import ROOT

PACKAGE = "gcp_adk_store"
APART = ("ces", "testing")
"""Counted apart from the rest of the package; `cli/ces` counts as ces."""

_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Size:
    """What some files have together."""

    lines: list[int] = field(default_factory=list)
    in_docstrings: int = 0
    characters: int = 0
    written: int = 0
    functions: list[int] = field(default_factory=list)

    def count(self, text: str) -> None:
        """Count the file with *text*."""
        lines = text.splitlines()
        self.lines.append(len(lines))
        self.written += sum(1 for line in lines if line.strip())
        self.characters += sum(len(line) for line in lines)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                self.functions.append(node.end_lineno - node.lineno + 1)
            if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
                first = node.body[0]
                self.in_docstrings += (first.end_lineno or first.lineno) - first.lineno + 1

    def row(self, name: str) -> str:
        """Return a row of the table."""
        lines = sum(self.lines)
        functions = sum(self.functions) / max(1, len(self.functions))
        return (
            f"{name:22} {len(self.lines):5} {lines:7} {max(self.lines):5} {lines / len(self.lines):5.0f} "
            f"{100 * self.in_docstrings / lines:5.1f} {self.characters / self.written:5.1f} {functions:5.1f}"
        )


def texts(revision: str | None) -> Iterator[tuple[Path, str]]:
    """Yield the modules of the package, and their texts."""
    if revision is None:
        for path in sorted((ROOT / PACKAGE).rglob("*.py")):
            yield path.relative_to(ROOT / PACKAGE), path.read_text()
        return
    listed = _git("ls-tree", "-r", "--name-only", revision, f"{PACKAGE}/")
    for name in listed.splitlines():
        if name.endswith(".py"):
            yield Path(name).relative_to(PACKAGE), _git("show", f"{revision}:{name}")


def _git(*arguments: str) -> str:
    git = shutil.which("git") or "git"
    return subprocess.run([git, *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main(revision: str | None) -> None:
    """Print the table."""
    sizes: dict[str, Size] = defaultdict(Size)
    for path, text in texts(revision):
        folder = path.parts[0] if len(path.parts) > 1 else "."
        apart = next((name for name in APART if name in path.parts[:2]), None)
        for name in (apart or folder, "all", *(() if apart else ("all but ces, testing",))):
            sizes[name].count(text)
    sys.stdout.write(f"{'':22} files   lines   max  mean  doc%  chars function\n")
    for name in sorted(sizes, key=lambda name: (name.startswith("all"), name)):
        sys.stdout.write(f"{sizes[name].row(name)}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
