"""Show how state is split into scopes, merged again, and made fit for storage."""

import datetime as dt
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from pydantic import BaseModel

from gcp_adk_store import InvalidInputError
from gcp_adk_store.model.state import persistent
from tests.support.stored import read_back


class Order(BaseModel):
    """A value as tools put it into state."""

    number: int
    note: str | None = None


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
    event = Event(id="e", author="a", timestamp=1.5, actions=EventActions(state_delta={"k": value}))

    assert {"k": value} == persistent({"k": value})[0]
    assert {"k": value} == read_back(event)[0].actions.state_delta
    with pytest.raises(InvalidInputError, match=r"'k' holds (more than 197 maps|an integer of over 4300)"):
        persistent({"k": [value] if isinstance(value, list) else value + 1})


def test_a_value_that_contains_itself_is_refused() -> None:
    """With a typed error that names the key."""
    with pytest.raises(
        InvalidInputError, match=r"state key 'k' holds more than 197 maps and lists .*, or contains itself"
    ):
        persistent({"k": CIRCLE})
