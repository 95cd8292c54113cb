"""Name the programs and libraries that tests need from the machine, with their packages, and find them."""

import ctypes.util
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
"""The clone."""
TOOLS: Final = ROOT / ".cache/tools"
"""Programs and packages of the clone, for users who may not install them on the machine."""
PROGRAMS: Final = TOOLS / "bin"
"""Its programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program, or a shared library, of the machine."""

    name: str
    """Its name in messages."""
    package: str
    """Its package in Debian and most other distributions."""
    programs: tuple[str, ...] = ()
    """Its names on ``PATH``, of which the first that exists is used; empty for a library."""
    library: str = ""
    """The linker's name of a library, without ``lib``."""
    within: str = ""
    """The program's path in the package, from the root of the file system; empty for a library."""


CHROMIUM: Final = Tool(
    name="Chromium",
    package="chromium",
    programs=("chromium", "chromium-browser", "google-chrome"),
    within="usr/lib/chromium/chromium",
)
CURL: Final = Tool(name="curl", package="curl", programs=("curl",), within="usr/bin/curl")
BUBBLEWRAP: Final = Tool(name="bubblewrap", package="bubblewrap", programs=("bwrap",), within="usr/bin/bwrap")
LIBSECCOMP: Final = Tool(name="libseccomp", package="libseccomp2", library="seccomp")
"""Debian's apt depends on it, so only a system without apt can lack it."""
ALL: Final = (CHROMIUM, CURL, BUBBLEWRAP, LIBSECCOMP)


def search_path(environ: Mapping[str, str]) -> str:
    """Return ``PATH`` with the clone's own programs before all others."""
    own = str(PROGRAMS)
    rest = [each for each in environ.get("PATH", "").split(os.pathsep) if each and each != own]
    return os.pathsep.join([own, *rest])


def find(tool: Tool, environ: Mapping[str, str]) -> str | None:
    """Return the path of a program, or the name of a library; ``None`` if it is missing."""
    if tool.library:
        return ctypes.util.find_library(tool.library)
    path = search_path(environ)
    found = (shutil.which(name, path=path) for name in tool.programs)
    return next((each for each in found if each is not None), None)
