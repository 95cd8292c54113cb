"""Tell whether the sandbox's Debian packages are there, ``--check``, or install them, ``--install``."""

import ctypes.util
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tests.debian_packages import command, install_packages

_PACKAGES: Final = ("bubblewrap", "libseccomp2")
_TO_INSTALL: Final = f"""\
User code is tested in a sandbox. Install Debian's packages:
  sudo apt-get install --no-install-recommends {" ".join(_PACKAGES)}
or run `make sandbox` as root."""


class PackagesMissingError(RuntimeError):
    """bubblewrap or libseccomp is missing; the message says how to install both."""


def require(environ: Mapping[str, str] = os.environ) -> None:
    """Raise a PackagesMissingError where a package is missing."""
    has_bubblewrap = shutil.which("bwrap", path=environ.get("PATH", "")) is not None
    if not has_bubblewrap or ctypes.util.find_library("seccomp") is None:
        raise PackagesMissingError(_TO_INSTALL)


def install(environ: Mapping[str, str] = os.environ) -> None:
    """Install what is missing.

    Raises:
        PackagesMissingError: there is no apt-get, or this is not root.
        subprocess.CalledProcessError: apt-get failed, and said why.
    """
    try:
        require(environ)
    except PackagesMissingError:
        if not install_packages(*_PACKAGES, environ=environ):
            raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or install; return the exit status."""
    name = f"{__package__}.debian"
    return command(name, arguments, check=require, install=install, missing=PackagesMissingError)


if __name__ == "__main__":
    sys.exit(main())
