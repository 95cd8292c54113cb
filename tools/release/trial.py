"""Install a wheel into an environment of its own, and use it there."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_IMPORTS: Final = """
import asyncio, importlib.metadata, pathlib, sys
import gcp_adk_store, gcp_adk_store.inspector.app
for name in gcp_adk_store.__all__:
    getattr(gcp_adk_store, name)
where = pathlib.Path(gcp_adk_store.__file__)
assert pathlib.Path(sys.prefix) in where.parents, where
assert where.with_name("py.typed").exists()
assert importlib.metadata.version("gcp-adk-store") == gcp_adk_store.__version__ == sys.argv[1]

async def take_a_turn():
    async with gcp_adk_store.Store.local(":memory:") as store:
        await store.sessions.create_session(app_name="a", user_id="u", session_id="s", state={"x": 1})
        found = await store.sessions.get_session(app_name="a", user_id="u", session_id="s")
        assert found.state == {"x": 1}, found
        await store.memory.add_session_to_memory(found)

asyncio.run(take_a_turn())
"""
"""Everything that works without an extra: all public names, and a session in memory."""
_EXTRAS: Final = """
import gcp_adk_store.ces, gcp_adk_store.ces.testing
import gcp_adk_store.tasks
import gcp_adk_store.testing.plugin
import numpy, pyarrow
"""
"""Modules that need an extra."""
_WITHIN_S: Final = 900


class TrialError(Exception):
    """A command did something else than it should; the text has its output."""


def constraints(lock: str) -> str:
    """Return the versions of a lock file without their digests, which pip would ask of the wheel, too."""
    return "".join(f"{line}\n" for line in re.findall(r"^[\w.\[\]-]+==[^\\\n]*[^\\\s]", lock, re.MULTILINE))


def run(wheel: Path, *, version: str, extras: Sequence[str], lock: str, folder: Path) -> Iterator[str]:
    """Install *wheel* in *folder*, first alone and then with *extras*; yield what worked.

    Args:
        wheel: The wheel.
        version: The version that it must have.
        extras: The extras that users choose.
        lock: The text of the lock file, whose versions are installed.
        folder: An empty folder.

    Raises:
        TrialError: something did not work.
    """
    (folder / "constraints.txt").write_text(constraints(lock))
    _do([sys.executable, "-m", "venv", "environment"], folder)
    programs = folder / "environment/bin"
    install = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    install += ["--constraint", "constraints.txt"]
    _do([*install, str(wheel)], folder)
    _do([str(programs / "python"), "-I", "-c", _IMPORTS, version], folder)
    _do([str(programs / "gcp-adk-store"), "sessions", "--help"], folder)
    yield "the wheel alone: every public name can be imported, a session is stored, and the command runs"
    _do([*install, f"{wheel}[{','.join(extras)}]"], folder)
    _do([str(programs / "python"), "-I", "-c", _EXTRAS], folder)
    fixtures = _do([str(programs / "python"), "-m", "pytest", "--fixtures", "-q"], folder)
    if "adk_store_local" not in fixtures:
        raise TrialError(f"pytest does not know the fixtures: {fixtures}")
    yield f"with the extras {', '.join(extras)}: each is imported, and the fixtures are there"


def packages(folder: Path) -> Path:
    """Return the folder of the packages that :func:`run` installed in *folder*."""
    (found,) = folder.glob("environment/lib/python*/site-packages")
    return found


def _do(command: Sequence[str], folder: Path) -> str:
    """Run a command; return its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_WITHIN_S,
    )
    if done.returncode != 0:
        raise TrialError(f"{' '.join(command)[:200]} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout
