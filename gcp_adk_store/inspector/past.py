"""Find what the state of a session was, from a few of its segments."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gcp_adk_store.inspector.look import FartherError, Look, Step
from gcp_adk_store.inspector.masking import json_text
from gcp_adk_store.model.sessions import EventPlace


@dataclass(slots=True)
class Past:
    """The session's own state at a place, as far as it was looked for."""

    values: dict[str, Any] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    """Keys that the session has now, whose last change before the place is farther than was read."""
    back: EventPlace | None = None
    """Where to look on for them."""

    def take(self, values: Mapping[str, Any]) -> None:
        """Take those of *values* whose keys are unknown yet."""
        for key in self.unknown & values.keys():
            self.values[key] = values[key]
        self.unknown -= values.keys()


async def state_at(look: Look, place: EventPlace) -> Past:
    """Return the session's own state at a place, from the nearer one of its beginning and its end.

    A key that no later event changed has today's value, and any other that of its last change before, or else
    that of the session's creation. A session never loses a key, so that today's are all there are.
    """
    now = look.stored.state
    past = Past(unknown=set(now))
    after = look.between(place, look.end)
    if after < look.between(look.start, place) and after <= look.left:
        later: set[str] = set()
        async for step in look.walk(place, backward=False):
            later |= step.changes.keys()
        if not look.is_spent:
            past.take({key: value for key, value in now.items() if key not in later})
    await look_back(look, place, past)
    return past


async def look_back(look: Look, place: EventPlace, past: Past) -> None:
    """Find the last changes before a place of keys that are unknown in *past*, or else their first values.

    Those that are farther than a page reads stay unknown, and ``back`` is where to look on for them.
    """
    past.back = place
    if not past.unknown:
        return
    async for step in look.walk(place, backward=True):
        past.back = step.place
        past.take(step.changes)
        if not past.unknown:
            return
    if not look.is_spent:
        past.take(await look.first_values(past.unknown))
        past.unknown.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """A key whose values at two places differ, or whose value at one of them is not known."""

    key: str
    before: Past
    after: Past

    @property
    def is_known(self) -> bool:
        """Whether both values are."""
        return self.key not in self.before.unknown | self.after.unknown


async def state_difference(look: Look, begin: EventPlace, end: EventPlace) -> list[StateChange]:
    """Return the keys of the session's own state that differ between two places, in the order of keys.

    If the events between them can be read, no other key differs, and only the values before of those that
    these events changed are looked for. Otherwise both states are.
    """
    first, last = sorted((begin, end), key=_in_order)
    later = await _changes_between(look, first, last) if look.between(first, last) <= look.left // 2 else None
    if later is not None:
        keys = {key for key in later.values if key in look.stored.state}  # others are of user and app
        earlier = Past(unknown=set(keys))
        await look_back(look, first, earlier)
    else:
        keys = {*look.stored.state}
        spare = look.left // 2
        look.left -= spare
        earlier = await state_at(look, first)
        look.left += spare
        later = await state_at(look, last)
    before, after = (earlier, later) if begin == first else (later, earlier)
    differing = sorted(key for key in keys if _differs(earlier, later, key))
    return [StateChange(key=key, before=before, after=after) for key in differing]


async def _changes_between(look: Look, first: EventPlace, last: EventPlace) -> Past | None:
    """Return the last values that events between two places give to keys; ``None`` if some are not read."""
    later = Past()
    async for step in look.walk(first, backward=False):
        if _in_order(step.place) >= _in_order(last):
            return later
        later.values.update(step.changes)
    return None if look.is_spent else later


async def last_change(look: Look, key: str, place: EventPlace) -> Step | None:
    """Return the newest event before a place that changed a key; ``None`` if no event before it did.

    Raises:
        FartherError: none of the events that may be read did.
    """
    async for step in look.walk(place, backward=True):
        if key in step.changes:
            return step
        place = step.place
    if look.is_spent:
        raise FartherError(look.cursor(place))
    return None


def _in_order(place: EventPlace) -> tuple[int, int]:
    return place.segment, place.offset


def _differs(one: Past, other: Past, key: str) -> bool:
    if key in one.unknown or key in other.unknown:
        return True
    if key not in one.values or key not in other.values:
        return key in one.values or key in other.values
    before, after = (json_text(each.values[key], sort_keys=True) for each in (one, other))
    return before != after
