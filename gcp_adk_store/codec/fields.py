"""Encode the fields that several writes of a session have in common."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from gcp_adk_store.codec.values import FieldValue
from gcp_adk_store.codec.writes import Write
from gcp_adk_store.model.expiry import PARTS_GRACE_S, Expiry
from gcp_adk_store.model.payloads import PayloadPlace

FORMAT: Final = 2
"""Number of the layout of sessions and segments that this release writes."""


def update(
    path: str, fields: dict[str, FieldValue], *, must: str, without: Iterable[str] = (), life: str = ""
) -> Write:
    """Return the write that sets *fields* of one document, and removes those of the names *without*.

    *life* is the epoch of a session.
    """
    return Write(
        path=path, fields=fields, mask=[(name,) for name in (*fields, *without)], must=must, life=life
    )


def times(expiry: Expiry) -> dict[str, FieldValue]:
    """Return when a session and its parts expire."""
    fields: dict[str, FieldValue] = {"expire_at": _time(expiry.at)}
    if expiry.parts_at is not None:
        fields["parts_expire_at"] = _time(expiry.parts_at)
    return fields


def of_part(parts_at: int | None) -> dict[str, FieldValue]:
    """Return when a part expires that is kept until *parts_at*; without it, it never does."""
    return {} if parts_at is None else {"expire_at": kept_until(parts_at)}


def kept_until(parts_at: int) -> datetime:
    """Return the expiry of a part that is kept until *parts_at*, in Unix seconds."""
    return _time(parts_at + PARTS_GRACE_S)


def places(spilled: frozenset[PayloadPlace]) -> dict[str, list[str]]:
    """Return where payloads of a session are."""
    return {"spilled": sorted(place.value for place in spilled)} if spilled else {}


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
