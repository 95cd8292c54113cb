"""Let other tasks of the event loop run while something long is computed."""

import asyncio
import time
from typing import Final

_LONGEST_S: Final = 0.004


class Pauses:
    """Pauses of one computation: its steps ask after each whether it is time for one."""

    def __init__(self) -> None:
        self._due = time.monotonic() + _LONGEST_S

    @property
    def is_due(self) -> bool:
        """Whether the loop has been held up for some milliseconds."""
        return time.monotonic() >= self._due

    async def take(self) -> None:
        """Let every task that can run have its turn."""
        await asyncio.sleep(0)
        self._due = time.monotonic() + _LONGEST_S
