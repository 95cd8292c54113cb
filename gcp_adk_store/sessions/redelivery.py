"""Remember which events may be delivered again: those that a handle holds, and those stored lately."""

import weakref
from collections import OrderedDict
from collections.abc import Sequence

from google.adk.events import Event
from google.adk.sessions import Session

from gcp_adk_store.model.keys import SessionKey
from gcp_adk_store.operations.forks import Guard


class DeliveredEvents:
    """Ids of the last events, the oldest forgotten first; safe from any thread.

    Only a reason to ask storage whether an event is there already: a handle that was read without events
    cannot tell that one of them is delivered again.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._ids: OrderedDict[tuple[SessionKey, str], None] = OrderedDict()
        self._guard = Guard()

    def __contains__(self, delivered: tuple[SessionKey, str]) -> bool:
        with self._guard:
            return delivered in self._ids

    def add(self, key: SessionKey, event_id: str) -> None:
        """Remember the event of this id in the session *key*."""
        with self._guard:
            self._ids[key, event_id] = None
            if len(self._ids) > self._capacity:
                self._ids.popitem(last=False)


class HeldEvents:
    """Ids of the events that sessions in callers' hands hold, for as long as those live.

    So that an append does not look through a history of thousands of events. A caller may change the list of
    a session: where it no longer ends as it did, it is read anew. An event that is exchanged in the middle
    goes unseen: delivered again, it is recognised only as one that this process stored lately.

    Calls that concern one session must not overlap.
    """

    def __init__(self) -> None:
        self._of: dict[int, _Held] = {}

    def holds(self, session: Session, event_id: str) -> bool:
        """Tell whether *session* holds an event of this id."""
        key = id(session)
        held = self._of.get(key)
        if held is None or held.session() is not session or not held.is_start_of(session.events):
            held = self._of[key] = _Held(weakref.ref(session, lambda _: self._of.pop(key, None)))
        held.learn(session.events)
        return event_id in held.ids


class _Held:
    def __init__(self, session: "weakref.ref[Session]") -> None:
        self.session = session
        self.ids: set[str] = set()
        self._count = 0
        self._last: Event | None = None

    def is_start_of(self, events: Sequence[Event]) -> bool:
        return self._count <= len(events) and (self._count == 0 or events[self._count - 1] is self._last)

    def learn(self, events: Sequence[Event]) -> None:
        self.ids.update(event.id for event in events[self._count :])
        self._count = len(events)
        self._last = events[-1] if events else None
