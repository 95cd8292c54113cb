"""Write through the services what the golden files hold: the same ids, times and content."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.genai import types

from gcp_adk_store import (
    ArtifactService,
    OutcomeUnknownError,
    Point,
    SessionConflictError,
    SessionLimits,
    SessionService,
)

Connect = Callable[..., SessionService]

WHO: dict[str, Any] = {"app_name": "shop", "user_id": "u/1", "session_id": "__s__"}
MADE_AT = 1700000000.25
EPOCH = "00000000000040008000000000000001"

STATE = {
    "text": "ünï",
    "number": 42,
    "fraction": 0.1 + 0.2,
    "truth": True,
    "nothing": None,
    "list": [1, [2.5, None], {"a": "b"}],
    "map": {"__x__": {"": 1}},
    "large": 2**70,
    "": "empty key",
    "a.b/c`d": "odd key",
    "__name__": "reserved key",
}
SHARED = {"mine": 1, "user:name": "Ada", "user:tags": ["a"], "app:motto": {"of": "the shop"}}
SHARED_LATER = {"mine": None, "user:name": None, "app:open": True}

TIMES = [1700000001.5, 1700000003.123, 1700000002.0, 1700000004.0, 1700000005.0, 1700000006.75, 1700000006.75]


def event(number: int, delta: dict[str, Any] | None = None) -> Event:
    """Return the event of a number, always the same."""
    return Event(
        id=f"event-{number}",
        invocation_id="invocation",
        author="user" if number % 2 == 0 else "agent",
        timestamp=TIMES[number],
        content=types.Content(
            role="user" if number % 2 == 0 else "model", parts=[types.Part(text=f"{number}: grüß dich")]
        ),
        actions=EventActions(state_delta=delta or {}),
    )


LARGE = {"n": "initial", **{f"key{number}": "x" * 1000 for number in range(80)}}


SHORT = [event(0, {"number": 43}), event(1, {"new": "key"})]
LONG = [event(number, {"n": number}) for number in range(len(TIMES))]


PICTURE = event(3)
PICTURE.content = types.Content(
    role="model", parts=[types.Part(inline_data=types.Blob(data=b"PNG" * 10, mime_type="image/png"))]
)


def fix_ids_and_times() -> None:
    """Make this context draw always the same id and time."""
    platform_time.set_time_provider(lambda: MADE_AT)
    platform_uuid.set_id_provider(lambda: "00000000-0000-4000-8000-000000000001")


async def short_session(connect: Connect) -> None:
    """Make a session with every kind of state value, and two events in its tail."""
    service = connect()
    held = await service.create_session(**WHO, state=STATE)
    for made in SHORT:
        await service.append_event(held, made.model_copy(deep=True))
    await service.close()


async def shared_state(connect: Connect) -> None:
    """Make a session that leaves state of its user and app."""
    service = connect()
    held = await service.create_session(**WHO, state=SHARED)
    await service.append_event(held, event(0, SHARED_LATER))
    await service.close()


async def sealed_session(connect: Connect) -> None:
    """Make a session with several segments, and an event in its tail."""
    service = connect(limits=SessionLimits(seal_tail_bytes=500))
    held = await service.create_session(**WHO)
    for made in LONG:
        await service.append_event(held, made.model_copy(deep=True))
    await service.close()


async def conflicted_session(connect: Connect) -> None:
    """Make a session where another writer was first: of an append that is refused, and of two that merge."""
    limits = SessionLimits(seal_tail_bytes=500)
    service, merging = connect(limits=limits), connect(limits=limits, on_conflict="merge")
    held = await service.create_session(**WHO)
    late = held.model_copy(deep=True)
    first, second, third, fourth, fifth = (made.model_copy(deep=True) for made in LONG[:5])
    await service.append_event(held, first)
    with suppress(SessionConflictError):
        await service.append_event(late, third)
    await service.append_event(held, second)
    await service.append_event(held, third.model_copy(deep=True))
    await merging.append_event(late, fourth)
    await merging.append_event(held, fifth)
    await service.close()
    await merging.close()


def turns_with_summaries() -> list[Event]:
    """Return 16 turns of an event each, with two summaries, of which the second contains the first."""
    made = []
    for number in range(16):
        turn = event(0)
        turn.id, turn.invocation_id = f"turn-{number}", f"invocation-{number}"
        turn.timestamp = MADE_AT + number
        made.append(turn)
        if number in (4, 12):
            covers = EventCompaction(
                start_timestamp=MADE_AT,
                end_timestamp=turn.timestamp,
                compacted_content=types.Content(role="model", parts=[types.Part(text=f"{number} greetings")]),
            )
            summary = event(1)
            summary.id, summary.invocation_id = f"summary-{number}", f"summary-{number}"
            summary.timestamp, summary.actions = turn.timestamp + 0.5, EventActions(compaction=covers)
            made.append(summary)
    return made


async def windowed_session(connect: Connect) -> None:
    """Make a session whose last segment keeps what a read since the newest summary has of those before."""
    service = connect(limits=SessionLimits(seal_tail_bytes=1500), history="since_compaction")
    held = await service.create_session(**WHO)
    for made in turns_with_summaries():
        await service.get_session(**WHO)
        await service.append_event(held, made.model_copy(deep=True))
    await service.close()


async def deletion_note(connect: Connect) -> None:
    """Begin to delete a sealed session, and stop after the first commit."""
    await sealed_session(connect)
    service = connect(interceptors=[_OneCommit()])
    try:
        await service.delete_session(**WHO)
    except OutcomeUnknownError:
        await service.close()
        return
    raise AssertionError("the deletion was not interrupted")


async def expiring_session(connect: Connect) -> None:
    """Make a session that ends by itself, with a segment, and a payload in Firestore."""
    service = connect(limits=SessionLimits(seal_tail_bytes=500, inline_bytes=10))
    held = await service.create_session(**WHO, ttl_seconds=3600)
    for made in (*LONG[:3], PICTURE):
        await service.append_event(held, made.model_copy(deep=True))
    await service.close()


async def large_initial_state(connect: Connect) -> None:
    """Make a session whose initial state is a payload, in the first segment too, and changes later."""
    service = connect(limits=SessionLimits(seal_tail_bytes=500))
    held = await service.create_session(**WHO, state=LARGE)
    for made in LONG[:3]:
        await service.append_event(held, made.model_copy(deep=True))
    await service.close()


async def described_session(connect: Connect) -> None:
    """Make a session with a title and labels, and two turns."""
    service = connect()
    held = await service.create_session(**WHO, state={"n": 0})
    for number, made in enumerate(SHORT):
        turn = made.model_copy(deep=True, update={"author": "user", "invocation_id": f"turn {number}"})
        await service.append_event(held, turn)
    await service.update_session_info(**WHO, title="Ünï trip", labels={"team": "x", "state": "öpen"})
    await service.close()


async def restored_session(connect: Connect) -> None:
    """Take a sealed session back into a segment, and append to it."""
    await sealed_session(connect)
    service = connect()
    held = await service.restore_session(**WHO, at=Point.position(4))
    await service.append_event(held, LONG[6].model_copy(deep=True))
    await service.close()


async def restore_note(connect: Connect) -> None:
    """Begin to take a sealed session back, and stop after the first commit."""
    await sealed_session(connect)
    service = connect(interceptors=[_OneCommit()])
    await service.restore_session(**WHO, at=Point.position(2))
    await service.close()


async def forked_session(connect: Connect) -> None:
    """Fork a sealed session, with a segment."""
    await sealed_session(connect)
    platform_uuid.set_id_provider(lambda: "00000000-0000-4000-8000-000000000002")
    service = connect()
    await service.fork_session(**WHO, at=Point.position(5), to_session_id="fork", to_user_id="v")
    await service.close()


SCENARIOS = {made.__name__: made for made in (shared_state, deletion_note)}


class _OneCommit(grpc.aio.UnaryUnaryClientInterceptor):
    """Lets one commit through and refuses the others."""

    def __init__(self) -> None:
        self._left = 1

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        """Send *request*, or refuse it."""
        method = details.method.decode() if isinstance(details.method, bytes) else details.method
        if not method.endswith("/Commit"):
            return await continuation(details, request)
        self._left -= 1
        if self._left >= 0:
            return await continuation(details, request)
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.PERMISSION_DENIED, nothing, nothing, details="on purpose")


def _bytes(data: bytes, mime_type: str, display_name: str | None = None) -> types.Part:
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type, display_name=display_name))


def _file(uri: str, mime_type: str | None = None) -> types.Part:
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type=mime_type))


OWNER: dict[str, Any] = {"app_name": "shop", "user_id": "group/u", "session_id": "s"}
METADATA: dict[str, Any] = {"plain": "text", "typed": [1, None, {"a": 0.5}], "ünï": "x", "adkIsText": "mine"}
ARTIFACTS: dict[str, types.Part] = {
    "text": types.Part(text="grüß dich\n"),
    "empty text": types.Part(text=""),
    "bytes": _bytes(b"\x00\xff\r\n", "image/png"),
    "docs/named bytes": _bytes(b"PDF", "application/pdf", "Ünï.pdf"),
    "empty bytes": _bytes(b"", "application/pdf"),
    "tombstone": _bytes(b"", "application/octet-stream"),
    "file": _file("gs://elsewhere/a.pdf", "application/pdf"),
    "file without type": _file("https://example.com/a"),
    "reference": _file("artifact://apps/shop/users/group/u/sessions/s/artifacts/bytes/versions/0"),
    "user:photo": _bytes(b"JPG", "image/jpeg"),
}


async def artifacts(service: ArtifactService) -> None:
    """Save one artifact of each kind, the bytes with metadata and in two versions."""
    for name, part in ARTIFACTS.items():
        metadata = METADATA if name == "bytes" else None
        await service.save_artifact(**OWNER, filename=name, artifact=part, custom_metadata=metadata)
    await service.save_artifact(**OWNER, filename="bytes", artifact=types.Part(text="second"))
