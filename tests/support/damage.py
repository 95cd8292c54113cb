"""Draw damage: what bugs, other programs, cut transfers and bad hands leave in storage.

Every text that is drawn as content holds :data:`HUSH`, so that a message which quotes it is found out.
"""

import copy
import json
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from hypothesis import strategies as st

HUSH: Final = "hush"

# No lone surrogates where the wire cannot carry them: a string of Firestore's is UTF-8.
WORDS = st.text(max_size=4).map(lambda text: f"{HUSH}{text}")
LAST_SECOND = 253402300799  # of the year 9999, as far as Firestore's times go
TIMES = st.integers(-62135596800, LAST_SECOND).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
NUMBERS = st.sampled_from([0, 1, -1, 2, 3, 10**9, 2**53, 10**18, -(2**63), 2**63 - 1]) | st.integers(
    -(2**63), 2**63 - 1
)
DOUBLES = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e300, float("inf"), float("-inf"), float("nan")])
DIGITS: Final = 5000
"""More of them than Python turns into a number."""

_LONG: Final = {
    "lists": "[" * 100_000,
    "maps": '{"a":' * 100_000,
    "deep": "[" * 300 + "]" * 300,
    "digits": "1" * DIGITS,
    "digits in a map": '{"a":' + "1" * DIGITS + "}",
    "digits of a time": '{"timestamp":1' + "0" * 400 + "}",
    "digits of a time of an event": '{"author":"a","timestamp":1' + "0" * 400 + "}",
}


def _long(name: str) -> str:
    return _LONG[name]


BROKEN_JSON = (
    st.sampled_from(sorted(_LONG)).map(_long)
    | st.sampled_from(
        [
            "",
            "{",
            '"',
            "nul",
            '["\\ud800"]',
            '{"author":"\\ud800"}',
            '{"timestamp":1e400}',
            '{"author":"a","timestamp":1e400}',
            '{"author":"a","timestamp":NaN}',
            '{"timestamp":"x"}',
            "\ufeff{}",
            "null",
            "[]",
            "{}",
            "5",
            "NaN",
        ]
    )
    | WORDS
    | WORDS.map(lambda word: json.dumps({"k": word})[:-1])
    | WORDS.map(lambda word: json.dumps([word]))
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=4,
)

BOMB: Final = zlib.compress(bytes(64 * 1024 * 1024), 9)
"""64 KiB that unpack to 64 MiB."""

BODIES = (
    st.binary(max_size=20)
    | st.builds(lambda text: zlib.compress(text.encode()), BROKEN_JSON)
    | st.builds(lambda value: zlib.compress(json.dumps(value).encode()), JSON | st.lists(WORDS | JSON))
    | st.builds(lambda: BOMB)
)

FIELDS = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | DOUBLES
    | TIMES
    | BODIES
    | WORDS
    | st.sampled_from(["", "chunks", "bucket", "1", "a/b", "..", "__x__"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=4,
)

REFERENCES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "sha256": st.sampled_from(["a" * 64, "A" * 64, "", "..", "/", None, 5]) | WORDS,
        "size": NUMBERS | st.sampled_from([0.5, 5.0, True]) | st.none() | WORDS,
        "in": st.sampled_from(["chunks", "bucket", "moon", "", None, 5]),
        "at": st.sampled_from([[], [0], [1], [0, 0], [-1], ["0"], [[0]], "ab", None, 5, {}]),
    },
)

VALUES = (
    FIELDS
    | BROKEN_JSON.map(lambda text: {"json": text})
    | JSON.map(lambda value: {"json": json.dumps(value)})
    | REFERENCES.map(lambda reference: {"payload": reference})
)
"""What stands for a state value."""

NAMES = st.sampled_from(
    ["", "k", "%", "%25", "%FF", "%41", "%2f", " s", "a%", "a/b", "a.b", "`", "\\", "\n", "..", "ü"]
)
"""Names of a map's fields: not all are encoded as this library does."""


@st.composite
def damaged_json(draw: st.DrawFn, text: str) -> str:
    """Draw *text* with some damage; a part of it, or with another value somewhere in it."""
    if draw(st.booleans()):
        return draw(BROKEN_JSON)
    if draw(st.booleans()):
        return text[: draw(st.integers(0, len(text) - 1))]
    try:
        whole = json.loads(text)
    except ValueError:  # an earlier piece of damage
        return draw(BROKEN_JSON)
    places = _places(whole)
    if not places:
        return draw(BROKEN_JSON)
    holder, key = draw(st.sampled_from(places))
    _damage_at(draw, holder, key, JSON | REFERENCES | st.lists(REFERENCES, max_size=2))
    return json.dumps(whole)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return each place within *value*: what holds it, and under which key."""
    keys = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    return [(value, key) for key in keys] + [place for key in keys for place in _places(value[key])]


def _damage_at(draw: st.DrawFn, holder: Any, key: Any, others: st.SearchStrategy[Any]) -> None:
    how: Callable[[], None] = draw(
        st.sampled_from(
            [
                lambda: holder.__delitem__(key),
                lambda: holder.__setitem__(key, draw(others)),
                lambda: holder.__setitem__(key, [holder[key]]),
                lambda: (
                    holder.__setitem__(draw(NAMES), draw(others))
                    if isinstance(holder, dict)
                    else holder.append(draw(others))
                ),
            ]
        )
    )
    how()


@st.composite
def damaged(
    draw: st.DrawFn, fields: dict[str, Any], *, others: st.SearchStrategy[Any] = FIELDS
) -> dict[str, Any]:
    """Draw a document's *fields* with one to three pieces of damage, in or below them."""
    found = copy.deepcopy(fields)
    for _ in range(draw(st.integers(1, 3))):
        if not found:
            break
        name = draw(st.sampled_from(sorted(found)))
        value = found[name]
        if isinstance(value, str) and value[:1] == "{" and draw(st.booleans()):
            found[name] = draw(damaged_json(value))
        elif isinstance(value, bytes) and draw(st.booleans()):
            found[name] = draw(BODIES) if draw(st.booleans()) else value[: draw(st.integers(0, len(value)))]
        elif isinstance(value, (dict, list)) and value and draw(st.booleans()):
            _damage_inside(draw, value, others)
        elif isinstance(value, int) and draw(st.booleans()):
            found[name] = draw(NUMBERS | st.sampled_from([value - 1, value + 1]))
        else:
            _damage_at(draw, found, name, others)
    return found


def _damage_inside(
    draw: st.DrawFn, value: dict[str, Any] | list[Any], others: st.SearchStrategy[Any]
) -> None:
    keys = sorted(value) if isinstance(value, dict) else list(range(len(value)))
    key: Any = draw(st.sampled_from(keys))
    text = value[key]
    if isinstance(text, str) and text[:1] == "{" and draw(st.booleans()):
        value[key] = draw(damaged_json(text))
    else:
        _damage_at(draw, value, key, others | VALUES)
