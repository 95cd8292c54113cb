"""Tests use the public API, or decisions without I/O, so that the inside can change without them."""

import ast
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.website import reference

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PACKAGE = "gcp_adk_store"
MOST_FILES = 40
PACKAGES = (PACKAGE, *reference.PACKAGES)
PUBLIC = {
    *PACKAGES,
    *(f"{package}.{name}" for package in PACKAGES for name in importlib.import_module(package).__all__),
    f"{PACKAGE}.__version__",
    f"{PACKAGE}.cli.command.command",
}
OPEN = tuple(f"{PACKAGE}.{name}." for name in ("testing", "settings", "errors", "model"))
"""Modules whose names are all public, and the values that all others share, which import no other part."""
DOES_IO = {
    *("asyncio", "concurrent", "fcntl", "google.auth", "google.cloud", "grpc", "httpx", "mmap"),
    *("multiprocessing", "os", "select", "selectors", "shutil", "signal", "socket", "sqlite3"),
    *("subprocess", "tempfile", "threading"),
}


def imported(code: str) -> Iterator[str]:
    """Yield what a file imports, each as its module and its name."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{each.name}" for each in node.names)


def module_of(name: str) -> Path:
    """Return the file of a module, or of the module that has the name."""
    path = ROOT / name.replace(".", "/")
    if path.is_dir():
        return path / "__init__.py"
    file = path.with_suffix(".py")
    return file if file.exists() else module_of(name.rpartition(".")[0])


@functools.cache
def is_pure(module: Path) -> bool:
    """Return whether a module only decides: without a coroutine, or an import that does I/O or waits."""
    code = module.read_text(encoding="utf-8")
    if any(isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(ast.parse(code))):
        return False
    names = {f"{name}." for name in imported(code)}
    return not any(name.startswith(f"{does_io}.") for name in names for does_io in DOES_IO)


def internals(code: str) -> set[str]:
    """Return what a test file imports of the package that is neither public nor pure."""
    names = {name for name in imported(code) if f"{name}.".startswith(f"{PACKAGE}.")}
    inside = {name for name in names - PUBLIC if not f"{name}.".startswith(OPEN)}
    return {name for name in inside if not is_pure(module_of(name))}


def test_at_most_40_test_files_import_internals_that_do_io() -> None:
    """A decision is tested as itself; what does I/O, through the API."""
    found = {
        file.relative_to(TESTS).as_posix(): inside
        for file in sorted(TESTS.rglob("test_*.py"))
        if (inside := internals(file.read_text(encoding="utf-8")))
    }

    assert 0 < len(found) <= MOST_FILES, found


@pytest.mark.parametrize(
    ("code", "inside"),
    [
        ("from gcp_adk_store.memory.ranking import fuse", set()),
        ("from gcp_adk_store.kernel.transact import transact", {"gcp_adk_store.kernel.transact.transact"}),
        ("from gcp_adk_store.kernel import ports", {"gcp_adk_store.kernel.ports"}),
        ("import gcp_adk_store.local.database", {"gcp_adk_store.local.database"}),
        ("from gcp_adk_store_of_others import transact", set()),
    ],
)
def test_what_counts_as_an_internal(code: str, inside: set[str]) -> None:
    """Public names and pure modules do not."""
    assert internals(code) == inside
