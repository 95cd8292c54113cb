"""Run what docs/following.md asks a reader to write."""

import textwrap
from pathlib import Path

import pytest
from fastapi import FastAPI
from google.adk.events import Event
from google.genai import types

from gcp_adk_store import Store
from tests.support.documents import blocks


async def test_the_blocks_of_the_document_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In their order, on a store with a session."""
    async with Store.local(tmp_path / "store") as store:
        held = await store.sessions.create_session(app_name="support", user_id="ada", session_id="s1")
        call = types.Part(function_call=types.FunctionCall(name="look"))
        for author, part in (("user", call), ("agent", types.Part(text="hi"))):
            content = types.Content(role=author.replace("agent", "model"), parts=[part])
            await store.sessions.append_event(held, Event(author=author, invocation_id="i", content=content))
        app = FastAPI()
        before = len(app.routes)
        code = "\n".join(blocks("docs/following.md", "python"))
        names = {"store": store, "app": app}
        exec(f"async def run():\n{textwrap.indent(code, '    ')}", names)  # noqa: S102  # the document's
        await names["run"]()  # type: ignore[operator]  # as the line before defines it

    out = capsys.readouterr().out.splitlines()
    assert ["user", "agent", "user", "agent"] == [line.split()[0] for line in out]
    assert before + 1 == len(app.routes)
