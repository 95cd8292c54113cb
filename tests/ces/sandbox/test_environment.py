"""Find the interpreter for user code, and report an environment that cannot be used."""

import io
import json
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from gcp_adk_store.ces.sandbox import (
    InterpreterWarning,
    SandboxUnavailableError,
    default_folder,
    environment,
    open_environment,
)
from gcp_adk_store.ces.sandbox.environment import PACKAGES, carry_code, find_interpreter, installed_folder
from gcp_adk_store.cli.command import command
from tests.ces.sandbox.conftest import Makes, run_in

NAMES = ("PATH", "HOME", "PYENV_ROOT", "XDG_CACHE_HOME", "ADK_STORE_CES_ENVIRONMENT")


def sets(patch: pytest.MonkeyPatch, **variables: str) -> None:
    """Have this process find interpreters and folders by *variables* alone."""
    for name in NAMES:
        patch.setenv(name, variables.get(name, ""))


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


def names_in(folder: Path) -> set[str]:
    """Return what is in *folder*."""
    return {each.name for each in folder.iterdir()}


def test_the_newest_of_pyenv_is_taken_and_then_the_path_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shims on PATH answer for another version. What is python3.12 there must be a CPython of it."""
    says(tmp_path / "versions/3.12.1/bin/python3.12", "3.12.1")
    newest = says(tmp_path / "versions/3.12.9/bin/python3.12", "3.12.9")
    says(tmp_path / "versions/3.13.0/bin/python3.12", "3.13.0")
    on_path = says(tmp_path / "a/python3.12", "3.12.4")
    other = says(tmp_path / "b/python3.12", "3.12.4", "pypy")
    sets(monkeypatch, HOME="/nowhere", PYENV_ROOT=str(tmp_path))
    of_pyenv = find_interpreter()
    sets(monkeypatch, HOME="/nowhere", PATH=str(on_path.parent))
    found = find_interpreter()

    assert (str(newest), (3, 12, 9)) == (of_pyenv.executable, of_pyenv.version)
    assert str(on_path) == found.executable
    if sys.version_info[:2] != (3, 12):
        sets(monkeypatch, HOME="/nowhere", PATH=str(other.parent))
        with pytest.warns(InterpreterWarning):
            found = find_interpreter()
        assert sys.version_info[:3] == found.version


def test_what_is_named_must_be_a_cpython(tmp_path: Path) -> None:
    """Another implementation is none, nor what does not run or answer; another version is warned of."""
    path = tmp_path / "python"
    for does in ("exit 1", "echo no", "echo 5", "echo '{}'"):
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)
        for named in (path, tmp_path / "absent", says(tmp_path / "pypy", "3.12.1", "pypy")):
            with pytest.raises(SandboxUnavailableError, match="not a CPython"):
                find_interpreter(str(named))
    with pytest.warns(InterpreterWarning, match=r"3\.13\.1, on the platform in 3\.12"):
        assert (3, 13, 1) == find_interpreter(str(says(path, "3.13.1"))).version


def test_an_environment_is_in_the_users_cache_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a variable of its own, or by that of caches; or a clone has one, and the cache has none."""
    for variables, folder in (
        ({"ADK_STORE_CES_ENVIRONMENT": "/a", "HOME": "/h"}, Path("/a")),
        ({"ADK_STORE_CES_ENVIRONMENT": "a"}, Path.cwd() / "a"),
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, Path("/c/gcp-adk-store/ces")),
        ({"HOME": "/h"}, Path("/h/.cache/gcp-adk-store/ces")),
    ):
        sets(monkeypatch, **variables)
        assert folder == default_folder()

    clone, cache = tmp_path / "clone", tmp_path / "cache"
    of_user = cache / "gcp-adk-store/ces"
    sets(monkeypatch, XDG_CACHE_HOME=str(cache))
    monkeypatch.setattr(environment, "_CLONE", clone)
    assert of_user == installed_folder()
    for folder in (clone / ".cache/ces", of_user):
        folder.mkdir(parents=True)
    (clone / "pyproject.toml").touch()
    (clone / ".cache/ces/interpreter.json").touch()
    assert clone / ".cache/ces" == installed_folder()
    monkeypatch.setenv("ADK_STORE_CES_ENVIRONMENT", "/n")
    assert Path("/n") == installed_folder()
    monkeypatch.delenv("ADK_STORE_CES_ENVIRONMENT")
    (of_user / "interpreter.json").touch()
    assert of_user == installed_folder()


@pytest.mark.parametrize(
    ("folder", "options", "says"),
    [
        ("precious", [], "precious cannot be made or replaced: Directory not empty; name another folder"),
        ("precious/file", [], "file cannot be made or replaced: Not a directory"),
        ("precious/file/below", [], "below cannot be made or replaced: File exists"),
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
    assert {"precious"} == names_in(tmp_path)


def test_an_environment_that_does_not_fit_is_reported(environment_folder: Path, tmp_path: Path) -> None:
    """One of another release, one that was damaged, one whose interpreter is gone."""
    description = tmp_path / "interpreter.json"
    described = json.loads((environment_folder / "interpreter.json").read_text())
    damaged = "is damaged, or was installed by another release"
    for wrong, says_so in (
        ("", damaged),
        (json.dumps({**described, "interpreter": None}), damaged),
        (json.dumps({"format": 1, "packages": PACKAGES}), damaged),
        (json.dumps({**described, "packages": ["numpy==1"]}), damaged),
        (json.dumps({**described, "libraries": ["/nowhere/lib.so"]}), "/nowhere/lib.so is gone"),
    ):
        description.write_text(wrong)
        with pytest.raises(SandboxUnavailableError, match=f"{says_so}.*\n  gcp-adk-store ces install"):
            open_environment(tmp_path)


def test_only_the_named_packages_are_carried_inside() -> None:
    """Without those above them: their folders are empty."""
    place = io.BytesIO()
    carry_code(["tests.ces.sandbox.entry.code"], place)
    with pytest.raises(SandboxUnavailableError, match="cannot be imported: No module"):
        carry_code(["absent.package.module"], io.BytesIO())
    found = zipfile.ZipFile(place).namelist()

    assert ["tests/", "tests/ces/", "tests/ces/sandbox/"] == found[:3]
    assert {"tests/ces/sandbox/entry/__init__.py", "tests/ces/sandbox/entry/code.py"} == {*found[3:]}


async def test_a_run_adds_nothing_to_its_environment(
    environment_folder: Path, tmp_path: Path, fresh: Makes
) -> None:
    """Who runs code may have no right to write there, and each release would leave something."""
    for name in ("interpreter.json", "site"):
        (tmp_path / name).symlink_to(environment_folder / name)

    assert 1 == await run_in(fresh(environment=tmp_path), "result = 1")
    assert {"interpreter.json", "site"} == names_in(tmp_path)
