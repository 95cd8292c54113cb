"""The first page of a session costs the same, however long the session is."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import SessionLimits, Store
from gcp_adk_store.inspector import create_app
from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.moving.importing import SessionHeader, SessionImports
from tests.inspector.story import client_of
from tests.support.loop_work import counted_work

EVENTS = 10_000


async def said(count: int) -> AsyncIterator[Event]:
    """Yield so many events of 600 bytes."""
    for number in range(count):
        content = types.Content(role="model", parts=[types.Part(text=f"{number} {'x' * 400}")])
        yield Event(id=f"e{number}", invocation_id=f"i{number // 4}", author="agent", content=content)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """A store of one short and one long session."""
    async with Store.local(":memory:") as store:
        imports = SessionImports(store.sessions.storage, SessionLimits())
        for name, count in (("short", 200), ("long", EVENTS)):
            header = SessionHeader(
                key=SessionKey(app="app", user="ada", session=name), state={}, last_update_time=0.0
            )
            assert count == await imports.write(header, said(count))
        yield store


async def test_the_first_page_of_a_long_session_costs_what_that_of_a_short_one_does(store: Store) -> None:
    """At most twice as many calls of functions, whichever end it shows."""
    app = create_app(store, authorize=lambda *asked: True, reveal="always")  # noqa: ARG005
    async with client_of(app) as client:

        async def cost(session: str, order: str) -> int:
            asked: dict[str, Any] = {"app": "app", "user": "ada", "session": session, "order": order}
            await client.get("/session", params=asked)
            with counted_work() as work:
                page = await client.get("/session", params=asked)
            assert 50 == page.text.count("<article")
            return work.calls

        for order in ("oldest", "newest"):
            assert 0 < await cost("long", order) < 2 * await cost("short", order)
