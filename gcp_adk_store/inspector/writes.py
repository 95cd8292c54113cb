"""Fork and restore sessions, redact events, erase users: first say what would happen, then do it."""

from datetime import UTC, datetime
from typing import Any

from starlette.responses import RedirectResponse, Response

from gcp_adk_store.inspector.documents import Place
from gcp_adk_store.inspector.masking import json_text
from gcp_adk_store.inspector.site import RefusedRequestError, Visit
from gcp_adk_store.model.history import Point


async def fork(visit: Visit) -> Response:
    """Ask what to fork; say what the fork would hold; make it once it is confirmed."""
    event_id = visit.text("event")
    if not visit.is_sent:
        return visit.page("fork.html", event_id=event_id, planned=None, chosen={})
    to_user = visit.given.get("to_user")
    target = Place(
        app=visit.place.app,
        user=to_user if isinstance(to_user, str) and to_user else visit.place.user,
        session=visit.text("to_session"),
    )
    await visit.site.require_authorized(visit.request, target.app, target.user)
    chosen = {"to_user": target.user, "to_session": target.session or ""}
    if _is_dry_run(visit):
        planned = await _planned(visit, event_id)
        return visit.page("fork.html", event_id=event_id, planned=planned, chosen=chosen)
    made = await visit.site.store.fork_session(
        **visit.place.ids, at=_point(event_id), to_session_id=target.session, to_user_id=target.user
    )
    there = Place(app=made.app_name, user=made.user_id, session=made.id)
    return RedirectResponse(visit.links.to("session", there), 303)


async def restore(visit: Visit) -> Response:
    """Ask where to restore to; say what that would cut off; do it once it is confirmed."""
    if not visit.is_sent:
        return visit.page("restore.html", event_id=visit.text("event"), planned=None, chosen={})
    event_id = visit.required("event")
    keep_as, point = visit.text("keep_as"), Point.after_event(event_id)
    if _is_dry_run(visit):
        planned, chosen = await _planned(visit, event_id), {"keep_as": keep_as or ""}
        return visit.page("restore.html", event_id=event_id, planned=planned, chosen=chosen)
    await visit.site.store.restore_session(**visit.place.ids, at=point, keep_as=keep_as)
    return RedirectResponse(visit.links.to("session", visit.place), 303)


async def redact(visit: Visit) -> Response:
    """Ask which event to redact, and why; say what that would remove; do it once it is confirmed."""
    if not visit.is_sent:
        return visit.page("redact.html", event_id=visit.text("event"), redaction=None, chosen={})
    event_id, reason = visit.required("event"), visit.required("reason")
    chosen: dict[str, Any] = {name: visit.given.get(name) == "yes" for name in ("state", "memories")}
    chosen["reason"] = reason
    redaction = await visit.site.store.redact_event(
        **visit.place.ids, event_id=event_id, **chosen, dry_run=_is_dry_run(visit)
    )
    return visit.page("redact.html", event_id=event_id, redaction=redaction, chosen=chosen)


async def erase(visit: Visit) -> Response:
    """Ask whether to erase a user; say what would go; do it once it is confirmed, and show the receipt."""
    if not visit.is_sent:
        return visit.page("erase.html", receipt=None)
    app, user = visit.place.app or "", visit.place.user or ""
    receipt = await visit.site.store.erase_user(app_name=app, user_id=user, dry_run=_is_dry_run(visit))
    return visit.page("erase.html", receipt=receipt)


def _is_dry_run(visit: Visit) -> bool:
    return bool(visit.given.get("confirmed") != "yes")


def _point(event_id: str | None) -> Point | None:
    return None if event_id is None else Point.after_event(event_id)


async def _planned(visit: Visit, event_id: str | None) -> dict[str, Any]:
    """Return what the session has now, and what it had after an event; both are read, nothing is written."""
    # A read of all leaves out archived events, and perhaps those before a summary.
    now = await visit.reader.session_at(visit.place, Point.as_of(datetime.max.replace(tzinfo=UTC)))
    then = (
        now if event_id is None else await visit.reader.session_at(visit.place, Point.after_event(event_id))
    )
    keys = sorted({*now.state, *then.state})
    texts = [{key: json_text(each.state[key], sort_keys=True) for key in each.state} for each in (now, then)]
    changed = [key for key in keys if texts[0].get(key) != texts[1].get(key)]
    if len(then.events) > len(now.events):
        raise RefusedRequestError(409, "Another writer changed the session. Look at it again.")
    return {
        "kept": len(then.events),
        "cut": len(now.events) - len(then.events),
        "changed": changed[:100],
        "changed_left": max(0, len(changed) - 100),
    }
