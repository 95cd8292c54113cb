"""Say why a run failed, with the lines of user code and none of this package."""

import traceback
from collections.abc import Collection
from typing import Final

from .contract import RunError
from .host_calls import HostCallError

_MAX_MESSAGE_CHARS: Final = 8_192
_MAX_TRACEBACK_CHARS: Final = 32_768
_MAX_FRAMES: Final = 50


def describe(error: BaseException, filenames: Collection[str]) -> RunError:
    """Return what is known of *error*, as long as it is bearable.

    Args:
        error: Anything that was raised, also by ``sys.exit``.
        filenames: Those of user code.
    """
    kind = error.kind if isinstance(error, HostCallError) else type(error).__name__
    return {"type": kind, "message": _message(error), "traceback": _traceback(error, filenames)}


def told_of_line(kind: str, message: str, *, filename: str, line: int, source: str) -> RunError:
    """Return an error that was found in a line of *source* before anything ran."""
    lines = source.splitlines()
    shown = f"    {lines[line - 1].strip()}\n" if 0 < line <= len(lines) else ""
    where = f'Traceback (most recent call last):\n  File "{filename}", line {line}, in <module>\n{shown}'
    return {"type": kind, "message": message, "traceback": f"{where}{kind}: {message}\n"}


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the code called exit ({error.code!r})"[:_MAX_MESSAGE_CHARS]
    if isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str):
        return _cut(error.args[0], _MAX_MESSAGE_CHARS)
    try:
        return _cut(str(error), _MAX_MESSAGE_CHARS)
    except BaseException:  # noqa: BLE001  # the code's own __str__ may raise anything
        return "<the exception cannot be shown>"


def _traceback(error: BaseException, filenames: Collection[str]) -> str:
    try:
        told = traceback.TracebackException.from_exception(error, compact=True)
        _keep_only(told, filenames, set())
        return _cut("".join(told.format()), _MAX_TRACEBACK_CHARS)
    except BaseException:  # noqa: BLE001  # suggestions of names look into the code's own objects
        return f"{type(error).__name__}\n"


def _keep_only(told: traceback.TracebackException, filenames: Collection[str], seen: set[int]) -> None:
    if id(told) in seen:
        return
    seen.add(id(told))
    frames = [frame for frame in told.stack if frame.filename in filenames]
    told.stack = traceback.StackSummary.from_list(frames[-_MAX_FRAMES:])
    for other in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if other is not None:
            _keep_only(other, filenames, seen)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} [cut, {len(text):,} characters]"
