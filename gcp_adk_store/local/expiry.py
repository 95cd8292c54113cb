"""Remove documents that have expired, as a TTL policy of Firestore does."""

import sqlite3
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gcp_adk_store.codec.indexes import TTL_FIELDS
from gcp_adk_store.local.spelling import micros

_INTERVAL_MICROS: Final = 3600 * 1_000_000
_AT_ONCE: Final = 500
"""Documents that one commit removes beside its own work, in some milliseconds."""


def expires_at(collection: str, fields: Mapping[str, Any]) -> int | None:
    """Return when a document of *collection* expires, in microseconds since 1970; ``None`` for never."""
    name = TTL_FIELDS.get(collection.rpartition("_")[2])
    time = None if name is None else fields.get(name)
    return micros(time) if isinstance(time, datetime) else None


class Sweep:
    """Decides which commits remove what has expired: the first of this process, and one an hour."""

    def __init__(self) -> None:
        self._due = 0  # one transaction at a time writes, and so reads and sets it

    def run(self, sql: sqlite3.Connection, now: int) -> None:
        """Remove up to 500 expired documents if it is time; more of them in the next commit.

        Those that expired first go first. *now* is in microseconds.
        """
        if now < self._due:
            return
        removed = sql.execute(
            "DELETE FROM documents WHERE id IN"
            " (SELECT id FROM documents WHERE expire_at <= ? ORDER BY expire_at LIMIT ?)",
            (now, _AT_ONCE),
        ).rowcount
        self._due = now if removed == _AT_ONCE else now + _INTERVAL_MICROS
