"""Install what the emulators need, show how far it is, and run both by hand.

pip installs into the environment of the running interpreter, and the Firestore emulator's jar goes into
:func:`~gcp_adk_store.testing.firestore_jar.cache_folder`; nothing else is written.
"""

import importlib
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, TextIO

from gcp_adk_store.testing import firestore_jar
from gcp_adk_store.testing.downloads import FROM_A_CLONE, TO_INSTALL, EmulatorError, in_megabytes, shown_url
from gcp_adk_store.testing.emulators import (
    FIRESTORE_VARIABLE,
    STORAGE_VARIABLE,
    Emulator,
    create_bucket,
    firestore_emulator,
    storage_emulator,
)

_STEPS: Final = 10


@contextmanager
def progress_of(total: int, out: TextIO) -> Iterator[Callable[[int], None]]:
    """Provide a function to call with the number of downloaded bytes of *total*."""
    if out.isatty():
        with _bar(total, out) as on_bytes:
            yield on_bytes
    else:
        yield _lines(total, out)


@contextmanager
def _bar(total: int, out: TextIO) -> Iterator[Callable[[int], None]]:
    from rich import progress  # noqa: PLC0415  # where it is used
    from rich.console import Console  # noqa: PLC0415

    columns = (
        progress.BarColumn(bar_width=None),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(file=out)) as shown:
        task = shown.add_task("", total=total)
        yield lambda there: shown.update(task, completed=there)


def _lines(total: int, out: TextIO) -> Callable[[int], None]:
    said = 0

    def on_bytes(there: int) -> None:
        nonlocal said
        step = there * _STEPS // total
        if step > said:
            out.write(f"  {in_megabytes(there)} of {in_megabytes(total)}\n")
            out.flush()
        said = step

    return on_bytes


_JAVA: Final = f"{firestore_jar.PACKAGE}>=25,<26"
_JAVA_DOWNLOADED: Final = "49 MB"
_STORAGE: Final = "gcp-storage-emulator"
_ROUNDS: Final = 2
"""The emulator that the first one downloads may need a newer Java than was looked for."""
_PIP_WITHIN_S: Final = 900.0
_SHOWN_CHARS: Final = 2000

_Install = Callable[[TextIO], None]


@dataclass(frozen=True, slots=True)
class _Lack:
    """One thing that an emulator lacks."""

    says: str
    """Its name, and the place of its installation."""
    install: _Install | None
    """Installs it; ``None`` if the caller must repair it."""


def missing(environ: Mapping[str, str] = os.environ, *, url: str | None = None) -> list[str]:
    """Return each missing thing, with the source and the target of its installation.

    An emulator that runs already, which a variable names, lacks nothing.

    Args:
        environ: Where settings, ``PATH`` and ``HOME`` are read from.
        url: A mirror of the Firestore emulator's jar.
    """
    return [lack.says for lack in _lacks(environ, url)]


def require_installed(environ: Mapping[str, str] = os.environ) -> None:
    """Check that both emulators run already or could be started; nothing is started.

    Raises:
        EmulatorError: something is missing; the message lists all of it, and says how to install it.
    """
    lacks = missing(environ)
    if lacks:
        listed = "".join(f"  - {each}\n" for each in lacks)
        raise EmulatorError(f"The emulators cannot be started:\n{listed}{TO_INSTALL}")


def install(
    environ: Mapping[str, str] = os.environ, *, url: str | None = None, out: TextIO | None = None
) -> None:
    """Install what :func:`missing` lists; do nothing where that is nothing.

    Args:
        environ: Where settings, ``PATH`` and ``HOME`` are read from. Proxies, certificates and pip's settings
            are those of the process's environment.
        url: A mirror of the Firestore emulator's jar, which must have the same bytes.
        out: Where to say what is installed, before it is, and how far that is; by default standard error.

    Raises:
        EmulatorError: something cannot be installed; the message says why, and what to do.
    """
    out = out or sys.stderr
    for _ in range(_ROUNDS):
        lacks = _lacks(environ, url)
        for_the_caller = [lack.says for lack in lacks if lack.install is None]
        if for_the_caller:
            raise EmulatorError("\n".join(for_the_caller))
        for lack in lacks:
            out.write(f"{lack.says}\n")
            out.flush()
            assert lack.install is not None
            lack.install(out)
    require_installed(environ)


def _lacks(environ: Mapping[str, str], url: str | None) -> list[_Lack]:
    found = []
    if not environ.get(FIRESTORE_VARIABLE):
        found += _lacks_of_firestore(environ, url)
    if not environ.get(STORAGE_VARIABLE) and importlib.util.find_spec("gcp_storage_emulator") is None:
        found.append(_lack_of_storage())
    return found


def _lacks_of_firestore(environ: Mapping[str, str], url: str | None) -> list[_Lack]:
    found = []
    at_least = firestore_jar.JAVA_AT_LEAST
    try:
        jar = firestore_jar.find_firestore_jar(environ)
        at_least = firestore_jar.read_jar(jar).java
    except EmulatorError as exc:
        if environ.get(firestore_jar.JAR_VARIABLE):
            found.append(_Lack(f"{_reason(exc)} Correct that variable, or unset it.", None))
        else:
            found.append(_lack_of_jar(environ, url))
    try:
        firestore_jar.find_java(environ, at_least=at_least)
    except EmulatorError as exc:
        how = f"pip installs {_JAVA} ({_JAVA_DOWNLOADED}) into {sys.prefix}."
        found.insert(0, _Lack(f"{_reason(exc)} {how}", lambda _: _pip_install(_JAVA)))
    return found


def _lack_of_jar(environ: Mapping[str, str], url: str | None) -> _Lack:
    release = firestore_jar.RELEASE
    try:
        folder = firestore_jar.cache_folder(environ)
    except EmulatorError as exc:
        return _Lack(str(exc), None)

    def fetch(out: TextIO) -> None:
        with progress_of(release.size, out) as on_bytes:
            firestore_jar.download_firestore_jar(environ, url=url, on_bytes=on_bytes)

    return _Lack(
        f"The Firestore emulator is not installed. Version {firestore_jar.VERSION} "
        f"({in_megabytes(release.size)}) is downloaded from {shown_url(url or release.url)} to {folder}.",
        fetch,
    )


def _lack_of_storage() -> _Lack:
    says = "The Cloud Storage emulator is not installed."
    requirement = _storage_requirement()
    if requirement is None:
        return _Lack(f"{says} Install the extra: {FROM_A_CLONE}", None)
    return _Lack(f"{says} pip installs {requirement} into {sys.prefix}.", lambda _: _pip_install(requirement))


def _storage_requirement() -> str | None:
    """Return the storage emulator's release as the extra ``testing`` pins it."""
    try:
        declared = metadata.requires("gcp-adk-store") or []
    except metadata.PackageNotFoundError:
        return None
    pinned = [text.partition(";")[0].strip() for text in declared if re.match(rf"{_STORAGE}\b", text)]
    return pinned[0] if pinned else None


def _pip_install(requirement: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_PIP_WITHIN_S,
        )
    except subprocess.TimeoutExpired as exc:
        raise EmulatorError(
            f"pip did not install {requirement} within {_PIP_WITHIN_S:.0f} s.\n{TO_INSTALL}"
        ) from exc
    if done.returncode != 0:
        raise EmulatorError(
            f"pip could not install {requirement} into {sys.prefix}; it says:\n"
            f"{done.stdout.strip()[-_SHOWN_CHARS:]}\n"
            f"Without pip, as in uv's environments: uv pip install '{requirement}'\n{TO_INSTALL}"
        )
    importlib.invalidate_caches()


def _reason(exc: EmulatorError) -> str:
    return str(exc).partition("\n")[0]


PROJECT: Final = "demo-adk-store"
"""The project for manual use; emulators accept any."""

_ENDINGS: Final = (signal.SIGINT, signal.SIGTERM)


def serve(
    *,
    firestore_port: int = 0,
    storage_port: int = 0,
    logs: Path | None = None,
    bucket: str | None = None,
    as_json: bool = False,
) -> None:
    """Start the emulators that do not run yet, print their variables, wait for Ctrl-C or SIGTERM, stop them.

    Args:
        firestore_port: On 127.0.0.1; 0 takes a free one.
        storage_port: The same for the storage emulator.
        logs: Folder for the logs; by default a temporary one.
        bucket: Bucket to make; with it, what ``Store.from_env()`` reads is printed.
        as_json: Print one line, an object of all variables, instead of lines for a shell.

    Raises:
        EmulatorError: something is missing, or an emulator does not come up.
        OSError: the logs cannot be written.
    """
    for number in _ENDINGS:
        signal.signal(number, signal.default_int_handler)
    try:
        require_installed()
        with (
            firestore_emulator(port=firestore_port, logs=logs, lasting=True) as firestore,
            storage_emulator(port=storage_port, logs=logs) as storage,
        ):
            if bucket:
                create_bucket(bucket, storage.address)
            variables = _variables([firestore, storage], bucket)
            announcement = (
                json.dumps(variables) + "\n" if as_json else _exports(variables, [firestore, storage])
            )
            sys.stdout.write(announcement)
            sys.stdout.flush()
            # From here on a signal ends the wait and interrupts nothing else, above all not the stop.
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
            signal.sigwait(_ENDINGS)
    except KeyboardInterrupt:
        return


def _variables(emulators: Sequence[Emulator], bucket: str | None) -> dict[str, str]:
    """Return what leads Google's clients, ADK and, with a bucket, ``Store.from_env()`` to the emulators."""
    # ADK's storage of evaluations reads the project from here.
    found = {**{each.variable: each.address for each in emulators}, "GOOGLE_CLOUD_PROJECT": PROJECT}
    if bucket:
        # Those with a default too: commands put all of them together.
        found |= {
            "ADK_STORE_PROJECT": PROJECT,
            "ADK_STORE_DATABASE": "(default)",
            "ADK_STORE_BUCKET": bucket,
            "ADK_STORE_PREFIX": "adk",
        }
    return found


def _exports(variables: Mapping[str, str], emulators: Sequence[Emulator]) -> str:
    """Return lines for a shell: what else there is to say is a comment to it."""
    return "".join(
        [
            *(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()),
            "# Paste these lines into the shell that needs them; Ctrl-C here ends what was started here.\n",
            *(f"# log: {each.log}\n" for each in emulators if each.log is not None),
        ]
    )
