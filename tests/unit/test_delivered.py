"""Show which events are remembered as delivered."""

from gcp_adk_store.delivered import DeliveredEvents
from gcp_adk_store.model.keys import SessionKey


def key(session: str) -> SessionKey:
    """Return the key of a session."""
    return SessionKey(app="a", user="u", session=session)


def test_an_event_is_remembered_for_its_own_session() -> None:
    """Another session may have an event of the same id."""
    delivered = DeliveredEvents(10)
    delivered.add(key("one"), "id")

    assert (key("one"), "id") in delivered
    assert (key("two"), "id") not in delivered
    assert (key("one"), "other") not in delivered


def test_the_oldest_is_forgotten_first() -> None:
    """So that memory is bounded."""
    delivered = DeliveredEvents(3)
    for number in range(5):
        delivered.add(key("s"), f"{number}")

    assert [False, False, True, True, True] == [(key("s"), f"{n}") in delivered for n in range(5)]
