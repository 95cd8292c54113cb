"""Show the state of a session: its changes, its values at a place, and what differs between two places."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.responses import Response

from gcp_adk_store.errors import SessionMissingError
from gcp_adk_store.inspector.conversation import EventView, difference, event_view
from gcp_adk_store.inspector.look import FartherError, Known, Look, Step
from gcp_adk_store.inspector.masking import Shown, json_text
from gcp_adk_store.inspector.matrix import Matrix
from gcp_adk_store.inspector.past import Past, last_change, look_back, state_at, state_difference
from gcp_adk_store.inspector.site import RefusedRequestError, Visit, time_of
from gcp_adk_store.model.sessions import EventPlace

MAX_KEYS: Final = 500
"""State keys on one page."""

MAX_VALUE: Final = 5_000
"""Characters of a value on a page of states."""

ROOM: Final = 150_000
"""Characters of all values on a page of states; beyond them, each has its start alone."""


async def matrix(visit: Visit) -> Response:
    """Show which events changed which state keys; 1 read, and at most 40 segments."""
    look = await visit.reader.look(visit.place)
    first, cursor = visit.number("first", 1), visit.cursor()
    begin = look.start if cursor is None else look.place_of(cursor)
    if visit.text("order") == "newest":
        begin, count = await look.newest()
        first = look.stored.revision - count + 1
    found = Matrix(first)
    found.begin(await look.initial() if begin == look.start else {})
    following: EventPlace | None = begin
    async for step in look.walk(begin, backward=False):
        if not found.has_room(step.changes):
            break
        found.add(step.event, look.cursor(step.place))
        following = step.after
    else:
        following = following if look.is_spent else None
    return visit.page(
        "matrix.html",
        matrix=found,
        total=look.stored.revision,
        last=found.first + found.events - 1,
        next=None if following is None else look.cursor(following),
    )


async def change(visit: Visit) -> Response:
    """Show how one event changed one state key, or the last change before a place.

    1 read, and at most 40 segments.
    """
    key = visit.given.get("key")
    if not isinstance(key, str):
        raise RefusedRequestError(400, "the parameter key is missing")
    look = await visit.reader.look(visit.place)
    step = await _changing(visit, look, key)
    past = Past(unknown={key})
    if step is None:
        values = await look.first_values([key])
        after = _text(values, key)
    else:
        after = _text(step.changes, key)
        await look_back(look, step.place, past)
    before = _text(past.values, key)
    return visit.page(
        "change.html",
        key=key,
        event=None if step is None else _view(visit, look, step),
        difference=difference(before or "", after or "", visit.mask),
        has_before=before is not None,
        has_after=after is not None,
        back=look.cursor(past.back) if past.back is not None and past.unknown else None,
    )


def _text(values: Mapping[str, Any], key: str) -> str | None:
    return json_text(values[key], sort_keys=True) if key in values else None


def _view(visit: Visit, look: Look, step: Step) -> EventView:
    number, place = visit.number("position", 0) or None, look.cursor(step.place)
    return event_view(step.event, visit.mask, place=place, number=number, missing=step.stored.missing)


async def _changing(visit: Visit, look: Look, key: str) -> Step | None:
    """Return the event that a page of a change is about; ``None`` for the creation of the session."""
    event_id, back = visit.text("event"), visit.cursor("back")
    if event_id is not None:
        at = visit.cursor("at")
        step = await look.event(event_id, at, look.known(visit.near()))
        if key not in step.changes:
            raise SessionMissingError("the event of this id did not change this key")
        return step
    if back is None:
        return None
    try:
        return await last_change(look, key, look.place_of(back))
    except FartherError as exc:
        exc.parameters = {"back": exc.near}
        raise


async def state(visit: Visit) -> Response:
    """Show the state now, 3 reads, or at a point, 3 reads and at most 40 segments."""
    look, shared = await visit.reader.look_with_state(visit.place)
    past = Past(values=dict(look.stored.state))
    asked = visit.text("event")
    if asked is not None:
        past = await state_at(look, await _point(visit, look, "event", "", look.end))
    own = {*past.values, *past.unknown}
    keys = sorted({*own, *shared})
    first, left = keys[:MAX_KEYS], keys[MAX_KEYS:]
    values = {**shared, **past.values}
    shown = zip(first, _shown(visit, [values.get(key) for key in first]), strict=True)
    return visit.page(
        "state.html",
        rows=[(key, None if key in past.unknown else value) for key, value in shown],
        left=len(left),
        asked=asked,
        at=visit.cursor("at"),
        back=look.cursor(past.back) if past.back is not None else None,
    )


async def differences(visit: Visit) -> Response:
    """Show how the state differs between two points; 3 reads, and at most 40 segments."""
    look, _ = await visit.reader.look_with_state(visit.place)
    begin = await _point(visit, look, "from", "from_", look.start)
    try:
        end = await _point(visit, look, "to", "to_", look.end)
    except FartherError as exc:
        exc.parameters["from_place"] = look.cursor(begin)
        raise
    found = await state_difference(look, begin, end)
    values: list[Any] = []
    for each in found[:MAX_KEYS]:
        values += [each.before.values.get(each.key), each.after.values.get(each.key)]
    shown = iter(_shown(visit, values))
    rows = [
        {
            "key": each.key,
            "before": _side(visit, look, each.key, each.before, next(shown)),
            "after": _side(visit, look, each.key, each.after, next(shown)),
        }
        for each in found[:MAX_KEYS]
    ]
    return visit.page(
        "difference.html",
        rows=rows,
        unknown=sum(not each.is_known for each in found),
        left=max(0, len(found) - MAX_KEYS),
        begin=_name(visit, "from", "the beginning"),
        end=_name(visit, "to", "now"),
    )


def _side(visit: Visit, look: Look, key: str, past: Past, value: Shown) -> dict[str, Any]:
    """Return a value of one side: shown, absent, or with a link to where it is looked for."""
    back = None
    if key in past.unknown and past.back is not None:
        back = visit.links.to("change", visit.place, key=key, back=look.cursor(past.back))
    return {"value": value if key in past.values else None, "back": back}


def _shown(visit: Visit, values: Iterable[Any]) -> list[Shown]:
    """Return values as a page shows them, which has room for so many characters."""
    room = ROOM
    found: list[Shown] = []
    for value in values:
        shown = visit.mask.over_json(value, most=min(MAX_VALUE, max(100, room)))
        room -= len(shown.text or "")
        found.append(shown)
    return found


def _name(visit: Visit, text: str, default: str) -> str:
    if visit.cursor(f"{text}_place") is not None and visit.text(text) is None:
        return "a linked place"
    return visit.text(text) or default


async def _point(visit: Visit, look: Look, text: str, prefix: str, default: EventPlace) -> EventPlace:
    """Return the place that a parameter names: a number of events, a time, or after the event of an id.

    The place of the event may come along, or the place itself.

    Raises:
        FartherError: it is farther than a page reads; the error says with which parameters to go on.
    """
    place = visit.cursor(f"{prefix}place")
    if place is not None:
        return look.place_of(place)
    asked = visit.text(text)
    if asked is None:
        return default
    at, near = visit.cursor(f"{prefix}at"), look.known(visit.near(prefix))
    try:
        if at is None and _is_number(asked):
            return await _position(look, asked, near)
        if at is None and (time := time_of(asked)) is not None:
            return await look.as_of(time, near)
        return (await look.event(asked, at, near)).after
    except FartherError as exc:
        exc.parameters = {f"{prefix}{name}": value for name, value in exc.parameters.items()}
        raise


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10  # noqa: PLR2004  # as a number of a page


async def _position(look: Look, asked: str, near: Known | None) -> EventPlace:
    """Return the place after so many events, or after the event with this id if there are not so many."""
    number = int(asked)
    if number > look.stored.revision:
        try:
            return (await look.event(asked, None, near)).after
        except SessionMissingError:
            pass  # the error about the number says more
    return await look.position(number, near)
