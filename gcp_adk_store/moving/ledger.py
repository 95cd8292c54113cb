"""Remember which sessions a copy has finished, in a SQLite file that outlives a kill."""

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from gcp_adk_store.errors import InvalidInputError

_FORMAT: Final = "1"
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS sessions (
        user TEXT, session TEXT, stamp TEXT NOT NULL, events INTEGER NOT NULL, digest TEXT NOT NULL,
        listed INTEGER NOT NULL, PRIMARY KEY (user, session)) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS users (user TEXT PRIMARY KEY) WITHOUT ROWID",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A session that is in the target as this copy wrote it."""

    stamp: str
    """Of the source, when it was read."""
    events: int
    digest: str
    """Of the events."""


class Ledger:
    """What one copy has finished; each call is durable on return. It is for one process at a time."""

    def __init__(self, sql: sqlite3.Connection) -> None:
        self._sql = sql
        for table in _TABLES:
            sql.execute(table)

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None, *, copy: str) -> Self:
        """Open the file at *path*, which is created if it is missing; ``None`` forgets at the end.

        *copy* names source, target and app.

        Raises:
            InvalidInputError: the file belongs to another copy or is not a ledger, or cannot be opened.
        """
        try:
            # An empty name is a temporary file of SQLite, beyond some pages in memory.
            sql = sqlite3.connect("" if path is None else Path(path), isolation_level=None)
            try:
                ledger = cls(sql)
                ledger._require(copy, of=path)
            except BaseException:
                sql.close()
                raise
        except sqlite3.Error as exc:
            raise InvalidInputError(f"{path} cannot be used as a ledger ({exc}); name another file") from exc
        return ledger

    def _require(self, copy: str, *, of: object) -> None:
        known = dict(self._sql.execute("SELECT name, value FROM facts").fetchall())
        if not known:
            self._sql.execute("INSERT INTO facts VALUES ('format', ?), ('copy', ?)", (_FORMAT, copy))
        elif known.get("format") != _FORMAT:
            raise InvalidInputError(f"{of} is a ledger of another release; name another file")
        elif known.get("copy") != copy:
            raise InvalidInputError(
                f"{of} is the ledger of another copy: {known.get('copy')}; name another file"
            )

    def entry(self, user: str, session: str) -> Entry | None:
        """Return what is known of a session."""
        found = self._sql.execute(
            "SELECT stamp, events, digest FROM sessions WHERE user = ? AND session = ?", (user, session)
        ).fetchone()
        return None if found is None else Entry(stamp=found[0], events=found[1], digest=found[2])

    def finish(self, user: str, session: str, entry: Entry, *, listed: int) -> None:
        """Remember that a session is in the target, and the pass that listed it."""
        self._sql.execute(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
            (user, session, entry.stamp, entry.events, entry.digest, listed),
        )

    def still_listed(self, user: str, session: str, *, listed: int) -> None:
        """Remember the pass that listed a session which has not changed."""
        self._sql.execute(
            "UPDATE sessions SET listed = ? WHERE user = ? AND session = ?", (listed, user, session)
        )

    def forget(self, user: str, session: str) -> None:
        """Forget a session that is in the target no more."""
        self._sql.execute("DELETE FROM sessions WHERE user = ? AND session = ?", (user, session))

    def unlisted(self, *, listed: int) -> Iterator[tuple[str, str, Entry]]:
        """Yield user, session and entry of what the pass before listed, and pass *listed* did not."""
        rows = "SELECT user, session, stamp, events, digest FROM sessions WHERE listed = ?"
        for user, session, stamp, events, digest in self._sql.execute(rows, (listed - 1,)).fetchall():
            yield user, session, Entry(stamp=stamp, events=events, digest=digest)

    def has_shared(self, user: str) -> bool:
        """Return whether the state of *user* is in the target as it was when its sessions were."""
        return bool(self._sql.execute("SELECT 1 FROM users WHERE user = ?", (user,)).fetchone())

    def begin_user(self, user: str) -> None:
        """Remember that a session of *user* changes, and so its state may."""
        self._sql.execute("DELETE FROM users WHERE user = ?", (user,))

    def finish_user(self, user: str) -> None:
        """Remember that the state of *user* is in the target."""
        self._sql.execute("INSERT OR REPLACE INTO users VALUES (?)", (user,))

    def close(self) -> None:
        """Close the file."""
        self._sql.close()
