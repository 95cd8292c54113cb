"""What a session used, and all events of a user, on Firestore; tests/local/test_histories.py has the rest."""

from typing import Any

import pytest
from google.genai import types

from gcp_adk_store import SessionLimits, SessionMissingError, SessionService
from tests.services.conftest import APP, USER, WHO, Connect, event, texts
from tests.support.clock import Clock

pytestmark = pytest.mark.emulators


async def test_a_session_is_counted_and_read_from_firestore_as_it_is_elsewhere(
    connect: Connect, small_segments: SessionLimits
) -> None:
    """Over segments and tail, by a process that knows neither."""
    service = connect(limits=small_segments)
    held = await service.create_session(**WHO)
    for number in range(40):
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=number, total_token_count=10 + number
        )
        answer = event(f"{number}", at=float(number))
        answer.usage_metadata, answer.model_version = usage, f"m{number % 2}"
        await service.append_event(held, answer)
    cold = connect()
    usage_of_all = await cold.get_session_usage(**WHO)
    found = [one async for one in cold.iter_user_events(app_name=APP, user_id=USER, after=9.0)]
    rest = [
        one
        async for one in connect().iter_user_events(
            app_name=APP, user_id=USER, after=9.0, cursor=found[4].cursor
        )
    ]

    assert (40, 400, sum(range(40)), 39.0) == (
        usage_of_all.events,
        usage_of_all.tokens.input_tokens,
        usage_of_all.tokens.output_tokens,
        usage_of_all.duration_s,
    )
    assert [("m0", 20), ("m1", 20)] == [(one.model, one.calls) for one in usage_of_all.models]
    assert held.events[10:] == [one.event for one in found]
    assert found[5:] == rest


async def test_an_expired_session_has_no_usage_and_no_events(clock: Clock, sessions: SessionService) -> None:
    """Even while Firestore still has it, and after a cursor in it."""
    owner: dict[str, Any] = {"app_name": APP, "user_id": USER}
    short = await sessions.create_session(**WHO, ttl_seconds=100)
    await sessions.append_event(short, event("short"))
    clock.after(1)
    lasting = await sessions.create_session(app_name=APP, user_id=USER, session_id="lasting")
    await sessions.append_event(lasting, event("lasting"))
    first = [one async for one in sessions.iter_user_events(**owner, limit=1)]
    clock.after(100)
    found = [one.event async for one in sessions.iter_user_events(**owner)]
    rest = [one.event async for one in sessions.iter_user_events(**owner, cursor=first[0].cursor)]

    assert ["short"] == texts([one.event for one in first])
    assert ["lasting"] == texts(found) == texts(rest)
    with pytest.raises(SessionMissingError, match="not found"):
        await sessions.get_session_usage(**WHO)
