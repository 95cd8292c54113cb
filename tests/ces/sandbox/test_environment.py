"""Find the interpreter for user code, and report an environment that cannot be used."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gcp_adk_store.ces.sandbox import (
    InterpreterWarning,
    SandboxUnavailableError,
    default_folder,
    open_environment,
)
from gcp_adk_store.ces.sandbox.environment import PACKAGES, carried_code, find_interpreter, installed_folder
from gcp_adk_store.cli.command import command

NOWHERE = {"PATH": "/nowhere", "HOME": "/nowhere"}


def says(path: Path, version: str, implementation: str = "cpython") -> Path:
    """Make a program that says what an interpreter would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    described = {
        "executable": str(path),
        "version": [int(each) for each in version.split(".")],
        "implementation": implementation,
        "library": [],
    }
    path.write_text(f"#!/bin/sh\necho '{json.dumps(described)}'\n")
    path.chmod(0o755)
    return path


def test_the_newest_of_pyenv_is_taken_and_then_the_path_is_looked_at(tmp_path: Path) -> None:
    """Its shims on PATH answer for another version. What is python3.12 there must be a CPython of it."""
    says(tmp_path / "versions/3.12.1/bin/python3.12", "3.12.1")
    newest = says(tmp_path / "versions/3.12.9/bin/python3.12", "3.12.9")
    says(tmp_path / "versions/3.13.0/bin/python3.12", "3.13.0")
    on_path = says(tmp_path / "a/python3.12", "3.12.4")
    other = says(tmp_path / "b/python3.12", "3.12.4", "pypy")
    of_pyenv = find_interpreter(environ={**NOWHERE, "PYENV_ROOT": str(tmp_path)})
    found = find_interpreter(environ={**NOWHERE, "PATH": str(on_path.parent)})

    assert (str(newest), (3, 12, 9)) == (of_pyenv.executable, of_pyenv.version)
    assert str(on_path) == found.executable
    if sys.version_info[:2] != (3, 12):
        with pytest.warns(InterpreterWarning):
            found = find_interpreter(environ={**NOWHERE, "PATH": str(other.parent)})
        assert sys.version_info[:3] == found.version


def test_what_is_named_must_be_a_cpython(tmp_path: Path) -> None:
    """Another implementation is none, nor what does not run or answer; another version is warned of."""
    path = tmp_path / "python"
    for content in ("#!/bin/sh\nexit 1\n", "#!/bin/sh\necho no\n"):
        path.write_text(content)
        path.chmod(0o755)
        for named in (path, tmp_path / "absent", says(tmp_path / "pypy", "3.12.1", "pypy")):
            with pytest.raises(SandboxUnavailableError, match="not a CPython"):
                find_interpreter(str(named))
    with pytest.warns(InterpreterWarning, match=r"3\.13\.1, on the platform in 3\.12"):
        assert (3, 13, 1) == find_interpreter(str(says(path, "3.13.1"))).version


def test_an_environment_is_in_the_users_cache_unless_it_is_named(tmp_path: Path) -> None:
    """By a variable of its own, or by that of caches; or a clone has one, and the cache has none."""
    assert Path("/a") == default_folder({"ADK_STORE_CES_ENVIRONMENT": "/a", "HOME": "/h"})
    assert Path.cwd() / "a" == default_folder({"ADK_STORE_CES_ENVIRONMENT": "a"})
    assert Path("/c/gcp-adk-store/ces") == default_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"})
    assert Path("/h/.cache/gcp-adk-store/ces") == default_folder({"HOME": "/h"})

    clone, cache = tmp_path / "clone", tmp_path / "cache"
    environ = {"XDG_CACHE_HOME": str(cache)}
    of_user = cache / "gcp-adk-store/ces"
    assert of_user == installed_folder(environ, clone=clone)
    for folder in (clone / ".cache/ces", of_user):
        folder.mkdir(parents=True)
    (clone / "pyproject.toml").touch()
    (clone / ".cache/ces/interpreter.json").touch()
    assert clone / ".cache/ces" == installed_folder(environ, clone=clone)
    assert Path("/n") == installed_folder({**environ, "ADK_STORE_CES_ENVIRONMENT": "/n"}, clone=clone)
    (of_user / "interpreter.json").touch()
    assert of_user == installed_folder(environ, clone=clone)


@pytest.mark.parametrize(
    ("folder", "options", "says"),
    [
        ("precious", [], "precious holds something else, and would be lost; name another folder"),
        ("precious/file", [], "file holds something else"),
        ("precious/file/below", [], "below cannot be made: File exists; name another folder"),
        (
            "a",
            ["--python", "/nowhere"],
            "Error: /nowhere is not a CPython that runs; name another interpreter",
        ),
    ],
)
def test_it_says_why_it_cannot_install(tmp_path: Path, folder: str, options: list[str], says: str) -> None:
    """With 2; an environment is installed in place of an environment, and of nothing else."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("dear")
    named = str(tmp_path / folder)
    ran = CliRunner().invoke(command, ["ces", "install", *options, "--folder", named])

    assert 2 == ran.exit_code
    assert says in ran.stderr
    assert ran.output.startswith(f"{named}: installing {', '.join(PACKAGES)} by pip, some 90 MB\n")
    assert "dear" == (tmp_path / "precious/file").read_text()
    assert ["precious"] == [path.name for path in tmp_path.iterdir()]


def test_an_environment_that_does_not_fit_is_reported(environment_folder: Path, tmp_path: Path) -> None:
    """One of another release, one that was damaged, one whose interpreter is gone."""
    description = tmp_path / "interpreter.json"
    described = json.loads((environment_folder / "interpreter.json").read_text())
    for wrong, says_so in (
        ("{", "cannot be read"),
        (json.dumps({**described, "packages": ["numpy==1"]}), "another release"),
        (json.dumps({**described, "libraries": ["/nowhere/lib.so"]}), "/nowhere/lib.so is gone"),
    ):
        description.write_text(wrong)
        with pytest.raises(SandboxUnavailableError, match=f"{says_so}.*\n  gcp-adk-store ces install"):
            open_environment(tmp_path)


def test_only_the_named_packages_are_carried_inside(environment_folder: Path) -> None:
    """Compiled, without those above them, and once for the same content."""
    environment = open_environment(environment_folder)
    modules = ["tests.ces.sandbox.entry.code"]
    place = carried_code(environment, modules)
    found = {str(path.relative_to(place)) for path in place.rglob("*.py")}
    compiled = list(place.rglob("*.pyc"))
    shutil.rmtree(place)

    assert {"tests/ces/sandbox/entry/__init__.py", "tests/ces/sandbox/entry/code.py"} == found
    assert len(found) == len(compiled)
    assert place == carried_code(environment, modules)
    assert compiled[0].exists()
    with pytest.raises(SandboxUnavailableError, match="cannot be imported: No module"):
        carried_code(environment, ["absent.package.module"])
