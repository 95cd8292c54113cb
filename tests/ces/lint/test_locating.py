"""The app is found in its folder and in a project."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store.cli.command import command
from tests.ces.conversation.apps import write_app, write_files

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


def run(*arguments: object) -> Result:
    """Run a command about apps."""
    return CliRunner().invoke(command, ["ces", *map(str, arguments)], env={"COLUMNS": "200"})


def faulty(*arguments: object) -> set[Path]:
    """Return the files in which a look at an app finds something."""
    return {Path(each["path"]) for each in json.loads(run("lint", *arguments, "--json").stdout)}


def test_the_app_of_a_project_is_found_from_its_root(project: Path, tmp_path: Path) -> None:
    """Also from the folder of the apps, and from the app's own; an archive is to be unpacked first."""
    apps = project / "cxas_app"
    code = apps / "Shop/tools/greet/python_function/python_code.py"

    assert [{code}] * 3 == [faulty(project), faulty(apps), faulty(apps / "Shop")]
    assert f"{project / 'evals'} has no Python of an agent app" in run("lint", project / "evals").stderr

    (tmp_path / "file.zip").write_text("text")

    result = run("lint", tmp_path / "file.zip")

    assert result.exit_code == 2
    assert "is a file; unpack an archive, and name the folder of its app" in " ".join(result.stderr.split())


def test_one_of_several_apps_is_named(project: Path) -> None:
    """The message has the names."""
    bank = project / "cxas_app" / "Bank"
    write_app(bank, {"root": {}}, tools={"greet": BAD})
    unnamed, unknown = run("lint", project), run("lint", project, "--app", "Bakery")

    assert {bank / "tools/greet/python_function/python_code.py"} == faulty(project, "--app", "Bank")
    assert [2, 2] == [unnamed.exit_code, unknown.exit_code]
    assert "several apps; name one of: Bank, Shop" in unnamed.stderr
    assert "it has: Bank, Shop" in unknown.stderr


def test_tests_beside_the_app_are_run(project: Path) -> None:
    """From the project's root, and from a folder that is named."""
    apps = project / "cxas_app"
    results = [
        run("test", project, "--sandbox", "inprocess", "--json"),
        run("test", apps, "--app", "Shop", "--tests", project / "evals", "--sandbox", "inprocess", "--json"),
    ]

    assert [0, 0] == [each.exit_code for each in results]
    outcomes = [json.loads(each.stdout) for each in results]
    assert [["passed"]] * 2 == [[each["status"] for each in found] for found in outcomes]
    assert [found[0]["path"] for found in outcomes] == [f"{project}/evals/tool_tests/greet.yaml"] * 2


def test_a_test_gives_a_tool_as_long_as_its_configuration_does(project: Path) -> None:
    """As a conversation does."""
    tool = project / "cxas_app" / "Shop" / "tools" / "greet"
    (tool / "python_function" / "python_code.py").write_text(
        "import time\n\ndef greet(name: str):\n    time.sleep(0.3)\n    return 1\n"
    )
    config = json.loads((tool / "greet.json").read_text())
    (tool / "greet.json").write_text(json.dumps({**config, "timeout": "0.05s"}))

    (found,) = json.loads(run("test", project, "--sandbox", "inprocess", "--json").stdout)

    assert found["status"] == "error"
    assert "longer than the 0.05 s" in found["says"][0]
