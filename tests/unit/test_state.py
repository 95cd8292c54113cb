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


class Odd:
    """A value that JSON cannot hold."""

    def __str__(self) -> str:
        return "secret text"


def test_rich_values_become_json_and_odd_ones_their_texts() -> None:
    """As ADK encodes them; warnings name key and type alone, and what is temporary is dropped unseen."""
    stored, warnings = persistent(
        {
            "when": dt.datetime(2026, 10, 23, 12, 30, tzinfo=dt.UTC),
            "user:order": Order(number=7),
            "app:pair": (1, "x"),
            "odd": Odd(),
            "nested": {"x": Odd()},
            "bytes": b"\xff",
            "temp:client": Odd(),
        }
    )

    assert {
        "when": "2026-10-23T12:30:00Z",
        "user:order": {"number": 7, "note": None},
        "app:pair": [1, "x"],
        "odd": "secret text",
        "nested": {"x": "secret text"},
        "bytes": "b'\\xff'",
    } == stored
    assert [
        f"state key {key!r} holds a {kind}, which JSON cannot hold; its text is stored instead"
        for key, kind in (("odd", "Odd"), ("nested", "dict"), ("bytes", "bytes"))
    ] == warnings


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
    circle: dict[str, Any] = {}
    circle["self"] = circle
    with pytest.raises(
        InvalidInputError, match=r"state key 'k' holds more than 197 maps and lists .*, or contains itself"
    ):
        persistent({"k": circle})
