"""Start pytest where its tests see their app and Python, and nothing else of the host.

Test files are somebody's text, as the callbacks beside them are. bubblewrap gives them namespaces of their
own with the app, the interpreter, its packages and the system's libraries, all of it read-only, and an empty
/tmp: no network, no environment, no home. The filter of system calls and the limits are set by the plugin,
in the process itself, before a file of the app is read.
"""

import asyncio
import contextlib
import os
import shutil
import site
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gcp_adk_store.ces.sandbox.errors import SandboxUnavailableError

PLUGIN: Final = "gcp_adk_store.testing.callback_tests"
"""By name: what is used in production imports nothing of the testing kit."""

_OURS: Final = Path(__file__).parents[2]
"""The package that this is in."""
_SYSTEM: Final = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/ld.so.conf.d")
_TMP_BYTES: Final = 64 * 1024 * 1024
_SAID_BYTES: Final = 16 * 1024
_NO_BUBBLEWRAP: Final = """\
bubblewrap is not installed, and tests of callbacks run in it. Install Debian's package:
  sudo apt-get install --no-install-recommends bubblewrap libseccomp2"""


async def start_pytest(
    folder: Path, file: Path, channel: int, *, walled: bool, lines: bool = False
) -> tuple[asyncio.subprocess.Process, asyncio.Task[str]]:
    """Start the tests of *file*; return the process, and what will have been the end of its output.

    Args:
        folder: Of the app, absolute.
        file: Of tests, in it, likewise.
        channel: Number of the socket that it talks over.
        walled: In namespaces; else as anything that the user starts, which protects nothing.
        lines: Report the lines of the callback that ran.

    Raises:
        SandboxUnavailableError: bubblewrap is not installed.
    """
    command = [
        *(sys.executable, "-P", "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider"),
        *("-c", os.devnull, f"--rootdir={folder}", "--import-mode=importlib"),
        "--continue-on-collection-errors",
        *(f"--ces-channel={channel}", *(["--ces-walled"] if walled else [])),
        *(["--ces-lines"] if lines else []),
        str(file),
    ]
    packages = os.pathsep.join(map(str, _packages()))
    process = await asyncio.create_subprocess_exec(
        *(_walled(command, folder, packages) if walled else command),
        pass_fds=[channel],
        env={**os.environ, "PYTHONPATH": packages},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    return process, asyncio.create_task(_said(process.stdout))


def _walled(command: Sequence[str], folder: Path, packages: str) -> list[str]:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxUnavailableError(_NO_BUBBLEWRAP)
    return [
        bwrap,
        *("--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"),
        *("--clearenv", "--hostname", "sandbox"),
        *("--setenv", "HOME", "/tmp", "--setenv", "PATH", "/usr/bin:/bin"),  # noqa: S108  # inside
        *("--setenv", "LANG", "C.UTF-8", "--setenv", "PYTHONDONTWRITEBYTECODE", "1"),
        *("--setenv", "PYTHONPATH", packages),
        *("--dev", "/dev", "--proc", "/proc", "--size", str(_TMP_BYTES), "--tmpfs", "/tmp"),  # noqa: S108
        *(argument for path in _seen(folder) for argument in ("--ro-bind-try", path, path)),
        *("--chdir", str(folder), "--remount-ro", "/", "--", *command),
    ]


def _packages() -> list[Path]:
    """Return the folders that packages are imported from, the one of this package first."""
    found = [_OURS.parent]
    found += [Path(each) for each in sys.path if Path(each).name in {"site-packages", "dist-packages"}]
    return list(dict.fromkeys(found))


def _seen(folder: Path) -> Iterator[str]:
    """Yield what is mounted: of the folder that holds this package, only the package."""
    _, *others = _packages()
    yield from _SYSTEM
    yield from dict.fromkeys((sys.base_prefix, sys.prefix))
    yield from map(str, others)
    with contextlib.suppress(AttributeError):  # not in every virtual environment
        yield site.getusersitepackages()
    yield str(_OURS)
    yield str(folder)


async def _said(stream: asyncio.StreamReader | None) -> str:
    """Return the end of what *stream* had, once it ends."""
    kept = b""
    while stream is not None and (piece := await stream.read(_SAID_BYTES)):
        kept = (kept + piece)[-_SAID_BYTES:]
    return kept.decode(errors="replace").strip()
