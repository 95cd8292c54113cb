"""Talk to one of ADK's servers over its REST API."""

import json
from dataclasses import dataclass
from typing import Any, Final

import requests

_TIMEOUT_S: Final = 60.0
_WHO: Final = {"appName": "notes", "userId": "ada", "sessionId": "s1"}
SESSION: Final = "/apps/notes/users/ada/sessions/s1"
ARTIFACTS: Final = f"{SESSION}/artifacts"
NOTES: Final = f"{ARTIFACTS}/notes.txt"
KEPT: Final = (
    SESSION,
    "/apps/notes/users/ada/sessions",
    ARTIFACTS,
    NOTES,
    f"{NOTES}/versions",
    f"{NOTES}/versions/0",
    f"{NOTES}/versions/latest/metadata",
)
"""What both servers are asked."""


@dataclass(frozen=True)
class Api:
    """The REST API of the server at *url*."""

    url: str

    def ask(self, method: str, path: str, body: object = None) -> requests.Response:
        """Return the answer, whatever it is."""
        return requests.request(method, self.url + path, json=body, timeout=_TIMEOUT_S)

    def get(self, path: str) -> Any:
        """Return the JSON of an answer that must be one."""
        return _json(self.ask("GET", path))

    def create(self, state: dict[str, Any]) -> Any:
        """Make the session."""
        return _json(self.ask("POST", "/apps/notes/users/ada/sessions", {"sessionId": "s1", "state": state}))

    def patch(self, delta: dict[str, Any]) -> Any:
        """Change the session's state without a turn."""
        return _json(self.ask("PATCH", SESSION, {"stateDelta": delta}))

    def run(self, words: str) -> list[Any]:
        """Take a turn; return its events."""
        events = _json(self.ask("POST", "/run", {**_WHO, "newMessage": _message(words)}))
        assert isinstance(events, list)
        return events

    def run_sse(self, words: str) -> list[Any]:
        """Take a turn whose events are streamed; return them."""
        body = {**_WHO, "newMessage": _message(words), "streaming": True}
        answer = self.ask("POST", "/run_sse", body)
        assert answer.ok, answer.text
        lines = [line for line in answer.text.splitlines() if line]
        assert all(line.startswith("data: ") for line in lines)
        return [json.loads(line.removeprefix("data: ")) for line in lines]


@dataclass(frozen=True)
class Part:
    """What the first server did."""

    made: Any
    run: list[Any]
    streamed: list[Any]
    patched: Any
    kept: dict[str, Any]
    """What it showed of the session at last."""


@dataclass(frozen=True)
class Story:
    """A conversation whose server was killed, and what the one that came after says of it."""

    before: Part
    kept: dict[str, Any]
    after: Api


def begin(first: Api) -> Part:
    """Let the first server do its part."""
    return Part(
        made=first.create({"topic": "errands", "user:name": "Ada"}),
        run=first.run("buy milk"),
        streamed=first.run_sse("call Bob"),
        patched=first.patch({"topic": "chores", "app:seen": 1}),
        kept=kept_by(first),
    )


def go_on(before: Part, second: Api) -> Story:
    """Ask the second server for the same, before anything else."""
    return Story(before=before, kept=kept_by(second), after=second)


def kept_by(server: Api) -> dict[str, Any]:
    """Return what a server says of the session."""
    return {path: server.get(path) for path in KEPT}


def texts(events: list[Any]) -> list[str]:
    """Return what was said in *events*, without calls and answers of tools."""
    parts = [part for event in events for part in event.get("content", {}).get("parts", [])]
    return [part["text"] for part in parts if "text" in part]


def _message(words: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": words}]}


def _json(answer: requests.Response) -> Any:
    assert answer.ok, f"{answer.status_code}: {answer.text}"
    return answer.json()
