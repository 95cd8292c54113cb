"""ADK's runner on the store: turns, loops, branches and rewinds of real agents."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent, ParallelAgent
from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps import App
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import START, Workflow
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.testing.conformance.running import read
from tests.services.conftest import APP, SESSION, USER, WHO, texts
from tests.support.repeating_model import StandInModel


class Scripted(StandInModel):
    """A model that answers from a script."""

    script: list[types.Part]

    def answer(self, request: LlmRequest) -> types.Part:
        """Return the next part of the script."""
        assert request.contents
        return self.script.pop(0)


async def note(words: str, tool_context: ToolContext) -> dict[str, Any]:
    """Keep words in the state and as an artifact."""
    tool_context.state["note"] = words
    version = await tool_context.save_artifact("note.txt", types.Part(text=words))
    return {"rows": [[version, [words]]]}


def call(words: str) -> types.Part:
    """Return a model's call of the tool."""
    return types.Part(function_call=types.FunctionCall(name="note", args={"words": words}))


def say(words: str) -> types.Part:
    """Return a model's words."""
    return types.Part(text=words)


def runner(store: Store, *script: types.Part) -> Runner:
    """Return a runner of an agent that follows *script*."""
    agent = LlmAgent(name="agent", model=Scripted(script=list(script)), tools=[note])
    return Runner(
        app=App(name=APP, root_agent=agent), session_service=store.sessions, artifact_service=store.artifacts
    )


def words(text: str) -> types.Content:
    """Return a user's message."""
    return types.Content(role="user", parts=[types.Part(text=text)])


async def turn(running: Runner, text: str) -> list[Event]:
    """Take one turn."""
    return [
        event async for event in running.run_async(user_id=USER, session_id=SESSION, new_message=words(text))
    ]


async def get(store: Store) -> Session:
    """Return the stored session."""
    return await read(store.sessions, WHO)


async def test_a_turn_with_tools_state_and_artifacts_is_stored(adk_store: Store) -> None:
    """Nested lists in a tool's answer, which Firestore itself cannot hold, included."""
    await adk_store.sessions.create_session(**WHO)
    await turn(runner(adk_store, call("hello"), say("done")), "go")
    session = await get(adk_store)
    parts = [event.content.parts[0] for event in session.events if event.content and event.content.parts]

    assert 4 == len(session.events)
    assert {"note": "hello"} == session.state
    assert parts[2].function_response is not None
    assert {"rows": [[0, ["hello"]]]} == parts[2].function_response.response
    assert {"note.txt": 0} == session.events[2].actions.artifact_delta
    assert types.Part(text="hello") == await adk_store.artifacts.load_artifact(**WHO, filename="note.txt")


async def test_a_session_that_does_not_exist_is_adks_own_error(adk_store: Store) -> None:
    """ADK's servers answer 404 for it."""
    with pytest.raises(SessionNotFoundError):
        await turn(runner(adk_store, say("never")), "go")


def test_the_synchronous_runner_makes_a_loop_for_every_turn(adk_store: Store) -> None:
    """ADK's own Firestore service fails in the second one."""
    asyncio.run(adk_store.sessions.create_session(**WHO))
    running = runner(adk_store, say("one"), say("two"), say("three"))
    for number in range(3):
        list(running.run(user_id=USER, session_id=SESSION, new_message=words(f"{number}")))

    assert ["0", "one", "1", "two", "2", "three"] == texts(asyncio.run(get(adk_store)).events)


async def fill(ctx: Context) -> AsyncGenerator[Event, None]:
    """Write in place into a list of the state, and say something, three times."""
    basket = ctx.state.setdefault("basket", [])
    for number in range(3):
        basket.append(number)
        yield Event(content=types.ModelContent(f"{number}"))
        basket = ctx.state["basket"]
        basket.append("between")


@pytest.mark.parametrize("options", [{}, {"durability": "turn"}, {"redactors": [list]}], ids=str)
async def test_what_an_agent_writes_in_place_is_stored_also_after_an_append(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """As by ADK's own service: newer ADKs record it as long as the session holds the agent's own list."""
    found = []
    async with Store.local(tmp_path / "store", **options) as store:
        for service in (SqliteSessionService(f"{tmp_path}/adk.db"), store.sessions):
            await service.create_session(**WHO)
            agent = Workflow(name="filler", edges=[(START, fill)])
            await turn(Runner(app=App(name=APP, root_agent=agent), session_service=service), "go")
            session = await read(service, WHO)
            found.append((session.state, [event.actions.state_delta for event in session.events]))

    assert found[0] == found[1]
    assert {"basket": [0]} in found[1][1]


async def test_a_merge_keeps_what_an_agent_has_written_in_place(tmp_path: Path) -> None:
    """It is in no event yet; what another process changed is that of the other."""
    async with Store.local(tmp_path, on_conflict="merge") as store, Store.local(tmp_path) as other:
        held = await store.sessions.create_session(**WHO, state={"basket": ["pear"], "theirs": ["old"]})
        change = EventActions(state_delta={"theirs": ["new"]})
        await other.sessions.append_event(await get(other), Event(author="webhook", actions=change))
        held.state["basket"].append("plum")
        await store.sessions.append_event(held, Event(author="another branch"))
        change = EventActions(state_delta={"basket": held.state["basket"]})
        await store.sessions.append_event(held, Event(author="agent", actions=change))

        assert held == await get(store)
    assert {"basket": ["pear", "plum"], "theirs": ["new"]} == held.state


class Counting(BaseAgent):
    """An agent that changes state of every scope."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        delta = {self.name: 1, f"user:{self.name}": 1, f"app:{self.name}": 1, f"temp:{self.name}": 1}
        for _ in range(3):
            yield Event(
                author=self.name,
                invocation_id=ctx.invocation_id,
                actions=EventActions(state_delta=dict(delta)),
            )


@pytest.mark.filterwarnings("ignore:ParallelAgent is deprecated")
async def test_parallel_branches_lose_neither_events_nor_state(adk_store: Store) -> None:
    """They share one session object."""
    await adk_store.sessions.create_session(**WHO)
    agent = ParallelAgent(name="all", sub_agents=[Counting(name=f"b{n}") for n in range(3)])
    running = Runner(app_name=APP, agent=agent, session_service=adk_store.sessions)
    await turn(running, "go")
    session = await get(adk_store)

    assert 1 + 9 == len(session.events)
    assert {f"{scope}b{n}": 1 for scope in ("", "user:", "app:") for n in range(3)} == session.state


async def test_a_rewind_restores_state_and_artifacts(adk_store: Store) -> None:
    """ADK's rewind reads the session, saves what artifacts were, appends one event."""
    await adk_store.sessions.create_session(**WHO)
    running = runner(adk_store, call("first"), say("1"), call("second"), say("2"))
    await turn(running, "one")
    second = (await turn(running, "two"))[0].invocation_id
    await running.rewind_async(user_id=USER, session_id=SESSION, rewind_before_invocation_id=second)

    assert "first" == (await get(adk_store)).state["note"]
    assert types.Part(text="first") == await adk_store.artifacts.load_artifact(**WHO, filename="note.txt")
    assert [0, 1, 2] == await adk_store.artifacts.list_versions(**WHO, filename="note.txt")
