"""Only the kernel and the backends repeat a commit, or know how a backend refuses one."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "gcp_adk_store"
REFUSALS = {"RefusedError", "ConditionFailedError", "TargetExistsError", "TargetMissingError"}

# The doctor shows what a backend answers to a probe, refusals included.
COMMITS = {"commit", "transact", "create_next", "commit_once", "commit_all"}
STEPS = {"sessions/archive/run.py:archive", "sessions/read/payloads.py:put", "sessions/redact/run.py:_writes"}
"""Each turn of these loops writes something else: the next part of a change of several commits."""

ALLOWED = ("kernel/", "cloud/", "local/", "testing/", "ces/http/", "doctor/probes.py")


def features() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules of the features, by their place in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if not place.startswith(ALLOWED):
            yield place, ast.parse(path.read_text())


def caught(module: ast.Module) -> Iterator[int]:
    """Yield the lines that catch the refusal of a commit."""
    for node in ast.walk(module):
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            names = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)}
            if names & REFUSALS:
                yield node.lineno


def repeated(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the functions, and the lines, of what commits in a loop that may repeat it."""
    for function in ast.walk(module):
        if isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
            loops = (loop for loop in ast.walk(function) if repeats(loop))
            calls = (node for loop in loops for node in ast.walk(loop) if isinstance(node, ast.Call))
            yield from ((function.name, call.lineno) for call in calls if name_of(call.func) in COMMITS)


def repeats(node: ast.AST) -> bool:
    """Return whether *node* is a loop that is not over different things."""
    is_counting = isinstance(node, ast.For) and name_of(getattr(node.iter, "func", node.iter)) == "range"
    return isinstance(node, ast.While) or is_counting


def name_of(node: ast.AST) -> str:
    """Return the last name of what is called."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def test_no_feature_catches_a_refused_commit() -> None:
    """It decides from what is stored, and the kernel reads that again."""
    found = {f"{place}:{line}" for place, module in features() for line in caught(module)}

    assert set() == found
    assert [*caught(ast.parse((PACKAGE / "kernel/transact.py").read_text()))], (
        "a refusal that is caught is seen"
    )


def test_no_feature_repeats_a_commit() -> None:
    """The loop, its pauses and its deadline stand in the kernel."""
    found = {f"{place}:{name}" for place, module in features() for name, _ in repeated(module)}

    assert found == STEPS
