"""Make code a part of a turn."""

from collections.abc import Iterator
from contextlib import contextmanager

from gcp_adk_store.sessions.append.turn import HeldTurn, enter, leave


@contextmanager
def within(hold: HeldTurn) -> Iterator[None]:
    """Let the block be a part of the turn *hold*, as a run of an agent is."""
    enter(hold)
    try:
        yield
    finally:
        leave(hold)
