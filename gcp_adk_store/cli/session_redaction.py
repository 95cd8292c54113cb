"""The command that redacts an event of a session."""

from dataclasses import asdict
from typing import Any

import click

from gcp_adk_store.cli.failures import NotThereError
from gcp_adk_store.cli.options import deletion_options, given_id, json_option, user_options
from gcp_adk_store.cli.place import OpenStore, at_store, command_line
from gcp_adk_store.cli.screen import Result, waiting
from gcp_adk_store.cli.terminal import in_one_line
from gcp_adk_store.errors import PointMissingError
from gcp_adk_store.model.history import Redaction


@click.command("redact")
@at_store()
@user_options
@given_id("--session", required=True, says="Id of the session.")
@click.option("--event", "event_id", metavar="ID", required=True, help="Id of the event.")
@click.option("--reason", metavar="TEXT", required=True, help="Why, in one line; it is stored.")
@click.option("--state", is_flag=True, help="Also set keys of state to null that have the event's values.")
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
        shown = command_line("sessions show", only=("app_name", "user_id", "session_id"))
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
    for what, names in (
        (
            "state keys that are null now" if not redaction.is_dry_run else "state keys it would set to null",
            redaction.state_removed,
        ),
        ("state keys that still have its values, see --state", redaction.state_kept),
        (
            "memories that were removed"
            if redaction.memories_removed
            else "memories made of it, see --memories",
            redaction.memories,
        ),
        ("events that may summarise it", redaction.compactions),
    ):
        if names:
            lines.append(f"{what}: {', '.join(map(in_one_line, names))}")
    return lines
