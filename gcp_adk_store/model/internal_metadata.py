"""Decide what becomes of metadata of events that only ADK may write: its keys begin with ``__adk_internal_``.

ADK's ``ToolCallIntegrityPlugin``, since 2.13, keeps a stamp there for each tool call of an event. A stamp
covers app, user and session, so it is wrong in a session of other ids. An event that is marked as restored
needs none, and its calls never run.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from google.adk.events import Event

PREFIX: Final = "__adk_internal_"
"""How the keys begin."""

RESTORED: Final = f"{PREFIX}restored_event"
"""The key that marks an event as restored, with the value ``True``."""

STAMPS: Final = f"{PREFIX}fc_hmac"
"""The key of the stamps, by the ids of the calls."""

_STAMP: Final = re.compile(r"v[0-9]{1,3}:[0-9a-f]{64}")


def is_internal(key: object) -> bool:
    """Return whether only ADK may write metadata of this *key*."""
    return isinstance(key, str) and key.startswith(PREFIX)


def has_internal(event: Event) -> bool:
    """Return whether *event* has such metadata."""
    return any(map(is_internal, event.custom_metadata or ()))


def public_event(event: Event) -> Event:
    """Return *event* as people and clients may see it: a copy without such metadata, if it has any."""
    if not has_internal(event):
        return event
    kept = {key: value for key, value in (event.custom_metadata or {}).items() if not is_internal(key)}
    return event.model_copy(update={"custom_metadata": kept or None})


def restored_event(event: Event) -> Event:
    """Return a copy of *event* that is marked as restored, without other such metadata.

    This is what ``ToolCallIntegrityPlugin.prepare_restored_event`` makes of it.
    """
    kept = public_event(event).custom_metadata or {}
    return event.model_copy(update={"custom_metadata": {**kept, RESTORED: True}})


def event_elsewhere(event: Event) -> Event:
    """Return *event* as a session of other ids takes it over: marked as restored if it has such metadata."""
    return restored_event(event) if has_internal(event) else event


def stamps_of(event: Event) -> dict[str, str]:
    """Return the stamps of *event* by the ids of its calls; without those that are not stamps."""
    found: Any = (event.custom_metadata or {}).get(STAMPS)
    if not isinstance(found, Mapping):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str) and _STAMP.fullmatch(value)}


def breaks_stamps(event: Event, changed: Event) -> bool:
    """Return whether a call of *event* has a stamp, and other arguments in *changed*."""
    stamps = stamps_of(event)
    if not stamps:
        return False
    calls = zip(event.get_function_calls(), changed.get_function_calls(), strict=True)
    return any(mine.id in stamps and mine.args != theirs.args for mine, theirs in calls)
