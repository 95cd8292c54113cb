"""Unpack Debian packages and their missing dependencies into a folder, without root.

``python -m tools.setup.debian FOLDER PACKAGE...`` puts the packages' files into ``FOLDER/files``. apt keeps
its lists and its cache in the folder, and reads from the machine which packages are installed.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from tools.setup.tools import ALL, PROGRAMS, Tool

FILES: Final = "files"
_FONTS: Final = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{}</dir><cachedir>{}/fonts</cachedir></fontconfig>
"""
"""Replaces the packages' configuration, which names folders from the root of the file system."""
_QUIET: Final = ("-q", "-y", "--no-install-recommends")


def as_root(packages: Sequence[str]) -> list[list[str]]:
    """Return the commands that install packages on the machine."""
    # Many machines run apt-get after their start: wait for it.
    patient = ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
    return [[*patient, "update", "-q"], [*patient, "install", *_QUIET, *packages]]


def unpack(folder: Path, packages: Sequence[str]) -> Path:
    """Unpack packages into *folder*, which may have others; return the folder of their files.

    Raises:
        subprocess.CalledProcessError: apt-get or dpkg failed; its output has the reason.
    """
    state, cache, files = folder / "state", folder / "cache", folder / FILES
    shutil.rmtree(cache, ignore_errors=True)
    for each in (state / "lists/partial", cache / "archives/partial", files):
        each.mkdir(parents=True, exist_ok=True)
    apt = ["apt-get", "-o", f"Dir::State={state}", "-o", f"Dir::Cache={cache}"]
    apt += ["-o", "Dir::State::status=/var/lib/dpkg/status", "-o", "Debug::NoLocking=true"]
    _run([*apt, "update", "-q"])
    _run([*apt, "install", *_QUIET, "--download-only", *packages])
    # Packages that the machine has are not among them.
    for archive in sorted((cache / "archives").glob("*.deb")):
        _run(["dpkg", "-x", str(archive), str(files)])
    shutil.rmtree(state)
    shutil.rmtree(cache)
    return files


def lead_to(tool: Tool, files: Path) -> None:
    """Add the program of an unpacked *tool* to the clone's programs, and run it once.

    Raises:
        subprocess.CalledProcessError: it does not run; its output has the reason.
    """
    program, link = files / tool.within, PROGRAMS / tool.programs[0]
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    asked = ["ldd", str(program)]
    linked = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    if "not found" in linked:
        libraries = sorted({str(each.parent) for each in files.rglob("lib*.so*")})
        fonts = files.parent / "fonts.conf"
        fonts.write_text(_FONTS.format(escape(str(files / "usr/share/fonts")), escape(str(files.parent))))
        variables = {"LD_LIBRARY_PATH": ":".join(libraries), "FONTCONFIG_FILE": str(fonts)}
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        link.write_text(f'#!/bin/sh\n{exports}exec {shlex.quote(str(program))} "$@"\n')
        link.chmod(0o755)
    else:
        link.symlink_to(program)
    _run([str(link), "--version"])


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def main(folder: str, *packages: str) -> None:
    """Unpack *packages* into *folder*, and add their tools to the clone's programs."""
    files = unpack(Path(folder), packages)
    for tool in ALL:
        if tool.within and tool.package in packages:
            lead_to(tool, files)


if __name__ == "__main__":
    os.umask(0o022)
    main(*sys.argv[1:])
