"""Count what the documents of a user hold."""

from collections.abc import Iterable, Mapping
from typing import Final

from gcp_adk_store.codec.writes import Document
from gcp_adk_store.model.erasures import Erased, total
from gcp_adk_store.model.payloads import PayloadPlace

_BUCKET: Final = PayloadPlace.BUCKET.value
_KINDS: Final[Mapping[str, tuple[str, str | None]]] = {
    "users": ("state_keys", "state"),
    "sessions": ("sessions", "tail"),
    "segments": ("segments", "count"),
    "chunks": ("payloads", None),
    "memories": ("memories", "tail"),
    "shards": ("memories", "count"),
    "vectors": ("memories", None),
    "tasks": ("tasks", None),
    "pieces": ("tasks", None),
    "configs": ("push_configs", None),
    "deletions": ("notes", None),
    "restores": ("notes", None),
    "pushes": ("notes", None),
    "keys": ("keys", None),
}
"""Collection without the prefix -> its kind, and the field that says how much a document holds."""


def counted(prefix: str, documents: Iterable[Document]) -> dict[str, Erased]:
    """Return what *documents* of a store hold, by kind; damaged ones count as documents."""
    found: dict[str, Erased] = {}
    for document in documents:
        found = total(found, _of(prefix, document))
    return found


def refers_to_bucket(document: Document) -> bool:
    """Return whether a document says that it has payloads in a bucket."""
    spilled, state = document.fields.get("spilled"), document.fields.get("state")
    if isinstance(spilled, list) and _BUCKET in spilled:
        return True
    values = state.values() if isinstance(state, Mapping) else ()
    refs = (value.get("payload") for value in values if isinstance(value, Mapping))
    return any(isinstance(ref, Mapping) and ref.get("in") == _BUCKET for ref in refs)


def _of(prefix: str, document: Document) -> dict[str, Erased]:
    *_, collection, name = document.path.split("/")
    kind, field = _KINDS.get(collection.removeprefix(f"{prefix}_"), ("others", None))
    inner = 0 if field is None else _number_of(document.fields.get(field))
    match kind:
        case "state_keys" | "memories":  # what they hold counts, not the documents
            return {kind: Erased(inner, document.size)}
        case "sessions" | "segments":
            return {kind: Erased(1, document.size), "events": Erased(inner)}
        case "payloads":  # one may have several chunks; its first one counts it
            return {kind: Erased(int(name.endswith("-0")), document.size)}
    return {kind: Erased(int(not collection.endswith("_pieces")), document.size)}


def _number_of(value: object) -> int:
    """Return a number, or the length of a list or a map; 0 for anything else."""
    if isinstance(value, (list, Mapping)):
        return len(value)
    return value if type(value) is int and value > 0 else 0
