"""Show that compressed bytes are unpacked whole, within a bound, or reported as damaged."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.packing import unpack
from tests.support.damage import BOMB
from tests.support.peak_memory import Peak


@given(st.binary(max_size=50))
def test_what_was_packed_is_unpacked_up_to_its_very_size(data: bytes) -> None:
    """A bound of as many bytes takes it, one byte less does not."""
    assert data == unpack(zlib.compress(data), limit=len(data))
    if data:
        with pytest.raises(ValueError, match=f"over {len(data) - 1} bytes"):
            unpack(zlib.compress(data), limit=len(data) - 1)


@given(st.binary(max_size=50), st.data())
def test_a_part_or_more_than_the_whole_is_refused(data: bytes, draw: st.DataObject) -> None:
    """It is never taken for a shorter text."""
    packed = zlib.compress(data)
    cut = packed[: draw.draw(st.integers(0, len(packed) - 1))]
    for damaged in (cut, packed + b"x"):
        with pytest.raises(ValueError, match=r"."):
            unpack(damaged, limit=100)


def test_a_bomb_takes_no_more_memory_than_the_bound() -> None:
    """64 KiB that would become 64 MiB."""
    with Peak() as held, pytest.raises(ValueError, match="over 1000000 bytes"):
        unpack(BOMB, limit=1_000_000)

    assert held.bytes < 4_000_000
