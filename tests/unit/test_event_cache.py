"""Show that a remembered event is as good as one that was read anew, and nobody else's."""

import asyncio
import enum
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from pydantic import BaseModel

from gcp_adk_store.codec.event_copies import copy_event
from gcp_adk_store.codec.events import StoredEvent, decode_event
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.event_cache import EventCache
from gcp_adk_store.pauses import Pauses

CALL = types.FunctionCall(id="c", name="book", args={"legs": [{"to": "X", "stops": []}], "class": None})
EVENTS = [
    Event(author="user", timestamp=1.5),
    Event(
        author="agent",
        invocation_id="i",
        timestamp=2,
        content=types.Content(
            role="model",
            parts=[
                types.Part(text="t", thought=True),
                types.Part(function_call=CALL),
                types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="a/b")),
            ],
        ),
        actions=EventActions(state_delta={"a": {"b": [1, {"c": 2.0}]}}, artifact_delta={"f": 3}),
        custom_metadata={"deep": [[["x"]]]},
        finish_reason=types.FinishReason.STOP,
        usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=7),
        long_running_tool_ids={"c"},
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=["bare", "full"])
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(event: Event) -> None:
    """To the type, what was set of it, and what it is written as; as pydantic's own deep copy is."""
    copied = copy_event(event)

    assert event == copied == event.model_copy(deep=True)
    assert type(event) is type(copied)
    assert [model.model_fields_set for model in models(event)] == [
        model.model_fields_set for model in models(copied)
    ]
    assert event.model_dump_json() == copied.model_dump_json()
    assert {id(one) for one in changeable(event)}.isdisjoint(id(one) for one in changeable(copied))


def test_what_only_its_own_class_can_copy_is_left_to_it() -> None:
    """Private attributes, extra fields, times, and models that say how they are copied."""

    class Model(BaseModel, extra="allow"):
        _seen: list[int] = [1]

    class Odd(BaseModel):
        copies: int = 0

        def __deepcopy__(self, memo: dict[int, Any] | None = None) -> "Odd":
            return Odd(copies=self.copies + 1)

    held = Model.model_validate({"more": [1]})
    held._seen.append(2)
    event = Event(
        author="a", custom_metadata={"model": held, "odd": Odd(), "at": datetime(2026, 1, 1, tzinfo=UTC)}
    )

    metadata = copy_event(event).custom_metadata

    assert metadata is not None
    assert held == metadata["model"]
    assert [1, 2] == metadata["model"]._seen
    assert held._seen is not metadata["model"]._seen
    assert 1 == metadata["odd"].copies
    assert datetime(2026, 1, 1, tzinfo=UTC) == metadata["at"]


@pytest.mark.parametrize("remember", [True, False])
def test_what_a_caller_does_to_an_event_the_next_reader_does_not_see(*, remember: bool) -> None:
    """Whether it was the first to read it or not."""
    cache = EventCache(1_000_000)
    text = EVENTS[1].model_dump_json(exclude_none=True)
    for _ in range(3):
        (read,) = decode(cache, [text], remember=remember)
        assert decode_event(text) == read
        assert read.event.content
        assert read.event.content.parts
        read.event.actions.state_delta["a"]["b"].append("mine")
        del read.event.content.parts[:]


def test_an_event_that_was_put_is_not_read_again() -> None:
    """What an append read back is what the next read of the session copies."""
    cache = EventCache(1_000_000)
    text = EVENTS[0].model_dump_json()
    put = StoredEvent(event=Event(author="put", timestamp=1), missing={})
    cache.put(text, put)

    (read,) = decode(cache, [text], remember=False)

    assert put == read
    assert put.event is not read.event


def test_the_event_that_was_asked_for_least_lately_is_forgotten_first() -> None:
    """The bound is of bytes, and one that is larger than all of it is never kept."""
    texts = [Event(author=name, timestamp=1).model_dump_json(exclude_none=True) for name in "abc"]
    marks = [StoredEvent(event=Event(author=f"kept {name}", timestamp=1), missing={}) for name in "abc"]
    cache = EventCache(9000)
    for text, mark in zip(texts[:2], marks[:2], strict=True):
        cache.put(text, mark)
    decode(cache, texts[:1], remember=False)
    cache.put(texts[2], marks[2])
    cache.put("x" * 10_000, marks[0])

    assert ["kept a", "b", "kept c"] == [one.event.author for one in decode(cache, texts, remember=False)]


@pytest.mark.parametrize(
    "make",
    [
        lambda number: Event(author=f"{number}"),
        lambda number: said(*(types.Part(text=f"{number}, {place}") for place in range(60))),
        lambda number: said(types.Part(text=f"{number}"), *(types.Part() for _ in range(60))),
        lambda number: said(types.Part(text=f"{number}" + "\u6587\U0001f600" * 1000)),
        lambda number: said(types.Part(text=f"{number}" + "{a, b}, [c]" * 100)),
        lambda number: said(types.Part(inline_data=types.Blob(data=b"%9d" % number * 500))),
        lambda number: said(
            types.Part(
                function_response=types.FunctionResponse(
                    name="f", response={"rows": [{"n": number + row, "x": [], "y": {}} for row in range(60)]}
                )
            )
        ),
        lambda number: Event(author="a", actions=EventActions(state_delta={"k": [[number + 0.5], "v"] * 60})),
    ],
    ids=["bare", "parts", "empty parts", "no ASCII", "code", "bytes", "rows", "values"],
)
async def test_the_bound_of_memory_holds_whatever_is_in_the_events(make: Callable[[int], Event]) -> None:
    """As tracemalloc measures it, with texts of the cache's own; a tenth over it is no harm."""
    capacity = 300_000
    cache = EventCache(capacity)

    async def read(number: int, *, remember: bool) -> None:
        text = make(number).model_dump_json(exclude_none=True)
        await cache.decode([text], where="", remember=remember, pauses=Pauses())

    await read(0, remember=False)  # what a first time takes
    tracemalloc.start()
    try:
        for number in range(90):
            await read(number, remember=True)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken < 1.1 * capacity
    assert taken > 0.1 * capacity


def test_a_history_has_place_only_beside_another() -> None:
    """Half of the memory at most; what is larger would push out its own events."""
    texts = ["x" * 500] * 10

    assert EventCache(2 * 10 * 6000).has_place_for([texts[:4], texts[4:]])
    assert not EventCache(2 * 10 * 6000 - 1).has_place_for([texts[:4], texts[4:]])


def test_a_cache_of_no_size_reads_every_time() -> None:
    """Nothing is kept, not even what is put."""
    cache = EventCache(0)
    text = EVENTS[0].model_dump_json()
    cache.put(text, StoredEvent(event=EVENTS[1], missing={}))

    assert [decode_event(text)] == decode(cache, [text], remember=True)


def test_a_damaged_event_is_told_by_its_place() -> None:
    """The document, and the number within it."""
    with pytest.raises(StoredDataError, match=r"^apps/a: event 6: "):
        asyncio.run(
            EventCache(0).decode(
                [EVENTS[0].model_dump_json(), "{"], where="apps/a", first=5, remember=False, pauses=Pauses()
            )
        )


@pytest.mark.parametrize(("count", "parts", "pauses"), [(3000, 0, 3), (6, 3000, 5)], ids=["many", "large"])
async def test_others_have_their_turn_while_events_are_read(count: int, parts: int, pauses: int) -> None:
    """Far more often than once, and after each that is large: a reader of a long history holds nobody up."""
    content = types.Content(parts=[types.Part()] * parts)
    made = [Event(author="a", timestamp=number, content=content) for number in range(count)]
    texts = [one.model_dump_json(exclude_none=True) for one in made]
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    busy = asyncio.create_task(other())
    await EventCache(0).decode(texts, where="", remember=False, pauses=Pauses())
    busy.cancel()

    assert turns >= pauses


def said(*parts: types.Part) -> Event:
    """Return an event of these parts."""
    return Event(author="a", timestamp=1, content=types.Content(parts=list(parts)))


def decode(cache: EventCache, texts: list[str], *, remember: bool) -> list[StoredEvent]:
    """Return what *cache* gives for *texts*."""
    return asyncio.run(cache.decode(texts, where="", remember=remember, pauses=Pauses()))


def changeable(value: object) -> Iterator[object]:
    """Yield every object in *value* that somebody could change."""
    if isinstance(value, (str, int, float, bytes, enum.Enum)) or value is None:
        return
    yield value
    inner = [value.__dict__, value.model_fields_set] if isinstance(value, BaseModel) else value
    for item in inner.values() if isinstance(inner, dict) else inner:  # type: ignore[attr-defined]
        yield from changeable(item)


def models(value: object) -> Iterator[BaseModel]:
    """Yield every model in *value*, in the order of its fields."""
    if isinstance(value, BaseModel):
        yield value
        value = value.__dict__
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from models(item)
