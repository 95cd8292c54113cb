"""A long run of stored events is read beside other work."""

from collections.abc import Callable

from google.adk.events import Event
from google.adk.sessions import InMemorySessionService

from gcp_adk_store import SessionService, Store
from gcp_adk_store.moving import copy
from tests.support.loop_work import counted_steps

COUNT = 1000


async def test_others_have_their_turn_while_events_are_read(ticking: Callable[[float], object]) -> None:
    """On a machine that takes its whole share of time for each, no step reads more than a few."""
    source = InMemorySessionService()
    session = await source.create_session(app_name="app", user_id="user", session_id="session")
    for number in range(COUNT):
        await source.append_event(session, Event(author="a", timestamp=number))
    async with Store.local(":memory:") as store:
        await copy(source, store.sessions, app_name="app")
        ticking(0.001)
        with counted_steps() as work:
            found = await SessionService(store.sessions.storage).get_session(
                app_name="app", user_id="user", session_id="session"
            )

    assert found is not None
    assert COUNT == len(found.events)
    assert 10 * COUNT > work.calls, "all of them in one step are 76 calls each"
