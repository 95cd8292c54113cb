"""Each method says of a session, or of a point in one, that it does not exist: as an error, or as nothing."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from google.adk.agents import BaseAgent
from google.adk.runners import Runner

from gcp_adk_store import Point, PointMissingError, SessionMissingError, Store
from tests.services.conftest import WHO
from tests.support.clock import in_days
from tests.support.methods import GOOD, arguments, finished, public_methods, services_of

NOTHING: Final = {"get_session", "get_session_at", "get_session_info"}
"""Methods that return None."""
DONE: Final = {"delete_session", "flush_session"}
"""Methods that have nothing to do."""


def of_a_session(store: Store) -> Iterator[Callable[..., Any]]:
    """Yield the methods of *store* that need a session."""
    services = services_of(store)
    for name in ("store", "sessions", "turns"):
        for method in public_methods(services[name]):
            given = inspect.signature(method).parameters.get("session_id")
            if given is not None and given.default is given.empty:
                yield method


@pytest.mark.parametrize("way", ["never made", "without an id", "deleted", "expired"])
async def test_a_session_that_does_not_exist_is_missing_to_each_method(
    adk_store_local: Store, way: str
) -> None:
    """Whatever it is asked for; the error names the session, and nothing is made."""
    sessions = adk_store_local.sessions
    if way in ("deleted", "expired"):
        await sessions.create_session(**WHO, ttl_seconds=1)
    if way == "deleted":
        await sessions.delete_session(**WHO)
    runner = Runner(app_name="app", agent=BaseAgent(name="a"), session_service=sessions)
    good = {**GOOD, **WHO, "runner": runner, "session_id": " " if way == "without an id" else "session"}
    asked = [*of_a_session(adk_store_local)]
    assert len(asked) > 20
    with in_days(1):
        for method in asked:
            given = arguments(method, good)
            if method.__name__ in NOTHING:
                assert await method(**given) is None, method
            elif method.__name__ in DONE:
                await method(**given)
            else:
                with pytest.raises(SessionMissingError, match=r"user_id='user' .*the session does not exist"):
                    await finished(method, given)
        assert [] == (await sessions.list_sessions(app_name="app")).sessions


async def test_a_point_that_does_not_exist_is_reported(adk_store_local: Store) -> None:
    """By each method that takes one, with its own name; nothing changes, and nothing is made."""
    sessions = adk_store_local.sessions
    held = await sessions.create_session(**WHO)
    await sessions.append_event(held, GOOD["event"])
    good = {**GOOD, **WHO, "at": Point.position(2), "before": Point.position(2), "event_id": "none"}
    taking = [
        (method, name)
        for method in of_a_session(adk_store_local)
        for name in {"at", "before", "event_id"}.intersection(inspect.signature(method).parameters)
    ]

    assert len(taking) > 7
    for method, name in taking:
        with pytest.raises(PointMissingError, match=rf"^{method.__name__} app_name='app' .* 1 events"):
            await method(**arguments(method, good, **{name: good[name]}))
    assert [held.id] == [each.id for each in (await sessions.list_sessions(app_name="app")).sessions]
    assert held == await sessions.get_session(**WHO)
