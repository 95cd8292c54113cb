"""Show what a session used, and all events of a user, on a local store."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode  # type: ignore[attr-defined]  # ADK's documents
from google.adk.events import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.utils.streaming_utils import StreamingResponseAggregator
from google.genai import types
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gcp_adk_store import (
    InvalidInputError,
    PayloadMissingError,
    Point,
    SessionLimits,
    SessionService,
    Store,
    UserEvent,
)
from gcp_adk_store.testing.conformance.running import read
from tests.support.lengths import at_length
from tests.support.stores import remove_payloads

USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}
WHO: dict[str, Any] = {**USER, "session_id": "session"}


def said(text: str = "x", at: float = 1.0, **fields: Any) -> Event:
    """Return an event with a text at a time."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(**{"author": "user", "timestamp": at, "content": content, **fields})


def used(prompt: int, output: int, **fields: Any) -> Event:
    """Return an agent's event that reports tokens."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=output,
        cached_content_token_count=prompt // 2,
        thoughts_token_count=1,
        total_token_count=prompt + output + 1,
    )
    return said(usage_metadata=usage, **{"author": "agent", "invocation_id": "t1", **fields})


@pytest.fixture
def small() -> Iterator[SessionService]:
    """A service that seals after every few events, and forgets segments."""
    store = Store.local(":memory:", session_limits=SessionLimits(seal_tail_bytes=1000, segment_cache_bytes=0))
    yield store.sessions
    asyncio.run(store.close())


async def fill(service: SessionService, session_id: str, *events: Event) -> None:
    """Make a session with *events*."""
    session = await service.create_session(**USER, session_id=session_id)
    for event in events:
        await service.append_event(session, event)


class Streaming(BaseLlm):
    """A model that streams a call of a tool, then an answer, as Gemini does: usage grows with the chunks."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002  # ADK's signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield what ADK makes of the chunks."""
        assert stream
        parts = [part for content in llm_request.contents for part in content.parts or []]
        if any(part.function_response for part in parts):
            chunks = [("The sky", 30, 2), (" is blue.", 30, 5), (None, 30, 5)]
        else:
            chunks = [("I ", 10, 1), ("look.", 10, 3), ("sky", 10, 9)]
        aggregator = StreamingResponseAggregator()
        for text, prompt, output in chunks:
            part = types.Part(text=text)
            if text == "sky":
                part = types.Part.from_function_call(name="sky", args={})
            async for response in aggregator.process_response(
                types.GenerateContentResponse(
                    model_version="gemini-test",
                    usage_metadata=types.GenerateContentResponseUsageMetadata(
                        prompt_token_count=prompt, candidates_token_count=output
                    ),
                    candidates=[
                        types.Candidate(
                            content=types.Content(role="model", parts=[part] if text else []),
                            finish_reason=types.FinishReason.STOP if chunks[-1][0] == text else None,
                        )
                    ],
                )
            ):
                yield response
        closing = aggregator.close()
        if closing is not None:
            yield closing


def sky() -> str:
    """Return the colour of the sky."""
    return "blue"


@pytest.mark.parametrize("progressive", [True, False])
async def test_a_streamed_turn_counts_each_call_of_the_model_once(
    adk_store_local: Store, monkeypatch: pytest.MonkeyPatch, *, progressive: bool
) -> None:
    """However many chunks there were, and events that ADK stored of them."""
    if not progressive:
        monkeypatch.setenv("ADK_DISABLE_PROGRESSIVE_SSE_STREAMING", "1")
    service = adk_store_local.sessions
    agent = LlmAgent(name="agent", model=Streaming(model="gemini-test"), tools=[sky])
    await service.create_session(**WHO)
    async with Runner(app_name="app", agent=agent, session_service=service) as runner:
        asked = types.Content(role="user", parts=[types.Part(text="What colour?")])
        async for _ in runner.run_async(
            user_id="user",
            session_id="session",
            new_message=asked,
            run_config=RunConfig(streaming_mode=StreamingMode.SSE),
        ):
            pass
    usage = await service.get_session_usage(**WHO)
    session = await read(service, WHO)
    times = [event.timestamp for event in session.events]

    assert (4 if progressive else 6) == len(session.events) == usage.events
    assert [("gemini-test", 2, 40, 14, 54)] == [
        (one.model, one.calls, one.tokens.input_tokens, one.tokens.output_tokens, one.tokens.total_tokens)
        for one in usage.models
    ]
    assert {"sky": 1} == usage.tool_calls
    assert [(session.events[0].invocation_id, max(times) - min(times))] == [
        (turn.invocation_id, turn.duration_s) for turn in usage.turns
    ]


async def test_the_usage_needs_no_payloads_of_content(adk_store_local: Store) -> None:
    """It is read even where they are gone."""
    service = adk_store_local.sessions
    picture = types.Part.from_bytes(data=bytes(100_000), mime_type="image/png")
    shown = used(10, 20, content=types.Content(role="model", parts=[picture]))
    await fill(service, "session", shown)
    await remove_payloads(adk_store_local)

    with pytest.raises(PayloadMissingError):
        await service.get_session(**WHO)
    assert 31 == (await service.get_session_usage(**WHO)).tokens.total_tokens


async def test_an_event_that_is_a_payload_counts(adk_store_local: Store) -> None:
    """Its tokens and tool calls are in the payload; where it is gone, that is an error."""
    service = adk_store_local.sessions
    call = types.Part.from_function_call(name="write", args={"text": "x" * 300_000})
    picture = types.Part.from_bytes(data=bytes(100_000), mime_type="image/png")
    large = used(10, 20, content=types.Content(role="model", parts=[call, picture]))
    await fill(service, "session", large)
    usage = await service.get_session_usage(**WHO)
    await remove_payloads(adk_store_local)

    assert (31, {"write": 1}, ["t1"]) == (
        usage.tokens.total_tokens,
        usage.tool_calls,
        [turn.invocation_id for turn in usage.turns],
    )
    with pytest.raises(PayloadMissingError):
        await service.get_session_usage(**WHO)


async def collect(found: AsyncIterator[UserEvent]) -> list[UserEvent]:
    """Return all that *found* yields."""
    return [one async for one in found]


def places(found: list[UserEvent]) -> list[tuple[str, str]]:
    """Return the sessions and the texts of events."""
    return [
        (one.session_id, one.event.content.parts[0].text or "")
        for one in found
        if one.event.content and one.event.content.parts
    ]


async def test_a_session_that_is_updated_meanwhile_comes_again_with_its_new_events(
    adk_store_local: Store,
) -> None:
    """At the end, so that none is missed and none comes twice."""
    service = adk_store_local.sessions
    for number in range(20):
        await fill(service, f"s{number:02}", said("old", float(number)))
    found: list[UserEvent] = []
    async for one in service.iter_user_events(**USER):
        found.append(one)
        if len(found) == 3:
            session = await service.get_session(**USER, session_id="s01")
            assert session is not None
            await service.append_event(session, said("new", 100.0))

    assert [*((f"s{number:02}", "old") for number in range(20)), ("s01", "new")] == places(found)


async def test_a_cursor_goes_on_in_a_session_that_was_updated_since(adk_store_local: Store) -> None:
    """With its further events, new ones included, then with the sessions after it, each event once."""
    service = adk_store_local.sessions
    await fill(service, "a", said("0", 1.0), said("1", 2.0))
    await fill(service, "b", said("0", 3.0))
    (first,) = await collect(service.iter_user_events(**USER, limit=1))
    session = await service.get_session(**USER, session_id="a")
    assert session is not None
    await service.append_event(session, said("2", 4.0))
    rest = await collect(service.iter_user_events(**USER, cursor=first.cursor))

    assert [("a", "1"), ("a", "2"), ("b", "0")] == places(rest)


async def test_a_session_that_was_restored_comes_with_those_after_it(adk_store_local: Store) -> None:
    """Also where the restore cut off the first number of its parts."""
    service = adk_store_local.sessions
    await fill(service, "a", said("0", 1.0), said("1", 2.0))
    await fill(service, "b", said("0", 3.0))
    await service.restore_session(**USER, session_id="a", at=Point.position(1))

    assert [("a", "0"), ("b", "0")] == places(await collect(service.iter_user_events(**USER)))


async def test_sessions_that_are_deleted_meanwhile_are_left_out(small: SessionService) -> None:
    """Or end early; the others come whole. The one of a cursor, too, also if its id is taken again."""
    for name, start in (("a", 0), ("b", 100), ("c", 200)):
        await fill(small, name, *(said(f"{number}", float(start + number)) for number in range(60)))
    found: list[UserEvent] = []
    async for one in small.iter_user_events(**USER):
        found.append(one)
        if len(found) == 1:
            for name in "ab":
                await small.delete_session(**USER, session_id=name)
    found_by_session = [[one for one in found if one.session_id == name] for name in "abc"]
    gone = await collect(small.iter_user_events(**USER, cursor=found[0].cursor))
    await fill(small, "a", said("another", 500.0))
    again = await collect(small.iter_user_events(**USER, cursor=found[0].cursor))

    assert 1 <= len(found_by_session[0]) < 60
    assert [0, 60] == [len(events) for events in found_by_session[1:]]
    assert found_by_session[2] == gone
    assert [*places(found_by_session[2]), ("a", "another")] == places(again)


TIMES = st.lists(st.integers(0, 30).map(float), min_size=1, max_size=25)


@settings(max_examples=at_length(10, 40))
@given(st.lists(TIMES, max_size=4), st.none() | st.integers(-1, 31), st.integers(1, 9))
@example([[1.0, 0.0]], 0, 1)
def test_whatever_the_times_the_right_events_come_in_any_steps(
    sessions: list[list[float]], after: int | None, step: int
) -> None:
    """Those later than a time, of all sessions whose last event is, in the order of that event's time."""
    updated = sorted((times[-1], f"s{number}", times) for number, times in enumerate(sessions))
    expected = [
        (name, f"{index}")
        for last, name, times in updated
        for index, at in enumerate(times)
        if after is None or (last > after and at > after)
    ]

    async def met() -> list[UserEvent]:
        limits = SessionLimits(seal_tail_bytes=500, segment_cache_bytes=0)
        async with Store.local(":memory:", session_limits=limits) as store:
            for number, times in enumerate(sessions):
                await fill(store.sessions, f"s{number}", *(said(f"{n}", at) for n, at in enumerate(times)))
            found: list[UserEvent] = []
            cursor: str | None = None
            while part := await collect(
                store.sessions.iter_user_events(**USER, after=after, cursor=cursor, limit=step)
            ):
                found += part
                cursor = part[-1].cursor
            return found

    assert expected == places(asyncio.run(met()))


@pytest.mark.parametrize("change", [{"user_id": "other"}, {"app_name": "other"}, {"after": 1.0}], ids=str)
async def test_a_cursor_of_other_events_is_refused(adk_store_local: Store, change: dict[str, Any]) -> None:
    """It would skip events in silence."""
    service = adk_store_local.sessions
    await fill(service, "a", said())
    (found,) = await collect(service.iter_user_events(**USER))

    with pytest.raises(InvalidInputError, match="is of events of another app, user or time"):
        await collect(service.iter_user_events(**{**USER, **change}, cursor=found.cursor))
