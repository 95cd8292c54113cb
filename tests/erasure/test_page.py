"""What docs/erasure.md shows is run as it is."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from gcp_adk_store import Store
from tests.erasure.conftest import said
from tests.support.documents import blocks, commands
from tests.support.ready_programs import ready_path


async def make(folder: Path) -> None:
    """Make what the examples are about."""
    who: dict[str, Any] = {"app_name": "support", "user_id": "ada", "session_id": "s1"}
    async with Store.local(folder) as store:
        session = await store.sessions.create_session(**who, state={"user:name": "Ada"})
        event = said("hello")
        event.id = "e1"
        await store.sessions.append_event(session, event)
        await store.artifacts.save_artifact(**who, filename="f", artifact=types.Part(text="t"))


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    """The page erases the user first; here that comes last."""
    asyncio.run(make(tmp_path / "store"))
    erase, prune, redact, verify, anchor = commands("docs/erasure.md")
    run = subprocess.run(
        ["bash", "-e", "-c", f"{redact}\n{verify}\n{anchor}\n{prune}\n{erase}"],  # noqa: S607  # the reader's shell
        cwd=tmp_path,
        env={
            **os.environ,
            "ADK_STORE_LOCAL": str(tmp_path / "store"),
            "PATH": ready_path(os.environ),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == run.returncode, run.stdout + run.stderr
    assert "the chain proves all of them" in run.stdout
    assert "redacted event e1, number 0 of the session" in run.stdout
    assert "anchors: 1; they prove the first 2 events" in run.stdout
    assert "would delete 0 of 1 sessions" in run.stdout
    assert run.stdout.splitlines()[-1].startswith("digest ")


@pytest.mark.parametrize("number", [0, 1])
async def test_the_code_of_the_page_prints_a_receipt(tmp_path: Path, number: int) -> None:
    """Within a coroutine, as it is; the second way prints the progress before."""
    await make(tmp_path)
    printed: list[object] = []
    lines = blocks("docs/erasure.md", "python")[number].splitlines()
    body = "\n".join(f"    {line}" for line in lines)
    names: dict[str, object] = {"print": lambda *values: printed.append(values)}
    exec(f"async def page(store):\n{body}", names)  # noqa: S102  # the page's own code
    async with Store.local(tmp_path) as store:
        await names["page"](store)  # type: ignore[operator]

    assert "digest" in str(printed[-1])
    assert [("documents", 1)][:number] == printed[:number]


async def test_the_redactor_of_the_page_stores_no_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code, with a session beside."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks("docs/erasure.md", "python")[2], names)  # noqa: S102  # the page's own code
    async with names["store"] as store:
        session = await store.sessions.create_session(app_name="support", user_id="ada")
        await store.sessions.append_event(session, said("my card is 4111 1111 1111 1111, thanks"))

    assert "my card is [card], thanks" == session.events[0].content.parts[0].text
