"""Find the app in what a command is given: its folder, that of its project, or the archive of an export."""

import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from gcp_adk_store.errors import InvalidInputError

CODE_FILE: Final = "python_code.py"
"""The name of each file of code in an export."""
_CONFIGURATIONS: Final = ("app.json", "app.yaml", "app.yml")
_PROJECT: Final = "cxas_app"
UNPACKED: Final = "gcp-adk-store-ces-"
"""What the name of a folder begins with that an archive is unpacked into."""
MOST_FILES: Final = 10_000
MOST_BYTES: Final = 256 * 1024 * 1024
"""Of an archive, unpacked: more than an app has, and less than a disk."""


@contextmanager
def located(path: Path, name: str | None = None) -> Iterator[Path]:
    """Yield the folder of the app in *path*; an archive is unpacked for the block.

    Args:
        path: The folder of an app, of tools, of a project with ``cxas_app/<App>``, or a ``.zip`` of one.
        name: The folder of the app, where there are several.

    Raises:
        InvalidInputError: no app has that name, or there are several apps and no name. Or the archive cannot
            be read, is too large, or has entries that are not safe: links, files outside of its folder, and
            names that not every system can have.
    """
    if path.is_dir():
        yield app_folder(path, name)
        return
    with tempfile.TemporaryDirectory(prefix=UNPACKED) as folder:
        _unpack(path, Path(folder))
        yield app_folder(Path(folder), name)


def app_folder(path: Path, name: str | None = None) -> Path:
    """Return the folder of the app in the folder *path*, which is itself one where it has no other.

    Raises:
        InvalidInputError: as :func:`located`.
    """
    if name is None and (is_app(path) or (path / "agents").is_dir() or (path / "tools").is_dir()):
        return path
    apps = [
        folder
        for parent in (path / _PROJECT, path)
        if parent.is_dir()
        for folder in sorted(parent.iterdir())
        if folder.is_dir() and is_app(folder)
    ]
    found = [folder for folder in apps if name in {None, folder.name}]
    names = ", ".join(folder.name for folder in apps) or "none"
    if name is not None and len(found) != 1:
        raise InvalidInputError(f"{path} has not one app of the name {name}; it has: {names}")
    if len(found) > 1:
        raise InvalidInputError(f"{path} has several apps; name one of: {names}")
    return found[0] if found else path


def is_app(folder: Path) -> bool:
    """Return whether *folder* has the configuration of an app."""
    return any((folder / each).is_file() for each in _CONFIGURATIONS)


def _unpack(path: Path, folder: Path) -> None:
    """Write the files of the archive *path* into *folder*; links and paths out of it are refused."""
    try:
        with zipfile.ZipFile(path) as archive:
            for each in archive.infolist():
                _require_safe(each, path)
            files = [each for each in archive.infolist() if not each.is_dir()]
            if len(files) > MOST_FILES:
                raise InvalidInputError(f"{path} has {len(files):,} files; it may have {MOST_FILES:,}")
            left = MOST_BYTES
            for each in files:
                left -= _write(archive, each, folder, left, path)
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as exc:
        if isinstance(exc, InvalidInputError):
            raise
        raise InvalidInputError(f"{path} cannot be read as an archive: {exc}") from exc


def _require_safe(each: zipfile.ZipInfo, path: Path) -> None:
    """Raise if an entry is a link, or not a file of the archive's folder on every system."""
    shown = f"{each.filename[:100]!r}"
    parts = each.filename.removesuffix("/").split("/")
    if each.filename.startswith("/") or ".." in parts or "\\" in each.filename or ":" in parts[0]:
        raise InvalidInputError(f"{path} has a file outside of its folder: {shown}")
    if not all(parts) or "." in parts or not each.filename.isprintable():
        raise InvalidInputError(f"{path} has a file with a name that is not safe: {shown}")
    kind = stat.S_IFMT(each.external_attr >> 16)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        raise InvalidInputError(f"{path} has a link, or no file, in it: {shown}")


def _write(archive: zipfile.ZipFile, each: zipfile.ZipInfo, folder: Path, left: int, path: Path) -> int:
    """Write one file, and return its size; what an archive says of sizes is not believed."""
    target = folder / PurePosixPath(each.filename)
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(each) as packed, target.open("xb") as file:
        while piece := packed.read(64 * 1024):
            if file.tell() + len(piece) > left:
                raise InvalidInputError(f"{path} has more than {MOST_BYTES:,} bytes unpacked")
            file.write(piece)
        return file.tell()
