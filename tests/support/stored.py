"""Read and change what a store has, document by document, as somebody does who can write its database."""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from gcp_adk_store import Store
from gcp_adk_store.codec.writes import Delete, Write


def session_path(who: Mapping[str, str], prefix: str = "adk") -> str:
    """Return the path of a session whose ids are names of documents as they are."""
    app, user, session = who["app_name"], who["user_id"], who["session_id"]
    return f"{prefix}_apps/{app}/{prefix}_users/{user}/{prefix}_sessions/{session}"


async def fields_of(store: Store, path: str) -> dict[str, Any]:
    """Return the fields of a document that must exist."""
    (found,) = await store.sessions.storage.documents.get([path])
    assert found is not None
    return dict(found.fields)


async def collection(store: Store, name: str) -> dict[str, dict[str, Any]]:
    """Return the documents of all collections of one id, such as ``adk_segments``: path -> fields."""
    found = await store.sessions.storage.documents.query("", name, all_descendants=True)
    return {one.path: dict(one.fields) for one in found}


async def put(store: Store, path: str, fields: Mapping[str, Any]) -> None:
    """Write a document with these fields and no other."""
    await _commit(store, Write(path=path, fields=fields))


async def change(store: Store, path: str, fields: Mapping[str, Any], *, without: Sequence[str] = ()) -> None:
    """Set fields of a document, and remove those that it is to be *without*; all others stay."""
    await _commit(store, Write(path=path, fields=fields, mask=[(name,) for name in (*fields, *without)]))


async def remove(store: Store, *paths: str) -> None:
    """Remove documents."""
    await _commit(store, *(Delete(path=path) for path in paths))


async def _commit(store: Store, *writes: Write | Delete) -> None:
    await store.sessions.storage.documents.commit(writes, repeatable_when_unanswered=True)


def packed(texts: Sequence[str]) -> bytes:
    """Return the body of a segment with the texts of these events."""
    return zlib.compress(json.dumps([*texts]).encode())


def unpacked(body: bytes) -> list[str]:
    """Return the texts of the events in a segment's body."""
    texts: list[str] = json.loads(zlib.decompress(body))
    return texts
