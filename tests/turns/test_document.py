"""Run what docs/turns.md asks a reader to write."""

import textwrap

import pytest
from fastapi import FastAPI
from google.adk.runners import Runner

from gcp_adk_store import Store
from tests.support.documents import blocks
from tests.turns.test_running import Echo, says


async def test_the_blocks_of_the_document_run(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """In their order, on a store with a session."""
    await store.sessions.create_session(app_name="support", user_id="ada", session_id="s1")
    names = {
        "store": store,
        "app": FastAPI(),
        "message": says("hi"),
        "runner": Runner(app_name="support", agent=Echo(name="echo"), session_service=store.sessions),
    }
    code = "\n".join(blocks("docs/turns.md", "python"))
    exec(f"async def run():\n{textwrap.indent(code, '    ')}", names)  # noqa: S102  # the document's
    await names["run"]()  # type: ignore[operator]  # as the line before defines it
    out = capsys.readouterr().out
    assert "answers hi" in out
    assert "2 echo" in out
    assert "False  ()" in out
