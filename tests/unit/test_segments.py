"""Show that segments give back their texts, and that damage is told without quoting it."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.packing import pack_segment, unpack_segment
from gcp_adk_store.errors import StoredDataError


@given(st.lists(st.text(max_size=20), max_size=8))
def test_a_segment_comes_back_as_it_was(texts: list[str]) -> None:
    """Texts leave a segment in the order and encoding they entered it."""
    assert texts == unpack_segment(pack_segment(texts))


def test_a_segment_is_compressed_json() -> None:
    """The body can be read without this library: zlib over a JSON array of texts."""
    texts = ['{"id":"1"}', '{"id":"ü"}']

    assert '["{\\"id\\":\\"1\\"}","{\\"id\\":\\"ü\\"}"]' == zlib.decompress(pack_segment(texts)).decode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"secret",
        pack_segment(["secret"] * 9)[:-1],
        pack_segment(["secret"])[:-1] + b"\x00",
        zlib.compress(b'["secret"'),
        zlib.compress(b'["\xff"]'),
    ],
)
def test_a_damaged_segment_is_told_by_its_size(body: bytes) -> None:
    """A truncated, altered or foreign body is an error of stored data that quotes none of it."""
    with pytest.raises(StoredDataError) as caught:
        unpack_segment(body)

    assert f"the body of a segment ({len(body)} bytes) is damaged" == str(caught.value)
