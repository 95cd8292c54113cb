"""Take the pictures of the documents: ``python -m tools.website.pictures``, as ``make pictures`` runs it.

Each shows what really runs: the inspector and ``adk web`` in Chromium, commands with what they printed, the
dashboard with the metrics of a run. They differ from run to run in times and ids, so no test compares them.
"""

import asyncio
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from google.adk.agents import LlmAgent
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from PIL import Image

from examples.support_agent import APP, LAST_TURN, SESSION, USER, ScriptedModel, call, say
from examples.turns import first_model, first_turns, runner_for, say_to
from gcp_adk_store import Store
from gcp_adk_store.testing.emulators import create_bucket, firestore_emulator, storage_emulator
from tests.adk_server.process import Server
from tests.adk_server.story import Api, begin
from tests.inspector.browser import browser
from tests.inspector.process import inspected
from tools.setup.tools import CHROMIUM, find, search_path
from tools.website import dashboard
from tools.website.terminal import terminal

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs/pictures"
PLACE: Final = {"app": APP, "user": USER, "session": SESSION}


def take_inspector(chromium: str, place: Path) -> None:
    """Keep the conversation and the state of the demo's session, and a turn that the timeline follows."""
    asyncio.run(_fill(place / "support-store"))
    with (
        inspected("gcp-adk-store inspect --local support-store", "--reveal", at=place) as address,
        browser(chromium, profile=place / "profile") as page,
    ):
        for name in ("session", "matrix"):
            page.look_as(width=1100)
            page.open(f"{address}{name}?{urlencode(PLACE)}")
            assert SESSION in page.text, page.text
            page.run("document.querySelectorAll('details').forEach((each, at) => each.open = at === 0)")
            page.run("document.documentElement.style.overflow = 'hidden'")
            page.keep(FOLDER / f"inspector-{name}.png")
        page.open(f"{address}timeline?{urlencode({**PLACE, 'newest': 1, 'follow': 1})}")
        asyncio.run(_ask(place / "support-store"))
        last = "[...document.querySelectorAll('table')].at(-1)"
        page.appear(f"{last}.querySelectorAll('.store').length === 4")
        page.run("while (document.querySelector('#turns > * ~ h2')) turns.firstElementChild.remove()")
        page.run("document.documentElement.style.overflow = 'hidden'")
        page.keep(FOLDER / "inspector-timeline.png")
    _cut(FOLDER / "inspector-session.png", height=760)
    _cut(FOLDER / "inspector-matrix.png", height=470)
    _cut(FOLDER / "inspector-timeline.png", height=690)


async def _fill(folder: Path) -> None:
    async with Store.local(folder) as store:
        async for _ in first_turns(store.sessions, store.artifacts, first_model()):
            pass
        words, script = LAST_TURN
        await say_to(runner_for(ScriptedModel(script=script), store.sessions, store.artifacts), words)
        await store.sessions.update_session_info(
            app_name=APP,
            user_id=USER,
            session_id=SESSION,
            title="Two open invoices",
            labels={"team": "billing"},
        )


class _SlowModel(ScriptedModel):
    """Takes a moment for each answer, as a model does."""

    async def generate_content_async(self, *asked: Any, **options: Any) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next answer of the script, after a pause."""
        await asyncio.sleep(0.8)
        async for each in super().generate_content_async(*asked, **options):
            yield each


async def find_invoices(customer: str) -> dict[str, Any]:
    """Look for the invoices of a customer."""
    await asyncio.sleep(0.4)
    return {"customer": customer, "open": 0}


async def _ask(folder: Path) -> None:
    model = _SlowModel(script=[[call("find_invoices", customer="Ada")], [say("None is open, Ada.")]])
    agent = LlmAgent(name="support_agent", model=model, tools=[find_invoices])
    async with Store.local(folder) as store:
        runner = Runner(app_name=APP, agent=agent, session_service=store.sessions)
        await say_to(runner, "Is an invoice open?")


def take_chat(chromium: str, place: Path) -> None:
    """Keep the page of ``examples/chat`` after three messages in two chats."""
    environ = os.environ | {"ADK_STORE_LOCAL": f"{place}/chat", "PORT": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "examples.chat.main"]
    with (
        Server(command, environ=environ, cwd=place, log=place / "chat.log") as server,
        browser(chromium, profile=place / "chat-profile") as page,
    ):
        page.look_as(width=1100)
        for where, words, answer in (
            ("#", "Buy milk", "Noted. 1 in all."),
            ("#", "Call Bob about the invoice", "Noted. 1 in all."),
            (None, "Ask him for the date", "Noted. 2 in all."),
        ):
            if where is not None:
                page.open("about:blank")
                page.open(f"{server.url}/chat/{where}")
            page.run(f"element('words').value = {json.dumps(words)}; element('say').requestSubmit()")
            page.appear(f"element('events').lastChild?.textContent === {json.dumps(answer)}")
            page.appear(f"document.querySelector('#sessions small')?.textContent === {json.dumps(answer)}")
        page.keep(FOLDER / "chat.png")
    _cut(FOLDER / "chat.png", height=520)


def take_adk_web(chromium: str, place: Path) -> None:
    """Keep the page of ``adk web`` after its server was killed and another one was started."""
    (place / ".adk").mkdir()
    (place / ".adk/config.json").write_text(json.dumps({"telemetry": False}))  # or the page asks for it first
    uris = (
        "--session_service_uri",
        f"firestore+local://{place}/web-store",
        "--artifact_service_uri",
        f"gs+local://{place}/web-store",
    )
    command = [
        _own("gcp-adk-store"),
        "adk",
        "web",
        *uris,
        "--port",
        "0",
        str(ROOT / "examples/cloud_run/agents"),
    ]
    environ = os.environ | {"HOME": str(place), "PYTHONPATH": str(ROOT)}
    with Server(command, environ=environ, cwd=place, log=place / "first.log") as first:
        begin(Api(first.url))
        first.kill()
    with (
        Server(command, environ=environ, cwd=place, log=place / "second.log") as second,
        browser(chromium, profile=place / "web-profile") as page,
    ):
        page.look_as(width=1200)
        page.open(f"{second.url}/dev-ui/?app=notes&userId=ada&session=s1")
        page.appear("document.body.innerText.includes('Noted. 2 in all.')")
        page.appear("document.body.innerText.includes('buy milk\\ncall Bob')")  # the artifact
        # Icons are letters of a font that the page fetches from Google, and so no icons here.
        page.run("document.querySelectorAll('mat-icon').forEach(each => each.style.opacity = 0)")
        page.keep(FOLDER / "adk-web.png")
    _cut(FOLDER / "adk-web.png", height=680)


def take_demo(chromium: str, place: Path) -> None:  # noqa: ARG001  # needs neither
    """Keep what ``make demo`` prints."""
    printed = _output([sys.executable, "-m", "examples.demo"], cwd=ROOT, environ={}, columns=104)
    (FOLDER / "demo.svg").write_text(terminal("make demo", printed, width=104, name="demo"))


def take_doctor(chromium: str, place: Path) -> None:  # noqa: ARG001  # no page
    """Keep what ``gcp-adk-store doctor`` says of a store on the emulators."""
    with firestore_emulator() as firestore, storage_emulator() as storage:
        create_bucket("my-bucket", storage.address)
        environ = {
            firestore.variable: firestore.address,
            storage.variable: storage.address,
            "ADK_STORE_PROJECT": "my-project",
            "ADK_STORE_BUCKET": "my-bucket",
        }
        printed = _output([_own("gcp-adk-store"), "doctor"], cwd=place, environ=environ, columns=110)
    (FOLDER / "doctor.svg").write_text(terminal("gcp-adk-store doctor", printed, width=110, name="doctor"))


def take_dashboard(chromium: str, place: Path) -> None:  # noqa: ARG001  # no page
    """Keep the dashboard for Grafana with the metrics of a run in which requests fail for a while."""
    (FOLDER / "dashboard.svg").write_text(dashboard.picture())


def take_icon(chromium: str, place: Path) -> None:
    """Keep the icon for ADK's catalogue."""
    bars = "".join(f'<rect x="112" y="{104 + 76 * at}" width="288" height="52" rx="12"/>' for at in range(3))
    sealed = '<rect x="112" y="332" width="288" height="76" rx="12" fill="#7ee2a8"/>'
    icon = f'<rect width="512" height="512" rx="96" fill="#0b57d0"/><g fill="#ffffff">{bars}</g>{sealed}'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="512" height="512">{icon}</svg>'
    (place / "icon.html").write_text(f"<body style='margin:0'>{svg}</body>")
    with browser(chromium, profile=place / "icon-profile") as page:
        page.look_as(width=512)
        page.open((place / "icon.html").as_uri())
        page.keep(place / "icon.png")
    _cut(place / "icon.png", height=512)
    shutil.copy(place / "icon.png", ROOT / "docs/integrations/gcp-adk-store.png")


_REDRAWN: Final = re.compile(r".*\x1b\[2K|\x1b\[\?25[lh]")
"""What a spinner drew and took away again."""
TAKEN: Final[Mapping[str, Callable[[str, Path], None]]] = {
    "inspector": take_inspector,
    "chat": take_chat,
    "adk-web": take_adk_web,
    "demo": take_demo,
    "doctor": take_doctor,
    "dashboard": take_dashboard,
    "icon": take_icon,
}
"""What takes the pictures, by names for the command line."""


def _own(program: str) -> str:
    return str(Path(sys.executable).with_name(program))


def _output(
    command: Sequence[str], *, cwd: Path, environ: Mapping[str, str], columns: int
) -> list[tuple[float, str]]:
    """Return what a command prints on a terminal with colours, each line with the seconds until it came."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_EMULATOR_HOST")}
    of_terminal = {
        "COLUMNS": str(columns),
        "FORCE_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "TERM": "xterm-256color",
    }
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=cwd, env={**kept, **of_terminal, **environ}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = [(time.monotonic() - began, _REDRAWN.sub("", line)) for line in process.stdout]
    assert printed, shlex.join(command)
    return printed


def _cut(path: Path, *, height: int) -> None:
    """Cut off what is below, where the page is empty."""
    with Image.open(path) as picture:
        kept = picture.crop((0, 0, picture.width, height))
    kept.save(path)


def _small(path: Path) -> None:
    """Let a screenshot take a third of its bytes: 256 colours are enough for a page."""
    with Image.open(path) as picture:
        made = io.BytesIO()
        picture.convert("RGB").quantize(256).save(made, format="PNG", optimize=True)
    path.write_bytes(made.getvalue())


def main(names: Sequence[str]) -> None:
    """Take the pictures of *names*, or all."""
    os.environ["PATH"] = search_path(os.environ)
    chromium = find(CHROMIUM, os.environ)
    assert chromium is not None, "Chromium is missing; make pictures installs it"
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or TAKEN:
        place = Path(tempfile.mkdtemp())
        try:
            TAKEN[name](chromium, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    for path in FOLDER.glob("*.png"):
        _small(path)


if __name__ == "__main__":
    main(sys.argv[1:])
