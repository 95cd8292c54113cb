"""Find the files of an app, read them, and pack them into an archive."""

import json
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml

from gcp_adk_store.ces.apps.findings import Finding, finding
from gcp_adk_store.errors import InvalidInputError

_SUFFIXES: Final = (".json", ".yaml", ".yml")
_VALUES: Final = 500_000
"""Of a configuration or a schema."""


class Files:
    """The files of a folder, and what could not be read of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Finding] = []

    def config(self, stem: Path) -> dict[str, Any]:
        """Return the configuration of that name, with any suffix; empty if it is missing."""
        path = config_file(stem)
        return self.parsed(path, self.text(path)) if path.is_file() else {}

    def text(self, path: Path) -> str:
        """Return the text of *path*; ``{}`` if it cannot be read."""
        try:
            return path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as exc:
            self.problem(path, f"it cannot be read: {exc}")
            return "{}"

    def parsed(self, path: Path, text: str, *, document: bool = False) -> dict[str, Any]:
        """Return the object that *text* is; with *document* it is a text within the file *path*."""
        try:
            read = json.loads(text) if path.suffix == ".json" and not document else yaml.safe_load(text)
        except json.JSONDecodeError as exc:
            self.problem(path, f"it is not JSON: {exc.msg}", line=exc.lineno)
            return {}
        except (ValueError, RecursionError) as exc:  # an invalid date in YAML, or too many brackets
            self.problem(path, f"it cannot be read: {exc}")
            return {}
        except yaml.YAMLError as exc:
            mark = getattr(exc, "problem_mark", None)
            says = f"it is not YAML: {getattr(exc, 'problem', None) or exc}"
            self.problem(path, says, line=mark.line + 1 if mark else 1)
            return {}
        if not isinstance(read, dict):
            self.problem(path, f"an object is expected, not {type(read).__name__}")
            return {}
        if _is_larger(read, _VALUES):
            self.problem(path, f"it has more than {_VALUES:,} values, those referred to counted each time")
            return {}
        return read

    def is_file(self, path: Path, what: str) -> bool:
        """Return whether *path* is a file in the folder; if not, *what* it is becomes a problem."""
        try:
            inside = path.resolve().is_relative_to(self.folder.resolve())
            found = path.is_file()
        except (OSError, RuntimeError, ValueError) as exc:  # a loop of links, or no path at all
            self.problem(path, f"{what} is not there: {exc}")
            return False
        if not (inside and found):
            self.problem(path, f"{what} is {'not there' if inside else 'outside of the folder of the app'}")
        return inside and found

    def problem(self, path: Path, says: str, *, line: int = 1) -> None:
        """Add what *says* of *path*."""
        fix = "mend the file, or put one there, or take its name out of the configuration"
        self.problems.append(finding("CES001", says, fix, path=self.shown(path), line=line))

    def shown(self, path: Path) -> str:
        """Return how *path* is named: from the folder."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)


def folders(parent: Path) -> list[Path]:
    """Return the folders in *parent*, sorted; an empty list if *parent* is not a folder."""
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def member(value: Any, *names: str) -> Any:
    """Return what is at *names* in *value*, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _is_larger(value: Any, most: int) -> bool:
    """Whether *value*, as JSON, would have more values than *most*: YAML refers to some again and again."""
    waiting, seen = [value], 0
    while waiting and seen <= most:
        each = waiting.pop()
        seen += 1
        if isinstance(each, dict | list):
            waiting += each.values() if isinstance(each, dict) else each
    return seen > most


def config_file(stem: Path) -> Path:
    """Return the configuration of that name, with any suffix; with the first suffix if it is missing."""
    named = [stem.with_name(stem.name + suffix) for suffix in _SUFFIXES]
    return next((path for path in named if path.is_file()), named[0])


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
