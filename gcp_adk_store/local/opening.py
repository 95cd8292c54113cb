"""Open the database file, make its tables, and translate SQLite's errors."""

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

APPLICATION_ID: Final = int.from_bytes(b"adkS")
"""Marks a SQLite file as a store."""

FORMAT: Final = 1
"""The format of the tables, SQLite's ``user_version``; a change of them takes the next number."""

_DOCUMENTS: Final = (
    # One row for each document. Its columns: local/encoding.py encodes keys and content.
    """CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL UNIQUE,
        parent BLOB NOT NULL,
        collection TEXT NOT NULL,
        update_time INTEGER NOT NULL,
        expire_at INTEGER,
        fields TEXT NOT NULL,
        pieces TEXT,
        content BLOB
    )""",
    "CREATE INDEX documents_of_a_parent ON documents (parent, key)",
    "CREATE INDEX documents_of_a_collection ON documents (collection, key)",
    "CREATE INDEX documents_that_expire ON documents (expire_at) WHERE expire_at IS NOT NULL",
    # The time of the last commit in microseconds: the next one is later, even if the clock steps back.
    "CREATE TABLE commits (time INTEGER NOT NULL)",
    "INSERT INTO commits (time) VALUES (0)",
)

_OBJECTS: Final = (
    """
    CREATE TABLE objects (
      name BLOB PRIMARY KEY,         -- UTF-8, whose bytes order listings
      generation INTEGER NOT NULL,
      metageneration INTEGER NOT NULL,
      content TEXT NOT NULL,         -- the id of its bytes, which copies share
      size INTEGER NOT NULL,         -- bytes
      crc32c TEXT NOT NULL,          -- base64, as md5
      md5 TEXT NOT NULL,
      content_type TEXT NOT NULL,
      metadata TEXT NOT NULL,        -- JSON
      create_time INTEGER NOT NULL,  -- Unix time in microseconds, as the other times
      update_time INTEGER NOT NULL,
      custom_time INTEGER
    )
    """,
    "CREATE INDEX objects_content ON objects (content)",
    "CREATE INDEX objects_custom_time ON objects (custom_time) WHERE custom_time IS NOT NULL",
    "CREATE TABLE generations (last INTEGER NOT NULL)",
    "INSERT INTO generations VALUES (0)",
    # Nothing is in it any more; files of every release have it.
    "CREATE TABLE pieces (content TEXT, start INTEGER, bytes BLOB NOT NULL, PRIMARY KEY (content, start))",
)

_SWEEPS: Final = (
    # When the last sweep began, as Unix time in seconds.
    "CREATE TABLE sweeps (time REAL NOT NULL)",
    "INSERT INTO sweeps VALUES (0)",
)

TABLES: Final = (*_DOCUMENTS, *_OBJECTS, *_SWEEPS)
"""The statements that create all tables, in one transaction."""


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


_WAL_BYTES: Final = 64 * 1024 * 1024
"""Size to which SQLite cuts its log after a burst of writes."""

_SETTINGS: Final = (
    "PRAGMA synchronous = FULL",  # each commit is on the disk when it returns
    "PRAGMA fullfsync = ON",  # macOS: also out of the disk's own memory
    "PRAGMA checkpoint_fullfsync = ON",
    f"PRAGMA journal_size_limit = {_WAL_BYTES}",
    "PRAGMA trusted_schema = OFF",
)


def connect(path: Path | None) -> sqlite3.Connection:
    """Return a connection to a store, which is created if the file is missing or empty."""
    if path is not None:
        _make_folder(path.parent)
        _make_file(path)
        _require_log(path)
    sql = sqlite3.connect(
        ":memory:" if path is None else path, timeout=0, isolation_level=None, check_same_thread=False
    )
    try:
        for setting in _SETTINGS:
            sql.execute(setting)
        if _is_new(sql, path):
            sql.execute("PRAGMA journal_mode = WAL")
            _create(sql, path)
    except BaseException:
        sql.close()
        raise
    return sql


def _create(sql: sqlite3.Connection, path: Path | None) -> None:
    """Create the tables unless another process has done so meanwhile."""
    sql.execute("BEGIN IMMEDIATE")
    if _is_new(sql, path):
        for table in TABLES:
            sql.execute(table)
        sql.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        sql.execute(f"PRAGMA user_version = {FORMAT}")
    sql.execute("COMMIT")


def _is_new(sql: sqlite3.Connection, path: Path | None) -> bool:
    """Return whether a SQLite file is empty, so that the tables are to be created.

    Raises:
        InvalidInputError: it belongs to another program.
        StoredDataError: it has the format of another release.
    """
    # One statement, so one snapshot.
    application_id, version, tables = sql.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
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


def _make_folder(folder: Path) -> None:
    """Create *folder* durably, for this user alone: it holds conversations."""
    try:
        missing = [above for above in (folder, *folder.parents) if not above.is_dir()]
        for new in reversed(missing):
            new.mkdir(mode=0o700, exist_ok=True)
            synchronise(new.parent)
    except OSError as exc:
        raise of_system(exc, folder) from exc


def _make_file(path: Path) -> None:
    """Create *path* for this user alone: SQLite would ask the umask. Its log gets the same mode."""
    if not path.exists():
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as exc:
            raise of_system(exc, path) from exc


def _require_log(path: Path) -> None:
    """Refuse an empty file beside a log: SQLite would remove the log, and with it what was stored.

    A new store has its first page before its log has any byte.

    Raises:
        StoredDataError: the file lost its content.
    """
    log = path.with_name(f"{path.name}-wal")
    try:
        is_lost = log.stat().st_size > 0 and path.stat().st_size == 0
    except FileNotFoundError:
        return
    except OSError as exc:
        raise of_system(exc, path) from exc
    if is_lost:
        raise StoredDataError(
            f"{path} has 0 bytes, and {log.name} has some: the file lost its content; restore a backup"
        )


def synchronise(folder: Path) -> None:
    """Make the names in *folder* durable; Windows has no call for it."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
