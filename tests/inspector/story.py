"""A store whose every text is hostile, and pages of it."""

import struct
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from html.parser import HTMLParser
from typing import Any, Final

import httpx
from fastapi import FastAPI
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import SessionLimits, Store

HOST: Final = "127.0.0.1:8780"
LIMITS: Final = SessionLimits(seal_tail_bytes=4000)

XSS: Final = (
    "<script>window.hacked=1</script>",
    "\"><img src=x onerror='window.hacked=1'>",
    "'><svg/onload=window.hacked=1>",
    "</title></textarea></pre></style><script>window.hacked=1</script>",
    "javascript:window.hacked=1",
    "{{ 7*7 }}{% raw %}",
    "<p hx-get='/x' hx-trigger='load' hx-on:click='window.hacked=1'>",
    "<base href='https://evil.example/'><meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "\u202e<iframe srcdoc='<script>parent.hacked=1</script>'>\u0000\u2028",
)
"""What runs in a page that does not escape it."""

EVIL: Final = "".join(XSS)
SVG: Final = b"<svg xmlns='http://www.w3.org/2000/svg'><script>window.hacked=1</script></svg>"
PAGE: Final = b"<html><script>window.hacked=1</script></html>"
PDF: Final = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R/Resources<<>>>>endobj
4 0 obj<</Length 34>>stream
0.1 0.4 0.9 rg 50 50 200 100 re f
endstream endobj
trailer<</Root 1 0 R>>
"""
WAV = b"RIFF" + struct.pack("<I", 36) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
WAV += b"data" + struct.pack("<I", 0)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG: Final = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 24, 8, 2, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress(b"".join(b"\x00" + b"\x1a\x73\xe8" * 40 for _ in range(24))))
    + _chunk(b"IEND", b"")
)
"""A blue picture."""

KEY: Final[dict[str, Any]] = {
    "app_name": f"app{XSS[0]}",
    "user_id": f"user{XSS[1]}/&?#%00",
    "session_id": f"session{EVIL}",
}
PLACE: Final = {"app": KEY["app_name"], "user": KEY["user_id"], "session": KEY["session_id"]}
CALM: Final[dict[str, Any]] = {"app_name": "support", "user_id": "ada", "session_id": "s1"}
CALM_PLACE: Final = {"app": "support", "user": "ada", "session": "s1"}


async def fill_hostile(store: Store) -> Session:
    """Make a session with hostile text in every field that takes one, and return it."""
    sessions = store.sessions
    session = await sessions.create_session(**KEY, state={f"state{EVIL}": EVIL, "user:x": EVIL})
    await sessions.update_session_info(
        **KEY, title="title<script>window.hacked=1</script>", labels={"x": XSS[2]}
    )
    call = types.FunctionCall(id=EVIL, name=f"tool{EVIL}", args={EVIL: EVIL})
    response = types.FunctionResponse(id=EVIL, name=f"tool{EVIL}", response={EVIL: [EVIL]})
    parts = [
        types.Part(text=EVIL),
        types.Part(text=EVIL, thought=True),
        types.Part(function_call=call),
        types.Part(function_response=response),
        types.Part(inline_data=types.Blob(mime_type=f"image/png{XSS[1]}", data=SVG, display_name=EVIL)),
        types.Part(inline_data=types.Blob(mime_type="text/html", data=PAGE)),
        types.Part(file_data=types.FileData(file_uri="javascript:window.hacked=1", mime_type=EVIL)),
        types.Part(executable_code=types.ExecutableCode(code=EVIL, language=types.Language.PYTHON)),
        types.Part(
            code_execution_result=types.CodeExecutionResult(output=EVIL, outcome=types.Outcome.OUTCOME_OK)
        ),
    ]
    for number in range(3):
        event = Event(
            id=f"event{number}{EVIL}",
            author=f"author{EVIL}",
            invocation_id=f"turn{number}{EVIL}",
            branch=EVIL,
            content=types.Content(role="model", parts=parts),
            error_code=EVIL,
            error_message=EVIL,
            model_version=EVIL,
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=5),
            actions=EventActions(
                state_delta={f"state{EVIL}": f"{number}{EVIL}"},
                artifact_delta={EVIL: number},
                transfer_to_agent=EVIL,
            ),
        )
        await sessions.append_event(session, event)
    content = types.Content(parts=[types.Part(text=f"remember {EVIL}")])
    await store.memory.add_events_to_memory(
        app_name=KEY["app_name"],
        user_id=KEY["user_id"],
        session_id=KEY["session_id"],
        events=[Event(author=EVIL, content=content)],
        custom_metadata={"note": EVIL},
    )
    for name, data, mime_type in (
        ("evil.svg", SVG, "image/svg+xml"),
        ("evil.html", PAGE, "text/html"),
        ("evil.png", PAGE, "image/png"),
        ("evil.csv", f'"{EVIL}",2'.encode(), "text/csv"),
        ("<script>window.hacked=1<script>.txt", EVIL.encode(), "text/plain"),
    ):
        await store.artifacts.save_artifact(
            **CALM,
            filename=name,
            artifact=types.Part.from_bytes(data=data, mime_type=mime_type),
            custom_metadata={"note": EVIL},
        )
    return session


async def fill_calm(store: Store) -> Session:
    """Make a session as an agent makes one, with artifacts and memories, and return it."""
    sessions = store.sessions
    session = await sessions.create_session(**CALM, state={"cart": [], "user:name": "Ada"})
    await sessions.update_session_info(**CALM, title="Where is my parcel?", labels={"team": "x"})
    began = 1_700_000_000.0
    for turn in range(6):
        for number, event in enumerate(_turn(turn)):
            event.timestamp = began + turn * 60 + number
            await sessions.append_event(session, event)
    saved: dict[str, tuple[str, list[bytes]]] = {
        "plot.png": ("image/png", [PNG]),
        "notes.txt": ("text/plain", [b"one\ntwo\nthree\n", b"one\n2\nthree\nfour\n"]),
        "rows.csv": ("text/csv", [b"city,people\nOslo,700000\n"]),
        "letter.pdf": ("application/pdf", [PDF]),
        "call.wav": ("audio/wav", [WAV]),
    }
    for name, (mime_type, versions) in saved.items():
        for data in versions:
            part = types.Part.from_bytes(data=data, mime_type=mime_type)
            await store.artifacts.save_artifact(**CALM, filename=name, artifact=part)
    await store.memory.add_session_to_memory(session)
    return session


def _turn(turn: int) -> list[Event]:
    turn_id = f"e-{turn}"
    call = types.FunctionCall(id=f"c{turn}", name="find_parcel", args={"number": turn})
    found = types.FunctionResponse(id=f"c{turn}", name="find_parcel", response={"where": "Oslo"})
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=100 + turn, candidates_token_count=20, total_token_count=120 + turn
    )
    picture = types.Part(inline_data=types.Blob(mime_type="image/png", data=PNG, display_name="map"))
    said = [
        types.Part(text="It may be in Oslo.", thought=True),
        types.Part(text=f"It is in Oslo. {turn}"),
        picture,
    ]
    events = [
        Event(author="user", content=types.Content(parts=[types.Part(text=f"Where is parcel {turn}?")])),
        Event(
            author="agent",
            content=types.Content(parts=[types.Part(function_call=call)]),
            usage_metadata=usage,
        ),
        Event(author="agent", content=types.Content(parts=[types.Part(function_response=found)])),
        Event(
            author="agent",
            content=types.Content(parts=said),
            actions=EventActions(state_delta={"cart": ["parcel", turn], "seen": turn}),
        ),
    ]
    if turn == 5:
        events.append(Event(author="agent", error_code="429", error_message="The model is busy."))
    for event in events:
        event.invocation_id = turn_id
    return events


def client_of(app: FastAPI, *, host: str = HOST) -> httpx.AsyncClient:
    """Return a browser's connection to *app*, without a browser."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{host}")


class Read(HTMLParser):
    """What a browser makes of a page: its elements, its texts, its links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._hidden = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """All texts, each run of blanks as one."""
        return " ".join(" ".join(self.words).split())

    def all(
        self, tag: str, wanted: Callable[[dict[str, str]], bool] = lambda _: True
    ) -> list[dict[str, str]]:
        """Return the attributes of the elements of one name."""
        return [attributes for name, attributes in self.elements if name == tag and wanted(attributes)]

    def links(self, to: str = "", *, part: str = "") -> list[str]:
        """Return the addresses of the links that begin with *to*, and have *part* in them."""
        found = [each["href"] for each in self.all("a")]
        return [link for link in found if link.startswith(to) and part in link]

    def one(self, tag: str, wanted: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        """Return the attributes of the only element of one name."""
        (found,) = self.all(tag, wanted)
        return found


async def opened(app: FastAPI, link: str) -> Read:
    """Return the page that a link leads to."""
    async with client_of(app) as client:
        return Read((await client.get(link)).text)


async def followed(app: FastAPI, address: str, by: str, but: str = "\n") -> AsyncIterator[Read]:
    """Yield the page at *address*, and each that a link with *by* in it, and without *but*, leads on to."""
    while address:
        page = await opened(app, address)
        yield page
        address = next((link for link in page.links(part=by) if but not in link), "")


async def seen(
    app: FastAPI, page: str, parameters: Mapping[str, str | int] = CALM_PLACE, status: int = 200
) -> Read:
    """Return what a page shows."""
    async with client_of(app) as client:
        answer = await client.get(f"/{page}", params=dict(parameters))
    assert status == answer.status_code, answer.text
    return Read(answer.text)
