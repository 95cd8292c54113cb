"""The commands about the turn of a session."""

from datetime import UTC, datetime
from typing import Any

import click

from gcp_adk_store.cli.failures import NotThereError
from gcp_adk_store.cli.options import IDS, deletion_options, given_id, json_option, user_options
from gcp_adk_store.cli.place import OpenStore, at_store, command_line
from gcp_adk_store.cli.screen import Result, waiting
from gcp_adk_store.cli.terminal import in_one_line

_session_option = given_id("--session", required=True, says="Id of the session.")


@click.group()
def turn() -> None:
    """Show, stop and repair the turn of a session, and withdraw messages that wait for one.

    Each ends with 1 if the store has no such session or message, with 2 if it cannot look.
    """


@turn.command("status")
@at_store()
@user_options
@_session_option
@json_option
async def status_(at: OpenStore, /, **key: Any) -> Result:
    """Show who runs the session's turn, until when, and which messages wait."""
    found = await at.store.turns.status(**key)
    lines = [at.where]
    if found.is_running and found.until is not None:
        until = datetime.fromtimestamp(found.until, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        asked = "; it was asked to stop" if found.abort else ""
        lines.append(f"turn {found.fence:,} runs, held by {in_one_line(found.holder)} until {until}{asked}")
    else:
        lines.append(f"no turn runs; turns so far: {found.fence:,}")
    lines.append(f"messages that wait: {len(found.waiting):,}")
    lines += [f"  {in_one_line(each)}" for each in found.waiting]
    told = {
        "is_running": found.is_running,
        "fence": found.fence,
        "holder": found.holder,
        "until": found.until,
        "abort": found.abort,
        "waiting": list(found.waiting),
    }
    return Result({**at.place, **key, **told}, lines)


@turn.command("abort")
@at_store()
@user_options
@_session_option
@json_option
async def abort(at: OpenStore, /, **key: Any) -> Result:
    """Ask the process that runs the session's turn to stop.

    It notices that at its next append, and within a third of its lease.
    """
    is_asked = await at.store.turns.request_abort(**key)
    told = "the turn that runs was asked to stop" if is_asked else "no turn runs"
    return Result({**at.place, **key, "asked": is_asked}, [at.where, told])


@turn.command("repair")
@at_store()
@user_options
@_session_option
@click.option("--dry-run", is_flag=True, help="Only say how many tool calls it would answer.")
@json_option
async def repair(at: OpenStore, /, *, dry_run: bool, **key: Any) -> Result:
    """Answer the tool calls that a crash left without a response, with an error.

    Models refuse a history with such calls. It deletes nothing; while a turn runs, it changes nothing.
    """
    # Imported here: they bring half of ADK.
    from gcp_adk_store.errors import SessionMissingError  # noqa: PLC0415
    from gcp_adk_store.turns.repair import repairs  # noqa: PLC0415

    with waiting("reading"):
        if dry_run:
            session = await at.store.sessions.get_session(**key)
            if session is None:
                raise SessionMissingError("session not found")
            made = repairs(session.events, error="")
            count = sum(len(each.get_function_responses()) for each in made)
        else:
            count = await at.store.turns.repair(**key)
    done = "would answer" if dry_run else "answered"
    outcome = {"calls": count, "outcome": "found" if dry_run else "repaired"}
    return Result({**at.place, **key, **outcome}, [at.where, f"{done} tool calls: {count:,}"])


@turn.command("withdraw")
@at_store()
@user_options
@_session_option
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
    told = {"message_id": message_id, "outcome": outcome}
    return Result({**at.place, **key, **told}, [at.where, f"{done} message {in_one_line(message_id)}"])
