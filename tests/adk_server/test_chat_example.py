"""The chat with history that the example's page shows."""

import json
import os
from collections.abc import Iterator

import httpx
import pytest

from tests.adk_server.conftest import ROOT
from tests.adk_server.process import READY_S, Server
from tests.inspector.browser import Browser, browser
from tests.support.ready_programs import ready_programs

PICTURE = ROOT / "tests/artifacts/chat.png"
SESSIONS = "/apps/notes/users/ada/sessions"
STORE = f"/store{SESSIONS}"
ANSWERS = "[...document.querySelectorAll('#sessions small')].map((each) => each.textContent)"
"""The last messages of the chats in the page's list, the newest chat first."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The example, as its first lines start it, after one turn of a session with a title."""
    folder = tmp_path_factory.mktemp("chat")
    environ = os.environ | {"ADK_STORE_LOCAL": f"{folder}/store", "PORT": "0", "PYTHONPATH": str(ROOT)}
    command = (str(ready_programs() / "python"), "-m", "examples.chat.main")
    with Server(command, environ=environ, cwd=folder, log=folder / "log") as server:
        with httpx.Client(base_url=server.url, timeout=READY_S) as client:
            client.post(f"{SESSIONS}/s1", json={}).raise_for_status()
            asked = {"role": "user", "parts": [{"text": "<b>buy</b> milk"}]}
            turn = {"appName": "notes", "userId": "ada", "sessionId": "s1", "newMessage": asked}
            client.post("/run", json=turn).raise_for_status()
            client.patch(f"{STORE}/s1", json={"title": "Shopping"}).raise_for_status()
        yield server


@pytest.fixture(scope="module")
def page(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this file."""
    with browser(chromium, profile=tmp_path_factory.mktemp("profile")) as page:
        page.look_as(width=1400)
        yield page


@pytest.mark.processes
def test_the_page_shows_a_session_with_its_history(server: Server, page: Browser) -> None:
    """Title and last message in the list, messages as text; a picture is kept in tests/artifacts."""
    page.open(f"{server.url}/chat/?still#s1")
    page.appear("document.body.innerText.split('Noted. 1 in all.').length === 3")
    text = page.text
    page.keep(PICTURE)

    assert "Shopping Noted. 1 in all." in text
    assert "Edit <b>buy</b> milk" in text
    assert text.index("milk") < text.rindex("Noted. 1 in all.")


@pytest.mark.processes
def test_the_first_message_is_the_title(server: Server, page: Browser) -> None:
    """Its first 60 characters, of a chat that the message begins; another message changes nothing."""
    page.open("about:blank")  # else the browser would stay on the page, whose fragment alone differs
    page.open(f"{server.url}/chat/?still")
    page.appear(f"{ANSWERS}.join() === 'Noted. 1 in all.'")
    for words, answers in (
        ("call \U0001f600 " + "x" * 60, "Noted. 1 in all.,Noted. 1 in all."),
        ("call Bob", "Noted. 2 in all.,Noted. 1 in all."),
    ):
        page.run(f"element('words').value = {json.dumps(words)}; element('say').requestSubmit()")
        page.appear(f"{ANSWERS}.join() === {answers!r}")
    shown = page.run("element('title').textContent")
    failure = page.run("element('failure').textContent")
    with httpx.Client(base_url=server.url, timeout=READY_S) as client:
        titles = {info["title"] for info in client.get(STORE).json()["sessions"]}

    assert "call \U0001f600 " + "x" * 53 == shown
    assert {"Shopping", shown} == titles
    assert "" == failure


@pytest.mark.processes
def test_other_users_are_not_let_in(server: Server) -> None:
    """By the hook of the example."""
    assert 403 == httpx.get(f"{server.url}/store/apps/notes/users/eve/sessions", timeout=READY_S).status_code
