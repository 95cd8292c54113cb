"""Let asynchronous tools go on after their caller was answered."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from gcp_adk_store.ces.host.invocation import Invocation
from gcp_adk_store.ces.host.keys import SessionKey
from gcp_adk_store.ces.host.results import ToolRun
from gcp_adk_store.errors import OverloadedError

logger = logging.getLogger(__name__)


class LateRuns:
    """Runs that their callers do not wait for; each goes on in the event loop that began it."""

    def __init__(self, *, per_session: int) -> None:
        """Allow *per_session* runs for each session."""
        self._per_session = per_session
        self._tasks: dict[asyncio.Task[ToolRun], SessionKey] = {}

    def begin(
        self, name: str, invocation: Invocation, work: Coroutine[Any, Any, ToolRun]
    ) -> asyncio.Task[ToolRun]:
        """Begin *work*, which stores the response of the tool *name* in the session of *invocation*.

        Raises:
            OverloadedError: too many runs of the session have not ended; *work* does not begin.
        """
        key = invocation.key
        if [*self._tasks.values()].count(key) >= self._per_session:
            work.close()
            raise OverloadedError(
                f"{self._per_session} asynchronous tools of this session have not ended, which is the limit "
                "(waiting_per_session); wait until one ends",
                operation=invocation.operation,
                key=str(key),
            )
        task = asyncio.create_task(work)
        self._tasks[task] = key

        def tell(late: asyncio.Task[ToolRun]) -> None:
            self._tasks.pop(late, None)
            # Perhaps no caller awaits the task; an event loop that ends cancels its tasks.
            why = asyncio.CancelledError() if late.cancelled() else late.exception()
            if why is not None:
                logger.error("the response of %s was not stored in %s: %s", name, key, type(why).__name__)

        task.add_done_callback(tell)
        return task

    async def ended(self) -> None:
        """Wait for those of every event loop that still runs; what they raise is theirs to tell."""
        here = asyncio.get_running_loop()
        waits: list[asyncio.Future[Any]] = []
        for task in [*self._tasks]:  # a copy: tasks of other loops end meanwhile
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
