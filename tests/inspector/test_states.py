"""The state of a session is shown by its changes, at a place, and by what differs between two places."""

import re

import pytest
from fastapi import FastAPI
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.inspector import create_app
from gcp_adk_store.settings import MEMORY
from tests.inspector.story import CALM, CALM_PLACE, client_of, opened, seen
from tests.support.stores import remove_payloads

READS = 40
"""Segments, or events that are payloads as a whole, of a page: as docs/inspector.md says."""
MAX_CHANGES = 1_000
"""Of a page with the changes of the state."""


async def test_the_matrix_leads_to_each_change(calm: Session, app: FastAPI) -> None:
    """A mark opens a comparison with the value before, and names its event."""
    page = await seen(app, "matrix")
    marks = page.links("/change?")
    creation, first = [await opened(app, mark) for mark in marks[:2]]

    assert "13 changes of 2 keys in 25 events" in page.text
    assert 13 == len(marks) == len(page.all("circle"))
    assert "At the creation of the session. @@ -0,0 +1 @@ + []" in creation.text
    assert f"By event 4, {calm.events[3].id} ." in first.text
    assert '- [] + [ + "parcel", + 0 + ]' in first.text


async def test_the_difference_of_two_points_is_shown(calm: Session, app: FastAPI, masked: FastAPI) -> None:
    """Points are positions, events and times; under the mask keys alone."""
    of_place = {"from": 4, "to": 9}
    by_events = {"from": calm.events[3].id, "to": calm.events[8].id}
    by_time = {"from": "2023-11-14T22:13:23Z", "to": "2023-11-14T23:15:20+01:00"}
    texts = []
    for points in (of_place, by_events, by_time, {"from": 9, "to": 4}):
        page = await seen(app, "difference", {**CALM_PLACE, **points})
        texts.append(page.text.partition("Key From To ")[2])
    hidden = await seen(masked, "difference", {**CALM_PLACE, **of_place})
    same = await seen(app, "difference", {**CALM_PLACE, "from": 1, "to": 3})
    far = await seen(app, "difference", {**CALM_PLACE, "from": 26}, status=404)
    whole = await seen(app, "difference")

    assert 'cart [ "parcel", 0 ] [ "parcel", 1 ] seen 0 1' in texts[0]
    assert texts[0] == texts[1] == texts[2]
    assert 'cart [ "parcel", 1 ] [ "parcel", 0 ] seen 1 0' in texts[3]
    assert "2 keys differ" in hidden.text
    assert "masked, 19 characters" in hidden.text
    assert "0 keys differ" in same.text
    assert "the session has 25 events, the point is after 26" in far.text
    assert 'cart [] [ "parcel", 5 ] seen no value 5' in whole.text


async def test_values_that_are_payloads_are_shown() -> None:
    """A value of the session's creation is on each page with its content, not with what refers to it."""
    first, second = "x" * 3000, "z" * 2500
    async with Store.local(MEMORY, session_limits=SessionLimits(state_value_bytes=1000)) as store:
        app = create_app(store, authorize=lambda *asked: True, reveal="always")  # noqa: ARG005
        session = await store.sessions.create_session(**CALM, state={"big": first})
        for value in (None, second, None):
            delta = {} if value is None else {"big": value}
            await store.sessions.append_event(
                session, Event(author="a", actions=EventActions(state_delta=delta))
            )
        past = await seen(app, "state", {**CALM_PLACE, "event": 1})
        now = await seen(app, "state")
        created = await seen(app, "change", {**CALM_PLACE, "key": "big"})
        changed = await seen(app, "change", {**CALM_PLACE, "key": "big", "event": session.events[1].id})
        both = await seen(app, "difference", {**CALM_PLACE, "from": 1, "to": 3})

    assert f'big "{first}"' in past.text
    assert f'big "{second}"' in now.text
    assert f'+ "{first[:1000]}' in created.text
    assert f'- "{first[:1000]}' in changed.text
    assert f'big "{first}" "{second}"' in both.text


async def test_a_state_is_not_guessed_without_an_event_whose_payload_is_gone() -> None:
    """A page that needs what it changed says so; others show the session all the same."""
    async with Store.local(MEMORY, session_limits=SessionLimits(event_text_bytes=500)) as store:
        app = create_app(store, authorize=lambda *asked: True, reveal="always")  # noqa: ARG005
        session = await store.sessions.create_session(**CALM, state={"n": -1})
        for number in range(4):
            event = Event(id=f"e{number}", author="agent", actions=EventActions(state_delta={"n": number}))
            event.content = types.ModelContent("x" * 1000 if number == 1 else "x")
            await store.sessions.append_event(session, event)
        await remove_payloads(store)
        wrong = [
            await seen(app, page, {**CALM_PLACE, **asked}, status=500)
            for page, asked in (
                ("state", {"event": "e1"}),
                ("difference", {"from": 0, "to": 2}),
                ("change", {"key": "n", "event": "e1"}),
                ("change", {"key": "n", "event": "e2"}),
                ("matrix", {}),
            )
        ]
        right = [
            await seen(app, page, {**CALM_PLACE, **asked})
            for page, asked in (
                ("session", {}),
                ("event", {"event": "e1"}),
                ("change", {"key": "n", "event": "e3"}),
            )
        ]
        state = await seen(app, "state", {**CALM_PLACE, "event": "e2"})
        before = await seen(app, "state", {**CALM_PLACE, "event": "e0"})
        usage = await seen(app, "usage", {"app": "support"})

    assert all("PayloadMissingError" in page.text and "event 'e1'" in page.text for page in wrong)
    assert "content of" in right[1].text
    assert "n 2" in state.text
    assert "n 0" in before.text
    assert "1 0 4 0 in" in usage.text


async def test_a_difference_is_none_of_the_order_of_keys(store: Store, app: FastAPI) -> None:
    """As values compare: documents and events may have another order of keys."""
    session = await store.sessions.create_session(**CALM, state={"map": {"a": 1, "b": [{"c": 2, "d": 3}]}})
    for value in ({"b": [{"d": 3, "c": 2}], "a": 1}, {"b": [], "a": 1}):
        event = Event(author="agent", actions=EventActions(state_delta={"map": value}))
        await store.sessions.append_event(session, event)
    same = await seen(app, "difference", {**CALM_PLACE, "from": 0, "to": 1})
    other = await seen(app, "difference", {**CALM_PLACE, "from": 0, "to": 2})
    change = await seen(app, "change", {**CALM_PLACE, "key": "map", "event": session.events[0].id})

    assert "0 keys differ" in same.text
    assert "1 key differs" in other.text
    assert "The texts are equal." in change.text


async def test_a_point_is_an_event_whose_id_is_a_number(store: Store, app: FastAPI) -> None:
    """If the session has not so many events; otherwise it is a number of events."""
    session = await store.sessions.create_session(**CALM, state={"n": -1})
    for number in range(3):
        delta = {"n": number}
        event = Event(id=str(number + 101), author="agent", actions=EventActions(state_delta=delta))
        await store.sessions.append_event(session, event)
    by_id = await seen(app, "state", {**CALM_PLACE, "event": "102"})
    by_number = await seen(app, "state", {**CALM_PLACE, "event": "1"})
    neither = await seen(app, "state", {**CALM_PLACE, "event": "104"}, status=404)

    assert "n 1" in by_id.text
    assert "n 0" in by_number.text
    assert "the session has 3 events, the point is after 104" in neither.text


async def test_the_newest_changes_are_those_of_the_last_events() -> None:
    """Also of events that are payloads as a whole, of which a page reads as many as segments."""
    async with Store.local(MEMORY, session_limits=SessionLimits(event_text_bytes=500)) as store:
        app = create_app(store, authorize=lambda *asked: True, reveal="always")  # noqa: ARG005
        session = await store.sessions.create_session(**CALM)
        for number in range(READS + 10):
            event = Event(author="agent", content=types.ModelContent("x" * 1000))
            event.actions = EventActions(state_delta={"n": number})
            await store.sessions.append_event(session, event)
        page = await seen(app, "matrix", {**CALM_PLACE, "order": "newest"})

    assert f"{READS} changes of 1 key in events 11 to {READS + 10} of {READS + 10}" in page.text
    assert not page.links(part="cursor=")


async def test_an_event_of_more_keys_than_a_matrix_has_is_passed(store: Store, app: FastAPI) -> None:
    """Also after the marks of the creation; the events after it are there."""
    session = await store.sessions.create_session(**CALM, state={"first": 0})
    for delta in ({str(number): 1 for number in range(MAX_CHANGES)}, {"first": 2}):
        event = Event(author="agent", actions=EventActions(state_delta=delta))
        await store.sessions.append_event(session, event)
    page = await seen(app, "matrix")

    assert "201 changes of 200 keys in 2 events; more keys or changes are left out" in page.text
    assert page.all("a", lambda each: each.get("aria-label", "").startswith("Event 2, agent"))
    assert not page.links(part="cursor=")


@pytest.mark.usefixtures("calm")
async def test_prices_do_not_wrap_and_times_are_in_utc(app: FastAPI) -> None:
    """Each price is in an element of the class ``figure``; each time ends with a Z."""
    prices, times = 0, list[str]()
    async with client_of(app) as client:
        for path in ("", "sessions", "usage", "timeline", "vitals", "session"):
            page = (await client.get(f"/{path}", params=CALM_PLACE)).text
            opened = re.findall(r"<(\w+[^>]*)>\$[0-9.]+<", page)
            assert len(opened) == len(re.findall(r"\$[0-9]", page))
            assert all("figure" in each for each in opened)
            prices += len(opened)
            times += re.findall(r"<time>([^<]+)</time>", page)

    assert prices >= 5
    assert len(times) > 25
    assert all(each.endswith("Z") for each in times)
