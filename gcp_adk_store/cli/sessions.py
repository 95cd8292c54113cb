"""The commands that list, show, export and delete sessions."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
from rich.table import Table

from gcp_adk_store.cli.event_lines import event_lines, json_lines
from gcp_adk_store.cli.failures import NotThereError
from gcp_adk_store.cli.options import deletion_options, given_id, json_option, require_decision
from gcp_adk_store.cli.output import called, opened_file
from gcp_adk_store.cli.place import at_store, command_line, described, place_options, where
from gcp_adk_store.cli.screen import cell, progress, show, waiting
from gcp_adk_store.cli.session_export import export_session, read_header
from gcp_adk_store.cli.terminal import in_one_line, moment
from gcp_adk_store.errors import InvalidInputError, SessionMissingError
from gcp_adk_store.settings import StoreSettings

if TYPE_CHECKING:
    from google.adk.sessions import Session

    from gcp_adk_store.sessions.listings import SessionEvent, SessionPage
    from gcp_adk_store.store import Store

_IDS: Final = ("app", "user", "session")
_MOST_EVENTS: Final = 10_000
"""The limit of events that one command shows; an export has none."""

_app = given_id("--app", required=True, says="Name of the app.")
_user = given_id("--user", required=True, says="Id of the user.")
_session = given_id("--session", required=True, says="Id of the session.")


@click.group()
def sessions() -> None:
    """List, show, export and delete sessions.

    Each ends with 1 if the store has no such session, with 2 if it cannot look.
    """


@sessions.command("list")
@place_options
@_app
@given_id("--user", says="Id of a user; by default all users of the app.")
@click.option(
    "--page-size", metavar="N", type=click.IntRange(1, 1000), default=50, show_default=True, help="Sessions."
)
@click.option("--cursor", metavar="TEXT", help="Of the page before: where this one begins.")
@click.option(
    "--order",
    type=click.Choice(["newest", "oldest"]),
    default="newest",
    show_default=True,
    help="Which last update comes first.",
)
@json_option
@click.pass_context
def list_(
    ctx: click.Context,
    /,
    *,
    app: str,
    user: str | None,
    page_size: int,
    cursor: str | None,
    order: Literal["newest", "oldest"],
    as_json: bool,
    **place: str | None,
) -> None:
    """List the sessions of an app or of one user, a page at a time.

    Reads only the sessions of the page. Ends with 0, also for an empty page, or with 2 if it cannot look.
    """

    async def work(store: "Store", settings: StoreSettings) -> tuple["SessionPage", StoreSettings]:
        page = await store.sessions.list_sessions_page(
            app_name=app,
            user_id=user,
            page_size=page_size,
            cursor=cursor,
            order=order,
            include_state=False,
        )
        return page, settings

    page, settings = at_store(place, work)
    if as_json:
        listed = [_ids(each) | {"last_update_time": each.last_update_time} for each in page.sessions]
        click.echo(json.dumps(described(settings) | {"sessions": listed, "next_cursor": page.next_cursor}))
        return
    show(where(settings))
    table = Table("user", "session", "last update", box=None)
    for each in page.sessions:
        table.add_row(cell(each.user_id), cell(each.id), moment(each.last_update_time))
    show(table if page.sessions else "no sessions on this page")
    if page.next_cursor is not None:
        click.echo(f"next page: {command_line(ctx, cursor=page.next_cursor)}")


@sessions.command("show")
@place_options
@_app
@_user
@_session
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, _MOST_EVENTS),
    default=50,
    show_default=True,
    help="Events, from the oldest on.",
)
@click.option("--cursor", metavar="TEXT", help="Of the command before: which event these follow.")
@json_option
@click.pass_context
def show_(
    ctx: click.Context,
    /,
    *,
    app: str,
    user: str,
    session: str,
    limit: int,
    cursor: str | None,
    as_json: bool,
    **place: str | None,
) -> None:
    """Show a session: its state, and its events in their order.

    What users and agents said is shown. Long texts are cut, in JSON they are whole.
    """
    key: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": session}

    async def work(
        store: "Store", settings: StoreSettings
    ) -> tuple["Session", list["SessionEvent"], StoreSettings]:
        with _or_not_there(ctx):
            header = await read_header(store.sessions, key)
            events = store.sessions.iter_events(**key, cursor=cursor, limit=limit + 1)
            return header, [each async for each in events], settings

    header, found, settings = at_store(place, work)
    events, next_cursor = found[:limit], found[limit - 1].cursor if len(found) > limit else None
    if as_json:
        shown = described(settings) | _ids(header) | {"last_update_time": header.last_update_time}
        told = [each.event.model_dump(mode="json", exclude_none=True) for each in events]
        click.echo(json.dumps({**shown, "state": header.state, "events": told, "next_cursor": next_cursor}))
        return
    show(where(settings))
    names = (f"{name} {in_one_line(text)}" for name, text in zip(_IDS, _ids(header).values(), strict=True))
    click.echo(f"{', '.join(names)}, last update {moment(header.last_update_time)}")
    click.echo("state" if header.state else "no state")
    for line in json_lines(header.state):
        click.echo(f"  {line}")
    click.echo("events" if events else "no events")
    for one in events:
        for line in event_lines(one.event):
            click.echo(f"  {line}")
    if next_cursor is not None:
        click.echo(f"more events: {command_line(ctx, cursor=next_cursor)}")


@sessions.command("export")
@place_options
@_app
@_user
@_session
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path, allow_dash=True))
@click.pass_context
def export(
    ctx: click.Context, /, *, app: str, user: str, session: str, out: Path, **place: str | None
) -> None:
    """Write a session with all its events as lines of JSON to the file OUT, or to standard output for "-".

    The first line has the session and its state, each further one an event, the last one their number. The
    file appears, or is replaced, when all of it is written.
    """
    key: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": session}

    async def work(store: "Store", settings: StoreSettings) -> int:
        with _or_not_there(ctx), progress("exporting: events") as bar:
            async with opened_file(ctx, out) as file:
                return await export_session(
                    store.sessions, key, file, place=described(settings), on_event=bar.move_to
                )

    count = at_store(place, work)
    click.echo(f"events: {count:,}, written to {called(out)}", err=True)


@sessions.command("delete")
@place_options
@_app
@_user
@_session
@deletion_options
@json_option
@click.pass_context
def delete(
    ctx: click.Context,
    /,
    *,
    app: str,
    user: str,
    session: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **place: str | None,
) -> None:
    """Delete a session with its events; --dry-run says what would go, --yes deletes it.

    State of the user and of the app stays, and so do the session's artifacts.
    """
    require_decision(ctx, dry_run=dry_run, yes=yes)
    key: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": session}

    async def work(store: "Store", settings: StoreSettings) -> tuple["Session", list[str], StoreSettings]:
        with _or_not_there(ctx):
            header = await read_header(store.sessions, key)
        if not dry_run:
            with waiting("deleting"):
                await store.sessions.delete_session(**key)
        return header, await _artifacts_of(store, key), settings

    header, artifacts, settings = at_store(place, work)
    outcome = "found" if dry_run else "deleted"
    if as_json:
        told = _ids(header) | {"last_update_time": header.last_update_time, "artifacts": artifacts}
        click.echo(json.dumps(described(settings) | told | {"outcome": outcome}))
        return
    show(where(settings))
    updated = f"{in_one_line(header.id)}, last update {moment(header.last_update_time)}"
    click.echo(f"{'would delete' if dry_run else 'deleted'} session {updated}")
    if artifacts:
        delete_them = command_line(ctx, "artifacts delete", only=_IDS)
        click.echo(f"artifacts that stay: {len(artifacts)}; delete them: {delete_them} --all --dry-run")


async def _artifacts_of(store: "Store", key: Mapping[str, Any]) -> list[str]:
    """Return the names of a session's own artifacts."""
    if not store.has_artifacts:
        return []
    try:
        return await store.artifacts.delete_session_artifacts(**key, dry_run=True)
    except InvalidInputError:
        return []  # artifacts cannot have this session's id


def _ids(session: "Session") -> dict[str, str]:
    return {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}


@contextmanager
def _or_not_there(ctx: click.Context) -> Iterator[None]:
    """End the command if the block finds no session.

    Raises:
        NotThereError: the session does not exist.
    """
    try:
        yield
    except SessionMissingError as exc:
        others = command_line(ctx, "sessions list", only=("app", "user"))
        raise NotThereError(f"{in_one_line(str(exc))}; the sessions there are: {others}") from exc
