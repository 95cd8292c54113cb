"""The command that checks stored data, and mends it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click
from rich.console import RenderableType
from rich.table import Table

from gcp_adk_store.cli.options import given_id, json_option
from gcp_adk_store.cli.place import OpenStore, at_store, command_line
from gcp_adk_store.cli.screen import Result, cell, progress
from gcp_adk_store.sessions.fsck.faults import CODES, Fault, Help
from gcp_adk_store.sessions.fsck.run import Checked

_HELPS = {
    Help.REPAIR: "fsck --repair mends it",
    Help.PERSON: "a person decides: the stored data does not tell which value is right",
    Help.BACKUP: "restore what is lost from a backup, or with point-in-time recovery",
    Help.UPGRADE: "upgrade gcp-adk-store and google-adk; if that does not help, restore it from a backup",
    Help.GC: "gcp-adk-store gc removes it",
}


@click.command()
@at_store()
@given_id("--app", says="Check only this app.")
@given_id("--user", says="Check only this user of the app.")
@given_id("--session", says="Check only this session of the user.")
@click.option("--full", is_flag=True, help="Also read all payloads, and compare their hashes.")
@click.option("--repair", is_flag=True, help="Mend what has one right answer.")
@click.option("--dry-run", is_flag=True, help="With --repair: only say what it would mend.")
@json_option
async def fsck(
    at: OpenStore,
    /,
    *,
    app_name: str | None,
    user_id: str | None,
    session_id: str | None,
    full: bool,
    repair: bool,
    dry_run: bool,
) -> Result:
    """Check stored data: segments, counts, state, references, chain, expiry, notes, orphans.

    Safe while agents run. Changes nothing without --repair, and then only documents that no one has written
    meanwhile. Ends with 1 if a fault remains, with 2 if it cannot look.
    """
    click.echo(f"checking {at.where}", err=click.get_current_context().params["as_json"])
    looked = Checked()
    with progress("checking: sessions") as move_to:

        def on_progress(checked: Checked) -> None:
            nonlocal looked
            looked = checked
            move_to(checked.sessions)

        found = at.store.check(
            app_name=app_name, user_id=user_id, session_id=session_id, full=full, on_progress=on_progress
        )
        faults = [fault async for fault in found]
    mended = await at.store.repair(faults) if repair and not dry_run else []
    outcomes = [_outcome(fault, mended, repair=repair, dry_run=dry_run) for fault in faults]
    return Result(
        {
            **at.place,
            "checked": {
                "sessions": looked.sessions,
                "segments": looked.segments,
                "events": looked.events,
                "payloads": looked.payloads,
            },
            "faults": [_described(*each) for each in zip(faults, outcomes, strict=True)],
        },
        _lines(looked, faults, outcomes, dry_run=dry_run),
        status=int(len(mended) < len(faults)),
    )


def _outcome(fault: Fault, mended: Sequence[Fault], *, repair: bool, dry_run: bool) -> str:
    if not repair or not fault.repair:
        return "found"
    if dry_run:
        return "would be mended"
    return "mended" if any(fault is one for one in mended) else "changed meanwhile"


def _described(fault: Fault, outcome: str) -> dict[str, Any]:
    return {
        "code": fault.code,
        "name": fault.path,
        "item": fault.item,
        "says": fault.says,
        "help": fault.help.value,
        "outcome": outcome,
    }


def _lines(
    looked: Checked, faults: Sequence[Fault], outcomes: Sequence[str], *, dry_run: bool
) -> list[RenderableType]:
    counted = (
        f"{looked.sessions:,} sessions, {looked.segments:,} segments, {looked.events:,} events, "
        f"{looked.payloads:,} payloads"
    )
    if not faults:
        return [f"no fault in {counted}"]
    table = Table("code", "name", "item", "finding", "outcome", box=None)
    for fault, outcome in zip(faults, outcomes, strict=True):
        table.add_row(fault.code, cell(fault.path), cell(fault.item), cell(fault.says), outcome)
    codes = dict.fromkeys(fault.code for fault in faults)
    helps = dict.fromkeys(fault.help for fault in faults)
    counts = Counter(outcomes)
    return [
        table,
        *(f"{code}: {CODES[code].invariant}" for code in codes),
        *(f"{help_.value}: {_HELPS[help_]}" for help_ in helps),
        f"looked at {counted}",
        ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items())),
        *([f"mend them: {command_line()} --repair"] if counts["found"] and Help.REPAIR in helps else []),
        *(["run it without --dry-run to mend what was found"] if dry_run else []),
    ]
