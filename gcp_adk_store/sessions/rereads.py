"""Bound and space out the reads of what others change meanwhile."""

import asyncio
import time
from typing import Final

from gcp_adk_store.cloud import retry
from gcp_adk_store.cloud.errors import RefusedError
from gcp_adk_store.errors import UnavailableError
from gcp_adk_store.operations.operation import at_most

_LONGEST_PAUSE_S: Final = 0.02
"""Writers that merge lose the more often the longer they wait: of 10, the last waited 5 s with a quarter of a
second, 0.7 s with this."""


class Rereads:
    """The turns of one loop that reads again after others came first.

    Their writes are progress, so time alone bounds the turns.
    """

    def __init__(self, deadline_s: float) -> None:
        """Begin; no turn begins after *deadline_s*, or after the running operation's deadline."""
        self._ends_at = time.monotonic() + at_most(deadline_s)
        self._turns = 0

    async def again(self, refused: RefusedError | None = None) -> None:
        """Pause before the next turn; the first time not at all.

        Args:
            refused: What others led to, as the cause of the error.

        Raises:
            UnavailableError: the time is over.
        """
        self._turns += 1
        if time.monotonic() >= self._ends_at:
            late = UnavailableError("others came first, time after time; try again later")
            late.attempts = self._turns
            raise late from refused
        if self._turns > 1:
            await asyncio.sleep(retry.jitter(self._turns - 1, longest_s=_LONGEST_PAUSE_S))
