"""Say why a run failed, with the lines of user code and none of this package."""

import traceback
from collections.abc import Collection
from typing import Final, cast

from .contract import RunError
from .host_calls import HostCallError
from .plain import sendable

# What people read of an error; a frame that the sandbox sends has far more room.
_MAX_MESSAGE_CHARS: Final = 8_192
_MAX_TRACEBACK_CHARS: Final = 32_768
_MAX_FRAMES: Final = 50


def describe(error: BaseException, filenames: Collection[str]) -> RunError:
    """Return what is known of *error*, as long as it is bearable.

    Its class is asked for by ``type``: an exception of user code may say anything of itself.

    Args:
        error: Anything that was raised, also by ``sys.exit``.
        filenames: Those of user code.
    """
    of_class = type(error)
    kind = cast("HostCallError", error).kind if issubclass(of_class, HostCallError) else _name(of_class)
    return {
        "type": sendable(kind),
        "message": _message(error),
        "traceback": _traceback(error, kind, filenames),
    }


def told_of_line(kind: str, message: str, *, filename: str, line: int, shown: str) -> RunError:
    """Return an error that was found before anything ran, in a *line* that is *shown*."""
    where = f'Traceback (most recent call last):\n  File "{filename}", line {line}, in <module>\n'
    text = f"{where}    {shown.strip()}\n{kind}: {message}\n"
    return {"type": kind, "message": sendable(message), "traceback": sendable(text)}


def _name(of_class: type) -> str:
    """Return the name of a class, even if its metaclass overrides ``__name__``."""
    name: str = type.__dict__["__name__"].__get__(of_class)
    return name


def _message(error: BaseException) -> str:
    try:
        return _cut(_text(error), _MAX_MESSAGE_CHARS)
    except BaseException:  # noqa: BLE001  # the code's own __str__ may raise anything
        return "<the exception cannot be shown>"


def _text(error: BaseException) -> str:
    if issubclass(type(error), SystemExit):
        return f"the code called exit ({cast('SystemExit', error).code!r})"
    if issubclass(type(error), KeyError) and len(error.args) == 1 and isinstance(error.args[0], str):
        return error.args[0]
    return str(error)


def _traceback(error: BaseException, kind: str, filenames: Collection[str]) -> str:
    try:
        told = traceback.TracebackException.from_exception(error, compact=True)
        _keep_only(told, filenames)
        return _cut_within(_named(error, kind, "".join(told.format())), _MAX_TRACEBACK_CHARS)
    except BaseException:  # noqa: BLE001  # suggestions of names look into the code's own objects
        return sendable(f"{kind}\n")


def _named(error: BaseException, kind: str, text: str) -> str:
    """Return the traceback *text* of *error*, in which an error of this package has no module."""
    module = type(error).__module__
    if not module.startswith(f"{__package__}."):
        return text
    before, _, message = text.rpartition(f"{module}.{_name(type(error))}")
    return f"{before}{kind}{message}"


def _keep_only(told: traceback.TracebackException, filenames: Collection[str]) -> None:
    """Leave frames of *filenames* alone in *told*, and in all that led to it, which may be long."""
    seen: set[int] = set()
    waiting = [told]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            frames = [frame for frame in each.stack if frame.filename in filenames]
            each.stack = traceback.StackSummary.from_list(frames[-_MAX_FRAMES:])
            before = (each.__cause__, each.__context__, *(each.exceptions or ()))
            waiting += [other for other in before if other is not None]


def _cut(text: str, limit: int) -> str:
    shown = sendable(str.__str__(text))
    return shown if len(shown) <= limit else f"{shown[:limit]} [cut, {len(shown):,} characters]"


def _cut_within(text: str, limit: int) -> str:
    """Return *text* with its beginning and its end, which of a traceback says what was raised."""
    shown = sendable(text)
    half = limit // 2
    return shown if len(shown) <= limit else f"{_cut(shown, half)}\n{shown[-half:]}"
