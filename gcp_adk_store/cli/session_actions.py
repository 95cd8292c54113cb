"""Redact, archive and repair sessions."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click
from rich.filesize import decimal

from gcp_adk_store.cli.place import (
    IDS,
    OpenStore,
    at_store,
    command_line,
    deletion_options,
    json_option,
    number_option,
    session_options,
    time_option,
)
from gcp_adk_store.cli.screen import NotThereError, Result, waiting
from gcp_adk_store.errors import PointMissingError, SessionMissingError
from gcp_adk_store.model.history import Point, Redaction
from gcp_adk_store.model.keys import in_one_line, moment


@click.command("redact")
@at_store()
@session_options
@click.option("--event", "event_id", metavar="ID", required=True, help="Id of the event.")
@click.option("--reason", metavar="TEXT", required=True, help="Why, in one line; it is stored.")
@click.option(
    "--state", is_flag=True, help="Also set keys of the state that still have the event's values to null."
)
@click.option("--memories", is_flag=True, help="Also remove the memory that was made of the event.")
@deletion_options
@json_option
async def redact(at: OpenStore, /, *, dry_run: bool, **given: Any) -> Result:
    """Replace the content of an event by a marker with its hash; verify still proves the history.

    Other copies stay: forks, artifacts, exports, backups. Ends with 1 if the store has no such session or
    event, with 2 if it cannot redact.
    """
    try:
        with waiting("looking" if dry_run else "redacting"):
            redaction = await at.store.redact_event(**given, dry_run=dry_run)
    except PointMissingError as exc:
        shown = command_line("sessions show", only=IDS)
        raise NotThereError(f"{in_one_line(str(exc))}; see the events: {shown}") from exc
    return Result({**at.place, **asdict(redaction)}, [at.where, *_lines(redaction)])


def _lines(redaction: Redaction) -> list[str]:
    done = "would redact" if redaction.is_dry_run else "redacted"
    event = in_one_line(redaction.event_id)
    if redaction.is_new:
        places = ", ".join(f"{position}" for position in redaction.positions)
        lines = [f"{done} event {event}, number {places} of the session"]
    else:
        lines = [f"event {event} was redacted before"]
    lines += [f"hash of what stood there: {sha256}" for sha256 in redaction.sha256]
    removed = "would remove" if redaction.is_dry_run else "removed"
    if redaction.payloads:
        lines.append(f"{removed} {redaction.payloads:,} payloads")
    if redaction.title_removed:
        lines.append(f"{removed} the title, which repeats the event")
    keys = "state keys it would set to null" if redaction.is_dry_run else "state keys that are null now"
    is_removed = redaction.memories_removed
    memories = "memories that were removed" if is_removed else "memories made of it, see --memories"
    for what, names in (
        (keys, redaction.state_removed),
        ("state keys that still have its values, see --state", redaction.state_kept),
        (memories, redaction.memories),
        ("events that may summarise it", redaction.compactions),
    ):
        if names:
            lines.append(f"{what}: {', '.join(map(in_one_line, names))}")
    return lines


@click.command("archive")
@at_store()
@session_options
@number_option("--keep", kind=click.IntRange(0), says="Archive all events but the newest N.")
@time_option("--before", says="Archive events before this time, UTC.")
@click.option("--dry-run", is_flag=True, help="Only say what it would archive.")
@json_option
async def archive(
    at: OpenStore, /, *, keep: int | None, before: datetime | None, dry_run: bool, **key: Any
) -> Result:
    """Leave the oldest events of a session out of reads of all, and move them to the bucket.

    Nothing is lost: exports, forks, proofs and restores still have the events. Ends with 1 if the store has
    no such session, with 2 if it cannot archive.
    """
    if (keep is None) == (before is None):
        raise click.UsageError("give one of --keep and --before")
    if before is not None:
        point = Point.as_of(before.replace(tzinfo=UTC))
    else:
        info = await at.store.sessions.get_session_info(**key)
        if info is None:
            raise SessionMissingError
        point = Point.position(max(0, info.events - (keep or 0)))
    with waiting("reading" if dry_run else "archiving"):
        found = await at.store.sessions.archive_session(**key, before=point, dry_run=dry_run)
    done = "would move" if dry_run else "moved"
    lines = [
        f"events that a read of all leaves out: {found.events:,}",
        f"{done} to the bucket: {decimal(found.bytes)} of {found.segments:,} segments",
        f"folder: {in_one_line(found.folder)}",
    ]
    return Result({**at.place, **asdict(found)}, [at.where, *lines])


@click.group()
def turn() -> None:
    """Show, stop and repair the turn of a session, and withdraw messages that wait for one.

    Each ends with 1 if the store has no such session or message, with 2 if it cannot run.
    """


@turn.command("status")
@at_store()
@session_options
@json_option
async def status_(at: OpenStore, /, **key: Any) -> Result:
    """Show who runs the session's turn, until when, and which messages wait."""
    found = await at.store.turns.status(**key)
    lines = [at.where]
    if found.is_running and found.until is not None:
        asked = "; it was asked to stop" if found.abort else ""
        holder, until = in_one_line(found.holder), moment(found.until)
        lines.append(f"turn {found.fence:,} runs, held by {holder} until {until}{asked}")
    else:
        lines.append(f"no turn runs; turns held so far: {found.fence:,}")
    lines.append(f"messages that wait: {len(found.waiting):,}")
    lines += [f"  {in_one_line(each)}" for each in found.waiting]
    return Result({**at.place, **key, **asdict(found)}, lines)


@turn.command("abort")
@at_store()
@session_options
@json_option
async def abort(at: OpenStore, /, **key: Any) -> Result:
    """Ask the process that runs the session's turn to stop.

    It notices that at its next append, and within a third of its lease.
    """
    is_asked = await at.store.turns.request_abort(**key)
    message = "the turn that runs was asked to stop" if is_asked else "no turn runs"
    return Result({**at.place, **key, "asked": is_asked}, [at.where, message])


@turn.command("repair")
@at_store()
@session_options
@click.option("--dry-run", is_flag=True, help="Only say how many tool calls it would answer.")
@json_option
async def repair(at: OpenStore, /, *, dry_run: bool, **key: Any) -> Result:
    """Answer the tool calls that a crash left without a response, with an error.

    Models refuse a history with such calls. It deletes nothing; while a turn runs, it changes nothing.
    """
    # Imported here: they bring half of ADK.
    from gcp_adk_store.turns.running import repairs  # noqa: PLC0415

    with waiting("reading"):
        if dry_run:
            session = await at.store.sessions.get_session(**key)
            if session is None:
                raise SessionMissingError
            made = repairs(session.events, error="")
            count = sum(len(each.get_function_responses()) for each in made)
        else:
            count = await at.store.turns.repair(**key)
    done = "would answer" if dry_run else "answered"
    outcome = {"calls": count, "outcome": "found" if dry_run else "repaired"}
    return Result({**at.place, **key, **outcome}, [at.where, f"{done} tool calls: {count:,}"])


@turn.command("withdraw")
@at_store()
@session_options
@click.option("--message", "message_id", metavar="ID", required=True, help="Id of a message that waits.")
@deletion_options
@json_option
async def withdraw(at: OpenStore, /, *, message_id: str, dry_run: bool, **key: Any) -> Result:
    """Remove a message that waits for a turn, so that nobody answers it."""
    if dry_run:
        there = message_id in (await at.store.turns.status(**key)).waiting
    else:
        there = await at.store.turns.withdraw(**key, message_id=message_id)
    if not there:
        raise NotThereError(
            f"no message {in_one_line(message_id)} waits; see those that do: "
            + command_line("sessions turn status", only=IDS)
        )
    done, outcome = ("would withdraw", "found") if dry_run else ("withdrew", "withdrawn")
    fields = {"message_id": message_id, "outcome": outcome}
    return Result({**at.place, **key, **fields}, [at.where, f"{done} message {in_one_line(message_id)}"])
