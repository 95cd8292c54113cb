"""List, show, describe and delete sessions."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
from rich.filesize import decimal
from rich.table import Table

from gcp_adk_store.cli.place import (
    IDS,
    OpenStore,
    at_store,
    called,
    choice_option,
    command_line,
    deletion_options,
    given_id,
    json_option,
    looking_at,
    next_page,
    number_option,
    opened_file,
    page_options,
    session_options,
    time_option,
)
from gcp_adk_store.cli.screen import Result, cell, progress, visible, waiting
from gcp_adk_store.cli.session_actions import archive, redact, turn
from gcp_adk_store.errors import InvalidInputError, SessionMissingError, StoredDataError
from gcp_adk_store.model.keys import in_one_line, moment, values_by_name

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.sessions import Session
    from google.genai import types

    from gcp_adk_store.sessions.listing.usage import SessionUsage, TokenUsage
    from gcp_adk_store.sessions.service import SessionService

_CUT: Final = 2_000
"""The limit of shown characters of one text or value."""

_SHOWN: Final = frozenset(
    {"id", "invocation_id", "author", "timestamp", "content", "actions", "error_code", "error_message"}
    | {"node_info", "partial", "turn_complete", "branch"}
)
"""Fields of an event that have their own line, or have no meaning after storage."""


def event_lines(event: "Event") -> Iterator[str]:
    """Yield lines about an event: time, author and id, then its content and changes, indented.

    A text of more than 2,000 characters is cut, with a note; a line names the fields without a line.
    """
    yield f"{moment(event.timestamp)} {in_one_line(event.author)}, id {in_one_line(event.id)}"
    parts = (event.content.parts if event.content else None) or []
    lines = [line for part in parts for line in _part_lines(part)]
    lines += [f"state: {line}" for line in json_lines(event.actions.state_delta)]
    saved = event.actions.artifact_delta.items()
    lines += [f"artifact: {in_one_line(name)} version {version}" for name, version in saved]
    if event.error_code or event.error_message:
        lines += _lines(f"error {event.error_code or ''}: {event.error_message or ''}")
    more = [*_more(event, _SHOWN), *_more(event.actions, {"state_delta", "artifact_delta"})]
    if more:
        lines.append(f"and {', '.join(more)}: --json shows all")
    for line in lines:
        yield f"  {line}"


def json_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each of *values* by its name, long ones cut."""
    for name in sorted(values):
        yield f"{in_one_line(name)} = {_event_json(values[name])}"


def _part_lines(part: "types.Part") -> Iterable[str]:
    if part.text is not None:
        return _lines(f"thinks: {part.text}" if part.thought else part.text)
    if part.function_call is not None:
        return [f"calls {in_one_line(part.function_call.name or '')} {_event_json(part.function_call.args)}"]
    if part.function_response is not None:
        answer = part.function_response
        return [f"{in_one_line(answer.name or '')} answers {_event_json(answer.response)}"]
    if part.inline_data is not None:
        kind = part.inline_data.mime_type or "no type"
        return [f"data: {in_one_line(kind)}, {decimal(len(part.inline_data.data or b''))}"]
    from gcp_adk_store.model.json_values import fields_of  # noqa: PLC0415  # where it is used

    return [f"part: {_event_json(fields_of(part, exclude_none=True))}"]


def _lines(text: str) -> list[str]:
    return visible(_cut(text)).split("\n")


def _event_json(value: Any) -> str:
    return in_one_line(_cut(json.dumps(value, ensure_ascii=False, default=str)))


def _cut(text: str) -> str:
    left = len(text) - _CUT
    return text if left <= 0 else f"{text[:_CUT]}... and {left:,} characters more: --json shows all"


def _more(value: Any, known: Iterable[str]) -> list[str]:
    """Return the names of fields that have a value but no line."""
    return [name for name in type(value).model_fields if name not in known and getattr(value, name)]


_MOST_EVENTS: Final = 10_000
"""The limit of events that one command shows; an export has none."""

_TOKENS: Final = ("input", "cached", "tool use", "output", "thinking", "total")


@click.group()
def sessions() -> None:
    """List, show, count, export, redact, archive and delete sessions; show, stop and repair their turns.

    Each ends with 1 if the store has no such session, with 2 if it cannot run.
    """


sessions.add_command(turn)
sessions.add_command(redact)
sessions.add_command(archive)


@sessions.command("list")
@at_store()
@given_id("--app", required=True, says="Name of the app.")
@given_id("--user", says="Id of a user; by default all users of the app.")
@page_options("Sessions")
@choice_option(
    "--order", of=["newest", "oldest"], says="Which last update comes first: the newest or the oldest."
)
@click.option(
    "--label", "label", metavar="NAME=VALUE", multiple=True, help="Only sessions with this label; repeatable."
)
@time_option("--updated-after", says="Only sessions with a later last update; in UTC.")
@json_option
async def list_(
    at: OpenStore,
    /,
    *,
    order: Literal["newest", "oldest"],
    label: tuple[str, ...],
    updated_after: datetime | None,
    **asked: Any,
) -> Result:
    """List the sessions of an app or of one user, a page at a time.

    Reads only the sessions of the page. It names those that cannot be read, and the command that looks at
    them. Ends with 0, also for an empty page, or with 2 if it cannot run.
    """
    page = await at.store.sessions.list_sessions_page(
        **asked,
        order=order,
        include_state=False,
        labels=values_by_name("--label", label),
        updated_after=None if updated_after is None else updated_after.replace(tzinfo=UTC).timestamp(),
    )
    listed = [asdict(each) for each in page.infos]
    unreadable = [{**asdict(each), "command": looking_at(each)} for each in page.unreadable]
    table = Table("user", "session", "title", "labels", "turns", "last update", box=None)
    for each in page.infos:
        table.add_row(
            cell(each.user_id),
            cell(each.session_id),
            cell(each.title or ""),
            cell(", ".join(f"{name}={value}" for name, value in each.labels.items())),
            "" if each.turns is None else f"{each.turns:,}",
            moment(each.last_update_time),
        )
    data = {**at.place, "sessions": listed, "unreadable": unreadable, "next_cursor": page.next_cursor}
    bad = [f"unreadable: {in_one_line(each['reason'])}; see: {each['command']}" for each in unreadable]
    shown = table if listed else "no sessions on this page"
    return Result(data, [at.where, shown, *bad, *next_page(page.next_cursor)])


@sessions.command("show")
@at_store()
@session_options
@number_option(
    "--limit",
    kind=click.IntRange(1, _MOST_EVENTS),
    default=50,
    says="Events to show, from the oldest on.",
)
@click.option("--cursor", metavar="TEXT", help="The cursor that the command before printed.")
@json_option
async def show_(at: OpenStore, /, *, limit: int, cursor: str | None, **key: Any) -> Result:
    """Show a session: its state, and its events in their order.

    This includes the content of users and agents. Long texts are cut; JSON has them whole.
    """
    from gcp_adk_store.model.internal_metadata import public_event  # noqa: PLC0415  # half of ADK
    from gcp_adk_store.model.json_values import fields_of  # noqa: PLC0415  # where it is used

    header = await _read_header(at.store.sessions, key)
    found = [each async for each in at.store.sessions.iter_events(**key, cursor=cursor, limit=limit + 1)]
    events = [public_event(each.event) for each in found[:limit]]
    next_cursor = found[limit - 1].cursor if len(found) > limit else None
    described = [fields_of(each, exclude_none=True) for each in events]
    ids = (in_one_line(id_) for id_ in (header.app_name, header.user_id, header.id))
    lines = [
        at.where,
        "app {}, user {}, session {}, last update {}".format(*ids, moment(header.last_update_time)),
        "state" if header.state else "no state",
        *(f"  {line}" for line in json_lines(header.state)),
        "events" if events else "no events",
        *(f"  {line}" for each in events for line in event_lines(each)),
    ]
    if next_cursor is not None:
        lines.append(f"more events: {command_line(cursor=next_cursor)}")
    shown = {**at.place, **key, "last_update_time": header.last_update_time, "state": header.state}
    return Result({**shown, "events": described, "next_cursor": next_cursor}, lines)


@sessions.command("usage")
@at_store()
@session_options
@json_option
async def usage_(at: OpenStore, /, **key: Any) -> Result:
    """Show the tokens, tool calls and time of a session, by turn and by model.

    A total is the sum of its column. Cached tokens are among those of the input.
    """
    with waiting("counting"):
        usage = await at.store.sessions.get_session_usage(**key)
    turns = Table("turn", "began", "seconds", "events", *_TOKENS, "tool calls", box=None)
    for each in usage.turns:
        turns.add_row(
            cell(each.invocation_id or "without a turn"),
            moment(each.began_at),
            f"{each.duration_s:,.1f}",
            f"{each.events:,}",
            *_tokens(each.tokens),
            cell(", ".join(f"{name} {count:,}" for name, count in each.tool_calls.items())),
        )
    models = Table("model", "responses", *_TOKENS, box=None)
    for model in usage.models:
        models.add_row(cell(model.model or "unknown"), f"{model.calls:,}", *_tokens(model.tokens))
    models.add_row("total", f"{sum(model.calls for model in usage.models):,}", *_tokens(usage.tokens))
    counted = f"turns: {len(usage.turns):,}, events: {usage.events:,}, seconds: {usage.duration_s:,.1f}"
    data = {**at.place, **key, **_json(usage)}
    return Result(data, [at.where, counted, *([turns] if usage.turns else []), models])


@sessions.command("export")
@at_store()
@session_options
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path, allow_dash=True))
async def export(at: OpenStore, /, *, out: Path, **key: Any) -> None:
    """Write a session with all its events as lines of JSON to the file OUT, or to standard output for "-".

    The first line has the session and its state, each further one an event, the last one their number. Events
    are whole, with the metadata that only ADK may write, such as stamps of tool calls. The file appears, or
    is replaced, when all of it is written.
    """
    from gcp_adk_store.moving.session_files import export_jsonl, records_of  # noqa: PLC0415  # half of ADK

    exporting = records_of(at.store.sessions, key["app_name"], key["user_id"], key["session_id"])
    with progress("exporting: events") as move_to:
        async with aclosing(exporting) as records, opened_file(out) as file:
            found = await export_jsonl(records, file, place=at.place, on_event=move_to)
    click.echo(f"events: {found.events:,}, written to {called(out)}", err=True)


@sessions.command("delete")
@at_store()
@session_options
@click.option("--keep-artifacts", is_flag=True, help="Let them stay: a new session with this id has them.")
@deletion_options
@json_option
async def delete(at: OpenStore, /, *, dry_run: bool, keep_artifacts: bool, **key: Any) -> Result:
    """Delete a session with its events and artifacts; --dry-run only says what it would delete.

    State of the user and of the app stays, and so do the user's artifacts.
    """
    updated_at = await _updated_at(at.store.sessions, key)
    artifacts: list[str] = []
    if at.store.has_artifacts:
        with suppress(InvalidInputError):  # artifacts cannot have this session's id
            artifacts = await at.store.artifacts.delete_session_artifacts(**key, dry_run=True)
    if not dry_run:
        with waiting("deleting"):
            await at.store.delete_session(**key, artifacts=not keep_artifacts)
    done, outcome = ("would delete", "found") if dry_run else ("deleted", "deleted")
    says = f"{done} session {in_one_line(key['session_id'])}, last update {moment(updated_at)}"
    lines = [at.where, says]
    if artifacts and not keep_artifacts:
        lines.append(f"{done} its artifacts: {len(artifacts)}")
    elif artifacts:
        delete_them = command_line("artifacts delete", only=IDS)
        lines.append(f"artifacts that stay: {len(artifacts)}; delete them: {delete_them} --all --dry-run")
    described = {**key, "last_update_time": updated_at}
    return Result({**at.place, **described, "artifacts": artifacts, "outcome": outcome}, lines)


async def _read_header(sessions: "SessionService", key: dict[str, Any]) -> "Session":
    """Return a session without its events.

    Raises:
        SessionMissingError: the session does not exist.
    """
    from google.adk.sessions.base_session_service import GetSessionConfig  # noqa: PLC0415  # half of ADK

    found = await sessions.get_session(**key, config=GetSessionConfig(num_recent_events=0))
    if found is None:
        raise SessionMissingError(f"the session {key['session_id']!r} does not exist")
    return found


async def _updated_at(sessions: "SessionService", key: dict[str, Any]) -> float:
    """Return the last update of a session, also of one whose state cannot be read.

    Raises:
        SessionMissingError: the session does not exist.
    """
    try:
        return (await _read_header(sessions, key)).last_update_time
    except StoredDataError:
        info = await sessions.get_session_info(**key)
        if info is None:
            raise
        return info.last_update_time


def _tokens(tokens: "TokenUsage") -> list[str]:
    """Return the cells below ``_TOKENS``."""
    return [f"{number:,}" for number in asdict(tokens).values()]


def _json(usage: "SessionUsage") -> dict[str, Any]:
    """Return *usage* with the durations."""
    turns = [{**asdict(turn), "duration_s": turn.duration_s} for turn in usage.turns]
    return {**asdict(usage), "duration_s": usage.duration_s, "turns": turns}
