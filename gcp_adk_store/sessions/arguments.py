"""Check arguments of the session service."""

from gcp_adk_store.errors import InvalidInputError


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


def is_count(given: object) -> bool:
    """Return whether *given* is a whole number from 1 on."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= 1
