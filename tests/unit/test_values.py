"""Show that any JSON value survives storage with its exact type, and that nothing else gets in."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, StoredDataError
from gcp_adk_store.codec.values import FieldValue, decode_state, decode_value, encode_state, encode_value

# Text includes lone surrogates, which JSON can hold; numbers include what no 64 bits can.
TEXT = st.text(st.characters(exclude_categories=()), max_size=6)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = CIRCLE


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    """Type, sign, order and precision survive; ``repr`` distinguishes 1, 1.0, True and -0.0."""
    field = encode_value(value, what="value")

    assert repr(value) == repr(decode_value(field, what="value"))


@given(VALUES)
def test_a_field_needs_nothing_that_firestore_lacks(value: Any) -> None:
    """On the wire a value is a scalar of Firestore's, or one map with one text."""
    field = encode_value(value, what="value")
    (wire,) = field.values() if isinstance(field, dict) else (field,)

    assert wire is None or type(wire) in {bool, int, float, str}
    assert not isinstance(field, dict) or list(field) == ["json"]
    assert type(wire) is not int or -(2**63) <= wire < 2**63
    assert type(wire) is not str or wire.encode().decode() == wire


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, None),
        (True, True),
        (0, 0),
        (-(2**63), -(2**63)),
        (2**63 - 1, 2**63 - 1),
        (0.1, 0.1),
        (math.inf, math.inf),
        ("", ""),
        ("Grüße", "Grüße"),
        (2**63, {"json": "9223372036854775808"}),
        (-(2**63) - 1, {"json": "-9223372036854775809"}),
        ([], {"json": "[]"}),
        ({}, {"json": "{}"}),
        ([[1, [2.0]], None], {"json": "[[1,[2.0]],null]"}),
        ({"json": "1"}, {"json": '{"json":"1"}'}),
        ({"": 1, "__x__": "ü"}, {"json": '{"":1,"__x__":"\\u00fc"}'}),
        ("\ud800", {"json": '"\\ud800"'}),
    ],
)
def test_a_value_is_encoded_as_documented(value: Any, field: FieldValue) -> None:
    """These fields are in stored documents: format 1 never changes them."""
    assert (repr(field), repr(value)) == (
        repr(encode_value(value, what="value")),
        repr(decode_value(field, what="value")),
    )


@pytest.mark.parametrize("depth", [21, 200])
def test_depth_is_no_limit(depth: int) -> None:
    """Values nest deeper than the twenty levels of a Firestore map."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]

    assert value == decode_value(encode_value(value, what="value"), what="value")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({1, 2}, "a set"),
        (b"secret", "a bytes"),
        ([1, {"a": object()}], "a object"),
        ({(1,): 2}, "a tuple as a key"),
        (CIRCLE, "a map or a list that contains itself"),
    ],
)
def test_a_value_beyond_json_is_refused(value: Any, kind: str) -> None:
    """The error names the place and the type, never the content."""
    with pytest.raises(InvalidInputError) as caught:
        encode_value(value, what="state key 'k'")

    assert f"state key 'k' holds {kind}, which JSON cannot hold" == str(caught.value).partition(";")[0]
    assert "use text, finite numbers" in str(caught.value)


@pytest.mark.parametrize(
    ("field", "form"),
    [
        ({"blob": "sha256:secret"}, "dict"),
        ({}, "dict"),
        ({"json": 5}, "dict"),
        ({"json": None}, "dict"),
        ({"json": "1", "zip": "1"}, "dict"),
        (["secret"], "list"),
        (
            b"secret",
            "encrypted, and this store has no key: pass encryption=, or set ADK_STORE_ENCRYPTION_KEY",
        ),
    ],
)
def test_a_form_of_a_later_release_is_refused(field: FieldValue, form: str) -> None:
    """What this release does not understand is an error, not a guess, and is not quoted."""
    with pytest.raises(StoredDataError) as caught:
        decode_value(field, what="state key 'k'")

    assert f"state key 'k' is stored in a form unknown to this release: {form}" == str(caught.value)


def test_state_keys_are_escaped() -> None:
    """Keys that Firestore reserves or would need quoting are encoded as names."""
    fields = encode_state({"": 1, "a.b": None, "__x__": [1], "a/b`": "t"})

    assert {"%": 1, "a.b": None, "%5F_x__": {"json": "[1]"}, "a%2Fb%60": "t"} == fields


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({5: 1}, "a state key must be text, not int 5"),
        ({None: 1}, "a state key must be text, not NoneType None"),
        (
            {"k": {1, 2}},
            (
                "state key 'k' holds a set, which JSON cannot hold; use text, finite numbers, booleans, "
                "None, lists, and maps whose keys are text"
            ),
        ),
        (
            {"k" * 1501: 1},
            (
                f"state key {'k' * 40!r} takes 1501 bytes as a Firestore name, the limit is 1500; "
                "use a shorter one"
            ),
        ),
    ],
)
def test_a_state_that_cannot_be_stored_is_refused(state: dict[str, Any], message: str) -> None:
    """The error says which key, and why."""
    with pytest.raises(InvalidInputError) as caught:
        encode_state(state)

    assert message == str(caught.value)


def test_an_unreadable_state_names_its_key() -> None:
    """Which of many keys cannot be read is reported under the name that the user gave it."""
    with pytest.raises(StoredDataError, match="state key 'a/b' is stored in a form unknown"):
        decode_state({"fine": 1, "a%2Fb": {"blob": "x"}})
