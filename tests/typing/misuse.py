"""Mistakes that type checkers find: an ignored line without the mistake that it names is refused, too."""

import gcp_adk_store
from gcp_adk_store import Point, SessionInfo, SessionService, Store, TemplateSettings


async def mistakes_in_calls(sessions: SessionService, store: Store) -> None:
    await sessions.create_session("a", "u")  # type: ignore[call-arg]  # arguments have names
    await sessions.create_session(app_name="a", user_id=7)  # type: ignore[arg-type]
    await sessions.list_sessions_page(app_name="a", order="random")  # type: ignore[arg-type]
    await store.restore_session(app_name="a", user_id="u", session_id="s")  # type: ignore[call-arg]  # to where?
    Store.connect(project="p", on_conflict="overwrite")  # type: ignore[arg-type]
    Store.local(":memory:", on_conflct="merge")  # type: ignore[call-arg]  # misspelt
    gcp_adk_store.TemplateSetings()  # type: ignore[attr-defined]  # misspelt
    TemplateSettings(missing="crash")  # type: ignore[arg-type]


async def mistakes_with_results(sessions: SessionService, info: SessionInfo) -> None:
    found = await sessions.get_session(app_name="a", user_id="u", session_id="s")
    found.events.clear()  # type: ignore[union-attr]  # it may be None
    info.title = "Order 17"  # type: ignore[misc]  # values do not change
    Point.before_turn("i")  # type: ignore[attr-defined]
