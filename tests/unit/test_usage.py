"""Show what is counted of events, tokens once, by turn and by model, and what a listing shows of them."""

import asyncio
import json
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store import ModelUsage, SessionUsage, Store, TokenUsage
from gcp_adk_store.model.appends import MAX_TEXT, text_of, turns_of

Reported = types.GenerateContentResponseUsageMetadata


def counted(*events: Event) -> SessionUsage:
    """Return the usage of a session with *events*."""

    async def work() -> SessionUsage:
        who: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "session"}
        async with Store.local(":memory:") as store:
            session = await store.sessions.create_session(**who)
            for event in events:
                await store.sessions.append_event(session, event)
            return await store.sessions.get_session_usage(**who)

    return asyncio.run(work())


def answered(*parts: types.Part, usage: Reported | None = None, **fields: Any) -> Event:
    """Return an agent's event."""
    content = types.Content(role="model", parts=list(parts))
    return Event(
        **{"author": "agent", "invocation_id": "t1", "timestamp": 1.0, "content": content, **fields},
        usage_metadata=usage,
    )


def reported(prompt: int, output: int, **more: int) -> Reported:
    """Return what a model reports."""
    counts: dict[str, Any] = {f"{name}_token_count": number for name, number in more.items()}
    return Reported(
        prompt_token_count=prompt,
        candidates_token_count=output,
        total_token_count=prompt + output + more.get("thoughts", 0) + more.get("tool_use_prompt", 0),
        **counts,
    )


def called(name: str) -> types.Part:
    """Return a function call."""
    return types.Part.from_function_call(name=name, args={})


def test_a_partial_event_does_not_count() -> None:
    """The complete one has its usage, text and calls."""
    usage = counted(
        answered(types.Part(text="He"), usage=reported(5, 1), partial=True),
        answered(called("look"), usage=reported(5, 2), partial=True),
        answered(types.Part(text="Hello"), called("look"), usage=reported(5, 3), partial=False),
    )

    assert (1, 8, {"look": 1}) == (usage.events, usage.tokens.total_tokens, usage.tool_calls)


@pytest.mark.parametrize(
    "rest", [[called("look")], [], [types.Part(text="")]], ids=["call", "empty", "blank"]
)
def test_the_rest_of_a_response_does_not_count_its_tokens_again(rest: list[types.Part]) -> None:
    """As ADK stores a streamed response without progressive streaming."""
    usage = counted(
        answered(types.Part(text="I look"), usage=reported(5, 3)), answered(*rest, usage=reported(5, 3))
    )

    assert [(1, 8)] == [(one.calls, one.tokens.total_tokens) for one in usage.models]


@pytest.mark.parametrize(
    "changes",
    [
        {"invocation_id": "t2"},
        {"author": "other"},
        {"branch": "other"},
        {"model_version": "other"},
        {"usage": reported(5, 4)},
        {"content": types.Content(role="model", parts=[types.Part(text="again")])},
        {"content": None},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_equal_usage_of_another_response_counts(changes: dict[str, Any]) -> None:
    """Of another turn, agent or model, with a text of its own, or in a report of a live model."""
    usage = counted(
        answered(types.Part(text="I look"), usage=reported(5, 3)),
        answered(called("look"), **{"usage": reported(5, 3), **changes}),
    )

    assert 2 == sum(one.calls for one in usage.models)


def test_equal_usage_after_a_tools_response_counts() -> None:
    """There, the agent asked its model again."""
    answer = types.Part.from_function_response(name="look", response={})
    usage = counted(
        answered(called("look"), usage=reported(5, 3)),
        answered(answer),
        answered(called("look"), usage=reported(5, 3)),
    )

    assert 16 == usage.tokens.total_tokens


COUNTS = st.none() | st.integers(0, 2**40)
REPORTS = st.builds(
    Reported,
    prompt_token_count=COUNTS,
    cached_content_token_count=COUNTS,
    tool_use_prompt_token_count=COUNTS,
    candidates_token_count=COUNTS,
    thoughts_token_count=COUNTS,
    total_token_count=COUNTS,
)
PARTS = st.sampled_from(
    [called("look"), called("buy"), types.Part.from_function_response(name="look", response={})]
) | st.builds(types.Part, text=st.text(max_size=2))
EVENTS = st.builds(
    answered,
    PARTS,
    PARTS,
    usage=st.none() | REPORTS,
    invocation_id=st.sampled_from(["", "t1", "t2", "t3"]),
    model_version=st.sampled_from([None, "", "small", "large"]),
    author=st.sampled_from(["user", "agent"]),
    partial=st.sampled_from([None, True, False]),
    timestamp=st.integers(0, 1000).map(float),
)


def total(models: tuple[ModelUsage, ...]) -> TokenUsage:
    """Return the sum of the models' tokens."""
    return sum((one.tokens for one in models), TokenUsage())


@given(st.lists(EVENTS, max_size=30))
def test_totals_are_the_sums_of_turns_and_of_models(events: list[Event]) -> None:
    """Of tokens, of calls of models and tools, and of events; and no event is in two turns."""
    usage = counted(*events)
    whole = [event for event in events if not event.partial]
    calls = [call.name for event in whole for call in event.get_function_calls()]

    assert usage.tokens == total(usage.models) == sum((turn.tokens for turn in usage.turns), TokenUsage())
    assert all(turn.tokens == total(turn.models) for turn in usage.turns)
    assert sum(one.calls for one in usage.models) == sum(
        one.calls for turn in usage.turns for one in turn.models
    )
    assert len(whole) == usage.events == sum(turn.events for turn in usage.turns)
    assert {name: calls.count(name) for name in calls} == usage.tool_calls
    assert list(dict.fromkeys(event.invocation_id for event in whole)) == [
        turn.invocation_id for turn in usage.turns
    ]
    for name in {name for turn in usage.turns for name in turn.tool_calls}:
        assert usage.tool_calls[name] == sum(turn.tool_calls.get(name, 0) for turn in usage.turns)
    if whole:
        times = [event.timestamp for event in whole]
        assert (min(times), max(times)) == (usage.began_at, usage.ended_at)


@given(st.lists(REPORTS, max_size=10))
def test_no_reported_token_is_lost(reports: list[Reported]) -> None:
    """Each response with a text of its own counts as it is reported."""
    usage = counted(*(answered(types.Part(text="x"), usage=one) for one in reports))

    assert sum(one.prompt_token_count or 0 for one in reports) == usage.tokens.input_tokens
    assert sum(one.cached_content_token_count or 0 for one in reports) == usage.tokens.cached_tokens
    assert sum(one.tool_use_prompt_token_count or 0 for one in reports) == usage.tokens.tool_use_tokens
    assert sum(one.candidates_token_count or 0 for one in reports) == usage.tokens.output_tokens
    assert sum(one.thoughts_token_count or 0 for one in reports) == usage.tokens.thinking_tokens


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
