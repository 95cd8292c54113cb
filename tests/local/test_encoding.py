"""Show that rows encode documents exactly, and that a row which grows a little keeps its size."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.local.encoding import Encoded, encode, read

LONG = st.text(st.characters(exclude_categories=["Cs"]), max_size=400) | st.just("x" * 300) | st.just("\xff")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | LONG
    | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(LONG, inner, max_size=4) | st.lists(LONG, max_size=4)
    ),
    max_leaves=12,
)


def size(encoded: Encoded) -> int:
    """Return the size of a row."""
    return sum(len(column or "") for column in encoded)


def exact(value: Any) -> str:
    """Return *value* so that equal texts mean equal types."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{name!r}:{exact(item)}' for name, item in sorted(value.items()))}}}"
    return f"[{','.join(map(exact, value))}]" if isinstance(value, list) else repr(value)


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "é"]), VALUES))
def test_every_document_is_read_as_it_was_encoded(fields: dict[str, Any]) -> None:
    """And equal documents have one encoding, whatever the order of their fields."""
    assert exact(fields) == exact(read(encode(fields), what="it"))
    assert encode(fields) == encode(dict(reversed(fields.items())))


def test_equal_numbers_of_other_types_are_encoded_otherwise() -> None:
    """So a change of the type alone is one."""
    values = [0, 0.0, -0.0, False, math.nan, "0", None, b"0"]
    assert len(values) == len({encode({"a": value}) for value in values})


def test_an_array_of_texts_that_grows_rarely_changes_the_size_of_its_row() -> None:
    """The database then writes only what changed."""
    tail: list[str] = []
    sizes = []
    for number in range(100):
        tail.append(f"event {number} " * 50)
        sizes.append(size(encode({"rev": number, "tail": tail})))
    assert 8 > len(set(sizes))


def test_an_array_that_grows_moves_little_of_what_is_beside_it() -> None:
    """Not even what has a name before its own, and grows or changes with it."""
    tail = [f"event {number} " * 50 for number in range(50)]
    encoded = []
    for count in (49, 50):
        fields = {"hashes": [b"8 bytes!"] * count, "last_text": "x" * (300 + count), "tail": tail[:count]}
        encoded.append(encode(fields).content or b"")
    one, other = encoded
    same = next(at for at, (here, there) in enumerate(zip(one, other, strict=True)) if here != there)

    assert same >= sum(map(len, tail[:49]))


def test_a_row_in_the_order_of_names_is_read() -> None:
    """As earlier releases encoded it."""
    fields = {"a": [b"one", b"two"], "b": ["a text", "another one"], "c": 1}
    earlier = Encoded('{"c":1}', '{"a":["l",[3,3]],"b":["a",[6,11]]}', b"onetwoa textanother one\xff\xff")

    assert fields == read(earlier, what="it")
