"""What differs from run to run comes from one place, which a simulation replaces."""

import ast
from collections.abc import Iterator
from pathlib import Path

import gcp_adk_store

PACKAGE = Path(gcp_adk_store.__file__).parent
# The tools of people and of tests, and what runs user code: no simulation has them.
REAL = {"bulk", "ces", "cli", "doctor", "inspector", "testing"}
SOURCES = {
    "datetime.now",
    "os.urandom",
    "random",
    "secrets.token_bytes",
    "secrets.token_hex",
    "threading.Thread",
    "time.monotonic",
    "time.perf_counter",
    "time.sleep",
    "time.time",
    "ThreadPoolExecutor",
    "SystemRandom",
    "uuid.uuid4",
}
ALLOWED = {
    # Refreshes of tokens are about Google's identities, which no simulation has.
    ("cloud/auth/tokens.py", "threading.Thread"),
    # It looks at gRPC's threads, and starts none.
    ("cloud/forked_grpc.py", "threading.Thread"),
}


def files() -> list[Path]:
    """Return the files of the library that a simulation runs."""
    return [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in REAL and path.name != "machine.py"
    ]


def sources_in(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a file imports, or takes from a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_clocks_random_numbers_and_threads_come_from_the_machine() -> None:
    """Otherwise a simulated schedule would depend on the real machine, and could not be shown again."""
    found = {
        (str(path.relative_to(PACKAGE)), source)
        for path in files()
        for source in sources_in(ast.parse(path.read_text()))
        if source in SOURCES
    }

    assert found == ALLOWED
