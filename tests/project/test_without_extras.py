"""The package works with what it depends on alone: no extra, nothing of this repository's own tools."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import blocks
from tests.support.one_installation import missing_modules, one_installation
from tests.support.programs import ran

READER = """
import gc, json, os, runpy, sys
before = set(sys.modules)
import gcp_adk_store
first = sorted(set(sys.modules) - before - sys.stdlib_module_names)
store = gcp_adk_store.Store.local(":memory:")
assert store.sessions and store.artifacts
slow = ("google.cloud.firestore", "google.cloud.storage", "google.auth.compute_engine", "cryptography")
of_others = [name for name in sys.modules if name.startswith((*slow, "gcp_adk_store.cloud"))]
for name in gcp_adk_store.__all__:
    getattr(gcp_adk_store, name)
ours = sorted({name.split(".")[1] for name in sys.modules if name.startswith("gcp_adk_store.")})
try:
    import numpy
except ModuleNotFoundError:
    pass
else:
    sys.exit("what one installation does not bring can be imported")
import gcp_adk_store.inspector.app, gcp_adk_store.adk_server
from gcp_adk_store.cli.command import command
from google.adk.agents import LlmAgent
from google.adk.auth import auth_preprocessor
from google.adk.flows.llm_flows import auto_flow
from google.adk.models import google_llm
from google.adk.runners import Runner
from google.adk import workflow

def begin(program, *arguments):
    if program == "gcp-adk-store":
        command(arguments)
    elif arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        runpy.run_path(arguments[0], run_name="__main__")

def run(words):
    with open("printed", "w+") as printed:
        program = os.fork()
        if not program:
            os.dup2(printed.fileno(), 1)
            begin(*words)
            sys.exit()
        if os.waitpid(program, 0)[1]:
            sys.exit("failed: " + " ".join(words))
        printed.seek(0)
        return printed.read()

sys.path.insert(0, "")
gc.freeze()  # else each process that ends goes through all modules
shown = [run(words) for words in json.loads(sys.argv[1])]
print(json.dumps({"first": first, "of_others": of_others, "ours": ours, "shown": shown}))
"""
"""Imports the package, and runs each command of the pages in a process of its own that has imported it."""

NOTES = ("--local", "notes-store", "--app", "notes", "--user", "ada")
COMMANDS = [
    ["python", "hello.py"],
    ["python", "hello.py"],
    ["python", "quickstart.py"],
    ["python", "talk.py", "buy milk"],
    ["python", "-m", "unittest", "test_notes"],
    ["python", "memory.py"],
    ["gcp-adk-store", "sessions", "show", *NOTES, "--session", "first"],
    ["gcp-adk-store", "memory", "list", *NOTES],
    ["gcp-adk-store", "--help"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a reader who has written what the first pages show."""
    folder = tmp_path_factory.mktemp("reader")
    agent, talk = blocks("docs/tutorial/1-persist.md", "python")
    (tests,) = blocks("docs/tutorial/3-test.md", "python")
    for name, code in {
        "hello.py": blocks("README.md", "python")[0],
        "quickstart.py": blocks("docs/quickstart.md", "python")[0],
        "notes/__init__.py": "",
        "notes/agent.py": agent,
        "talk.py": talk,
        "test_notes.py": tests.partition("    async def test_each_note")[0],
        "memory.py": blocks("docs/how-to/remember-across-sessions.md", "python")[0],
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)
    return folder


@pytest.fixture(scope="module")
def read(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What such a reader sees who ran ``pip install .`` in a clone, and nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADK_STORE_")}
    run = ran(
        [sys.executable, "-c", READER, json.dumps(COMMANDS)],
        cwd=folder,
        env=kept | one_installation(tmp_path_factory.mktemp("one")),
    )
    assert 0 == run.returncode, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_the_package_imports_without_any_extra(read: dict[str, Any]) -> None:
    """Nothing at first; then all of its names, and neither the runtime nor the command with them."""
    assert {"numpy", "pytest", "uvloop"} <= set(missing_modules())
    assert [name for name in read["first"] if name.partition(".")[0] not in sys.stdlib_module_names] == [
        "gcp_adk_store",
        "gcp_adk_store.imports",
    ]
    assert {"sessions", "artifacts", "store"} <= set(read["ours"])
    assert not {"ces", "cli", "testing", "costs"} & set(read["ours"])


def test_a_store_in_a_folder_imports_no_client_of_the_cloud_and_no_cipher(read: dict[str, Any]) -> None:
    """They are large, and such a store uses none of them."""
    assert [] == read["of_others"]


def test_one_installation_serves_the_first_pages(folder: Path, read: dict[str, Any]) -> None:
    """README, quickstart, tutorial and its tests, memory, the command; servers and inspector are imported.

    The program of README has its second run in another process, which remembers the first.
    """
    (shown,) = blocks("README.md", "")
    first, second, *others = read["shown"]

    assert shown == first + second
    assert (folder / "support-store/store.sqlite3").stat().st_size
    assert "So far you said: hello\n" == others[0]
    assert "Noted. 1 in all.\n" == others[1]
    assert "buy milk" in others[4]
    assert "no memories on this page" in others[5]
    assert "sessions" in others[6]
