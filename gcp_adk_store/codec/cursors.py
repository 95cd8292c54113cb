"""Encode places in listings and histories as texts that a caller can pass on.

A text that is malformed raises ``InvalidInputError``.
"""

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any, Final

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import EventPlace

_SHOWN: Final = 40  # characters of a cursor in an error


def encode_cursor(place: Sequence[str | int | float]) -> str:
    """Return *place* as an opaque text."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode()


def encode_page_cursor(listing: str, time: float, key: SessionKey) -> str:
    """Encode the place after the session *key*, last updated at *time*, in *listing*.

    The time of a damaged session may be infinite, or no number.
    """
    return encode_cursor((_named(listing), time, key.user, key.session))


def decode_page_cursor(text: str, *, listing: str, app: str) -> tuple[float, SessionKey]:
    """Return the last update and the key of the last session on a page of *listing*.

    Raises:
        InvalidInputError: *text* belongs to another listing, where it would skip sessions.
    """
    name, time, user, session = _decoded(text, str, float, str, str)
    if name != _named(listing):
        raise InvalidInputError(
            f"cursor {text[:_SHOWN]!r} is of pages of another app, user, order or filter; "
            "leave it out to start anew"
        )
    return time, SessionKey(app=app, user=user, session=session)


def decode_event_cursor(text: str) -> tuple[str, EventPlace]:
    """Return the epoch of a session and a place in its history."""
    epoch, segment, offset = _decoded(text, str, int, int)
    if segment < 0 or offset < 0:
        raise _refused(text)
    return epoch, EventPlace(segment=segment, offset=offset)


def encode_user_event_cursor(
    listing: str, time: float, session: str, *, epoch: str, place: EventPlace
) -> str:
    """Encode a place in the history of *session*, last updated at *time*, in *listing*."""
    return encode_cursor((_named(listing), time, session, epoch, place.segment, place.offset))


def decode_user_event_cursor(text: str, *, listing: str) -> tuple[float, str, str, EventPlace]:
    """Return the last update of a session, its id, its epoch and a place in its history.

    Raises:
        InvalidInputError: *text* belongs to another listing, where it would skip events.
    """
    name, time, session, epoch, segment, offset = _decoded(text, str, float, str, str, int, int)
    if not math.isfinite(time) or segment < 0 or offset < 0:
        raise _refused(text)
    if name != _named(listing):
        raise InvalidInputError(
            f"cursor {text[:_SHOWN]!r} is of events of another app, user or time; leave it out to start anew"
        )
    return time, session, epoch, EventPlace(segment=segment, offset=offset)


def encode_memory_cursor(listing: str, time: float, memory_id: str) -> str:
    """Encode the place after a memory in *listing*."""
    return encode_cursor((_named(listing), time, memory_id))


def decode_memory_cursor(text: str, *, listing: str) -> tuple[float, str]:
    """Return the time and the id of the last memory on a page of *listing*.

    Raises:
        InvalidInputError: *text* belongs to another listing, where it would skip memories.
    """
    name, time, memory_id = _decoded(text, str, float, str)
    if not math.isfinite(time):
        raise _refused(text)
    if name != _named(listing):
        raise InvalidInputError(
            f"cursor {text[:_SHOWN]!r} is of memories of another user or filter; leave it out to start anew"
        )
    return time, memory_id


def _named(listing: str) -> str:
    return hashlib.sha256(listing.encode()).hexdigest()[:16]


def _decoded(text: str, *kinds: type) -> list[Any]:
    try:
        place: Any = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (AttributeError, ValueError, RecursionError) as exc:
        raise _refused(text) from exc
    if not isinstance(place, list) or tuple(map(type, place)) != kinds:
        raise _refused(text)
    return place


def _refused(text: object) -> InvalidInputError:
    return InvalidInputError(
        f"cursor {str(text)[:_SHOWN]!r} does not come from this method; leave it out to start anew"
    )
