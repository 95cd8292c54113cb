"""Show stored documents as JSON, content under a mask."""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gcp_adk_store.codec.values import Foreign
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.inspector.masking import Mask
from gcp_adk_store.sessions.fork.format import public_text

_CLEAR: Final = frozenset(
    {
        "format",
        "epoch",
        "app",
        "user",
        "id",
        "rev",
        "last_update_time",
        "create_time",
        "sealed",
        "sealed_max",
        "ttl_s",
        "expire_at",
        "parts_expire_at",
        "chain",
        "chain_begin",
        "chain_end",
        "chain_sealed",
        "digests",
        "redactions",
        "count",
        "cut",
        "labels",
        "origin",
        "restores",
        "restore_id",
        "running_max",
        "spilled",
        "turn",
        "turns",
        "last_turn",
        "put_time",
    }
)
"""Fields without content of users and agents."""

_SHOWN_BYTES: Final = 48


def document_tree(document: Document, mask: Mask) -> dict[str, Any]:
    """Return the fields of *document* as JSON values; those with content say only their kind and size.

    Its events are without metadata that only ADK may write.
    """
    return {
        name: _plain(_public(name, value)) if mask.lifted or name in _CLEAR else _masked(value)
        for name, value in sorted(document.fields.items())
    }


def _public(name: str, value: Any) -> Any:
    if name != "tail" or not isinstance(value, list):
        return value
    return [_public_event(text) if isinstance(text, str) else text for text in value]


def _public_event(text: str) -> str:
    try:
        return public_text(text)
    except (ValueError, RecursionError):
        return text  # damaged, which is what somebody looks for


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            start = base64.b64encode(value[:_SHOWN_BYTES]).decode()
            return {"bytes": len(value), "base64": start + ("..." if len(value) > _SHOWN_BYTES else "")}
        case datetime():
            return value.isoformat()
        case Foreign():
            return {"foreign": value.kind}
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case list():
            return [_plain(item) for item in value]
    return value


def _masked(value: Any) -> Any:
    match value:
        case str():
            return f"masked: text of {len(value)} characters"
        case bytes():
            return f"masked: {len(value)} bytes"
        case Mapping():
            return {name: _masked(item) for name, item in value.items()}
        case list():
            return [_masked(item) for item in value]
    return f"masked: {type(value).__name__}"
