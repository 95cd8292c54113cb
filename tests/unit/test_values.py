"""Show that values and places survive as the texts that they become, and that no other text is one."""

import base64
import json
import math
import re
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError, StoredDataError
from gcp_adk_store.codec.cursors import decode_event_cursor, decode_place_in, encode_cursor, encode_place_in
from gcp_adk_store.codec.decode import decode_value
from gcp_adk_store.codec.encode import FieldValue, encode_state, encode_value
from gcp_adk_store.model.sessions import EventPlace

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
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.integers(0, 2**63)
LISTING = "shop, all users, newest first"
PAGE_ENDS = st.tuples(st.floats(), st.text(), st.text())  # a damaged session may have any time
EVENT_PLACES = st.tuples(st.text(), NUMBERS, NUMBERS)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | FINITE | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


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


def encoded(place: Any) -> str:
    """Return any JSON value as a cursor encodes a place."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def page_end(place: tuple[float, str, str], *, listing: str = LISTING) -> str:
    """Return the cursor after a session, by its last update, user and id."""
    time, user, session = place
    return encode_place_in(listing, time, user, session)


def page_of(text: Any, *, listing: str = LISTING) -> list[Any]:
    """Return the place of a page's end, by its last update, user and id."""
    of = "pages of another app, user, order or filter"
    return decode_place_in(listing, text, float, str, str, of=of, at_any_time=True)


CURSORS = PAGE_ENDS.map(page_end) | EVENT_PLACES.map(encode_cursor)


def refusal(text: object) -> str:
    """Return what is said of a cursor that is none."""
    return f"cursor {str(text)[:40]!r} does not come from this method; leave it out to start anew"


@given(st.text(), PAGE_ENDS)
def test_the_end_of_a_page_comes_back(listing: str, place: tuple[float, str, str]) -> None:
    """With the last bit of its time and every letter of its ids, whosever session was the last on it."""
    assert repr([*place]) == repr(page_of(page_end(place, listing=listing), listing=listing))


@given(EVENT_PLACES)
def test_a_place_in_a_history_comes_back(place: tuple[str, int, int]) -> None:
    """With the life of the session that it is of."""
    epoch, segment, offset = place

    assert (epoch, EventPlace(segment=segment, offset=offset)) == decode_event_cursor(encode_cursor(place))


@pytest.mark.parametrize(
    ("cursor", "text"),
    [
        (page_end((1.5, "u/1", "ü")), "WyIzZmJkNzBkODRhNzk0MWM4IiwxLjUsInUvMSIsIlx1MDBmYyJd"),
        (encode_cursor(("e1", 2, 30)), "WyJlMSIsMiwzMF0="),
    ],
    ids=["page", "event"],
)
def test_a_cursors_text_is_stable(cursor: str, text: str) -> None:
    """A listing that goes on after an upgrade finds its place."""
    assert text == cursor


@given(CURSORS)
@example(page_end((0.0, "???>>>", "~~~")))
@example(page_end((0.0, "u", "???>>>")))
def test_a_cursor_is_safe_in_a_url(cursor: str) -> None:
    """It is plain ASCII, and a query string hands it through unquoted, whatever ids it holds."""
    assert re.fullmatch(r"[A-Za-z0-9_-]+={0,2}", cursor, re.ASCII) is not None
    assert {"cursor": [cursor], "n": ["1"]} == parse_qs(f"cursor={cursor}&n=1", strict_parsing=True)


@pytest.mark.parametrize("place", [("e1", -1, 0), ("e1", 0, -1), ("e1", -1, -1), ("e1", -(2**70), 5)])
def test_a_place_before_the_beginning_is_refused(place: tuple[str, int, int]) -> None:
    """Counting from the end, as Python does, would return events in a wrong order."""
    with pytest.raises(InvalidInputError) as caught:
        decode_event_cursor(encode_cursor(place))

    assert refusal(encode_cursor(place)) == str(caught.value)


@given(st.text() | JSON.map(encoded))
@example("\ud800")
@example("WzEuNSwidSIsInMiXQ")
@example(base64.urlsafe_b64encode(b"\xff\xfe").decode())
@example(base64.urlsafe_b64encode(b'["' + b"9" * 5000 + b'",' + b"9" * 5000 + b",0]").decode())
@example(base64.urlsafe_b64encode(b"[" * 100_000).decode())
def test_what_was_not_given_is_never_read(text: str) -> None:
    """No text gets further than a typed error, unless it is of a cursor's form."""
    for read, kinds in (
        (lambda: page_of(text, listing=LISTING), (str, float, str, str)),
        (lambda: decode_event_cursor(text), (str, int, int)),
    ):
        assume(kinds_in(text) != kinds)
        with pytest.raises(InvalidInputError, match="does not come from this method"):
            read()


def kinds_in(text: str) -> tuple[type, ...]:
    """Return the types in the list that *text* encodes, none if it encodes something else."""
    try:
        place = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (ValueError, RecursionError):
        return ()
    return tuple(map(type, place)) if isinstance(place, list) else ()
