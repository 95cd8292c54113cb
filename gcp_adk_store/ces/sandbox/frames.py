"""Read the untrusted frames of a sandbox, and write the frames that it receives.

A frame is JSON in UTF-8 after four bytes of length, the highest first: an object with one name. A call's
process sends frames ``call``, which the host answers in their order, and one ``result``, or ``failed`` with
the reason, beside which it has a ``message``.
"""

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic_core import PydanticSerializationError, from_json, to_json

from gcp_adk_store.ces.sandbox.interface import (
    Limits,
    SandboxCrashError,
    SandboxMemoryError,
    SandboxOutputError,
    SandboxProtocolError,
    SandboxRunError,
)
from gcp_adk_store.errors import InvalidInputError

HEADER_BYTES: Final = 4
_MESSAGE_CHARACTERS: Final = 4000
_BYTES_OF_A_VALUE: Final = 80
"""Outside of texts: Python reads a number of 4,000 digits in the time of 200 short ones."""

_VALUES_OF_A_STEP: Final = 20_000
"""Some 5 ms; a request has as many values as a session has, and no step of the host may be long."""

_REASONS: Final[dict[str, Callable[[str], SandboxRunError]]] = {
    "memory": lambda said: SandboxMemoryError(f"the code wanted more than memory_bytes: {said}"),
    "output": lambda said: SandboxOutputError(f"the result is too large: {said}"),
    "error": lambda said: SandboxCrashError(f"the entry failed:\n{said}"),
}
"""By what the process says of itself why it has no result."""

_SCALARS: Final = (str, int, type(None))
_LISTS: Final = (list, tuple)


Frame = tuple[Literal["call", "result"], dict[str, Any]]
"""What the code asks of the host, or has returned."""


class FrameReader:
    """Frames out of the bytes of one call."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._received = 0
        self._values = 0
        self._count = _Count()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that *data* completes, each as soon as it is read.

        Raises:
            SandboxRunError: the process says that the code failed without a result.
            SandboxOutputError: the frames of this call together exceed ``received_bytes``.
            SandboxProtocolError: an honest process does not send this.
        """
        self._received += len(data)
        if self._received > (most := self._limits.received_bytes):
            raise SandboxOutputError(f"the code sent more than the {most} bytes of received_bytes")
        self._buffer += data
        while len(self._buffer) >= HEADER_BYTES:
            size = int.from_bytes(self._buffer[:HEADER_BYTES], "big")
            most = self._limits.sent_frame_bytes
            if size > most:
                says = f"a frame of {size} bytes is more than the {most} of sent_frame_bytes"
                raise SandboxProtocolError(says)
            end = HEADER_BYTES + size
            self._count.add(bytes(self._buffer[HEADER_BYTES + self._count.read : end]))
            self._require_few()
            if len(self._buffer) < end:
                return
            text = bytes(memoryview(self._buffer)[HEADER_BYTES:end])
            del self._buffer[:end]
            self._values += self._count.values
            self._count = _Count()
            yield _frame(_value(text, self._limits.frame_depth))

    def _require_few(self) -> None:
        """Refuse a frame before its values exist: small as JSON, they are large in memory."""
        values = self._count.values
        for name, found in (("frame_values", values), ("received_values", self._values + values)):
            if found > (most := getattr(self._limits, name)):
                raise SandboxProtocolError(f"the code sent more than the {most} values of {name}")
        most = _BYTES_OF_A_VALUE * self._limits.frame_values
        if self._count.outside > most:
            limit = f"{most} characters, {_BYTES_OF_A_VALUE} for each of frame_values"
            says = f"the numbers of a frame have more than {limit}; send long numbers as text"
            raise SandboxProtocolError(says)


@dataclass(slots=True)
class _Count:
    """What one frame has, counted piece by piece as it arrives: one step of the event loop stays short."""

    values: int = 0
    """At most: commas and opening brackets outside of texts."""
    outside: int = 0
    """Bytes outside of texts."""
    read: int = 0
    """Bytes of the frame that were counted."""
    _is_in_text: bool = False

    def add(self, piece: bytes) -> None:
        """Count the next *piece* of the frame; a backslash at its end waits for what it escapes."""
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        piece = piece[: len(piece) - backslashes % 2]
        self.read += len(piece)
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[self._is_in_text :: 2])
        self._is_in_text ^= len(parts) % 2 == 0
        self.outside += len(outside)
        self.values += len(outside) - len(outside.translate(None, b",[{"))


async def encoded(kind: Literal["request", "answer"], value: Mapping[str, Any], limits: Limits) -> bytes:
    """Return a frame of the host, which may be large, while other tasks run.

    Raises:
        InvalidInputError: *value* is not JSON, or is larger than ``frame_bytes``.
    """
    try:
        text = await _text({kind: value})
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInputError(f"the {kind} is not JSON: {exc}") from exc
    if len(text) > limits.frame_bytes:
        raise InvalidInputError(
            f"the {kind} has {len(text)} bytes, more than the {limits.frame_bytes} of frame_bytes; go on in "
            "a session with a shorter history, send less, or raise it: "
            "RuntimeSettings(limits=Limits(frame_bytes=...))"
        )
    return len(text).to_bytes(HEADER_BYTES, "big") + text


def _value(text: bytes, depth: int) -> object:
    try:
        value: object = from_json(text, allow_inf_nan=False, cache_strings="none")
    except (ValueError, RecursionError) as exc:
        raise SandboxProtocolError(f"a frame is not JSON: {str(exc)[:200]}") from exc
    try:
        levels = max(_levels(value))
    except ValueError as exc:  # such as 1e999, which the parser reads as infinity
        raise SandboxProtocolError(f"a frame is not JSON: {exc}") from exc
    if levels > depth + 1:
        raise SandboxProtocolError(f"a frame is nested deeper than the {depth} of frame_depth")
    return value


async def _text(frame: dict[str, Any]) -> bytes:
    """Return *frame* as JSON, as the package json writes it, five times as fast."""
    try:
        text = to_json(frame)
    except PydanticSerializationError:  # also of a lone surrogate, which code may send
        return json.dumps(frame, allow_nan=False, ensure_ascii=False).encode("utf-8", "surrogatepass")
    for _ in _levels(frame):
        await asyncio.sleep(0)
    return text


def _levels(value: object) -> Iterator[int]:
    """Yield the depth of *value*, and before it that which was found, after each step; a text has 1.

    Raises:
        TypeError: a value in it is not JSON.
        ValueError: a number in it is not finite.
    """
    level, levels = [value], 0
    while level:
        below: list[object] = []
        for number, each in enumerate(level, start=1):
            if number % _VALUES_OF_A_STEP == 0:
                yield levels
            if isinstance(each, _SCALARS):
                continue
            if isinstance(each, dict):
                if not all(isinstance(name, str) for name in each):
                    raise TypeError("a name in it is not text")
                below.extend(each.values())
            elif isinstance(each, _LISTS):
                below.extend(each)
            elif isinstance(each, float):
                if not math.isfinite(each):
                    raise ValueError("a number in it is not finite")
            else:
                raise TypeError(f"{type(each).__name__} is not JSON")
        level = below
        levels += 1
    yield levels


def _frame(value: object) -> Frame:
    names = [*value] if isinstance(value, dict) else []
    match value:
        case {"call": dict(asked)} if names == ["call"]:
            return "call", asked
        case {"result": dict(result)} if names == ["result"]:
            return "result", result
        case {"failed": str(reason), "message": str(message)} if reason in _REASONS:
            raise _REASONS[reason](message[:_MESSAGE_CHARACTERS])
    raise SandboxProtocolError(f"a frame is of no known kind and shape: {str(names)[:80]}")
