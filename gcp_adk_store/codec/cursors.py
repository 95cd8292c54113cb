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
from gcp_adk_store.model.sessions import EventPlace

_SHOWN: Final = 40  # characters of a cursor in an error


def encode_cursor(place: Sequence[str | int | float]) -> str:
    """Return *place* as an opaque text."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode()


def decode_cursor(text: str, *kinds: type, at_any_time: bool = False) -> list[Any]:
    """Return the place that :func:`encode_cursor` encoded: values of *kinds*, integers from 0 on.

    Times are finite unless *at_any_time* is true: that of a damaged session may be infinite, or no number.
    """
    try:
        place: Any = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (AttributeError, ValueError, RecursionError) as exc:
        raise _refused(text) from exc
    if not isinstance(place, list) or tuple(map(type, place)) != kinds:
        raise _refused(text)
    for value in place:
        if isinstance(value, int) and value < 0:
            raise _refused(text)
        if isinstance(value, float) and not (at_any_time or math.isfinite(value)):
            raise _refused(text)
    return place


def encode_place_in(listing: str, *place: str | float) -> str:
    """Return *place* in *listing*, whose app, user, order and filters it names, as an opaque text."""
    return encode_cursor((_named(listing), *place))


def decode_place_in(listing: str, text: str, *kinds: type, of: str, at_any_time: bool = False) -> list[Any]:
    """Return the place that :func:`encode_place_in` encoded for *listing*; see :func:`decode_cursor`.

    Raises:
        InvalidInputError: it is of another listing; the message says by *of* in what it may differ.
    """
    name, *place = decode_cursor(text, str, *kinds, at_any_time=at_any_time)
    if name != _named(listing):
        raise InvalidInputError(f"cursor {text[:_SHOWN]!r} is of {of}; leave it out to start anew")
    return place


def decode_event_cursor(text: str) -> tuple[str, EventPlace]:
    """Return the epoch of a session and a place in its history."""
    epoch, segment, offset = decode_cursor(text, str, int, int)
    return epoch, EventPlace(segment=segment, offset=offset)


def _named(listing: str) -> str:
    return hashlib.sha256(listing.encode()).hexdigest()[:16]


def _refused(text: object) -> InvalidInputError:
    return InvalidInputError(
        f"cursor {str(text)[:_SHOWN]!r} does not come from this method; leave it out to start anew"
    )
