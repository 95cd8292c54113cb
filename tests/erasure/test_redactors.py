"""Redactors change every text before it is stored; if one fails, nothing is stored."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from google.adk.events import Event, EventActions
from google.genai import types
from pydantic import BaseModel

from gcp_adk_store import InvalidInputError, RedactorError, SessionLimits, Store
from gcp_adk_store.testing.conformance.running import read
from tests.erasure.conftest import LIMITS, said
from tests.support.clock import PassingTime
from tests.support.stored import fields_of, session_path
from tests.support.traces import in_folder, traces

WHO: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}
CANARY = "here-it-is"


def masked(texts: Sequence[str]) -> list[str]:
    """Replace the canary."""
    return [text.replace(CANARY, "***") for text in texts]


async def marked(texts: Sequence[str]) -> list[str]:
    """Mark each text, after the one before."""
    return [f"<{text}>" for text in texts]


class Person(BaseModel):
    """A model of an application, whose fields are called as some of ADK's are."""

    name: str = CANARY
    id: str = CANARY


@dataclass(frozen=True)
class Note:
    """What JSON makes a map of."""

    name: str = CANARY


class Shown(SimpleNamespace):
    """What JSON cannot hold, so that its text is stored."""

    def __repr__(self) -> str:
        """Show the canary."""
        return CANARY


def everywhere() -> Event:
    """Return an event with the canary in every field that holds texts."""
    call = types.FunctionCall(id="c", name="tool", args={"key": [CANARY, {"deep": CANARY}]})
    answer = types.FunctionResponse(id="c", name="tool", response={"result": CANARY})
    # ADK 2.8 has no reason of a transfer.
    newer: dict[str, Any] = (
        {"transfer_reason": CANARY} if "transfer_reason" in EventActions.model_fields else {}
    )
    code = types.ExecutableCode(code=CANARY, language=types.Language.PYTHON)
    parts = [
        types.Part(text=CANARY),
        types.Part(text=CANARY, thought=True),
        types.Part(function_call=call),
        types.Part(function_response=answer),
        types.Part(executable_code=code),
        types.Part(code_execution_result=types.CodeExecutionResult(output=CANARY)),
        types.Part(inline_data=types.Blob(data=b"d", mime_type="image/png", display_name=CANARY)),
    ]
    return Event(
        author="agent",
        content=types.Content(role="model", parts=parts),
        error_message=CANARY,
        custom_metadata={"note": CANARY, "of": [Person(), {Note()}]},
        output={"said": [CANARY, deque([CANARY])]},
        input_transcription=types.Transcription(text=CANARY),
        actions=EventActions(
            state_delta={
                "key": CANARY,
                "user:key": {"a": [CANARY]},
                "app:key": CANARY,
                "temp:key": CANARY,
                "objects": [Person(), Note(), deque([CANARY]), CANARY.encode()],
                "shown": Shown(),
            },
            agent_state={"step": CANARY},
            **newer,
        ),
    )


async def test_every_text_that_is_stored_went_through_all_redactors(tmp_path: Path) -> None:
    """A scan of the files finds none; the handle is equal to storage. Names and bytes stay."""
    async with Store.local(tmp_path, session_limits=LIMITS, redactors=[masked, marked]) as store:
        session = await store.sessions.create_session(**WHO, state={"a": CANARY, "user:b": {"c": Note()}})
        event = everywhere()
        await store.sessions.append_event(session, event)
        await store.sessions.update_session_info(**WHO, title=f"about {CANARY}")
        async with store.turns.hold(**WHO):
            message = types.Content(role="user", parts=[types.Part(text=CANARY)])
            await store.turns.enqueue(**WHO, new_message=message, state_delta={"asked": CANARY})
        stored = await read(store.sessions, WHO)
        info = await store.sessions.get_session_info(**WHO)

    assert [] == traces(in_folder(tmp_path), CANARY)
    assert info is not None
    assert stored.events == session.events
    assert "<***>" == stored.state["a"] == stored.state["key"]
    assert "<about ***>" == info.title
    assert CANARY == session.state["temp:key"]
    assert event.content is not None
    assert CANARY == (event.content.parts or [])[0].text
    (kept,) = session.events
    assert kept.content is not None
    call, blob = (kept.content.parts or [])[2].function_call, (kept.content.parts or [])[6].inline_data
    assert call is not None
    assert blob is not None
    names = (kept.author, kept.content.role, call.id, call.name, blob.data, blob.mime_type)
    assert ("agent", "model", "c", "tool", b"d", "image/png") == names
    assert {"key": ["<***>", {"deep": "<***>"}]} == call.args
    assert {"key", "user:key", "app:key", "objects", "shown"} == kept.actions.state_delta.keys()
    person, note, *others = kept.actions.state_delta["objects"]
    assert ({"name": "<***>", "id": "<***>"}, {"name": "<***>"}) == (person, note)
    assert [["<***>"], "<***>", "<***>"] == [*others, kept.actions.state_delta["shown"]]


async def test_ids_that_adk_sends_again_stay() -> None:
    """A model knows its interaction, its environment and its live session by them."""
    names = {"interaction_id", "environment_id"} & Event.model_fields.keys()
    ids: dict[str, Any] = dict.fromkeys(names, CANARY)
    handle = types.LiveServerSessionResumptionUpdate(new_handle=CANARY)
    async with Store.local(":memory:", redactors=[masked]) as store:
        session = await store.sessions.create_session(**WHO)
        event = Event(author="agent", live_session_resumption_update=handle, **ids)
        await store.sessions.append_event(session, event)

    (kept,) = session.events
    assert handle == kept.live_session_resumption_update
    assert ids == {name: getattr(kept, name) for name in ids}


async def test_what_redactors_cannot_read_is_refused_in_an_event() -> None:
    """An iterator can be read once; of state, they get what is stored."""
    async with Store.local(":memory:", redactors=[masked]) as store:
        session = await store.sessions.create_session(**WHO, state={"a": iter([CANARY])})
        for value in (iter([CANARY]), Shown(), deque([b"\xff"])):
            with pytest.raises(InvalidInputError, match=f"holds a {type(value).__name__}, which redactors"):
                await store.sessions.append_event(session, Event(author="agent", output={"a": value}))

    assert {"a": ["***"]} == session.state
    assert [] == session.events


@pytest.mark.parametrize("durability", ["event", "turn"])
async def test_the_event_of_the_caller_loses_its_temporary_state_alone(
    durability: Literal["event", "turn"],
) -> None:
    """As by any service of ADK: its runner yields this event, and not what is stored."""
    async with Store.local(":memory:", redactors=[masked], durability=durability) as store:
        session = await store.sessions.create_session(**WHO)
        event = everywhere()
        given = event.model_copy(deep=True)
        await store.sessions.append_event(session, event)

    del given.actions.state_delta["temp:key"]
    assert given == event


async def test_a_message_that_waits_may_have_half_of_an_emoji() -> None:
    """The parser of JSON that ADK's models have refuses it, and quotes the message in its error."""
    half = types.FunctionResponse(id="c", name="tool", response={"key \ud83d": {"\ud83d": "cut \ud83d"}})
    async with Store.local(":memory:", redactors=[marked]) as store:
        await store.sessions.create_session(**WHO)
        async with store.turns.hold(**WHO):
            message = types.Content(role="user", parts=[types.Part(function_response=half)])
            await store.turns.enqueue(**WHO, new_message=message)
        faults = [fault async for fault in store.check(full=True)]
        (text,) = (await fields_of(store, session_path(WHO)))["inbox"]

    assert [] == faults
    (part,) = json.loads(text)["message"]["parts"]
    assert {"key \ud83d": {"\ud83d": "<cut \ud83d>"}} == part["function_response"]["response"]


def failing(texts: Sequence[str]) -> list[str]:
    """Fail with the content in the error."""
    raise ValueError(texts[0])


async def hanging(texts: Sequence[str]) -> list[str]:
    """Never answer."""
    await asyncio.Event().wait()
    return list(texts)


@pytest.mark.parametrize("durability", ["event", "turn"])
@pytest.mark.parametrize(
    ("redactor", "says"),
    [
        (failing, r"redactors\[0\] failed with ValueError; nothing was written"),
        (hanging, r"redactors\[0\] took over 10 s"),
        (lambda texts: list(texts)[1:], r"must return 1 texts"),
        (lambda texts: [None] * len(texts), r"must return 1 texts"),
        (lambda texts: "x" * len(texts), r"must return 1 texts"),
    ],
    ids=["fails", "hangs", "returns too few", "returns no texts", "returns a text"],
)
async def test_an_append_is_refused_when_a_redactor_fails(
    redactor: Callable[..., Any], says: str, durability: Any, passing: PassingTime
) -> None:
    """Neither storage nor the handle changes, and the error does not quote the content."""

    async def late(texts: Sequence[str]) -> list[str]:
        passing.after(SessionLimits().redactor_timeout_s)
        return await hanging(texts)

    redactors = [late if redactor is hanging else redactor]
    async with Store.local(":memory:", redactors=redactors, durability=durability) as store:
        session = await store.sessions.create_session(**WHO)
        with pytest.raises(RedactorError, match=says) as caught:
            await store.sessions.append_event(session, said(CANARY))
        with pytest.raises(RedactorError):
            await store.sessions.create_session(**{**WHO, "session_id": "t"}, state={"a": CANARY})
        found = await read(store.sessions, WHO)

    assert CANARY not in str(caught.value)
    assert [] == found.events == session.events


async def test_appends_at_once_are_redacted_each(tmp_path: Path) -> None:
    """Those that go in one commit, and one that fails, do not affect each other."""

    def picky(texts: Sequence[str]) -> list[str]:
        if any("bad" in text for text in texts):
            raise ValueError
        return masked(texts)

    async with Store.local(tmp_path, redactors=[picky]) as store:
        session = await store.sessions.create_session(**WHO)
        outcomes = await asyncio.gather(
            *(store.sessions.append_event(session, said(text)) for text in (CANARY, "bad", f"2 {CANARY}")),
            return_exceptions=True,
        )
        found = await read(store.sessions, WHO)

    assert [False, True, False] == [isinstance(each, RedactorError) for each in outcomes]
    assert found.events == session.events
    assert {"***", "2 ***"} == {
        part.text for event in found.events if event.content for part in event.content.parts or []
    }


async def test_memories_are_made_of_what_is_stored(tmp_path: Path) -> None:
    """Beside the append, from the handle."""
    async with Store.local(tmp_path, redactors=[masked], index_on_append=True) as store:
        session = await store.sessions.create_session(**WHO)
        await store.sessions.append_event(session, said(f"tell {CANARY}"))
        await store.sessions.flush()
        page = await store.memory.list_memories(app_name="app", user_id="user")

    assert 1 == len(page.memories)
    assert [] == traces(in_folder(tmp_path), CANARY)


def test_what_is_no_function_is_refused() -> None:
    """At the start, not at the first append."""
    for given in ("text", [1], [None]):
        with pytest.raises(InvalidInputError, match="redactors"):
            Store.local(":memory:", redactors=given)  # type: ignore[arg-type]
