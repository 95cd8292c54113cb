"""How long tests are: in a short form as a rule, in their long one with ``--long``."""

from typing import TypeVar

T = TypeVar("T")


class Lengths:
    """Of this run; ``tests/conftest.py`` sets it before it imports a test."""

    are_long = False


def at_length(short: T, long: T) -> T:
    """Return the one that this run is for."""
    return long if Lengths.are_long else short
