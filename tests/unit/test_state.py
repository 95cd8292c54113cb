"""Show how state is split into scopes, merged again, and made fit for storage."""

import copy
import datetime as dt
from typing import Any

import pytest
from google.adk.events import Event
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from gcp_adk_store.codec.events import encode_event
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.payloads import PayloadPlace
from gcp_adk_store.model.state import ScopedState, merge_scopes, overlay, persistent, split_scopes
from gcp_adk_store.settings import SessionLimits

KEYS = st.builds(
    str.__add__,
    st.sampled_from(["", "app:", "user:", "temp:", "App:", "app", "user:app:"]),
    st.text(max_size=3),
)


class Order(BaseModel):
    """A value as tools put it into state."""

    number: int
    note: str | None = None


def test_keys_are_sorted_by_prefix() -> None:
    """Each key goes to its scope without the prefix, and ``temp:`` keys go nowhere."""
    state = {
        "app:a": 1,
        "user:b": 2,
        "c": 3,
        "temp:d": 4,
        "app:": 5,
        "user:app:e": 6,
        "App:f": 7,
        "application": 8,
    }

    assert ScopedState(
        app={"a": 1, "": 5}, user={"b": 2, "app:e": 6}, session={"c": 3, "App:f": 7, "application": 8}
    ) == split_scopes(state)


@given(st.dictionaries(KEYS, st.integers()))
def test_merging_undoes_splitting(state: dict[str, Any]) -> None:
    """A reader sees every key that was stored under the name it was written with."""
    expected = {key: value for key, value in state.items() if not key.startswith("temp:")}

    assert expected == merge_scopes(split_scopes(state))


def test_an_overlay_replaces_whole_values_by_key() -> None:
    """A change replaces what it names, dictionaries too, and ``None`` is a value like any other."""
    state = ScopedState(app={"a": {"x": 1}, "b": 1}, user={"u": 1, "v": 1}, session={"s": 1, "t": 2})
    before = copy.deepcopy(state)
    changed = overlay(state, ScopedState(app={"a": {"y": 2}}, user={"u": None}, session={"s": [], "n": 3}))

    assert (
        ScopedState(app={"a": {"y": 2}, "b": 1}, user={"u": None, "v": 1}, session={"s": [], "t": 2, "n": 3})
        == changed
    )
    assert before == state


def test_rich_values_become_json() -> None:
    """Datetimes, models and tuples are stored as ADK encodes them."""
    delta = {
        "when": dt.datetime(2026, 10, 23, 12, 30, tzinfo=dt.UTC),
        "user:order": Order(number=7),
        "app:pair": (1, "x"),
        "none": None,
        "big": 2**80,
        "flag": True,
    }

    assert {
        "when": "2026-10-23T12:30:00Z",
        "user:order": {"number": 7, "note": None},
        "app:pair": [1, "x"],
        "none": None,
        "big": 2**80,
        "flag": True,
    } == persistent(delta)[0]


def test_what_is_stored_is_a_copy() -> None:
    """What the caller changes afterwards does not reach what is being stored."""
    nested = {"list": [1]}
    stored, _ = persistent({"k": nested})
    nested["list"].append(2)

    assert {"k": {"list": [1]}} == stored


def test_a_value_beyond_json_becomes_its_text() -> None:
    """One odd value neither fails the append nor changes the others; warnings name key and type only."""
    odd = Odd()
    stored, warnings = persistent({"good": [1, None], "odd": odd, "nested": {"x": odd}})

    assert {"good": [1, None], "odd": "secret text", "nested": {"x": "secret text"}} == stored
    assert [
        "state key 'odd' holds a Odd, which JSON cannot hold; its text is stored instead",
        "state key 'nested' holds a dict, which JSON cannot hold; its text is stored instead",
    ] == warnings


def test_temporary_values_are_dropped_unseen() -> None:
    """``temp:`` keys may hold anything, clients and locks too, without a warning."""
    assert ({"kept": 1}, []) == persistent({"temp:client": Odd(), "kept": 1})


class Odd:
    """A value that JSON cannot hold."""

    def __str__(self) -> str:
        return "secret text"


CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = CIRCLE


def test_bytes_that_are_no_text_become_their_text_with_a_warning() -> None:
    """The key and the type are named."""
    kept, (warning,) = persistent({"k": b"\xff", "other": 1})

    assert {"k": "b'\\xff'", "other": 1} == kept
    assert "'k' holds a bytes" in warning


def nested(levels: int) -> list[Any]:
    """Return as many lists within each other."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize("value", [nested(197), 10**4300 - 1], ids=["deep", "long"])
def test_what_is_at_a_limit_of_state_comes_back(value: Any) -> None:
    """An event takes it as its change of state; one level or digit more is refused by its key."""
    delta, _ = persistent({"k": value})
    limits = SessionLimits(inline_bytes=1, event_text_bytes=10**6, max_payload_bytes=10**6)
    event = Event(id="e", author="a", timestamp=1.5)

    assert {"k": value} == delta
    assert (
        delta
        == encode_event(
            event, state_delta=delta, place=PayloadPlace.CHUNKS, limits=limits
        ).event.actions.state_delta
    )
    with pytest.raises(InvalidInputError, match=r"'k' holds (more than 197 maps|an integer of over 4300)"):
        persistent({"k": [value] if isinstance(value, list) else value + 1})


def test_a_value_that_contains_itself_is_refused() -> None:
    """With a typed error that names the key."""
    with pytest.raises(
        InvalidInputError, match=r"state key 'k' holds more than 197 maps and lists .*, or contains itself"
    ):
        persistent({"k": CIRCLE})
