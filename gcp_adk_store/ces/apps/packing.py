"""Write an app as an archive that the platform imports: the same bytes for the same files."""

import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from gcp_adk_store.ces.apps.locating import MOST_BYTES, MOST_FILES, is_app
from gcp_adk_store.errors import InvalidInputError

_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest of an archive: that of each file in it."""
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_UNIX: Final = 3
_LEFT_OUT: Final = frozenset({"__pycache__"})


def pack(path: Path, target: Path) -> int:
    """Write the app in *path* into the archive *target*, and return how many files it has.

    The files are in order, not compressed, and without times and owners: the same files make the same bytes
    on every machine. They are in a folder of the name of *path*, as in an export. What begins with a dot and
    ``__pycache__`` are left out. *target* is replaced at once, or stays as it is.

    Args:
        path: The folder of an app.
        target: The archive to write.

    Raises:
        InvalidInputError: *path* is not the folder of an app, has links or too many files, or *target* is in
            it, cannot be written, or is a link, a device or anything but a file.
    """
    _require_file(target)
    if not is_app(path):
        raise InvalidInputError(f"{path} is not the folder of an app: it does not have an app.json")
    if target.resolve().is_relative_to(path.resolve()):
        raise InvalidInputError(f"{target} is in {path}: the archive would be in itself")
    return _written(_files(path, PurePosixPath(path.resolve().name)), target)


def _require_file(target: Path) -> None:
    """Raise if there is something at *target* that is no file: a rename would put one in its place."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as exc:
        raise InvalidInputError(f"{target} cannot be written: {exc}") from exc
    if not stat.S_ISREG(mode):
        raise InvalidInputError(f"{target} is a link, or no file: name a file, or a path where nothing is")


def _files(folder: Path, prefix: PurePosixPath) -> list[tuple[str, Path]]:
    """Return the names in the archive and the files, in the order of the names."""
    found: list[tuple[str, Path]] = []
    left = MOST_BYTES
    for each in _below(folder):
        name = str(prefix / PurePosixPath(*each.relative_to(folder).parts))
        left -= each.stat().st_size
        found.append((name, each))
        if len(found) > MOST_FILES or left < 0:
            raise InvalidInputError(
                f"{folder} has more than {MOST_FILES:,} files, or {MOST_BYTES:,} bytes, so it is not an app"
            )
    return sorted(found, key=lambda each: each[0].encode("utf-8", "surrogateescape"))


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files in *folder*.

    Raises:
        InvalidInputError: one is a link, or no file at all.
    """
    for each in folder.iterdir():
        if each.name.startswith(".") or each.name in _LEFT_OUT:
            continue
        mode = each.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield from _below(each)
        elif stat.S_ISREG(mode):
            yield each
        else:
            raise InvalidInputError(f"{each} is a link, or no file: put a file in its place")


def _written(files: list[tuple[str, Path]], target: Path) -> int:
    try:
        number, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with suppress(FileNotFoundError):
            try:
                with os.fdopen(number, "wb") as file, zipfile.ZipFile(file, "w") as archive:
                    for entry, path in files:
                        archive.writestr(_info(entry), path.read_bytes())
                Path(name).chmod(0o644)
                Path(name).replace(target)
            finally:
                Path(name).unlink()
    except (OSError, ValueError) as exc:
        raise InvalidInputError(f"{target} cannot be written: {exc}") from exc
    return len(files)


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _TIME)
    info.create_system, info.external_attr, info.compress_type = _UNIX, _MODE, zipfile.ZIP_STORED
    return info
