"""Start the Firestore and Cloud Storage emulators, stop them with the starting process, and make buckets."""

import contextlib
import http.client
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gcp_adk_store.testing.downloads import STORAGE_TO_INSTALL, EmulatorError
from gcp_adk_store.testing.firestore_jar import find_firestore_jar, find_java, read_jar


def create_bucket(name: str, address: str) -> None:
    """Make a bucket on the emulator at *address*, unless it is there.

    Raises:
        EmulatorError: The emulator refuses it.
    """
    import requests  # noqa: PLC0415  # where it is used; Google's client takes half a second to import

    answer = requests.post(
        f"{address if '://' in address else f'http://{address}'}/storage/v1/b",
        params={"project": "demo-adk-store"},
        json={"name": name},
        timeout=_READY_S,
    )
    if answer.status_code not in (http.HTTPStatus.OK, http.HTTPStatus.CONFLICT):
        raise EmulatorError(f"bucket {name}: {answer.status_code} {answer.text.strip()}")


__all__ = [
    "FIRESTORE_VARIABLE",
    "STORAGE_VARIABLE",
    "Emulator",
    "EmulatorError",
    "firestore_emulator",
    "storage_emulator",
]

FIRESTORE_VARIABLE: Final = "FIRESTORE_EMULATOR_HOST"
STORAGE_VARIABLE: Final = "STORAGE_EMULATOR_HOST"

_READY_S: Final = 60.0

# In these minutes, the second compiler takes as much of a processor as what it compiles. The collector with
# one thread lets the emulator take an eighth less than the one for servers does.
_FOR_MINUTES: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Emulator:
    """An emulator that runs: started here and stopped with this object, or found running.

    It ends with this process, also if this process is killed.
    """

    def __init__(
        self,
        variable: str,
        address: str,
        *,
        process: subprocess.Popen[bytes] | None,
        log: Path | None,
        temporary: bool = False,
    ) -> None:
        self.variable = variable
        """The environment variable through which Google's clients find it."""
        self.address = address
        """The variable's value."""
        self.log = log
        """File with its output; ``None`` for one that was found running."""
        self._process = process
        self._temporary = temporary

    @property
    def started_here(self) -> bool:
        """Whether :meth:`stop` ends it."""
        return self._process is not None

    def stop(self) -> None:
        """End it, wait until it is gone, and remove a temporary folder with its log.

        One that was found running stays.
        """
        if self._process is not None:
            _stop(self._process)
            self._process = None
            if self._temporary and self.log is not None:
                shutil.rmtree(self.log.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def firestore_emulator(
    *,
    port: int = 0,
    logs: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    lasting: bool = False,
) -> Emulator:
    """Return the emulator at ``FIRESTORE_EMULATOR_HOST``, or start the official one.

    Args:
        port: Port on 127.0.0.1; 0 takes a free one.
        logs: Folder for its log; by default a new temporary one, which :meth:`Emulator.stop` removes.
        environ: Where settings, ``PATH`` and ``HOME`` are read from.
        lasting: Whether it is to run for long, as fast as it can in the end. One that is not takes less of
            the machine for the minutes of a test run: Java compiles what it runs once, and quickly.

    Raises:
        EmulatorError: Java or the jar is missing, the port is taken, or it does not come up.
    """
    running = environ.get(FIRESTORE_VARIABLE)
    if running:
        return Emulator(FIRESTORE_VARIABLE, running, process=None, log=None)
    jar = read_jar(find_firestore_jar(environ))
    java = find_java(environ, at_least=jar.java)
    port = _claim_port(port, "Firestore emulator")
    options = [] if lasting else _FOR_MINUTES
    command = [java, *options, *jar.arguments, "--host", "127.0.0.1", "--port", str(port)]
    process, log = _launch("firestore", command, port=port, logs=logs)
    return Emulator(FIRESTORE_VARIABLE, f"127.0.0.1:{port}", process=process, log=log, temporary=logs is None)


def storage_emulator(
    *, port: int = 0, logs: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Emulator:
    """Return the emulator at ``STORAGE_EMULATOR_HOST``, or start the strict one of this package.

    Raises:
        EmulatorError: the extra ``testing`` is not installed, the port is taken, or it does not come up.
    """
    running = environ.get(STORAGE_VARIABLE)
    if running:
        return Emulator(STORAGE_VARIABLE, running, process=None, log=None)
    _require_storage_package()
    port = _claim_port(port, "Cloud Storage emulator")
    command = [sys.executable, "-m", "gcp_adk_store.testing.storage_emulator", "--port", str(port)]
    process, log = _launch("storage", command, port=port, logs=logs)
    return Emulator(
        STORAGE_VARIABLE, f"http://127.0.0.1:{port}", process=process, log=log, temporary=logs is None
    )


def _require_storage_package() -> None:
    if importlib.util.find_spec("gcp_storage_emulator") is None:
        raise EmulatorError(f"The Cloud Storage emulator is not installed.\n{STORAGE_TO_INSTALL}")


def _claim_port(port: int, whose: str) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as exc:
            raise EmulatorError(
                f"Port {port} for the {whose} is taken ({exc.strerror}); stop what uses it, or use another."
            ) from exc
        claimed: int = probe.getsockname()[1]
        return claimed


def _launch(
    name: str, command: Sequence[str], *, port: int, logs: Path | None
) -> tuple[subprocess.Popen[bytes], Path]:
    folder = logs or Path(tempfile.mkdtemp(prefix="adk-store-emulators-"))
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}-{port}.log"
    tether = Path(__file__).with_name("tether.py")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-S", str(tether), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches the terminal's group: the caller ends the emulator, after its own last requests.
            start_new_session=True,
        )
    try:
        _await_answer(name, process, port, log)
    except BaseException:
        _stop(process)
        raise
    return process, log


def _await_answer(name: str, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        try:
            status = process.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            if _answers(port):
                return
        else:
            raise EmulatorError(
                f"The {name} emulator ended with status {status} as it started; log {log}:\n{_end_of(log)}"
            )
    raise EmulatorError(
        f"The {name} emulator did not answer within {_READY_S:.0f} s. Its log is {log}:\n{_end_of(log)}"
    )


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _end_of(log: Path, lines: int = 12) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    pipe = process.stdin
    if pipe is not None and not pipe.closed:
        with contextlib.suppress(BrokenPipeError), pipe:
            # Not only closed: a process forked from this one holds the pipe open, too.
            pipe.write(b"\n")
    process.wait()
