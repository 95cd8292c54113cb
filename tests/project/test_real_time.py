"""No test measures time, sleeps, or fails because a machine is slow."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CONFORMANCE = TESTS.parent / "gcp_adk_store/testing/conformance"
MEASURES = {
    *("time.sleep", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns"),
    *("time.process_time", "time.process_time_ns", "time.thread_time", "time.thread_time_ns"),
    *("time.clock_gettime", "time.clock_gettime_ns", "os.times", "timeit.timeit", "timeit.default_timer"),
}
DATES = {"time.time", "time.time_ns", "datetime.datetime.now", "datetime.datetime.utcnow"}
"""What a test may read to store it; the difference of two of them is how long something took."""
SHORTEST_GUARD_S = 30
WAITS = {"timeout": 0, "wait_for": 1, "settimeout": 0, "wait": 0, "join": 0, "result": 0, "acquire": 1}
"""Calls that end after a time, and which of their arguments that is, if it has no name."""

ALLOWED = {
    # Programs that people run, which say how long something took, or go on for as long as they are told.
    ("bare_machine.py", "time.monotonic"),
    ("chaos/__main__.py", "time.monotonic"),
    ("simulation/__main__.py", "time.monotonic"),
    # Workers of chaos: in which order their calls began and ended.
    ("chaos/worker.py", "time.monotonic"),
    # Event loops in which waiting takes no time.
    ("ces/host/test_admission.py", "asyncio.sleep"),
    ("faults/simulated_world.py", "asyncio.sleep"),
    # Clocks that a test sets from the machine's, to let time pass.
    ("inspector/test_iap.py", "time.monotonic"),
    ("support/clock.py", "time.monotonic"),
    # A guard against hanging, and what looks again and again until then.
    ("adk_server/process.py", "time.monotonic"),
    ("adk_server/process.py", "a guard of 0.05 s"),
    ("emulators/file_server.py", "a guard of 0.02 s"),
}


def found_in(code: str) -> Iterator[str]:
    """Yield what a file does with real time, by names as they are without an alias."""
    module = ast.parse(code)
    names = dict(_imported(module))
    readings = {*_readings(module, names)}
    zeros = {
        id(node.func)
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and [ast.unparse(each) for each in node.args] == ["0"]
    }
    for node in ast.walk(module):
        name = _name(node, names)
        if name in MEASURES or (name == "asyncio.sleep" and id(node) not in zeros):
            yield name
        elif isinstance(node, ast.Call) and _is_of_a_loop(node, names):
            yield "the time of a loop"
        elif any(all(_reads(side, names, readings) for side in pair) for pair in _compared(node)):
            yield "the difference of two times"
        elif isinstance(node, ast.Call):
            yield from (f"a guard of {seconds} s" for seconds in _short_guards(node))


def _imported(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _name(node: ast.AST, names: dict[str, str]) -> str:
    """Return the full name that an expression is, or nothing."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value, names)}.{node.attr}"
    return ""


def _readings(module: ast.Module, names: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and _reads(node.value, names, set()):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _reads(node: ast.AST, names: dict[str, str], readings: set[str]) -> bool:
    """Return whether an expression has a time that was read."""
    return any(
        _name(each, names) in DATES or (isinstance(each, ast.Name) and each.id in readings)
        for each in ast.walk(node)
    )


def _compared(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        yield node.left, node.right
    if isinstance(node, ast.Compare):
        yield from pairwise((node.left, *node.comparators))


def _is_of_a_loop(call: ast.Call, names: dict[str, str]) -> bool:
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "time"
    return is_method and not call.args and _name(call.func, names) not in DATES


def _short_guards(call: ast.Call) -> Iterator[float]:
    place = WAITS.get(ast.unparse(call.func).rpartition(".")[2])
    given = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
    given += call.args[place : place + 1] if place is not None else []
    for each in given:
        if isinstance(each, ast.Constant) and isinstance(each.value, int | float):
            yield from [each.value] if 0 < each.value < SHORTEST_GUARD_S else []


def test_no_test_goes_by_real_time() -> None:
    """Order comes from events, and time from a clock that the test lets pass."""
    found = {
        (place, what)
        for folder in (TESTS, CONFORMANCE)
        for path in folder.rglob("*.py")
        for what in found_in(path.read_text())
        if not (place := path.relative_to(folder).as_posix()).startswith("simulation/")
        or what.startswith("time.")
    }

    assert found == ALLOWED


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import time as t\nbegan = t.perf_counter()", "time.perf_counter"),
        ("from asyncio import sleep\nawait sleep(seconds)", "asyncio.sleep"),
        ("import asyncio\nwait = asyncio.sleep", "asyncio.sleep"),
        ("import time\nbegan = time.time()\nassert time.time() - began < 2", "the difference of two times"),
        (
            "from datetime import datetime\na = datetime.now()\nassert (datetime.now() - a).seconds < 2",
            "the difference of two times",
        ),
        ("import asyncio\nbegan = asyncio.get_running_loop().time()", "the time of a loop"),
        ("import asyncio\nasync with asyncio.timeout(0.5): pass", "a guard of 0.5 s"),
        ("import requests\nrequests.get('http://localhost', timeout=10)", "a guard of 10 s"),
        ("process.wait(1)", "a guard of 1 s"),
    ],
)
def test_what_goes_by_real_time_is_seen(code: str, what: str) -> None:
    """Under each name, also as a value."""
    assert {what} == {*found_in(code)}
