"""Show how state is made fit, and that what becomes too large is refused in little memory and time."""

import asyncio
import datetime as dt
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from gcp_adk_store import InvalidInputError, SessionLimits, Store
from gcp_adk_store.model.json_values import Bounds, weigh
from gcp_adk_store.model.state import persistent
from tests.support.stored import read_back

LIMITS = SessionLimits(inline_bytes=10**5, event_text_bytes=10**5, max_payload_bytes=10**8, max_values=10**6)


def doubled(times: int, innermost: Any = None) -> list[Any]:
    """Return a list that holds another twice, that one another, and so on: small, but 2**times as JSON."""
    value: list[Any] = [innermost]
    for _ in range(times):
        value = [value, value]
    return value


class Note(BaseModel):
    """A model as tools put it into state."""

    held: Any


@dataclass
class Card:
    """A dataclass as tools put it into state."""

    held: Any


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.builds(lambda value: [value, value, (value,)], inner)
    ),
    max_leaves=30,
)


def counted(value: Any) -> int:
    """Return how many values JSON encodes, one by one."""
    items = value.values() if isinstance(value, dict) else value
    return 1 + sum(map(counted, items)) if isinstance(value, (dict, list, tuple)) else 1


@given(VALUES)
def test_shared_parts_count_as_often_as_they_are_encoded(value: Any) -> None:
    """The sum is that of a count without memory."""
    assert counted(value) == weigh(value, bounds=Bounds(), what="value")[0]


@pytest.mark.parametrize("holder", [lambda x: x, lambda x: {"a": x}, lambda x: Note(held=x), Card])
def test_a_value_that_shares_its_parts_is_refused(holder: Callable[[Any], Any]) -> None:
    """In any holder; the error names the key, the values so far, the limit, the setting and the way out."""
    with pytest.raises(InvalidInputError) as caught:
        persistent({"k": holder(doubled(24))}, bounds=Bounds(values=10**6))

    message = str(caught.value)
    assert message.startswith("state key 'k' takes at least 1")
    assert message.endswith(
        " values as JSON, each part as often as it stands there; SessionLimits.max_values is 1000000: "
        "raise it, or keep what is larger as an artifact"
    )


def test_a_text_that_is_shared_is_refused_by_its_bytes() -> None:
    """A thousand times the same megabyte is a gigabyte of JSON."""
    with pytest.raises(
        InvalidInputError, match=r"'k' takes at least \d+ bytes .*max_payload_bytes is 100000000:"
    ):
        persistent({"k": ["x" * 10**6] * 1000}, bounds=Bounds(size=LIMITS.max_payload_bytes))


def event(held: Any) -> Event:
    """Return an event of a model that calls a function with *held*."""
    call = types.Part(function_call=types.FunctionCall(name="f", args={"x": held}))
    return Event(id="e1", author="a", timestamp=1.5, content=types.Content(parts=[call]))


def answer(held: Any) -> Event:
    """Return an event of a function that answers *held*."""
    response = types.Part(function_response=types.FunctionResponse(name="f", response={"x": held}))
    return Event(id="e1", author="a", timestamp=1.5, content=types.Content(parts=[response]))


def noted(held: Any) -> Event:
    """Return an event with *held* as its custom metadata."""
    return Event(id="e1", author="a", timestamp=1.5, custom_metadata={"x": held})


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize("made", [event, answer, noted])
@pytest.mark.parametrize(
    ("held", "message"),
    [
        (doubled(24), "event 'e1' takes at least 1[0-9]* values as JSON.*max_values is 1000000"),
        (CIRCLE, "event 'e1' holds more than 200 maps and lists within each other, or contains itself"),
        (
            ["x" * 10**6] * 1000,
            "event 'e1' takes at least 1[0-9]* bytes as JSON.*max_payload_bytes is 100000000",
        ),
    ],
    ids=["doubled", "circle", "shared text"],
)
def test_an_event_that_would_be_too_large_is_refused(
    made: Callable[[Any], Event], held: Any, message: str
) -> None:
    """In every place that callers fill."""
    with pytest.raises(InvalidInputError, match=message):
        read_back(made(held), limits=LIMITS)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (
            doubled(24),
            "custom_metadata takes at least .* the limit is 8192: keep what is larger in the artifact",
        ),
        (CIRCLE, "custom_metadata holds more than 200 maps and lists within each other"),
    ],
    ids=["doubled", "circle"],
)
def test_metadata_that_would_be_too_large_is_refused(held: Any, message: str) -> None:
    """Of an artifact, before it is encoded."""
    with pytest.raises(InvalidInputError, match=message):
        save(held)


def save(held: Any) -> None:
    """Save an artifact with *held* in its metadata."""

    async def work() -> None:
        async with Store.local(":memory:") as store:
            await store.artifacts.save_artifact(
                app_name="app",
                user_id="user",
                filename="user:f",
                artifact=types.Part(text="t"),
                custom_metadata={"k": held},
            )

    asyncio.run(work())


_ROOM = 200 * 1024 * 1024

_REFUSED_IN_LITTLE_ROOM = f"""
import resource
from tests.unit.test_weights import *
held = doubled(40, "text")
read_back(event(1), limits=LIMITS)
save(1)
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + {_ROOM}, taken + {_ROOM}))
for refuse in (
    lambda: persistent({{"k": held}}),
    lambda: persistent({{"k": Note(held=held), "user:k": held, "app:k": held}}),
    lambda: read_back(event(held), limits=LIMITS),
    lambda: read_back(noted(held), limits=LIMITS),
    lambda: save(held),
):
    try:
        refuse()
    except InvalidInputError:
        print("refused")
"""


@pytest.mark.long
def test_a_refusal_takes_little_memory_and_time() -> None:
    """200 MiB of address space and 20 s of computing are more than enough, imports included."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))

    done = subprocess.run(
        [sys.executable, "-c", _REFUSED_IN_LITTLE_ROOM],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=bound,
    )

    assert ("refused\n" * 5, "", 0) == (done.stdout, done.stderr, done.returncode)


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
