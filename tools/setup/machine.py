"""Inspect the machine: its system, its user, and which parts are missing or out of date."""

import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tools.setup import debian, environments
from tools.setup.tools import ALL, PROGRAMS, Tool, find

PIP: Final = ".cache/tools/pip"
"""The folder for pip's wheel, if Python has no pip."""
CES: Final = ".cache/ces"
"""The folder for the interpreter and packages of user code."""
_OPEN: Final = """
import pathlib, sys
from gcp_adk_store.ces.sandbox.environment import open_environment
open_environment(pathlib.Path(sys.argv[1]))
"""
_TERRAFORM_AT_LEAST: Final = (1, 7)
_MANAGERS: Final = ("apt-get", "dnf", "pacman", "zypper", "brew")
_ANSWERS_WITHIN_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine before the installation."""

    system: str
    """``Linux``, ``Darwin``."""
    distribution: str
    """The name of the Linux distribution, such as ``debian``; empty if unknown."""
    manager: str | None
    """The system's package manager; ``None`` if unknown."""
    is_root: bool
    """Whether the user may run it."""
    has_pip: bool
    """Whether this Python adds pip to its virtual environments; Debian's does not."""
    has_wheel: bool
    """Whether the clone has pip's wheel."""
    missing: frozenset[Tool]
    """Missing programs and libraries."""
    outdated: frozenset[str]
    """Folders of virtual environments that are missing, or whose files have changed since."""
    has_terraform: bool
    """Whether ``PATH`` has a Terraform of a supported version, besides the clone's own."""
    has_ces: bool
    """Whether the interpreter and packages of user code are installed."""
    emulators: str | None
    """What the emulators lack, for messages; empty if nothing, ``None`` if ``.venv`` is missing."""


def look(root: Path, environ: Mapping[str, str] = os.environ) -> Machine:
    """Return what the clone in *root* has; this changes nothing."""
    path = environ.get("PATH", "")
    python = environments.PYTHON.python(root)
    return Machine(
        system=platform.system(),
        distribution=_distribution(Path("/etc/os-release")),
        manager=next((each for each in _MANAGERS if shutil.which(each, path=path)), None),
        is_root=os.geteuid() == 0,
        has_pip=find_spec("ensurepip") is not None,
        has_wheel=any((root / PIP / debian.FILES).rglob("pip-*.whl")),
        missing=frozenset(tool for tool in ALL if find(tool, environ) is None),
        outdated=frozenset(each.folder for each in environments.ALL.values() if not each.is_ready(root)),
        has_terraform=_has_terraform(environ),
        has_ces=_fails([python, "-c", _OPEN, root / CES], root, environ) == "",
        emulators=_fails([python, "-m", "gcp_adk_store.testing", "--check"], root, environ),
    )


def _distribution(release: Path) -> str:
    with contextlib.suppress(OSError):
        named = re.search(r"^ID=\"?([\w.-]+)", release.read_text(), re.MULTILINE)
        return named[1] if named else ""
    return ""


def _has_terraform(environ: Mapping[str, str]) -> bool:
    path = os.pathsep.join(
        each for each in environ.get("PATH", "").split(os.pathsep) if each != str(PROGRAMS)
    )
    program = shutil.which("terraform", path=path)
    if program is None:
        return False
    quiet = {**environ, "CHECKPOINT_DISABLE": "1"}
    try:
        printed = subprocess.run(
            [program, "version", "-json"],
            capture_output=True,
            env=quiet,
            check=True,
            timeout=_ANSWERS_WITHIN_S,
        ).stdout
        version = str(json.loads(printed)["terraform_version"])
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        return False
    numbers = tuple(int(each) for each in re.findall(r"\d+", version)[:2])
    return numbers >= _TERRAFORM_AT_LEAST


def _fails(command: Sequence[str | Path], root: Path, environ: Mapping[str, str]) -> str | None:
    """Return the error of a command of ``.venv``: empty after success, ``None`` if it does not exist."""
    if not Path(command[0]).exists():
        return None
    done = subprocess.run(
        command,
        cwd=root,
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=_ANSWERS_WITHIN_S,
    )
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"
