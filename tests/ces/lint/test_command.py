"""Show what ``gcp-adk-store ces lint`` reads, prints, and ends with, and where apps are found."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ces.conversation.apps import ces, change, write_app, write_files

FAULTY = 'def look(name: str, kind="a") -> dict:\n    return {}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one tool that has three faults."""
    (tmp_path / "find.py").write_text(FAULTY)
    return tmp_path


def test_each_finding_has_its_place_as_compilers_write_it_and_its_fix_below(folder: Path) -> None:
    """Whole in the narrowest terminal, and an error ends it with 1."""
    result = ces("lint", folder, COLUMNS="20")
    first, fix, *_, summary = result.stdout.splitlines()

    assert 1 == result.exit_code
    assert f"{folder}/find.py:1:1: error CES102: the platform calls this tool look" in first
    assert "    put def find first, or call the tool look" == fix
    assert "1 tools and callbacks: 2 errors, 1 warnings" == summary


def test_what_others_wrote_steers_no_terminal(folder: Path) -> None:
    """Names of files and tools, in text and in errors."""
    name = "\x1b[31mred"
    (folder / "tools" / name).mkdir(parents=True)
    (folder / "tools" / name / f"{name}.json").write_text('{"pythonFunction": {"name": "\\u001b[2J"}}')
    result = ces("lint", folder)

    assert r"tools/\x1b[31mred/python_function" in result.stdout
    assert r"the code of the tool \x1b[2J is not there" in result.stdout
    assert "\x1b" not in result.stdout + ces("lint", folder, "--json").stdout
    assert "\x1b" not in ces("lint", folder, "--ignore", name).stderr


def test_json_has_every_field(folder: Path) -> None:
    """Of each finding, in order. Warnings alone end it well, and so does code without a fault."""
    found = json.loads(ces("lint", folder, "--json").stdout)

    assert ["CES102", "CES104", "CES201"] == [each["code"] for each in found]
    assert {str(folder / "find.py")} == {each["path"] for each in found}
    assert {"path", "line", "column", "code", "severity", "says", "fix"} == set(found[0])
    assert (1, 21) == (found[2]["line"], found[2]["column"])
    assert 0 == ces("lint", folder, "--ignore", "CES102", "--ignore", "CES201").exit_code
    (folder / "find.py").write_text('def find() -> dict:\n    """Find."""\n    return {}\n')
    assert "1 tools and callbacks: 0 errors, 0 warnings" in ces("lint", folder).stdout


@pytest.mark.long
def test_without_the_extra_it_says_how_to_get_it(folder: Path) -> None:
    """And other commands work."""
    code = (
        "import sys; sys.modules['yaml'] = None; "
        "from gcp_adk_store.cli.command import command; command(sys.argv[1:])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "ces", "lint", str(folder)], capture_output=True, text=True, check=False
    )

    assert 2 == result.returncode
    assert "the module yaml is missing" in result.stderr
    assert "pip install '.[ces]' in a clone" in result.stderr


BAD = "def greet(name):\n    return 1\n"
TEST = """
tests:
  - name: it greets
    tool: greet
    args: {name: Ada}
    expectations: {response: [{path: $.result, operator: equals, value: 1}]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one app, and its tests beside it."""
    folder = tmp_path / "project"
    write_app(folder / "cxas_app" / "Shop", {"root": {}}, tools={"greet": BAD})
    return write_files(folder, {"evals/tool_tests/greet.yaml": TEST})


def faulty(*arguments: object) -> set[Path]:
    """Return the files in which a look at an app finds something."""
    return {Path(each["path"]) for each in json.loads(ces("lint", *arguments, "--json").stdout)}


def test_the_app_of_a_project_is_found_from_its_root(project: Path) -> None:
    """Also from the folder of the apps, and from the app's own."""
    apps = project / "cxas_app"
    code = apps / "Shop/tools/greet/python_function/python_code.py"

    assert [{code}] * 3 == [faulty(project), faulty(apps), faulty(apps / "Shop")]
    assert f"{project / 'evals'} has no Python of an agent app" in ces("lint", project / "evals").stderr


def test_an_app_without_python_is_checked(tmp_path: Path) -> None:
    """What its configuration says may be wrong, too."""
    write_app(tmp_path, {"root": {"childAgents": ["nobody"]}})

    assert faulty(tmp_path) == {tmp_path / "agents/root/root.json"}


def test_one_of_several_apps_is_named(project: Path) -> None:
    """The message has the names."""
    bank = project / "cxas_app" / "Bank"
    write_app(bank, {"root": {}}, tools={"greet": BAD})
    unnamed, unknown = ces("lint", project), ces("lint", project, "--app", "Bakery")

    assert {bank / "tools/greet/python_function/python_code.py"} == faulty(project, "--app", "Bank")
    assert [2, 2] == [unnamed.exit_code, unknown.exit_code]
    assert "several apps; name one of: Bank, Shop" in unnamed.stderr
    assert "it has: Bank, Shop" in unknown.stderr


def test_tests_beside_the_app_are_run(project: Path) -> None:
    """From the project's root, and from a folder that is named."""
    apps = project / "cxas_app"
    results = [
        ces("test", project, "--sandbox", "inprocess", "--json"),
        ces("test", apps, "--app", "Shop", "--tests", project / "evals", "--sandbox", "inprocess", "--json"),
    ]

    assert [0, 0] == [each.exit_code for each in results]
    outcomes = [json.loads(each.stdout) for each in results]
    assert [["passed"]] * 2 == [[each["status"] for each in found] for found in outcomes]
    assert [found[0]["path"] for found in outcomes] == [f"{project}/evals/tool_tests/greet.yaml"] * 2


def test_a_test_gives_a_tool_as_long_as_its_configuration_does(project: Path, tmp_path: Path) -> None:
    """As a conversation does. The tool reads from a pipe, and nobody writes until its time is over."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    writes = os.open(pipe, os.O_RDWR)
    tool = project / "cxas_app" / "Shop" / "tools" / "greet"
    (tool / "python_function" / "python_code.py").write_text(
        f"def greet(name: str):\n    with open({pipe!r}) as pipe:\n        return pipe.read()\n"
    )
    change(tool / "greet.json", timeout="0.05s")

    (found,) = json.loads(ces("test", project, "--sandbox", "inprocess", "--json").stdout)
    os.close(writes)

    assert found["status"] == "error"
    assert "longer than the 0.05 s" in found["says"][0]
