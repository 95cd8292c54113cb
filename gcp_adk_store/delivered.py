"""Remember which events this process stored lately, whatever handle they came through."""

import threading
from collections import OrderedDict

from gcp_adk_store.model.keys import SessionKey


class DeliveredEvents:
    """Ids of the last events, the oldest forgotten first; safe from any thread.

    Only a reason to ask storage whether an event is there already: a handle that was read without events
    cannot tell that one of them is delivered again.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._ids: OrderedDict[tuple[SessionKey, str], None] = OrderedDict()
        self._guard = threading.Lock()

    def __contains__(self, delivered: tuple[SessionKey, str]) -> bool:
        with self._guard:
            return delivered in self._ids

    def add(self, key: SessionKey, event_id: str) -> None:
        """Remember the event of this id in the session *key*."""
        with self._guard:
            self._ids[key, event_id] = None
            if len(self._ids) > self._capacity:
                self._ids.popitem(last=False)
