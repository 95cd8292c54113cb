"""The first page of a session costs the same, however long the session is."""

from collections.abc import AsyncIterator, Sequence
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
    """A store of one short and one long session, whose process remembers no segment."""
    async with Store.local(":memory:", session_limits=SessionLimits(segment_cache_bytes=0)) as store:
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


async def test_a_page_of_a_long_session_reads_and_weighs_little(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 50 documents, of a session of 10,000 events, and 1 MB."""
    app = create_app(store, authorize=lambda *asked: True, reveal="always")  # noqa: ARG005
    documents = type(store.sessions.storage.documents)
    get, read = documents.get, list[str]()

    async def counted(self: Any, paths: Sequence[str], **more: Any) -> Any:
        read.extend(paths)
        return await get(self, paths, **more)

    monkeypatch.setattr(documents, "get", counted)
    pages = {
        "session": {},
        "timeline": {},
        "search": {"q": "x" * 400},
        "compare": {"other": "short"},
        "vitals": {},
        "raw": {},
    }
    async with client_of(app) as client:
        for page, more in pages.items():
            read.clear()
            asked = {"app": "app", "user": "ada", "session": "long", **more}
            answer = await client.get(f"/{page}", params=asked)

            assert 200 == answer.status_code
            assert 1 <= len(read) <= 50, page
            assert len(answer.content) < 1_000_000, page
