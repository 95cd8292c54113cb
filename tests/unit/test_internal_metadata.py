"""Metadata that only ADK may write changes in the JSON of events, and nothing else does."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import RedactedCallWarning, Store
from gcp_adk_store.model.internal_metadata import (
    RESTORED,
    STAMPS,
    breaks_stamps,
    event_elsewhere,
    public_event,
    stamps_of,
)
from gcp_adk_store.sessions.fork.format import public_text, text_elsewhere
from tests.support.stored import read_text, texts_of

STAMP = "v1:" + "0123456789abcdef" * 4
KEYS = st.sampled_from(["", "mine", '\u00e9"\\', "custom_metadata", STAMPS, RESTORED, "__adk_internal_other"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(KEYS, some, max_size=3),
    max_leaves=8,
)


def event_with(metadata: dict[str, Any] | None) -> Event:
    """Return an event with a call, whose arguments and text look like a stamp."""
    args = {"custom_metadata": {STAMPS: "an argument"}, "text": f'"{STAMPS}":{{}}'}
    call = types.FunctionCall(id="c", name="pay", args=args)
    content = types.Content(role="model", parts=[types.Part(function_call=call)])
    return Event(author="agent", content=content, timestamp=1.5, custom_metadata=metadata)


@given(st.none() | st.dictionaries(KEYS, VALUES, max_size=5))
def test_a_text_changes_as_its_event_does(metadata: dict[str, Any] | None) -> None:
    """For another session and for people; a second time changes nothing more."""
    (text,) = texts_of(event_with(metadata))
    event, elsewhere, public = read_text(text), text_elsewhere(text), public_text(text)

    assert event_elsewhere(event) == read_text(elsewhere)
    assert (public_event(event).custom_metadata or {}) == (read_text(public).custom_metadata or {})
    assert (elsewhere, public) == (text_elsewhere(elsewhere), public_text(public))
    kept = {name: value for name, value in json.loads(text).items() if name != "custom_metadata"}
    for changed in (elsewhere, public):
        found = json.loads(changed)
        found.pop("custom_metadata", None)
        assert json.dumps(kept) == json.dumps(found)


def test_the_other_characters_stay() -> None:
    """Spaces, escapes, numbers and members that ADK does not know."""
    text = (
        ' { "id" : "\\u0065", "custom_metadata" : { "a" : 1e2, "__adk_internal_fc\\u005fhmac" : {"c": "v"} ,'
        ' "b":[1.50] } ,"n":1.0E+2, "custom_metadata":null, "custom_metadata":{"__adk_internal_x":1} }'
    )

    assert text_elsewhere(text) == (
        ' { "id" : "\\u0065", "custom_metadata" : {"a" : 1e2,"b":[1.50],"__adk_internal_restored_event":true}'
        ' ,"n":1.0E+2, "custom_metadata":null, "custom_metadata":{"__adk_internal_restored_event":true} }'
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"custom_metadata"', '{"custom_metadata":{"a"', "null", '{"a":1']
)
def test_what_is_no_event_stays_or_is_an_error(text: str) -> None:
    """No other error than that of a damaged text comes out."""
    with suppress(ValueError):
        assert text == text_elsewhere(text)


async def test_redactors_do_not_see_stamps() -> None:
    """Anything else below ADK's keys goes through them: nobody can hide a text there."""
    event = event_with(
        {STAMPS: {"c": STAMP, "d": "secret"}, "__adk_internal_other": "secret", "mine": "secret"}
    )
    seen: list[str] = []

    def masked(texts: Sequence[str]) -> list[str]:
        seen.extend(texts)
        return ["***"] * len(texts)

    async with Store.local(":memory:", redactors=[masked]) as store:
        session = await store.sessions.create_session(app_name="app", user_id="user")
        with pytest.warns(RedactedCallWarning):
            redacted = await store.sessions.append_event(session, event.model_copy(deep=True))

    assert "secret" in seen
    assert STAMP not in seen
    assert {STAMPS: {"c": STAMP, "d": "***"}, "__adk_internal_other": "***", "mine": "***"} == (
        redacted.custom_metadata
    )
    assert {"c": STAMP} == stamps_of(event)
    assert breaks_stamps(event, redacted)
    assert not breaks_stamps(event, event.model_copy(deep=True))
    assert not breaks_stamps(event.model_copy(update={"custom_metadata": {STAMPS: [STAMP]}}), redacted)
