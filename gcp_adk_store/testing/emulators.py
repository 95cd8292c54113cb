"""Start the Firestore and Cloud Storage emulators, and stop them with the process that did."""

import contextlib
import http.client
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

FIRESTORE_VARIABLE: Final = "FIRESTORE_EMULATOR_HOST"
STORAGE_VARIABLE: Final = "STORAGE_EMULATOR_HOST"
JAR_VARIABLE: Final = "ADK_STORE_FIRESTORE_EMULATOR_JAR"
"""Path of the Firestore emulator's jar, where it is in no usual place."""

_JAVA_AT_LEAST: Final = 17
_READY_S: Final = 60.0
_JAR_OF_SDK: Final = "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
_JARS_OF_FIREBASE: Final = ".cache/firebase/emulators"
_MAIN_CLASS: Final = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"

# Java's second compiler takes as much of a processor in these minutes as what it compiles.
_FOR_MINUTES: Final = ("-XX:TieredStopAtLevel=1",)

_TO_INSTALL: Final = """\
Install one of:
  - the Cloud SDK's component:   gcloud components install cloud-firestore-emulator
                                 (Debian package: google-cloud-cli-firestore-emulator)
  - firebase-tools' copy:        npx firebase-tools setup:emulators:firestore
  - containers:                  docker compose -f emulators/compose.yaml up --detach
and for the first two Java 17 or newer (Debian package: openjdk-17-jre-headless).
Or set FIRESTORE_EMULATOR_HOST to an emulator that runs already, or
ADK_STORE_FIRESTORE_EMULATOR_JAR to the path of its jar."""

_STORAGE_TO_INSTALL: Final = """\
Install this package's extra:    pip install 'gcp-adk-store[testing]'
or set STORAGE_EMULATOR_HOST to an emulator that runs already."""


class EmulatorError(RuntimeError):
    """An emulator cannot be started; the message says what to install or change."""


class Emulator:
    """An emulator that runs: started here and stopped with this object, or found running.

    It ends with this process in any case, however this process ends.
    """

    def __init__(
        self, variable: str, address: str, *, process: subprocess.Popen[bytes] | None, log: Path | None
    ) -> None:
        self.variable = variable
        """The environment variable through which Google's clients find it."""
        self.address = address
        """The variable's value."""
        self.log = log
        """File with its output; ``None`` for one that was found running."""
        self._process = process

    @property
    def started_here(self) -> bool:
        """Whether :meth:`stop` ends it."""
        return self._process is not None

    def stop(self) -> None:
        """End it and wait until it is gone; one that was found running stays."""
        if self._process is not None:
            _stop(self._process)
            self._process = None

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
        logs: Folder for its log; by default a new temporary one.
        environ: Where settings, ``PATH`` and ``HOME`` are read from.
        lasting: Whether it is to run for long, as fast as it can in the end. One that is not takes less of
            the machine for the minutes of a test run: Java compiles what it runs once, and quickly.

    Raises:
        EmulatorError: Java or the jar is missing, the port is taken, or it does not come up.
    """
    running = environ.get(FIRESTORE_VARIABLE)
    if running:
        return Emulator(FIRESTORE_VARIABLE, running, process=None, log=None)
    jar = find_firestore_jar(environ)
    java = find_java(environ)
    port = _claim_port(port, "Firestore emulator")
    options = [] if lasting else _FOR_MINUTES
    command = [java, *options, *_start_of(jar), "--host", "127.0.0.1", "--port", str(port)]
    process, log = _launch("firestore", command, port=port, logs=logs)
    return Emulator(FIRESTORE_VARIABLE, f"127.0.0.1:{port}", process=process, log=log)


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
    return Emulator(STORAGE_VARIABLE, f"http://127.0.0.1:{port}", process=process, log=log)


def require_installed(environ: Mapping[str, str] = os.environ) -> None:
    """Check that both emulators run already or could be started; nothing is started.

    Raises:
        EmulatorError: something is missing; the message says what to install.
    """
    if not environ.get(FIRESTORE_VARIABLE):
        find_firestore_jar(environ)
        find_java(environ)
    if not environ.get(STORAGE_VARIABLE):
        _require_storage_package()


def find_firestore_jar(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the emulator's jar: as set, of the Cloud SDK, or of firebase-tools' cache.

    Raises:
        EmulatorError: there is none.
    """
    named = environ.get(JAR_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise EmulatorError(f"{JAR_VARIABLE} names {named}, which is no file.\n{_TO_INSTALL}")
        return Path(named)
    for sdk in _cloud_sdks(environ):
        if (sdk / _JAR_OF_SDK).is_file():
            return sdk / _JAR_OF_SDK
    cache = Path(environ.get("HOME", "/")) / _JARS_OF_FIREBASE
    cached = sorted(cache.glob("cloud-firestore-emulator-v*.jar"), key=_version_of)
    if cached:
        return cached[-1]
    raise EmulatorError(f"The Firestore emulator is not installed.\n{_TO_INSTALL}")


def find_java(environ: Mapping[str, str] = os.environ) -> str:
    """Return the Java that ``JAVA_HOME`` or ``PATH`` leads to.

    Raises:
        EmulatorError: there is none, it cannot be run, or it is older than 17.
    """
    home = environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH", ""))
    if java is None or not os.access(java, os.X_OK):
        where = f"at {java}, where JAVA_HOME leads" if home else "on PATH"
        raise EmulatorError(f"The Firestore emulator needs Java, and there is none {where}.\n{_TO_INSTALL}")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError as exc:
        raise EmulatorError(
            f"The Firestore emulator needs Java, and {java} cannot be run ({exc.strerror}).\n{_TO_INSTALL}"
        ) from exc
    version = re.search(r'version "((\d+)[^"]*)', told)
    if version is None or int(version[2]) < _JAVA_AT_LEAST:
        found = version[1] if version else "an unknown version"
        raise EmulatorError(
            f"The Firestore emulator needs Java {_JAVA_AT_LEAST} or newer; {java} is {found}.\n{_TO_INSTALL}"
        )
    return java


def _require_storage_package() -> None:
    if importlib.util.find_spec("gcp_storage_emulator") is None:
        raise EmulatorError(f"The Cloud Storage emulator is not installed.\n{_STORAGE_TO_INSTALL}")


def _cloud_sdks(environ: Mapping[str, str]) -> list[Path]:
    gcloud = shutil.which("gcloud", path=environ.get("PATH", ""))
    roots = [environ.get("CLOUDSDK_ROOT_DIR"), gcloud and str(Path(gcloud).resolve().parent.parent)]
    return [Path(root) for root in roots if root]


def _start_of(jar: Path) -> list[str]:
    """Return how *jar* is run: firebase-tools' copy names its main class, the SDK's does not."""
    try:
        with zipfile.ZipFile(jar) as archive:
            manifest = archive.read("META-INF/MANIFEST.MF").decode(errors="replace")
    except (OSError, KeyError, zipfile.BadZipFile) as exc:
        raise EmulatorError(f"{jar} is no jar ({type(exc).__name__}).\n{_TO_INSTALL}") from exc
    return ["-jar", str(jar)] if "Main-Class:" in manifest else ["-cp", str(jar), _MAIN_CLASS, "start"]


def _version_of(jar: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", jar.stem)]


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
