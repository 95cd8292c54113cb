"""Show that a stream of gzip is unpacked whole or reported as damaged, however it comes."""

import gzip
import io
import zlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gcp_adk_store.artifacts.files import Unpacked

LARGE = bytes(20 * 1024 * 1024)
CONTENTS = st.lists(st.binary(max_size=50), min_size=1, max_size=3)
CUTS = st.lists(st.integers(1, 30), max_size=10)


def unpack(stream: bytes, cuts: list[int]) -> bytes:
    """Return what *stream* becomes when it comes in pieces of these sizes, and the rest at once."""
    file = io.BytesIO()
    unpacked = Unpacked(file)
    for size in cuts:
        unpacked.write(stream[:size])
        stream = stream[size:]
    unpacked.write(stream)
    unpacked.require_end()
    return file.getvalue()


@given(CONTENTS, CUTS, st.sampled_from([b"", bytes(3), b"padding"]))
def test_all_members_are_unpacked(contents: list[bytes], cuts: list[int], padding: bytes) -> None:
    """One after the other, wherever the stream is cut; padding at the end does not count."""
    stream = b"".join(map(gzip.compress, contents)) + padding

    assert b"".join(contents) == unpack(stream, cuts)


def test_a_small_stream_may_become_large() -> None:
    """20 MiB from 20 KiB, some at a time."""
    assert LARGE == unpack(gzip.compress(LARGE), [])


def test_nothing_becomes_nothing() -> None:
    """As an empty object has no gzip header either."""
    assert b"" == unpack(b"", [])


@given(CONTENTS, CUTS, st.data())
def test_a_stream_that_was_cut_is_reported(
    contents: list[bytes], cuts: list[int], data: st.DataObject
) -> None:
    """Never the start of it as if it were all, not even where a member's header was cut."""
    members = list(map(gzip.compress, contents))
    left = data.draw(st.integers(1, len(members[-1]) - 1))
    with pytest.raises(zlib.error):
        unpack(b"".join(members)[:-left], cuts)


@given(st.binary(min_size=1), CUTS)
def test_another_stream_is_reported(stream: bytes, cuts: list[int]) -> None:
    """What is marked as gzip and is none."""
    assume(not stream.startswith(b"\x1f\x8b"))
    with pytest.raises(zlib.error):
        unpack(stream, cuts)
