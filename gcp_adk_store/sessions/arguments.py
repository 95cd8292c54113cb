"""Check arguments of the session service."""

import sys

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.segment_numbers import is_cut
from gcp_adk_store.model.sessions import EventPlace, StoredSession


def require_either(name: str, given: object, one: str, other: str) -> None:
    """Check an option that has two values.

    Raises:
        InvalidInputError: *given* is neither of them.
    """
    if given not in (one, other):
        raise InvalidInputError(f"{name} is {given!r}, it must be {one!r} or {other!r}")


def require_limit(limit: object) -> None:
    """Check the most events of an iteration.

    Raises:
        InvalidInputError: *limit* is neither a number from 1 on nor ``None``.
    """
    if limit is not None and not is_count(limit):
        raise InvalidInputError(f"limit is {limit!r:.40}, it must be 1 or more, or None for all events")


def require_time(name: str, given: object) -> float:
    """Return Unix time in seconds.

    Raises:
        InvalidInputError: *given* is not a finite number.
    """
    if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) <= sys.float_info.max:
        return float(given)
    is_number = isinstance(given, int | float)
    found = f"{given!r:.40}" if is_number else f"of the type {type(given).__name__}"
    raise InvalidInputError(f"{name} is {found}, it must be Unix time in seconds, or None")


def is_count(given: object) -> bool:
    """Return whether *given* is a whole number from 1 on."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= 1


def require_place(place: EventPlace, stored: StoredSession) -> None:
    """Check the place of a cursor.

    Raises:
        InvalidInputError: *stored* does not have the segment, or a restore cut it off.
    """
    if is_cut(place.segment, stored.cut):
        raise InvalidInputError("a restore moved the events at the cursor; call again without the cursor")
    if place.segment > stored.sealed:
        raise beyond()


def beyond() -> InvalidInputError:
    """Return the error for a cursor that no event of its session has."""
    return InvalidInputError("cursor leads beyond the events of the session")
