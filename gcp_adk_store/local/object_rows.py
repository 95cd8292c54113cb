"""The table of objects: pure steps on a connection, each within the caller's transaction."""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

from google.adk.platform import time as platform_time

from gcp_adk_store.codec.names import MAX_OBJECT_NAME_BYTES
from gcp_adk_store.codec.objects import MAX_METADATA_BYTES, ObjectFields, ScannedObject, StoredObject
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.local.encoding import micros

_FORBIDDEN_PREFIX: Final = ".well-known/acme-challenge/"
_CONTENT: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Bytes that are kept, durable."""

    id: str
    size: int
    crc32c: str
    """Base64 of the big-endian checksum."""
    md5: str
    """Base64."""


@dataclass(frozen=True, slots=True)
class Row:
    """One object."""

    name: str
    generation: int
    metageneration: int
    content: str
    size: int
    crc32c: str
    md5: str
    content_type: str
    metadata: Mapping[str, str]
    create_time: int
    update_time: int
    custom_time: int | None

    @classmethod
    def of(cls, columns: Sequence[object]) -> Self:
        """Return the object of a row.

        Raises:
            StoredDataError: a column is damaged.
        """
        values: list[Any] = list(columns)
        name = values[0]
        row: Self | None = None
        with suppress(ValueError, TypeError, AttributeError, RecursionError):
            values[0], values[8] = name.decode(), json.loads(values[8])
            row = cls(*values)
        if row is None or not row._is_whole:
            raise StoredDataError(f"the row of object {name!r:.200} is damaged: restore a backup")
        return row

    @property
    def _is_whole(self) -> bool:
        """Whether each column has its kind: SQLite takes any. The content names a file of this folder."""
        metadata: Any = self.metadata
        times = (self.create_time, self.update_time, self.custom_time or 0)
        numbers: Iterable[object] = (self.generation, self.metageneration, self.size, *times)
        texts: Iterable[object] = (self.content, self.crc32c, self.md5, self.content_type)
        return (
            isinstance(metadata, dict)
            and all(isinstance(each, int) for each in numbers)
            and all(isinstance(each, str) for each in (*texts, *metadata.values()))
            and _CONTENT.fullmatch(self.content) is not None
        )

    def stored(self, *, hashes: bool = True) -> StoredObject:
        """Return what the port says of it."""
        return StoredObject(
            name=self.name,
            generation=self.generation,
            content_type=self.content_type,
            metadata=self.metadata,
            create_time=self.create_time / 1e6,
            size=self.size,
            crc32c=self.crc32c if hashes else None,
            md5=self.md5 if hashes else None,
        )

    def scanned(self) -> ScannedObject:
        """Return what a scan says of it."""
        return ScannedObject(
            name=self.name,
            version=f"{self.generation}/{self.metageneration}",
            size=self.size,
            metadata=self.metadata,
            update_time=self.update_time / 1e6,
        )


def key_of(name: str) -> bytes:
    """Return *name* as the table has it.

    Raises:
        InvalidInputError: it holds a lone surrogate.
    """
    try:
        return name.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInputError(
            f"the object's name holds a lone surrogate at index {exc.start}; leave it out"
        ) from exc


def check_new_name(name: str) -> None:
    """Refuse names that Cloud Storage refuses for new objects.

    Raises:
        InvalidInputError: the name is one of them.
    """
    size = len(key_of(name))
    if not 0 < size <= MAX_OBJECT_NAME_BYTES:
        raise InvalidInputError(
            f"the object's name has {size} bytes, the limit is 1 to {MAX_OBJECT_NAME_BYTES}; use shorter ids"
        )
    if name in {".", ".."} or "\r" in name or "\n" in name or name.startswith(_FORBIDDEN_PREFIX):
        raise InvalidInputError(
            "the object's name is '.' or '..', has a line break, or starts with "
            f"{_FORBIDDEN_PREFIX!r}, which Cloud Storage refuses; use another name"
        )


def metadata_text(metadata: Mapping[str, str]) -> str:
    """Return *metadata* as the table has it.

    Raises:
        InvalidInputError: it exceeds Cloud Storage's limit, or is not Unicode.
    """
    try:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())
    except UnicodeEncodeError as exc:
        raise InvalidInputError("the object's metadata holds a lone surrogate; leave it out") from exc
    if size > MAX_METADATA_BYTES:
        raise InvalidInputError(
            f"the object's metadata has {size} bytes, the limit is {MAX_METADATA_BYTES}; shorten it"
        )
    return json.dumps(dict(metadata))


def find(connection: sqlite3.Connection, name: str) -> Row | None:
    """Return the object *name*."""
    columns = connection.execute("SELECT * FROM objects WHERE name = ?", (key_of(name),)).fetchone()
    return None if columns is None else Row.of(columns)


def find_all(
    connection: sqlite3.Connection,
    prefix: str,
    *,
    delimiter: str | None = None,
    after: str = "",
    at_most: int = -1,
) -> Iterator[Row]:
    """Yield objects whose names start with *prefix* and lack *delimiter* after it, ordered by name.

    Args:
        connection: The database.
        prefix: The prefix.
        delimiter: The delimiter; ``None`` or empty excludes no name.
        after: The name before the first.
        at_most: How many; below 0 yields all.
    """
    found = connection.execute(
        "SELECT * FROM objects WHERE name >= :start AND name < :end AND name > :after"
        " AND (:delimiter IS NULL OR instr(substr(name, :rest), :delimiter) = 0)"
        " ORDER BY name LIMIT :at_most",
        {**_listed(prefix, delimiter), "after": key_of(after), "at_most": at_most},
    )
    return map(Row.of, found)


def find_names(connection: sqlite3.Connection, prefix: str, *, delimiter: str | None) -> list[str]:
    """Return the names of :func:`find_all`."""
    found = connection.execute(
        "SELECT name FROM objects WHERE name >= :start AND name < :end"
        " AND (:delimiter IS NULL OR instr(substr(name, :rest), :delimiter) = 0)"
        " ORDER BY name",
        _listed(prefix, delimiter),
    )
    return [name.decode() for (name,) in found]


def insert(connection: sqlite3.Connection, name: str, fields: ObjectFields, content: Content) -> None:
    """Add an object, which must not exist yet."""
    now = _now()
    (generation,) = connection.execute(
        "UPDATE generations SET last = max(last + 1, ?) RETURNING last", (now,)
    ).fetchone()
    connection.execute(
        "INSERT INTO objects VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            key_of(name),
            generation,
            content.id,
            content.size,
            content.crc32c,
            content.md5,
            fields.content_type,
            metadata_text(fields.metadata),
            now,
            now,
            None if fields.custom_time is None else micros(fields.custom_time),
        ),
    )


def mark(connection: sqlite3.Connection, found: Row, metadata: Mapping[str, str]) -> None:
    """Change keys of an object's metadata, and so its version."""
    connection.execute(
        "UPDATE objects SET metadata = ?, metageneration = metageneration + 1, update_time = ?"
        " WHERE name = ?",
        (metadata_text({**found.metadata, **metadata}), _now(), key_of(found.name)),
    )


def keep_until(connection: sqlite3.Connection, prefix: str, moment: int) -> None:
    """Move earlier custom times of objects whose names start with *prefix* to *moment*."""
    connection.execute(
        "UPDATE objects SET custom_time = :moment, metageneration = metageneration + 1, update_time = :now"
        " WHERE name >= :start AND name < :end AND custom_time < :moment",
        {**_listed(prefix, None), "moment": moment, "now": _now()},
    )


def remove(connection: sqlite3.Connection, rows: Iterable[Row]) -> list[str]:
    """Remove objects, and return the contents that no object has any more."""
    removed = list(rows)
    connection.executemany("DELETE FROM objects WHERE name = ?", [(key_of(row.name),) for row in removed])
    return unowned(connection, sorted({row.content for row in removed}))


def unowned(connection: sqlite3.Connection, contents: Iterable[str]) -> list[str]:
    """Return those *contents* that no object has."""
    return [
        content
        for content in contents
        if connection.execute("SELECT 1 FROM objects WHERE content = ?", (content,)).fetchone() is None
    ]


def expired(connection: sqlite3.Connection, *, at: int, at_most: int) -> list[Row]:
    """Return objects whose custom time, in Unix microseconds, is not after *at*."""
    found = connection.execute(
        "SELECT * FROM objects WHERE custom_time <= ? ORDER BY custom_time LIMIT ?", (at, at_most)
    )
    return [Row.of(columns) for columns in found]


def _now() -> int:
    return int(platform_time.get_time() * 1e6)


def _listed(prefix: str, delimiter: str | None) -> dict[str, bytes | int | None]:
    """Return the values by which a statement lists names."""
    start = key_of(prefix)
    return {
        "start": start,
        "end": start + b"\xff",  # above each byte of UTF-8
        "rest": len(start) + 1,
        "delimiter": key_of(delimiter) if delimiter else None,
    }
