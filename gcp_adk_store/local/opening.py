"""Open the SQLite file of a store, and create it where it is missing."""

import os
import sqlite3
from pathlib import Path
from typing import Final

from gcp_adk_store.local import failures
from gcp_adk_store.local.tables import APPLICATION_ID, FORMAT, TABLES

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
    # One statement, so one snapshot.
    application_id, version, tables = sql.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    return failures.is_new(path, application_id=application_id, version=version, tables=tables)


def _make_folder(folder: Path) -> None:
    """Create *folder* durably, for this user alone: it holds conversations."""
    try:
        missing = [above for above in (folder, *folder.parents) if not above.is_dir()]
        for new in reversed(missing):
            new.mkdir(mode=0o700, exist_ok=True)
            _store_names(new.parent)
    except OSError as exc:
        raise failures.of_system(exc, folder) from exc


def _make_file(path: Path) -> None:
    """Create *path* for this user alone: SQLite would ask the umask. Its log gets the same mode."""
    if not path.exists():
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as exc:
            raise failures.of_system(exc, path) from exc


def _store_names(folder: Path) -> None:
    """Make the names in *folder* durable; Windows has no call for it."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
