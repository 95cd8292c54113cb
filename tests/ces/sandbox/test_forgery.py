"""Frames of whatever bytes: what is honest comes out, and forged ones are one kind of error."""

import json
import socket
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gcp_adk_store.ces.sandbox import (
    BubblewrapSandbox,
    Limits,
    SandboxError,
    SandboxOutputError,
    SandboxProtocolError,
    SandboxTimeoutError,
)
from gcp_adk_store.ces.sandbox.frames import Frame, FrameReader
from gcp_adk_store.ces.sandbox.inside import running
from tests.ces.sandbox.conftest import no_host, run_in
from tests.support.clock import PassingTime
from tests.support.lengths import at_length


def forged(frame: str) -> str:
    """Return code that sends a frame past the library."""
    return f"""
import os, json
text = {frame}
text = text if isinstance(text, bytes) else text.encode()
text = len(text).to_bytes(4, "big") + text
while text:
    text = text[os.write(3, text):]
os.read(3, 1)
"""


@pytest.mark.parametrize(
    "frame",
    [
        "json.dumps({'other': {}})",
        "json.dumps([1])",
        "json.dumps({'call': []})",
        "json.dumps({'call': {}, 'more': 1})",
        "json.dumps({'answer': {}})",
        "json.dumps({'result': 1})",
        "json.dumps({'failed': 'mine', 'message': ''})",
        '\'{"result": {"x": NaN}}\'',
        '\'{"result": {"x": -1e400}}\'',
        '\'{"result": {"x": -Infinity}}\'',
        '\'{"result": {"\\\\udfff": 1}}\'',
        '\'{"result": {"x": "\\\\ud800"}}\'',
        "'{\"kind\": \"result\", \"result\": {\"x\": ' + '[' * 200 + ']' * 200 + '}}'",
        "'[' * 100_000",
        '\'{"result": {"x": \' + "9" * 1_000_000 + "}}"',
        'b\'{"result": {"x": "\\xff"}}\'',
        'b\'{"result": {"x": "\\xed\\xa0\\x80"}}\'',
        "''",
        "'[' + '1,' * 1_100_000 + '1]'",
    ],
)
async def test_a_forged_frame_ends_the_run(sandbox: BubblewrapSandbox, frame: str) -> None:
    """Whatever its shape, before anything is made of it."""
    with pytest.raises(SandboxProtocolError):
        await sandbox.run({"code": forged(frame)}, no_host)

    assert 2 == await run_in(sandbox, "result = 1 + 1")


async def test_of_two_results_the_first_counts_and_what_follows_is_not_read(
    sandbox: BubblewrapSandbox,
) -> None:
    """Also a call, or noise; of names given twice, the last."""
    result = '\'{"result": {"x": 1, "x": 2}}\''
    call = "json.dumps({'call': {}})"
    again = "json.dumps({'result': {'x': 3}})"
    code = f"""
import os, json
texts = [text.encode() for text in ({result}, {call}, {again}, 'noise')]
os.write(3, b"".join(len(text).to_bytes(4, "big") + text for text in texts))
os.read(3, 1)
"""

    assert {"x": 2} == await sandbox.run({"code": code}, no_host)


async def test_answers_that_nobody_reads_hold_the_host_no_longer_than_it(
    sandbox: BubblewrapSandbox, passing: PassingTime
) -> None:
    """Its process asks for as much as it may, and reads nothing."""
    call = "json.dumps({'call': {}}).encode()"
    code = f"""
import os, json
for _ in range(32):
    text = {call}
    os.write(3, len(text).to_bytes(4, "big") + text)
while True: pass
"""

    async def answer(_call: dict[str, Any]) -> dict[str, Any]:
        passing.after(3600)
        return {"text": "x" * 1_000_000}

    with pytest.raises(SandboxTimeoutError):
        await sandbox.run({"code": code}, answer)
    assert 2 == await run_in(sandbox, "result = 1 + 1")


LIMITS = Limits(
    sent_frame_bytes=4096, received_bytes=64 * 1024, frame_depth=20, frame_values=500, received_values=1500
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
objects = st.dictionaries(st.text(), values, max_size=4)
frames: st.SearchStrategy[Frame] = st.tuples(st.sampled_from(["call", "result"]), objects)


def sent_as(value: Any) -> bytes:
    """Return JSON as a frame."""
    text = json.dumps(value, ensure_ascii=False).encode()
    return len(text).to_bytes(4, "big") + text


def bytes_of(frame: Frame) -> bytes:
    """Return what an honest process sends."""
    return sent_as(dict([frame]))


@settings(max_examples=at_length(15, 30), deadline=None)
@given(st.lists(frames, max_size=5), st.integers(1, 50))
def test_honest_frames_come_out_as_they_went_in(sent: list[Frame], step: int) -> None:
    """In whatever pieces they arrive."""
    reader = FrameReader(Limits())
    data = b"".join(map(bytes_of, sent))
    found = [frame for at in range(0, len(data), step) for frame in reader.feed(data[at : at + step])]

    assert sent == found


@settings(max_examples=at_length(30, 80), deadline=None)
@given(st.lists(st.binary(max_size=200) | values.map(sent_as) | frames.map(bytes_of), max_size=6))
@example([b"\x00\x00\x00\x00"])
@example([b"\xff\xff\xff\xff"])
def test_whatever_bytes_are_frames_or_one_kind_of_error(pieces: list[bytes]) -> None:
    """Never another exception, and never more than the limits say; the test above sends some by hand."""
    reader = FrameReader(LIMITS)
    try:
        for piece in pieces:
            for kind, value in reader.feed(piece):
                assert kind in {"call", "result"}
                assert isinstance(value, dict)
    except SandboxError as exc:
        assert isinstance(exc, SandboxProtocolError | SandboxOutputError)  # noqa: PT017


def test_a_frame_may_be_as_deep_and_as_large_as_its_limits() -> None:
    """And no more; brackets in a text are no depth. A long number takes more time than it has characters."""
    deep: Any = 1
    for _ in range(LIMITS.frame_depth - 2):
        deep = [deep]
    text = "[" * 400

    def passes(value: Any, limits: Limits) -> bool:
        frame: Frame = ("result", {"a": value})
        return [frame] == [*FrameReader(limits).feed(bytes_of(frame))]

    assert passes(deep, LIMITS)
    assert passes(text, LIMITS)
    for value, limit in (([[deep]], "frame_depth"), ([1] * 501, "frame_values"), ("x" * 4096, "frame_bytes")):
        with pytest.raises(SandboxProtocolError, match=limit):
            passes(value, LIMITS)

    limits = Limits(frame_values=10)

    assert passes(10**700, limits)
    with pytest.raises(SandboxProtocolError, match="more than 800 characters, 80 for each of frame_values"):
        passes(10**800, limits)


@settings(max_examples=at_length(20, 50), deadline=None)
@given(
    st.text('\\",[{x', max_size=20), st.lists(st.text('\\",[{x', max_size=5), max_size=5), st.integers(1, 7)
)
def test_texts_of_any_marks_are_one_value_each(name: str, texts: list[str], step: int) -> None:
    """In whatever pieces they arrive: a frame with as many values as it may have is read."""
    frame: Frame = ("result", {name: texts})
    values = 2 + max(len(texts), 1)  # the frame, the result, the list
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
        [[*reader.feed(bytes_of(("call", {"a": value})))] for _ in range(20)]


def test_an_answer_that_nobody_waits_for_any_more_is_no_answer_to_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a signal, whose handler raises."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        conversation = running.Conversation(theirs.fileno(), frame_bytes=100)
        for number in (1, 2):
            ours.sendall(sent_as({"answer": {"to": number}}))

        def interrupted() -> dict[str, Any]:
            raise InterruptedError

        with monkeypatch.context() as patch:
            patch.setattr(conversation, "_read", interrupted)
            with pytest.raises(InterruptedError):
                conversation.call({"number": 1})

        assert {"to": 2} == conversation.call({"number": 2})
