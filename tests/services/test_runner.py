"""ADK's runner on the store: turns, loops, branches and rewinds of real agents."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.context import Context
from google.adk.apps import App
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.workflow import START, Workflow
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.testing.conformance.running import read
from tests.services.conftest import APP, SESSION, USER, WHO


async def turn(running: Runner, text: str) -> list[Event]:
    """Take one turn."""
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [event async for event in running.run_async(user_id=USER, session_id=SESSION, new_message=message)]


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
        await other.sessions.append_event(
            await read(other.sessions, WHO), Event(author="webhook", actions=change)
        )
        held.state["basket"].append("plum")
        await store.sessions.append_event(held, Event(author="another branch"))
        change = EventActions(state_delta={"basket": held.state["basket"]})
        await store.sessions.append_event(held, Event(author="agent", actions=change))

        assert held == await read(store.sessions, WHO)
    assert {"basket": ["pear", "plum"], "theirs": ["new"]} == held.state
