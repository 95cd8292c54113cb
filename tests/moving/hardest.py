"""Make the sessions that are hardest to carry, and query the tables that they are exported to."""

import io
import json
import sys
from collections.abc import Iterable
from typing import Any, Final

from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService
from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.moving import export_jsonl, records_of
from gcp_adk_store.testing.conformance.running import event
from tests.support.programs import ran

APP: Final = "app"

QUERIES: Final = """
import json, sys, duckdb
database = duckdb.connect()
found = [database.execute(query, [file]).fetchall() for query, file in json.load(sys.stdin)]
print(json.dumps(found))
"""

DEEP: Final[Any] = {
    "list": [[1.5, {"x": None}], []],
    "big": 2**70,
    "none": None,
    "": {"__x__": {"a.b": [True]}},
}
ODD: Final = "\U0001f600 \x7f  `'\"\\ \u2028 \u00e9 e\u0301"


def hardest(*, at: float = 1_700_000_000.0) -> list[Event]:
    """Return events with bytes, calls, answers, odd texts, deep state, and one time after the other."""
    picture = types.Part.from_bytes(data=bytes(range(256)) * 300, mime_type="image/png")
    call = types.Part(
        function_call=types.FunctionCall(id="c1", name="look", args={"at": [1, 2.5, None, ODD]})
    )
    answer = types.Part(
        function_response=types.FunctionResponse(id="c1", name="look", response={"found": {"n": 1.0}})
    )
    made = [
        event(
            "hello", at=at + 0.000001, delta={"count": 1, "user:name": "Ada", "app:model": "m", "temp:x": 1}
        ),
        Event(author="agent", invocation_id="i1", content=types.Content(role="model", parts=[call])),
        Event(author="agent", invocation_id="i1", content=types.Content(role="user", parts=[answer])),
        event(ODD, at=at + 3, delta={"deep": DEEP, ODD: ODD}),
        Event(author="agent", invocation_id="i2", content=types.Content(role="model", parts=[picture])),
        Event(author="agent", actions=EventActions(state_delta={"count": 2}, artifact_delta={"f": 0})),
        event("x" * 300_000, at=at + 6, delta={"large": "y" * 100_000}),
        Event(author="user", branch="a.b", error_code="E", error_message="m", turn_complete=True),
    ]
    for number, one in enumerate(made):
        one.id = f"event-{number}"
        one.timestamp = at + number + (0.000001 if number == 0 else 0.123456)
    return made


async def fill(
    service: BaseSessionService, sessions: Iterable[tuple[str, str, list[Event]]], **state: Any
) -> None:
    """Make sessions of users by their ids, with events."""
    for user, session_id, events in sessions:
        session = await service.create_session(
            app_name=APP, user_id=user, session_id=session_id, state={"kept": [1], **state}
        )
        for one in events:
            await service.append_event(session, one.model_copy(deep=True))


def many(count: int, *, at: float = 1_700_000_000.0) -> list[Event]:
    """Return so many small events, each of a turn of its own."""
    made = [
        event(f"event {number}", at=at + number, delta={f"k{number % 7}": number}) for number in range(count)
    ]
    for number, one in enumerate(made):
        one.id = f"e{number}"
        one.invocation_id = f"i{number}"
    return made


async def exported(store: Store, user: str | None = None) -> bytes:
    """Return the lines of an export."""
    file = io.BytesIO()
    await export_jsonl(records_of(store.sessions, APP, user), file, place={}, on_event=lambda _: None)
    return file.getvalue()


def queried(*queries: tuple[str, str]) -> list[list[tuple[Any, ...]]]:
    """Return the rows that DuckDB finds for each query of a file.

    Its own process ends with pages about what the package did not release.
    """
    done = ran([sys.executable, "-c", QUERIES], input=json.dumps(queries), check=True)
    return [[tuple(row) for row in rows] for rows in json.loads(done.stdout)]
