"""Translate failures of SQLite and of the file system, by code, into this library's errors."""

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

from gcp_adk_store.errors import (
    AccessDeniedError,
    InvalidInputError,
    OutcomeUnknownError,
    StoredDataError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.local.tables import APPLICATION_ID, FORMAT

_PRIMARY: Final = 0xFF
"""The part of SQLite's code that names the kind; the rest gives details."""

_LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})

_FULL: Final = "the disk takes no more ({name}); free some space there; nothing was written"
_DENIED: Final = "let this user write the file and its folder, or pass another path"
_ANOTHER: Final = "pass the path of a store, or one that does not exist yet"

_FAILURES: Final = {
    sqlite3.SQLITE_NOTADB: (InvalidInputError, f"this is neither a store nor a database; {_ANOTHER}"),
    sqlite3.SQLITE_CORRUPT: (StoredDataError, "the file is damaged ({name}); restore it from a backup"),
    sqlite3.SQLITE_READONLY: (AccessDeniedError, f"it cannot be written ({{name}}); {_DENIED}"),
    sqlite3.SQLITE_PERM: (AccessDeniedError, f"it cannot be opened ({{name}}); {_DENIED}"),
    sqlite3.SQLITE_FULL: (UnavailableError, _FULL),
    # Of a commit too: its last piece did not reach the file, so the commit does not exist.
    sqlite3.SQLITE_IOERR_WRITE: (UnavailableError, _FULL),
    **dict.fromkeys(
        _LOCKED,
        (
            UnavailableError,
            "another process held the file for too long ({name}); nothing was written; try again, or end it",
        ),
    ),
    **dict.fromkeys(
        (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM),
        (UnavailableError, "{name}; nothing was written; check disk and memory, then try again"),
    ),
}
"""SQLite's code, with or without its details -> the error and its text."""

_DENIALS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FILES: Final = frozenset({errno.EEXIST, errno.ENOTDIR})
_WRONG_PATHS: Final = frozenset({errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENOENT})
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_locked(exc: sqlite3.Error) -> bool:
    """Return whether another connection holds the file for now, so that a repetition may succeed."""
    return _kind(exc) in _LOCKED


def is_new(path: Path | None, *, application_id: int, version: int, tables: int) -> bool:
    """Return whether a SQLite file is empty, so that the tables are to be created.

    Raises:
        InvalidInputError: it belongs to another program.
        StoredDataError: it has the format of another release.
    """
    if application_id == APPLICATION_ID:
        if version != FORMAT:
            raise StoredDataError(
                f"{path} has format {version}, and this release reads format {FORMAT}; "
                "install the release of gcp-adk-store that wrote it, or a newer one"
            )
        return False
    if application_id or version or tables:
        raise InvalidInputError(f"{path} is not a store, but another program's database; {_ANOTHER}")
    return True


def of_sqlite(exc: sqlite3.Error, path: Path | None, *, committing: bool) -> Exception:
    """Return the error for *exc*; an error that the file did not cause stays as it is.

    *committing* says whether the commit of a write failed: an unclear failure leaves its outcome unknown.
    """
    code: int | None = getattr(exc, "sqlite_errorcode", None)
    kind = _kind(exc)
    if code is None or kind is None:
        return exc
    if kind == sqlite3.SQLITE_CANTOPEN:
        return _unopened(path, exc.sqlite_errorname)
    if committing and code not in _FAILURES and kind in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM):
        return OutcomeUnknownError(
            f"{path}: the commit failed ({exc.sqlite_errorname}); read before repeating it"
        )
    error, text = _FAILURES.get(code) or _FAILURES.get(kind) or (None, "")
    return exc if error is None else error(f"{path}: {text.format(name=exc.sqlite_errorname)}")


def of_system(exc: OSError, path: Path) -> StoreError:
    """Return the error for a path that the system refuses."""
    name = errno.errorcode.get(exc.errno or 0, type(exc).__name__)
    if exc.errno in _DENIALS:
        return AccessDeniedError(f"{path} cannot be used ({name}); {_DENIED}")
    if exc.errno in _FILES:
        return InvalidInputError(
            f"{path} cannot be a folder, since a file is in its way ({name}); {_ANOTHER}"
        )
    if exc.errno in _WRONG_PATHS:
        return InvalidInputError(f"{path} cannot be a store ({name}); {_ANOTHER}")
    if exc.errno in _NO_SPACE:
        return UnavailableError(f"{path}: {_FULL.format(name=name)}")
    return UnavailableError(f"{path} cannot be opened ({name}); nothing was written, try again later")


def _unopened(path: Path | None, name: str) -> StoreError:
    """Return the error for a file that SQLite cannot open, for one of several reasons."""
    if path is not None and path.is_dir():
        return InvalidInputError(f"{path} is a folder, and no store; {_ANOTHER}")
    if path is not None and not (os.access(path.parent, os.W_OK | os.X_OK) and _is_open_to_us(path)):
        return AccessDeniedError(f"{path} cannot be opened ({name}); {_DENIED}")
    return UnavailableError(
        f"{path} cannot be opened for now ({name}), as with too many open files; nothing was written"
    )


def _is_open_to_us(path: Path) -> bool:
    return not path.exists() or os.access(path, os.R_OK | os.W_OK)


def _kind(exc: sqlite3.Error) -> int | None:
    """Return SQLite's primary code; ``None`` for a misuse of Python's module."""
    code: int | None = getattr(exc, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY
