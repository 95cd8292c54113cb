"""Let asynchronous tools go on after their caller was answered."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from gcp_adk_store.ces.host.keys import SessionKey
from gcp_adk_store.ces.host.results import ToolRun

logger = logging.getLogger(__name__)


class LateRuns:
    """Runs that their callers do not wait for; each goes on in the event loop that began it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[ToolRun]] = set()

    def begin(self, name: str, key: SessionKey, work: Coroutine[Any, Any, ToolRun]) -> asyncio.Task[ToolRun]:
        """Begin *work*, which stores the response of the tool *name* in the session *key*."""
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def tell(late: asyncio.Task[ToolRun]) -> None:
            self._tasks.discard(late)
            # Perhaps nobody waits for it; and an event loop that ends cancels what it has.
            why = asyncio.CancelledError() if late.cancelled() else late.exception()
            if why is not None:
                logger.error("the response of %s was not stored in %s: %s", name, key, type(why).__name__)

        task.add_done_callback(tell)
        return task

    async def ended(self) -> None:
        """Wait for those of every event loop that still runs; what they raise is theirs to tell."""
        here = asyncio.get_running_loop()
        waits: list[asyncio.Future[Any]] = []
        for task in self._tasks.copy():  # in one step: tasks of other loops end meanwhile
            loop = task.get_loop()
            if loop is here:
                waits.append(task)
            elif loop.is_running():
                end = _end(task)
                try:
                    waits.append(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(end, loop)))
                except RuntimeError:  # it was closed in this moment, and told of its own
                    end.close()
        await asyncio.gather(*waits, return_exceptions=True)


async def _end(task: asyncio.Task[ToolRun]) -> None:
    await asyncio.wait([task])
