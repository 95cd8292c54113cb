"""The example for Cloud Run is what its documents say, as far as that can be seen without building it.

The chat with history that the example's page shows.
"""

import json
import os
import re
import runpy
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from gcp_adk_store import StoreSettings
from gcp_adk_store.inspector import IapAuthorization
from tests.adk_server.process import READY_S, Server
from tests.inspector.browser import Browser, browser
from tests.support.documents import OF_A_REAL_PROJECT, ROOT, blocks, commands
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs

EXAMPLE = ROOT / "examples/cloud_run"
WEB = 'adk web \\\n  --session_service_uri "firestore://'
RUN_BY_TESTS = ("adk api_server", WEB, '"firestore+local://', "python examples/cloud_run/main.py")
"""What test_servers.py runs."""


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions with their arguments, in order."""
    text = (EXAMPLE / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [
        (word, rest) for word, _, rest in (line.partition(" ") for line in lines if line and line[0] != "#")
    ]


def test_the_dockerfile_starts_main_as_a_user_without_rights() -> None:
    """As one process, which gets the signals, on a Python that the package names.

    It copies what is there, with the wheels, which the documents say how to make, and the agents beside main.
    """
    steps = instructions()
    words = [word for word, _ in steps]
    copied = [source for word, rest in steps if word == "COPY" for source in rest.split()[:-1]]
    (version,) = re.findall(r"^python:(\S+)-slim$", dict(steps)["FROM"])

    assert words[0] == "FROM"
    assert set(words) <= {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "CMD"}
    assert ["python", "main.py"] == json.loads(dict(steps)["CMD"])
    assert dict(steps)["USER"] not in ("root", "0")
    assert words.index("USER") > max(place for place, word in enumerate(words) if word == "RUN")
    assert f'"Programming Language :: Python :: {version}"' in (ROOT / "pyproject.toml").read_text()
    assert {"requirements.txt", "wheels/", "main.py", "inspector.py", "agents/"} == set(copied)
    assert [] == [name for name in copied if name != "wheels/" and not (EXAMPLE / name).exists()]
    assert any(
        "--wheel-dir examples/cloud_run/wheels" in block for block in blocks("docs/adk-server.md", "bash")
    )


@pytest.mark.parametrize(
    "name", ["ADK_STORE_PROJECT", "ADK_STORE_DATABASE", "ADK_STORE_BUCKET", "ADK_STORE_PREFIX"]
)
def test_the_command_that_deploys_sets_what_is_read(name: str) -> None:
    """Each variable of ``Store.from_env()``."""
    (deploy,) = [block for block in blocks("docs/adk-server.md", "bash") if "gcloud run deploy" in block]

    assert f"{name}=${name}" in deploy
    assert deploy.startswith(OF_A_REAL_PROJECT)
    assert StoreSettings.from_env({name: "value"}) != StoreSettings.from_env({})


def test_every_command_of_the_document_is_run_by_a_test_or_needs_a_real_project() -> None:
    """Each is one of those that the servers' tests start."""
    known = [part for block in commands("docs/adk-server.md") for part in RUN_BY_TESTS if part in block]

    assert sorted(RUN_BY_TESTS) == sorted(known)
    assert len(known) == len(commands("docs/adk-server.md"))


START = f"""
import gc, os, runpy
gc.unfreeze()
runpy.run_path({str(EXAMPLE / "main.py")!r})
print(gc.isenabled(), *gc.get_threshold(), gc.get_freeze_count() > 100_000)
del os.environ["ADK_STORE_BUCKET"]
runpy.run_path({str(EXAMPLE / "main.py")!r}, run_name="__main__")
"""


def test_the_example_keeps_pythons_collector_from_the_event_loop_and_needs_a_bucket(tmp_path: Path) -> None:
    """What was imported is not looked through any more, and the rest less often than by default.

    Without a bucket it does not start: ADK would keep artifacts in memory, and lose them.
    """
    (tmp_path / "start.py").write_text(START)
    run = ran(
        [ready_programs() / "python", tmp_path / "start.py"],
        env={"PYTHONWARNINGS": "ignore", "ADK_STORE_PROJECT": "p", "ADK_STORE_BUCKET": "bucket"},
    )

    assert (1, "True 1000 5 400 True\n") == (run.returncode, run.stdout), run.stderr
    assert "these settings have no bucket; pass bucket= or set ADK_STORE_BUCKET" in run.stderr


HOST = "agent-inspector-1.europe-west1.run.app"


@pytest.fixture
async def inspector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """What Cloud Run, which ends TLS, passes on to the inspector of the example."""
    for name, value in {
        "ADK_STORE_LOCAL": ":memory:",
        "INSPECTOR_AUDIENCE": "/projects/1/locations/europe-west1/services/agent-inspector",
        "INSPECTOR_HOST": HOST,
    }.items():
        monkeypatch.setenv(name, value)
    names = runpy.run_path(str(EXAMPLE / "inspector.py"))
    transport, headers = httpx.ASGITransport(app=names["app"]), {"x-forwarded-proto": "https"}
    async with (
        names["closing"](names["app"]),
        httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers) as client,
    ):
        yield client


async def test_the_inspector_of_the_example_shows_nothing_that_the_proxy_did_not_sign(
    inspector: httpx.AsyncClient,
) -> None:
    """On the host of its own address alone; style sheets, which are the same for all, need no signature."""
    unsigned = await inspector.get("/")
    style = await inspector.get("/static/inspector.css")
    elsewhere = await inspector.get("https://evil.example.com/")

    assert [403, 200, 421] == [each.status_code for each in (unsigned, style, elsewhere)]


async def test_the_cookies_of_the_inspector_of_the_example_are_for_https_alone(
    inspector: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server sees http, and a header of the proxy."""

    async def signed(*_: object) -> bool:
        return True

    monkeypatch.setattr(IapAuthorization, "__call__", signed)
    assert "; Secure" in (await inspector.get("/")).headers["set-cookie"]


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
