"""Read the frames that a sandbox sends, trusting none of them, and spell those that it gets.

A frame is JSON in UTF-8 after four bytes of length, the highest first. A call's process sends ``call``
frames, which the host answers by their id in any order, and one ``result`` or ``failed``.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from gcp_adk_store.ces.sandbox.errors import REASONS, SandboxOutputError, SandboxProtocolError
from gcp_adk_store.ces.sandbox.limits import Limits
from gcp_adk_store.errors import InvalidInputError

HEADER_BYTES: Final = 4
_LARGEST_ID: Final = 2**31
_MESSAGE_CHARACTERS: Final = 4000
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class HostCall:
    """The code asks the host for something, and waits for the answer to *id*."""

    id: int
    call: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """The code has finished."""

    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The code has no result; *reason* is one of ``REASONS``."""

    reason: str
    message: str


Frame = HostCall | Result | Failed


class FrameReader:
    """Frames out of the bytes of one call."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._received = 0
        self._values = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that *data* completes.

        Raises:
            SandboxOutputError: the frames of this call are larger together than they may be.
            SandboxProtocolError: this is no frame of an honest process.
        """
        self._received += len(data)
        if self._received > self._limits.received_bytes:
            raise SandboxOutputError(
                f"the code sent more than the {self._limits.received_bytes} bytes of received_bytes"
            )
        self._buffer += data
        found: list[Frame] = []
        while len(self._buffer) >= HEADER_BYTES:
            size = int.from_bytes(self._buffer[:HEADER_BYTES], "big")
            if size > self._limits.frame_bytes:
                raise SandboxProtocolError(
                    f"a frame of {size} bytes is more than the {self._limits.frame_bytes} of frame_bytes"
                )
            end = HEADER_BYTES + size
            if len(self._buffer) < end:
                break
            text = bytes(memoryview(self._buffer)[HEADER_BYTES:end])
            del self._buffer[:end]
            self._count_values(text)
            found.append(_frame(_value(text, self._limits.frame_depth)))
        return found

    def _count_values(self, text: bytes) -> None:
        """Count the values of *text* before any is made: small as text, they are large here."""
        values = text.count(b",") + text.count(b"[") + text.count(b"{")
        self._values += values
        for name, found in (("frame_values", values), ("received_values", self._values)):
            most = getattr(self._limits, name)
            if found > most:
                raise SandboxProtocolError(f"the code sent more than the {most} values of {name}")


def spelled(kind: str, frame: Mapping[str, Any], limits: Limits) -> bytes:
    """Return a frame of the host.

    Raises:
        InvalidInputError: it is no JSON, or larger than ``frame_bytes``.
    """
    try:
        text = json.dumps({"kind": kind, **frame}, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInputError(f"the {kind} is no JSON: {exc}") from exc
    if len(text) > limits.frame_bytes:
        raise InvalidInputError(
            f"the {kind} has {len(text)} bytes, more than the {limits.frame_bytes} of frame_bytes"
        )
    return len(text).to_bytes(HEADER_BYTES, "big") + text


def _value(text: bytes, depth: int) -> object:
    try:
        value: object = json.loads(
            text.decode(), parse_constant=_refuse_constant, parse_float=_finite, parse_int=int
        )
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        raise SandboxProtocolError(f"a frame is no JSON: {str(exc)[:200]}") from exc
    if text.count(b"[") + text.count(b"{") > depth:  # text with many brackets is looked at, and passes
        _require_shallow(value, depth)
    return value


def _require_shallow(value: object, depth: int) -> None:
    level = [value]
    for _ in range(depth + 1):
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                below.extend(each.values())
            elif isinstance(each, list):
                below.extend(each)
        if not below:
            return
        level = below
    raise SandboxProtocolError(f"a frame is nested deeper than the {depth} of frame_depth")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is no finite number")
    return number


def _frame(value: object) -> Frame:
    size = len(value) if isinstance(value, dict) else 0
    match value:
        case {"kind": "call", "id": int(number), "call": dict(call)} if (
            size == 3  # noqa: PLR2004  # these and nothing else
            and not isinstance(number, bool)
            and 0 <= number < _LARGEST_ID
        ):
            return HostCall(number, call)
        case {"kind": "result", "result": dict(result)} if size == 2:  # noqa: PLR2004
            return Result(result)
        case {"kind": "failed", "reason": str(reason), "message": str(message)} if (
            size == 3 and reason in REASONS  # noqa: PLR2004
        ):
            return Failed(reason, message[:_MESSAGE_CHARACTERS])
    kind = value.get("kind") if isinstance(value, dict) else value
    raise SandboxProtocolError(f"a frame is of no known kind and shape: {str(kind)[:80]!r}")
