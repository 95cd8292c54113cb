"""Find the CPython that user code runs in: 3.12 as on the platform, or the host's own."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gcp_adk_store.ces.sandbox.errors import SandboxUnavailableError

PLATFORM_VERSION: Final = (3, 12)
_PATIENCE_S: Final = 30.0
_QUESTION: Final = """
import json, os, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({
    "executable": os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable),
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "library": sorted({os.path.realpath(paths[name]) for name in ("stdlib", "platstdlib")}),
}))
"""


class InterpreterWarning(UserWarning):
    """User code runs in another Python than on the platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A CPython of this machine."""

    executable: str
    """Path of the program itself, no link and no shim."""
    version: tuple[int, ...]
    """Such as ``(3, 12, 1)``."""
    library: tuple[str, ...]
    """Folders of its standard library."""


def find_interpreter(named: str | None = None, environ: Mapping[str, str] = os.environ) -> Interpreter:
    """Return the interpreter for user code: the one *named*, a CPython 3.12, or the host's.

    pyenv's versions are looked at first, then ``PATH``. Warns with an ``InterpreterWarning`` where it is
    not 3.12.

    Raises:
        SandboxUnavailableError: *named* is not a CPython that runs.
    """
    if named is not None:
        path = shutil.which(named, path=environ.get("PATH", ""))
        found = None if path is None else _examine(path)
        if found is None:
            raise SandboxUnavailableError(f"{named} is not a CPython that runs; name another interpreter")
    else:
        candidates = (_examine(each) for each in _candidates(environ))
        found = next((each for each in candidates if each and each.version[:2] == PLATFORM_VERSION), None)
        found = found or _examine(sys.executable)
        if found is None:
            raise SandboxUnavailableError(f"{sys.executable} is not a CPython; install python3.12")
    if found.version[:2] != PLATFORM_VERSION:
        version = ".".join(map(str, found.version))
        warnings.warn(
            f"user code runs in Python {version}, on the platform in 3.12: install python3.12, or name one",
            InterpreterWarning,
            stacklevel=2,
        )
    return found


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    roots = [environ.get("PYENV_ROOT"), str(Path(environ.get("HOME", "/")) / ".pyenv")]
    for root in dict.fromkeys(each for each in roots if each):
        # Its shims answer only for the version that the current folder selects.
        yield from sorted(map(str, Path(root).glob("versions/3.12.*/bin/python3.12")), reverse=True)
    on_path = shutil.which("python3.12", path=environ.get("PATH", ""))
    if on_path is not None:
        yield on_path


def _examine(path: str) -> Interpreter | None:
    try:
        answer = subprocess.run(
            [path, "-I", "-S", "-c", _QUESTION], capture_output=True, check=True, timeout=_PATIENCE_S
        ).stdout
        told = json.loads(answer)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if told["implementation"] != "cpython":
        return None
    return Interpreter(
        executable=told["executable"], version=tuple(told["version"]), library=tuple(told["library"])
    )
