"""Read frames of whatever bytes: what is honest comes out, whatever else is one kind of error."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gcp_adk_store.ces.sandbox import Limits, SandboxError, SandboxOutputError, SandboxProtocolError
from gcp_adk_store.ces.sandbox.frames import Failed, Frame, FrameReader, HostCall, Result, encoded
from tests.support.lengths import at_length

LIMITS = Limits(
    sent_frame_bytes=4096, received_bytes=64 * 1024, frame_depth=20, frame_values=500, received_values=1500
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
objects = st.dictionaries(st.text(), values, max_size=4)
frames = (
    st.builds(HostCall, st.integers(0, 2**31 - 1), objects)
    | st.builds(Result, objects)
    | st.builds(Failed, st.sampled_from(["memory", "output", "error"]), st.text())
)
others = values.map(json.dumps).map(str.encode).map(lambda text: len(text).to_bytes(4, "big") + text)
"""JSON of no known kind."""


def bytes_of(frame: Frame) -> bytes:
    """Return what an honest process sends."""
    members: dict[str, Any]
    match frame:
        case HostCall(number, call):
            kind, members = "call", {"id": number, "call": call}
        case Result(result):
            kind, members = "result", {"result": result}
        case Failed(reason, message):
            kind, members = "failed", {"reason": reason, "message": message}
    return asyncio.run(encoded(kind, members, Limits()))


@settings(max_examples=at_length(15, 30), deadline=None)
@given(st.lists(frames, max_size=5), st.integers(1, 50))
def test_honest_frames_come_out_as_they_went_in(sent: list[Frame], step: int) -> None:
    """In whatever pieces they arrive."""
    reader = FrameReader(Limits())
    data = b"".join(map(bytes_of, sent))
    found = [frame for at in range(0, len(data), step) for frame in reader.feed(data[at : at + step])]

    assert sent == found


@settings(max_examples=at_length(30, 80), deadline=None)
@given(st.lists(st.binary(max_size=200) | others | frames.map(bytes_of), max_size=6))
@example([b"\x00\x00\x00\x00"])
@example([b"\xff\xff\xff\xff"])
def test_whatever_bytes_are_frames_or_one_kind_of_error(pieces: list[bytes]) -> None:
    """Never another exception, and never more than the limits say; test_forgery.py sends some by hand."""
    reader = FrameReader(LIMITS)
    try:
        for piece in pieces:
            for frame in reader.feed(piece):
                assert isinstance(frame, HostCall | Result | Failed)
    except SandboxError as exc:
        assert isinstance(exc, SandboxProtocolError | SandboxOutputError)  # noqa: PT017


def test_a_frame_may_be_as_deep_and_as_large_as_its_limits() -> None:
    """And no more; brackets in a text are no depth. A long number takes more time than it has characters."""
    deep: Any = 1
    for _ in range(LIMITS.frame_depth - 2):
        deep = [deep]
    text = "[" * 400

    assert [Result({"a": deep})] == FrameReader(LIMITS).feed(bytes_of(Result({"a": deep})))
    assert [Result({"a": text})] == FrameReader(LIMITS).feed(bytes_of(Result({"a": text})))
    with pytest.raises(SandboxProtocolError, match="frame_depth"):
        FrameReader(LIMITS).feed(bytes_of(Result({"a": [[deep]]})))
    with pytest.raises(SandboxProtocolError, match="frame_values"):
        FrameReader(LIMITS).feed(bytes_of(Result({"a": [1] * 501})))
    with pytest.raises(SandboxProtocolError, match="frame_bytes"):
        FrameReader(LIMITS).feed(bytes_of(Result({"a": "x" * 4096})))

    limits = Limits(frame_values=10)

    assert [Result({"a": 10**700})] == FrameReader(limits).feed(bytes_of(Result({"a": 10**700})))
    with pytest.raises(SandboxProtocolError, match="more than 800 characters, 80 for each of frame_values"):
        FrameReader(limits).feed(bytes_of(Result({"a": 10**800})))


@settings(max_examples=at_length(20, 50), deadline=None)
@given(
    st.text('\\",[{x', max_size=20), st.lists(st.text('\\",[{x', max_size=5), max_size=5), st.integers(1, 7)
)
def test_texts_of_any_marks_are_one_value_each(name: str, texts: list[str], step: int) -> None:
    """In whatever pieces they arrive: a frame with as many values as it may have is read."""
    frame = Result({name: texts})
    values = 3 + max(len(texts), 1)  # the frame, the result, the list
    data = bytes_of(frame)

    def read(values: int) -> list[Frame]:
        reader = FrameReader(Limits(frame_values=values))
        return [each for at in range(0, len(data), step) for each in reader.feed(data[at : at + step])]

    assert read(values) == [frame]
    with pytest.raises(SandboxProtocolError, match="frame_values"):
        read(values - 1)


@pytest.mark.parametrize(
    ("value", "error", "limit"),
    [
        ("x" * 4000, SandboxOutputError, "received_bytes"),
        ([1] * 400, SandboxProtocolError, "received_values"),
    ],
)
def test_frames_together_have_limits(value: Any, error: type[SandboxError], limit: str) -> None:
    """However small each is, and however few values it has: those of calls that wait are kept together."""
    reader = FrameReader(LIMITS)

    with pytest.raises(error, match=limit):
        [reader.feed(bytes_of(HostCall(1, {"a": value}))) for _ in range(20)]
