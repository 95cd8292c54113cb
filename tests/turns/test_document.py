"""Run what docs/turns.md asks a reader to write."""

import textwrap
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from google.adk.apps import App
from google.adk.apps.app import ResumabilityConfig
from google.adk.runners import Runner

from gcp_adk_store import Store
from tests.support.documents import blocks
from tests.turns.test_running import Echo, says

pytestmark = pytest.mark.filterwarnings("ignore:.*ResumabilityConfig:UserWarning")

SESSION: dict[str, Any] = {"app_name": "support", "user_id": "ada", "session_id": "s1"}


async def names_of_the_page(store: Store) -> dict[str, Any]:
    """Run the blocks in their order, on a store with a session; return what they have and define."""
    await store.sessions.create_session(**SESSION)
    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name="support", root_agent=Echo(name="echo"), resumability_config=resumable)
    names = {
        "store": store,
        "app": FastAPI(),
        "message": says("hi"),
        "runner": Runner(app=app, session_service=store.sessions),
    }
    code = "\n".join(blocks("docs/turns.md", "python"))
    whole = f"async def run():\n{textwrap.indent(code, '    ')}\n    return locals()"
    exec(whole, names)  # noqa: S102  # the document's
    return names | await names["run"]()  # type: ignore[operator, no-any-return]  # as the line before says


async def test_the_blocks_of_the_document_run(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other."""
    names = await names_of_the_page(store)
    out = capsys.readouterr().out

    assert "answers hi" in out
    assert "2 echo" in out
    assert "False  ()" in out

    session = await store.sessions.get_session(**SESSION)
    assert session is not None
    await names["resume"](session.events[-1].invocation_id)
    assert "4 echo" in capsys.readouterr().out


async def test_the_route_of_the_document_answers_after_the_turn_began(store: Store) -> None:
    """With events, with 202 while another turn runs, whose end leaves the message, or with an error."""
    names = await names_of_the_page(store)
    transport = httpx.ASGITransport(names["app"])
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        missing = await client.post("/chat/nowhere", params={"text": "one"})
        async with store.turns.hold(**SESSION):
            waits = await client.post("/chat/s1", params={"text": "two"})
        answered = await client.post("/chat/s1", params={"text": "three"})

    assert (404, 202, 200) == (missing.status_code, waits.status_code, answered.status_code)
    assert "text/event-stream" in answered.headers["content-type"]
    assert 0 <= answered.text.find("answers two") < answered.text.find("answers three")
