"""Read what lies in the folder of a local store, with SQLite and files alone.

Nothing of the library takes part: what both got wrong in the same way would never be found.
"""

import base64
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

DOCUMENTS = "SELECT key, fields, pieces, content FROM documents ORDER BY key"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FolderObject:
    """An object: its row, and the bytes of its file."""

    generation: int
    md5: str
    content_type: str
    metadata: dict[str, str]
    data: bytes


def read_documents(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the fields of all documents, by path."""
    return documents_in(_rows(folder, DOCUMENTS))


def documents_in(rows: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of documents, by path, from the rows of :data:`DOCUMENTS`."""
    return {_path(key): _fields(fields, pieces, content) for key, fields, pieces, content in rows}


def read_objects(folder: Path) -> dict[str, FolderObject]:
    """Return all objects, by name; a missing file is an error."""
    rows = _rows(folder, "SELECT name, generation, md5, content_type, metadata, content FROM objects")
    return {
        name.decode(): FolderObject(
            generation, md5, content_type, json.loads(metadata), _file(folder, content).read_bytes()
        )
        for name, generation, md5, content_type, metadata, content in rows
    }


def files_without_object(folder: Path) -> set[str]:
    """Return the names of the files that no object has."""
    owned = {content for (content,) in _rows(folder, "SELECT content FROM objects")}
    return {path.name for path in (folder / "objects").rglob("*") if path.is_file()} - owned


def _rows(folder: Path, sql: str) -> list[Any]:
    path = folder / "store.sqlite3"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        return connection.execute(sql).fetchall()


def _file(folder: Path, content: str) -> Path:
    return folder / "objects" / content[:2] / content


def _path(key: bytes) -> str:
    return key.replace(b"\0\0", b"/").replace(b"\0\xff", b"\0").decode()


def _fields(fields: str, pieces: str | None, content: bytes | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fields, object_hook=_value)
    left = iter(_pieces(content or b"", json.loads(pieces or "{}")))
    return found | dict(left)


def _pieces(content: bytes, pieces: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    at = 0
    for name, (kind, lengths) in pieces.items():
        parts = []
        for length in lengths if kind in "al" else [lengths]:
            parts.append(content[at : at + length])
            at += length
        if kind == "b":
            yield name, parts[0]
        elif kind == "l":
            yield name, parts
        else:
            texts = [part.decode() for part in parts]
            yield name, texts if kind == "a" else texts[0]


def _value(found: dict[str, Any]) -> Any:
    match found:
        case {"__bytes__": text}:
            return base64.b64decode(text)
        case {"__time__": micros}:
            return _EPOCH + timedelta(microseconds=micros)
        case {"__float__": text}:
            return float(text)
    return found
