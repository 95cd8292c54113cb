"""Show what a listing shows of a session's events."""

import json
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store.model.appends import MAX_TEXT, text_of, turns_of


def event(*parts: types.Part | str, author: str = "user", turn: str = "e-1") -> Event:
    """Return an event of these parts."""
    content = types.Content(
        role="user", parts=[types.Part(text=part) if isinstance(part, str) else part for part in parts]
    )
    return Event(author=author, invocation_id=turn, content=content)


def test_an_invocation_id_of_any_text_is_distinguished_from_others() -> None:
    """Also one that UTF-8 cannot encode."""
    (turns,) = zip(
        *(turns_of(event(turn=text)) for text in ("a", "a ", "\ud800", "\udfff", "x" * 100_000)), strict=True
    )

    assert 5 == len(set(turns))
    assert {16} == {len(turn) for turn in turns}


CALL = types.Part(function_call=types.FunctionCall(name="look", args={"text": "no"}))
THOUGHT = types.Part(text="I think", thought=True)
PICTURE = types.Part(inline_data=types.Blob(data=b"text", mime_type="text/plain"))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["hello"], "hello"),
        (["hel", PICTURE, "lo"], "hello"),
        ([THOUGHT, "hello", CALL], "hello"),
        ([THOUGHT], None),
        ([CALL], None),
        ([PICTURE], None),
        ([], None),
        ([""], None),
        ([" \n", "\t"], None),
        ([" ", "x "], " x "),
        (["x" * 199, "yz"], "x" * 199 + "y"),
        (["x" * 500, "y"], "x" * 200),
        (["\U0001f600" * 300], "\U0001f600" * 200),
        (["a\ud83d", "\ude00b"], "a\U0001f600b"),
        (["a\ud83d b", "\ude00"], "a\ufffd b\ufffd"),
    ],
)
def test_the_text_of_an_event_is_that_of_its_parts(parts: list[Any], expected: str | None) -> None:
    """Without thoughts, calls and files, cut, and storable in any case."""
    found = text_of(event(*parts))

    assert expected == found
    assert len(found or "") <= MAX_TEXT
    assert json.dumps(found, ensure_ascii=False).encode()
