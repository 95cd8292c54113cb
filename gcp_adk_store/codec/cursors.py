"""Spell places in listings and histories as texts that a caller can hand through."""

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.model.sessions import EventPlace

_SHOWN: Final = 40  # characters of a cursor in an error


def encode_cursor(place: Sequence[str | int | float]) -> str:
    """Return *place* as a text."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode()


def decode_page_cursor(text: str, *, app: str, user: str | None) -> tuple[float, SessionKey]:
    """Return the session that a page ended with, and its last update; of *user*'s sessions if given.

    Raises:
        InvalidInputError: *text* is no such place.
    """
    time, owner, session = _decoded(text, float, str, str)
    if user not in (None, owner):
        raise InvalidInputError(f"cursor {text[:_SHOWN]!r} is of a page of another user's sessions")
    return time, SessionKey(app=app, user=owner, session=session)


def decode_event_cursor(text: str) -> tuple[str, EventPlace]:
    """Return the epoch of a session and a place in its history.

    Raises:
        InvalidInputError: *text* is no such place.
    """
    epoch, segment, offset = _decoded(text, str, int, int)
    if segment < 0 or offset < 0:
        raise _refused(text)
    return epoch, EventPlace(segment=segment, offset=offset)


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
        f"cursor {str(text)[:_SHOWN]!r} is none that this method gave; leave it out to start anew"
    )
