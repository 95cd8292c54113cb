"""Report what was copied and what failed, and remember what is finished."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self

from gcp_adk_store.errors import (
    InvalidInputError,
    PayloadMissingError,
    SessionConflictError,
    SessionExistsError,
    SessionMissingError,
    StoredDataError,
    StoreError,
    UnavailableError,
)

_OF_ONE: Final = (
    InvalidInputError,
    PayloadMissingError,
    SessionConflictError,
    SessionExistsError,
    SessionMissingError,
    StoredDataError,
)
"""Errors of one session; after others no session can be copied."""

_FOR_ALL: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
"""Answers of a server, beside those from 500 on, that concern every request."""

_OF_CONNECTIONS: Final = frozenset({"OperationalError", "InterfaceError"})
"""Names of PEP 249, which all SQL drivers share, for failures of the database itself."""


def failure_of_one(exc: Exception) -> str:
    """Return what a report says of *exc*, which concerns one session or user: the others go on.

    A service of ADK raises the errors of its database; the text names the type alone.

    Raises:
        StoreError: *exc* concerns all sessions.
    """
    if isinstance(exc, _OF_ONE):
        return str(exc)
    if isinstance(exc, StoreError):
        raise exc
    code = getattr(exc, "code", None)  # of Google's exceptions
    status = code if isinstance(code, int) else 0
    kinds = {kind.__name__ for kind in type(exc).__mro__}
    if isinstance(exc, OSError) or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _FOR_ALL:
        kinds |= _OF_CONNECTIONS
    if kinds & _OF_CONNECTIONS:
        raise UnavailableError(
            f"the service does not answer, or refuses requests: {type(exc).__name__}; see the cause, and "
            "call again: what is finished is kept"
        ) from exc
    return f"a {type(exc).__name__} of the service"


MAX_NOTES: Final = 10_000
"""The most notes that a report keeps; further ones are counted."""

WRONG: Final = frozenset({"conflict", "failed", "differs"})
"""Kinds of notes after which a copy is not complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a copy could not carry exactly, or did not carry."""

    kind: str
    """``order``, ``types``, ``initial``, ``state``, ``times``, ``titles``, ``inbox``, ``ids``, ``lost``,
    ``versions`` or ``skipped``; or ``conflict``, ``failed`` or ``differs``, after which the target lacks
    something."""
    says: str
    user_id: str | None = None
    session_id: str | None = None

    def __str__(self) -> str:
        ids = [f"user {self.user_id!r}"] if self.user_id is not None else []
        ids += [f"session {self.session_id!r}"] if self.session_id is not None else []
        return f"{self.kind}: {', '.join(ids) + ': ' if ids else ''}{self.says}"


@dataclass(slots=True, kw_only=True)
class Report:
    """What a copy did; the numbers are sessions unless they say otherwise."""

    listed: int = 0
    """In the source, of the app and user that were asked for."""
    copied: int = 0
    """Made in the target."""
    continued: int = 0
    """Were in the target, and got the events, the title or the labels that they lacked."""
    replaced: int = 0
    """Were made in the target by this copy, changed otherwise than by appends since, and were made anew."""
    removed: int = 0
    """Were made in the target by this copy, and deleted in the source and then in the target."""
    unchanged: int = 0
    """Were in the target as in the source."""
    verified: int = 0
    """Were read again in the target, and have the digest of the source."""
    events: int = 0
    """Events that were written."""
    artifact_versions: int = 0
    """Versions of artifacts that were written."""
    memories: int = 0
    """Memories of the source that the target has now: those that it lacked were written."""
    passes: int = 0
    """How often the source was listed."""
    wrong: int = 0
    """Notes of conflicts, failures and differences."""
    notes: list[Note] = field(default_factory=list)
    notes_left_out: int = 0
    """Notes beyond the 10,000 that are kept."""
    _known: set[Note] = field(default_factory=set, init=False, repr=False, compare=False)
    """The same notes as *notes*."""

    @property
    def is_complete(self) -> bool:
        """Whether the target has everything: no conflict, failure or difference."""
        return not self.wrong

    def add(self, kind: str, says: str, *, user: str | None = None, session: str | None = None) -> None:
        """Keep a note, once."""
        note = Note(kind=kind, says=says, user_id=user, session_id=session)
        if note in self._known:
            return
        self.wrong += kind in WRONG
        if len(self.notes) >= MAX_NOTES:
            self.notes_left_out += 1
            return
        self._known.add(note)
        self.notes.append(note)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        shown = {name: value for name, value in asdict(self).items() if name != "_known"}
        return {**shown, "is_complete": self.is_complete}


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


def _copy_of(sql: sqlite3.Connection) -> sqlite3.Connection:
    """Return a temporary copy of a database, which is closed."""
    copy = sqlite3.connect("", isolation_level=None)
    with contextlib.closing(sql):
        sql.backup(copy)
    return copy


class Ledger:
    """What one copy has finished; each call is durable on return. It is for one process at a time."""

    def __init__(self, sql: sqlite3.Connection) -> None:
        self._sql = sql
        for table in _TABLES:
            sql.execute(table)

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None, *, copy: str, makes: bool) -> Self:
        """Open the file at *path*; ``None`` forgets at the end.

        *copy* names source, target and app. Unless *makes*, no file is made or changed.

        Raises:
            InvalidInputError: the file belongs to another copy or is not a ledger, or cannot be opened.
        """
        try:
            # An empty name is a temporary file of SQLite, beyond some pages in memory.
            name: str | Path = "" if path is None else Path(path)
            if isinstance(name, Path) and not (makes or name.exists()):
                name = ""
            sql = sqlite3.connect(name, isolation_level=None)
            try:
                _require_no_other(sql, of=path)
                if not makes:
                    sql = _copy_of(sql)
                ledger = cls(sql)
                ledger._require(copy, of=path)
                if makes:  # the passes of this call have numbers from 1 on
                    sql.execute("UPDATE sessions SET listed = 0")
            except BaseException:
                sql.close()
                raise
        except InvalidInputError:
            raise
        except (sqlite3.Error, ValueError) as exc:  # of a name that no file has
            says = exc if isinstance(exc, sqlite3.Error) else "no file has this name"
            raise InvalidInputError(
                f"{os.fspath(path or '')!r} cannot be used as a ledger ({says}); name another file"
            ) from exc
        return ledger

    def _require(self, copy: str, *, of: object) -> None:
        known = dict(self._sql.execute("SELECT name, value FROM facts").fetchall())
        if not known:
            self._sql.execute("INSERT INTO facts VALUES ('format', ?), ('copy', ?)", (_FORMAT, copy))
        elif known.get("format") != _FORMAT:
            raise InvalidInputError(f"{of} is a ledger of another release; name another file")
        elif (other := known.get("copy")) != copy:
            raise InvalidInputError(f"{of} is the ledger of another copy: {other}; name another file")

    def take_along(self, also: str) -> None:
        """Remember what is copied beside sessions; other things than before have no user finished."""
        known = self._run("SELECT value FROM facts WHERE name = 'also'").fetchone()
        if (known[0] if known else "") != also:
            self._run("DELETE FROM users")
            self._run("INSERT OR REPLACE INTO facts VALUES ('also', ?)", (also,))

    def entry(self, user: str, session: str) -> Entry | None:
        """Return what is known of a session."""
        found = self._run(
            "SELECT stamp, events, digest FROM sessions WHERE user = ? AND session = ?", (user, session)
        ).fetchone()
        return None if found is None else Entry(stamp=found[0], events=found[1], digest=found[2])

    def finish(self, user: str, session: str, entry: Entry, *, listed: int) -> None:
        """Remember that a session is in the target, and the pass that listed it."""
        self._run(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
            (user, session, entry.stamp, entry.events, entry.digest, listed),
        )

    def still_listed(self, user: str, session: str, *, listed: int) -> None:
        """Remember the pass that listed a session which has not changed."""
        self._run("UPDATE sessions SET listed = ? WHERE user = ? AND session = ?", (listed, user, session))

    def forget(self, user: str, session: str) -> None:
        """Forget a session that the target does not have any more."""
        self._run("DELETE FROM sessions WHERE user = ? AND session = ?", (user, session))

    def unlisted(self, *, listed: int) -> Iterator[tuple[str, str, Entry]]:
        """Yield user, session and entry of what pass *listed* of this call did not list.

        Another pass may have listed it last: one before a failure, or of an earlier call.
        """
        rows = "SELECT user, session, stamp, events, digest FROM sessions WHERE listed != ?"
        for user, session, stamp, events, digest in self._run(rows, (listed,)).fetchall():
            yield user, session, Entry(stamp=stamp, events=events, digest=digest)

    def has_shared(self, user: str) -> bool:
        """Return whether what *user* has beside sessions is in the target as it was when these were."""
        return bool(self._run("SELECT 1 FROM users WHERE user = ?", (user,)).fetchone())

    def begin_user(self, user: str) -> None:
        """Remember that a session of *user* changes, and so may what the user has beside sessions."""
        self._run("DELETE FROM users WHERE user = ?", (user,))

    def finish_user(self, user: str) -> None:
        """Remember that what *user* has beside sessions is in the target: state, artifacts and memories."""
        self._run("INSERT OR REPLACE INTO users VALUES (?)", (user,))

    def close(self) -> None:
        """Close the file."""
        self._sql.close()

    def _run(self, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run a statement.

        Raises:
            UnavailableError: the file cannot be read or written, such as on a full disk.
        """
        try:
            return self._sql.execute(sql, values)
        except sqlite3.Error as exc:
            raise UnavailableError(
                f"the ledger cannot be used ({exc}); see that its disk has space, and that no other copy "
                "uses it, and call again: what is finished is kept"
            ) from exc


def _require_no_other(sql: sqlite3.Connection, *, of: object) -> None:
    """Require that a file is not a database of another program, before anything is written to it."""
    tables = {name for (name,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and tables != {"facts", "sessions", "users"}:
        raise InvalidInputError(f"{of} is a database, and not a ledger; name another file")
