"""The package works with what it depends on alone: no extra, nothing of this repository's own tools."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT, blocks
from tests.support.one_installation import missing_modules, one_installation

PROBE = """
import json, sys
before = set(sys.modules)
import gcp_adk_store
first = sorted(set(sys.modules) - before - sys.stdlib_module_names)
for name in gcp_adk_store.__all__:
    getattr(gcp_adk_store, name)
ours = {name.split(".")[1] for name in sys.modules if name.startswith("gcp_adk_store.")}
try:
    import numpy
except ModuleNotFoundError:
    pass
else:
    sys.exit("what one installation does not bring can be imported")
print(json.dumps([first, sorted(ours)]))
"""

READ = """
import contextlib, io, json, runpy, sys
from gcp_adk_store.cli.command import command

def run(words):
    program, *arguments = words
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        try:
            if program == "gcp-adk-store":
                command(arguments)
            elif arguments[0] == "-m":
                sys.argv = arguments[1:]
                runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
            else:
                sys.argv = arguments
                runpy.run_path(arguments[0], run_name="__main__")
        except SystemExit as exc:
            if exc.code:
                raise
    return shown.getvalue()

sys.path.insert(0, "")
print(json.dumps([run(words) for words in json.loads(sys.argv[1])]))
import gcp_adk_store.inspector.app, gcp_adk_store.adk_server
"""
"""Runs the commands of a page in one process, which takes less time than one for each."""


@pytest.fixture
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a reader who ran ``pip install .`` in a clone, and nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADK_STORE_")}
    return kept | one_installation(tmp_path_factory.mktemp("one"))


def python(*words: str, environ: dict[str, str], folder: Path) -> str:
    """Run Python in *folder*; return what it prints."""
    run = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert 0 == run.returncode, run.stderr
    return run.stdout


def test_the_package_imports_without_any_extra(environ: dict[str, str]) -> None:
    """Nothing at first; then all of its names, and neither the runtime nor the command with them."""
    assert {"numpy", "pytest", "uvloop"} <= set(missing_modules())
    first, imported = json.loads(python("-c", PROBE, environ=environ, folder=ROOT))

    assert [name for name in first if name.partition(".")[0] not in sys.stdlib_module_names] == [
        "gcp_adk_store",
        "gcp_adk_store.imports",
    ]
    assert {"sessions", "artifacts", "store"} <= set(imported)
    assert not {"ces", "cli", "testing", "costs"} & set(imported)


def test_one_installation_serves_the_first_pages(tmp_path: Path, environ: dict[str, str]) -> None:
    """README, quickstart, tutorial and its tests, memory, the command; servers and inspector are imported.

    The program of README has its second run in another process, which remembers the first.
    """
    program, _ = blocks("README.md", "python")
    (shown,) = blocks("README.md", "")
    (tmp_path / "hello.py").write_text(program)
    (tmp_path / "quickstart.py").write_text(blocks("docs/quickstart.md", "python")[0])
    agent, talk = blocks("docs/tutorial/1-persist.md", "python")
    for name, code in {
        "notes/__init__.py": "",
        "notes/agent.py": agent,
        "talk.py": talk,
        "test_notes.py": blocks("docs/tutorial/3-test.md", "python")[0].partition(
            "    async def test_each_note"
        )[0],
        "memory.py": blocks("docs/how-to/remember-across-sessions.md", "python")[0],
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    notes = ("--local", "notes-store", "--app", "notes", "--user", "ada")
    commands = [
        ["python", "hello.py"],
        ["python", "quickstart.py"],
        ["python", "talk.py", "buy milk"],
        ["python", "-m", "unittest", "test_notes"],
        ["python", "memory.py"],
        ["gcp-adk-store", "sessions", "show", *notes, "--session", "first"],
        ["gcp-adk-store", "memory", "list", *notes],
        ["gcp-adk-store", "--help"],
    ]
    outputs = json.loads(python("-c", READ, json.dumps(commands), environ=environ, folder=tmp_path))

    first, *others = outputs
    assert shown == first + python("hello.py", environ=environ, folder=tmp_path)
    assert (tmp_path / "support-store/store.sqlite3").stat().st_size
    assert "So far you said: hello\n" == others[0]
    assert "Noted. 1 in all.\n" == others[1]
    assert "buy milk" in others[4]
    assert "no memories on this page" in others[5]
    assert "sessions" in others[6]
