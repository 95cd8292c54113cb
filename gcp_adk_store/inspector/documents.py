"""Show stored documents, and link pages to each other."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Self
from urllib.parse import urlencode

from gcp_adk_store.codec.decode import Foreign
from gcp_adk_store.codec.writes import Document
from gcp_adk_store.inspector.masking import Mask
from gcp_adk_store.sessions.fork.format import public_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The ids of a page; ``None`` for those that it is not about. The empty text is an id, too."""

    app: str | None = None
    user: str | None = None
    session: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the ids among the parameters of a request."""
        return cls(**{name: given[name] for name in ("app", "user", "session") if name in given})

    @property
    def ids(self) -> dict[str, Any]:
        """The ids as the services name them."""
        named = {"app_name": self.app, "user_id": self.user, "session_id": self.session}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def parameters(self) -> dict[str, str]:
        """The ids as parameters of a request."""
        named = {"app": self.app, "user": self.user, "session": self.session}
        return {name: value for name, value in named.items() if value is not None}

    def within(self, **ids: str | None) -> "Place":
        """Return the place with other ids."""
        return replace(self, **ids)


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of pages below the path at which the inspector is mounted."""

    root: str

    def to(self, page: str, place: Place | None = None, /, **parameters: object) -> str:
        """Return the address of *page* about *place*; parameters of ``None`` are left out."""
        given = {name: str(value) for name, value in parameters.items() if value is not None}
        query = urlencode({**(place.parameters if place else {}), **given}, errors="replace")
        return f"{self.root}/{page}" + (f"?{query}" if query else "")

    def is_own(self, address: str) -> bool:
        """Return whether a browser that follows *address* stays in the inspector."""
        plain = address.isascii() and address.isprintable() and "\\" not in address
        return plain and address.startswith(f"{self.root}/") and not address.startswith("//")


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
        "archived",
        "archive",
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
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
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
