"""The app is found in its folder, in a project, and in an archive, which cannot write elsewhere."""

import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store.ces.apps import files
from gcp_adk_store.ces.apps.files import app_folder, located
from gcp_adk_store.cli.command import command
from gcp_adk_store.errors import InvalidInputError
from tests.ces.conversation.apps import write_app

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
    (folder / "evals" / "tool_tests").mkdir(parents=True)
    (folder / "evals" / "tool_tests" / "greet.yaml").write_text(TEST)
    return folder


def archive_of(folder: Path, path: Path) -> Path:
    """Return the archive *path* of all files in *folder*."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(folder.rglob("*")):
            archive.write(each, each.relative_to(folder))
    return path


def run(*arguments: object) -> Result:
    """Run a command about apps."""
    return CliRunner().invoke(command, ["ces", *map(str, arguments)], env={"COLUMNS": "200"})


def test_the_app_of_a_project_is_found_from_its_root(project: Path) -> None:
    """Also from the folder that holds the apps, and from the app's own."""
    app = project / "cxas_app" / "Shop"

    assert [app] * 3 == [app_folder(project), app_folder(project / "cxas_app"), app_folder(app)]
    assert app_folder(project / "evals") == project / "evals"


def test_one_of_several_apps_is_named(project: Path) -> None:
    """The message has the names."""
    write_app(project / "cxas_app" / "Bank", {"root": {}})

    assert app_folder(project, "Bank") == project / "cxas_app" / "Bank"
    with pytest.raises(InvalidInputError, match="several apps; name one of: Bank, Shop"):
        app_folder(project)
    with pytest.raises(InvalidInputError, match="it has: Bank, Shop"):
        app_folder(project, "Bakery")


@pytest.mark.parametrize("inside", ["", "cxas_app", "cxas_app/Shop"])
def test_an_export_is_linted_as_it_is(project: Path, tmp_path: Path, inside: str) -> None:
    """Findings name the archive and the file in it."""
    path = archive_of(project / inside, tmp_path / "export.zip")

    unpacked, packed = run("lint", project / inside), run("lint", path)

    assert (unpacked.exit_code, packed.exit_code) == (1, 1)
    assert f"{project}/cxas_app/Shop/tools/greet/python_function/python_code.py:1:11: error CES201" in (
        unpacked.stdout
    )
    assert f"{path}/tools/greet/python_function/python_code.py:1:11: error CES201" in packed.stdout


@pytest.mark.filterwarnings("ignore::gcp_adk_store.ces.sandbox.UnsafeSandboxWarning")
def test_tests_beside_the_app_are_run(project: Path, tmp_path: Path) -> None:
    """From the project's root, from an archive, and from a folder that is named."""
    path = archive_of(project, tmp_path / "export.zip")
    app = archive_of(project / "cxas_app", tmp_path / "app.zip")
    results = [
        run("test", project, "--sandbox", "inprocess", "--json"),
        run("test", path, "--sandbox", "inprocess", "--json"),
        run("test", app, "--app", "Shop", "--tests", project / "evals", "--sandbox", "inprocess", "--json"),
    ]

    assert [0, 0, 0] == [each.exit_code for each in results]
    outcomes = [json.loads(each.stdout) for each in results]
    assert [["passed"]] * 3 == [[each["status"] for each in found] for found in outcomes]
    shown = [found[0]["path"] for found in outcomes]
    test = "evals/tool_tests/greet.yaml"
    assert shown == [f"{project}/{test}", f"{path}/{test}", f"{project}/{test}"]


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "a/../../out.txt", "..\\out.txt"])
def test_an_archive_writes_nothing_elsewhere(tmp_path: Path, name: str) -> None:
    """It is refused by the name of the file."""
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(name, "text")

    with pytest.raises(InvalidInputError, match="outside of its folder"), located(tmp_path / "bad.zip"):
        pass


def test_an_archive_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it really has."""
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", "x" * 600)
        archive.writestr("b", "x" * 600)

    with pytest.raises(InvalidInputError, match="more than 1,000 bytes"), located(tmp_path / "bomb.zip"):
        pass


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    """With a message, and 2."""
    (tmp_path / "file.zip").write_text("text")

    result = run("lint", tmp_path / "file.zip")

    assert result.exit_code == 2
    assert "cannot be read as an archive" in result.stderr
