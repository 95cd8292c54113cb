"""Let Ctrl-C end a command at once, with all that it began."""

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of *work*.

    Ctrl-C is raised where the command is, and every task is cancelled. By its own handler asyncio cancels the
    task of *work* alone, once it waits: a comparison goes on, and its end waits for asynchronous tools.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # such as in the background
        return asyncio.run(work)
    signal.signal(signal.SIGINT, _interrupt)
    try:
        return asyncio.run(work)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
