"""``gcp-adk-store ces test --coverage`` tells which lines of tools and callbacks the tests ran."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gcp_adk_store.ces.testing.outcomes import Coverage, FileCoverage, ranges
from gcp_adk_store.cli.ces.reports import lcov
from gcp_adk_store.cli.command import command

HALF = '''def half(number: int) -> dict:
    """Half a number."""
    if number > 100:
        return {"half": "large"}
    return {"half": tools.inner({"number": number}).json()["result"]}
'''
INNER = '''import threading


def inner(number: int) -> float:
    """Divide."""
    found = []

    def divide() -> None:
        found.append(number / 2)

    thread = threading.Thread(target=divide)
    thread.start()
    thread.join()
    return found[0] if found else -1.0
'''
UNUSED = 'def unused() -> dict:\n    """Nobody tests it."""\n    return {}\n'
CALLBACK = """def before_model_callback(callback_context, llm_request):
    if callback_context.get_variable("stop"):
        return LlmResponse.from_parts([Part.from_text("no")])
    if callback_context.get_variable("never"):
        raise ValueError
    return None
"""
CALLBACK_TEST = """from gcp_adk_store.testing import callback_tests
from ces_public import CallbackContext, LlmRequest

import python_code


def test_here():
    assert python_code.before_model_callback(CallbackContext(), LlmRequest()) is None


def test_in_the_sandbox(ces_callback):
    assert ces_callback(state={{"stop": True}}).override is not None


def test_that_forges():
    (channel,) = callback_tests._channels
    channel.say(lines={{"path": {unused!r}, "numbers": [1, 2, 3]}})
    channel.say(lines={{"path": "a\\0b", "numbers": [10**9, -5]}})
"""
TOOL_TESTS = """tests:
  - {name: small, tool: half, args: {number: 4}, expectations: {response: [{path: $.result.half, operator: equals, value: 2}]}}
"""  # noqa: E501
COMPOUND = '''"""Say it."""
import os

LIMIT: int
TEXT = (
    1 +
    2
)


@staticmethod
@classmethod
def one(
    a=1,
):
    """Do it."""
    global LIMIT
    try:
        x = [
            each
            for each in range(3)
        ]
    except (
        ValueError
    ):
        pass
    else:
        y = 1
    finally:
        z = 2
    match x:
        case [1]:
            return 1
    while True: break
    with open(
        "a"
    ) as b:
        return (
            b
        )


class A:
    """Be it."""

    size: int = 3
'''


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, ces_environment: Path) -> dict[str, Any]:
    """What the command tells of an app, some of which its tests run."""
    assert ces_environment.is_dir()
    app = tmp_path_factory.mktemp("app")
    callback = "agents/root/before_model_callbacks/first"
    unused = app / "tools/unused/python_function/python_code.py"
    for name, content in {
        **{
            f"tools/{name}/python_function/python_code.py": code
            for name, code in (("half", HALF), ("inner", INNER), ("unused", UNUSED))
        },
        "tool_tests/half.yaml": TOOL_TESTS,
        f"{callback}/python_code.py": CALLBACK,
        f"{callback}/test.py": CALLBACK_TEST.format(unused=str(unused)),
    }.items():
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(content)
    report = app.parent / "lines.info"
    words = ["ces", "test", str(app), "--json", "--coverage-file", str(report)]
    result = CliRunner().invoke(command, words)
    assert 0 == result.exit_code, result.output
    told = json.loads(result.stdout)
    return {
        "tests": told["tests"],
        "files": {Path(each["path"]).relative_to(app).parts[-3]: each for each in told["coverage"]},
        "report": report.read_text(),
    }


def test_lines_of_called_tools_and_threads_count(told: dict[str, Any]) -> None:
    """What did not run is missing."""
    half, inner = told["files"]["half"], told["files"]["inner"]

    assert ([1, 3, 4, 5], [1, 3, 5]) == (half["statements"], half["ran"])
    assert inner["statements"] == inner["ran"] == [1, 4, 6, 8, 9, 11, 12, 13, 14]
    assert (75.0, 100.0) == (half["percent"], inner["percent"])


def test_lines_count_that_pytest_runs_and_that_the_sandbox_runs(told: dict[str, Any]) -> None:
    """Of one callback together."""
    callback = told["files"]["before_model_callbacks"]

    assert [5] == sorted({*callback["statements"]} - {*callback["ran"]})
    assert all(each["status"] == "passed" for each in told["tests"])


def test_a_test_says_nothing_of_another_file(told: dict[str, Any]) -> None:
    """Whatever it tells the command."""
    assert [] == told["files"]["unused"]["ran"]
    assert 4 == len(told["files"])


def test_the_report_has_each_statement(told: dict[str, Any]) -> None:
    """As lcov has them."""
    of_half = next(each for each in told["report"].split("end_of_record\n") if "half/python_function" in each)

    assert ["TN:", "DA:1,1", "DA:3,1", "DA:4,0", "DA:5,1", "LF:4", "LH:3"] == [
        line for line in of_half.splitlines() if not line.startswith("SF:")
    ]


def test_statements_are_those_that_do_something(tmp_path: Path) -> None:
    """Each by its first line, whichever of its lines runs."""
    file = tmp_path / "code.py"
    file.write_text(COMPOUND)
    coverage = Coverage([file, tmp_path / "missing.py"])
    coverage.note(file, [7, 11, 21, 24, 39, 44, 10_000, -1])
    coverage.note(tmp_path / "other.py", [1])
    found, missing = coverage.files()

    assert (2, 5, 13, 18, 19, 23, 26, 28, 30, 31, 32, 33, 34, 35, 38, 43, 46) == found.statements
    assert (5, 13, 19, 23, 38) == found.ran
    assert ((), 100.0) == (missing.statements, missing.percent)


def test_ranges_are_short() -> None:
    """As people read them."""
    assert "" == ranges([])
    assert "1, 3-5, 8" == ranges([1, 3, 4, 5, 8])


def test_a_path_forges_no_record_of_lcov() -> None:
    """Of a name that would begin another one."""
    files = [
        FileCoverage(path="a\nSF:b.py", statements=(1, 2), ran=(1,)),
        FileCoverage(path="c.py", statements=(), ran=()),
    ]
    written = lcov(files).decode().splitlines()

    assert ["SF:a\\nSF:b.py", "SF:c.py"] == [line for line in written if line.startswith("SF:")]
    assert ["DA:1,1", "DA:2,0"] == [line for line in written if line.startswith("DA:")]


@pytest.mark.usefixtures("ces_environment")
def test_the_table_shows_what_did_not_run(tmp_path: Path) -> None:
    """Below the tests."""
    for name, code in (("half", HALF), ("inner", INNER)):
        (tmp_path / f"{name}.py").write_text(code)
    (tmp_path / "tool_tests").mkdir()
    (tmp_path / "tool_tests/half.yaml").write_text(TOOL_TESTS)
    result = CliRunner().invoke(command, ["ces", "test", str(tmp_path), "--coverage"])

    assert 0 == result.exit_code, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [str(tmp_path / "half.py"), "4", "3", "75", "4"] in rows
    assert ["together", "13", "12", "92"] in rows
