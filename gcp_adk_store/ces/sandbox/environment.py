"""Install and find what user code runs in: a CPython, the platform's packages, the libraries they need.

An environment is a folder of its own, so that nothing of the host's packages is seen::

    interpreter.json   which CPython, and the shared libraries it needs
    site/              pydantic, numpy and protobuf of the platform's releases

This library's own part that runs inside is carried there by each sandbox, so nothing is added to the folder.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

from pydantic import TypeAdapter

from gcp_adk_store.ces.sandbox.interface import SandboxUnavailableError

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
    implementation: Literal["cpython"] = "cpython"


_INTERPRETER: Final = TypeAdapter(Interpreter)


def find_interpreter(named: str | None = None) -> Interpreter:
    """Return the interpreter for user code: the one *named*, a CPython 3.12, or the host's.

    pyenv's versions are looked at first, then ``PATH``. Warns with an ``InterpreterWarning`` where it is
    not 3.12.

    Raises:
        SandboxUnavailableError: *named* is not a CPython that runs.
    """
    wanted = [*_candidates(), sys.executable] if named is None else [named]
    found = None
    for path in wanted:
        found = _examine(path)
        if found is not None and found.version[:2] == PLATFORM_VERSION:
            break
    if found is None:
        raise SandboxUnavailableError(f"{wanted[-1]} is not a CPython that runs; name another interpreter")
    if found.version[:2] != PLATFORM_VERSION:
        version = ".".join(map(str, found.version))
        warnings.warn(
            f"user code runs in Python {version}, on the platform in 3.12: install python3.12, or name one",
            InterpreterWarning,
            stacklevel=2,
        )
    return found


def _candidates() -> Iterator[str]:
    roots = [os.environ.get("PYENV_ROOT"), str(Path(os.environ.get("HOME", "/")) / ".pyenv")]
    for root in dict.fromkeys(each for each in roots if each):
        # Its shims answer only for the version that the current folder selects.
        yield from sorted(map(str, Path(root).glob("versions/3.12.*/bin/python3.12")), reverse=True)
    on_path = shutil.which("python3.12")
    if on_path is not None:
        yield on_path


def _examine(named: str) -> Interpreter | None:
    command = [named, "-I", "-S", "-c", _QUESTION]
    try:
        answer = subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE_S).stdout
        return _INTERPRETER.validate_json(answer)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


PACKAGES: Final = ("pydantic==2.11.6", "numpy==2.3.1", "protobuf==5.29.1")
"""What the platform offers beside the standard library."""
_FORMAT: Final = 1
_CLONE: Final = Path(__file__).parents[3]
"""Where this package lies beside its project's files, if it does."""
_DESCRIPTION: Final = "interpreter.json"
_LINKED: Final = re.compile(r"^\t(?:.* => )?(/.*) \(0x", re.MULTILINE)
"""What ``ldd`` says of a library that it found."""
_OF_THREADS: Final = "libgcc_s.so.1"
"""Opened by the C library when a thread ends, so no file names it."""
_INSTALL: Final = "gcp-adk-store ces install"
_ANEW: Final = f"install it anew:\n  {_INSTALL}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment that is installed, as its folder describes it."""

    interpreter: Interpreter
    """What runs in it."""
    libraries: tuple[str, ...]
    """Paths of the shared libraries that it needs, as the loader looks for them."""
    format: int = _FORMAT
    packages: tuple[str, ...] = PACKAGES

    def __post_init__(self) -> None:
        if (self.format, self.packages) != (_FORMAT, PACKAGES):
            raise ValueError("it is of another release")


_ENVIRONMENT: Final = TypeAdapter(Environment)


def default_folder() -> Path:
    """Return where an environment is kept: ``ADK_STORE_CES_ENVIRONMENT``, or the user's cache."""
    named = os.environ.get("ADK_STORE_CES_ENVIRONMENT")
    if named:
        return Path(named).absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/")) / ".cache"
    return Path(cache) / "gcp-adk-store" / "ces"


def installed_folder() -> Path:
    """Return the folder of the environment: the default one, or ``.cache/ces`` of a clone of this project.

    ``make ready`` installs the second. It applies if ADK_STORE_CES_ENVIRONMENT is not set and the cache of
    the user has no environment.
    """
    kept, of_clone = default_folder(), _CLONE / ".cache" / "ces"
    if os.environ.get("ADK_STORE_CES_ENVIRONMENT") or (kept / _DESCRIPTION).is_file():
        return kept
    is_clone = (_CLONE / "pyproject.toml").is_file() and (of_clone / _DESCRIPTION).is_file()
    return of_clone if is_clone else kept


def open_environment(folder: Path) -> Environment:
    """Return the environment of *folder*.

    Raises:
        SandboxUnavailableError: the environment or its interpreter is missing.
    """
    try:
        found = _ENVIRONMENT.validate_json((folder / _DESCRIPTION).read_bytes())
    except FileNotFoundError as exc:
        says = f"what user code runs in is not installed in {folder}; install it:\n  {_INSTALL}"
        raise SandboxUnavailableError(says) from exc
    except OSError as exc:
        raise SandboxUnavailableError(f"{folder} cannot be read: {exc.strerror}; {_ANEW}") from exc
    except ValueError as exc:
        says = f"{folder} is damaged, or was installed by another release; {_ANEW}"
        raise SandboxUnavailableError(says) from exc
    for path in (found.interpreter.executable, *found.interpreter.library, *found.libraries):
        if not Path(path).exists():
            raise SandboxUnavailableError(f"{path} is gone, which {folder} was made for; {_ANEW}")
    return found


def install_environment(folder: Path, *, python: str | None = None) -> Environment:
    """Install an environment into *folder*, in place of one that is there; return it.

    Takes the packages by pip, with its own configuration, so it needs the package index. One that is being
    installed is not seen before it is complete.

    Args:
        folder: Where to keep it, some 90 MB.
        python: Interpreter; by default a CPython 3.12, or this one with an ``InterpreterWarning``.

    Raises:
        SandboxUnavailableError: pip or the interpreter failed; the message ends with what they said. Or the
            folder holds something else, or cannot be made.
    """
    interpreter = find_interpreter(python)
    with _replacing(folder) as made:
        with tempfile.TemporaryDirectory() as tools:
            options = ["--quiet", "--disable-pip-version-check", "--no-warn-script-location"]
            target = ["--target", str(made / "site")]
            _run([*_pip(interpreter, Path(tools)), "install", *options, *target, *PACKAGES])
        found = Environment(interpreter=interpreter, libraries=_libraries(interpreter, made / "site"))
        (made / _DESCRIPTION).write_bytes(_ENVIRONMENT.dump_json(found, indent=2))
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
    return open_environment(folder)


@contextlib.contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """Yield a new folder beside *folder*, to become it when it is complete; remove what has not."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not (folder / _DESCRIPTION).is_file():
            with contextlib.suppress(FileNotFoundError):
                folder.rmdir()  # which refuses what holds something, or is in use
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as exc:
        says = f"{folder} cannot be made or replaced: {exc.strerror}; name another folder"
        raise SandboxUnavailableError(says) from exc
    try:
        made.chmod(0o755)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _pip(interpreter: Interpreter, folder: Path) -> list[str]:
    """Return the command of a pip that installs for *interpreter*: this process's own, or a new one."""
    if importlib.util.find_spec("pip") is not None:
        # Debian's Python alone cannot make an environment with a pip.
        return [sys.executable, "-m", "pip", "--python", interpreter.executable]
    _run([interpreter.executable, "-I", "-m", "venv", str(folder)])
    return [f"{folder}/bin/python", "-m", "pip"]


def _libraries(interpreter: Interpreter, site: Path) -> tuple[str, ...]:
    """Return the shared libraries that the interpreter and all extension modules are linked to."""
    inside = tuple(f"{root}/" for root in (*interpreter.library, site))
    modules = [str(path) for root in interpreter.library for path in Path(root).rglob("*.so*")]
    modules = [each for each in modules if "/site-packages/" not in each]  # the host's own
    modules += map(str, site.rglob("*.so*"))
    loader = shutil.which("ldd")
    if loader is None:
        says = "the command ldd is missing, which finds the libraries of an interpreter; install libc-bin"
        raise SandboxUnavailableError(says)
    # A module of a library that this machine lacks cannot be imported outside either.
    command = [loader, interpreter.executable, *modules]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = {path for path in _LINKED.findall(listed) if not path.startswith(inside)}
    beside = [Path(path).with_name(_OF_THREADS) for path in found if Path(path).name.startswith("libc.so")]
    found.update(str(path) for path in beside if path.exists())
    return tuple(sorted(found))


def carry_code(modules: Sequence[str], place: BinaryIO) -> None:
    """Write the packages of *modules* alone to *place*, as a zip file that Python imports them from.

    A package above them is empty, so that importing one of them inside imports nothing else.

    Raises:
        SandboxUnavailableError: a module is missing.
    """
    packages = {each.rpartition(".")[0] for each in modules}
    folders = {Path(*package.split(".")): _folder_of(package) for package in packages}
    above = {folder for inside in folders for folder in inside.parents if folder.name}
    with zipfile.ZipFile(place, "w", strict_timestamps=False) as archive:
        for folder in sorted(above):
            archive.mkdir(str(folder))
        for inside, folder in folders.items():
            for path in sorted(folder.rglob("*.py")):
                archive.write(path, inside / path.relative_to(folder))
    place.seek(0)


def _folder_of(package: str) -> Path:
    try:
        spec = importlib.util.find_spec(package)
    except ImportError as exc:
        raise SandboxUnavailableError(f"the package {package} cannot be imported: {exc}") from exc
    if spec is None or not spec.submodule_search_locations:
        raise SandboxUnavailableError(f"the package {package} cannot be found")
    return Path(spec.submodule_search_locations[0])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise SandboxUnavailableError(f"{' '.join(command[:4])} ... failed:\n{said}")
