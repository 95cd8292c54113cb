"""Show which events a session is known to hold."""

import gc
from collections.abc import Callable

import pytest
from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.sessions.append.encode import HeldEvents


def made(*ids: str) -> Session:
    """Return a session that holds events of these ids."""
    events = [Event(id=one, author="a") for one in ids]
    return Session(id="s", app_name="a", user_id="u", events=events)


def test_a_session_holds_its_events_and_no_others() -> None:
    """Another session of the same ids is another one."""
    held, one, two = HeldEvents(), made("1", "2"), made("3")

    assert [True, True, False] == [held.holds(one, name) for name in "123"]
    assert [False, False, True] == [held.holds(two, name) for name in "123"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda events: events.append(Event(id="4", author="a")), "1234"),
        (lambda events: events.extend([Event(id="4", author="a"), Event(id="5", author="a")]), "12345"),
        (lambda events: events.pop(), "12"),
        (lambda events: events.clear(), ""),
        (lambda events: events.pop(0), "23"),
        (lambda events: events.__setitem__(slice(None), [Event(id="9", author="a")]), "9"),
        (lambda events: events.insert(0, Event(id="9", author="a")), "1239"),
        (lambda events: events.__setitem__(-1, Event(id="9", author="a")), "129"),
    ],
)
def test_a_list_that_its_caller_changed_is_read_anew(
    change: Callable[[list[Event]], object], expected: str
) -> None:
    """At its end or as a whole."""
    held, session = HeldEvents(), made("1", "2", "3")
    held.holds(session, "1")
    change(session.events)

    assert expected == "".join(name for name in "123459" if held.holds(session, name))


def test_a_session_that_is_gone_takes_no_memory() -> None:
    """Nor is one that comes to lie at its address taken for it."""
    held = HeldEvents()
    for number in range(50):
        session = made(f"{number}")
        assert held.holds(session, f"{number}")
        assert not held.holds(session, f"{number - 1}")
        del session
        gc.collect(0)

    assert {} == held._of
