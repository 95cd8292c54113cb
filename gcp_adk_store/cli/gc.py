"""The command that removes garbage."""

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Table

from gcp_adk_store.cli.options import json_option
from gcp_adk_store.cli.place import OpenStore, at_store
from gcp_adk_store.cli.screen import Result, cell, progress
from gcp_adk_store.cli.terminal import visible
from gcp_adk_store.errors import StoreError
from gcp_adk_store.model.payloads import Garbage, GarbageKind

if TYPE_CHECKING:
    from gcp_adk_store.store import Store

_KINDS: Final = {
    GarbageKind.DELETION: "a deletion that was interrupted",
    GarbageKind.RESTORE: "a restore that was interrupted",
    GarbageKind.PAYLOAD: "large content that nothing refers to",
    GarbageKind.UPLOAD: "an upload that was never finalized",
    GarbageKind.FILE: "a file that a killed process left",
    GarbageKind.UNREADABLE: "left alone: its owner cannot be read",
}
_HOUR_S: Final = 3600.0
_Found = tuple[Garbage, str]
"""Garbage, and what became of it."""


@click.command()
@at_store()
@click.option(
    "--older-than",
    metavar="HOURS",
    type=click.FloatRange(min=1),
    default=24.0,
    show_default=True,
    help="Keep content that was written later.",
)
@click.option("--dry-run", is_flag=True, help="Only list it.")
@json_option
async def gc(at: OpenStore, /, *, older_than: float, dry_run: bool) -> Result:
    """Remove garbage: rests of deletions, payloads without a reference, uploads never finalized, lost files.

    Safe while agents run. It reads the names of all payloads, and says where it looks. Ends with 1 if garbage
    remains, with 2 if it cannot look or no project is named.
    """
    click.echo(f"looking in {at.where}", err=click.get_current_context().params["as_json"])
    found: list[_Found] = []
    with progress("looking: found") as move_to:
        async for garbage in at.store.find_garbage(older_than_s=older_than * _HOUR_S):
            found.append((garbage, await _outcome(at.store, garbage, dry_run=dry_run)))
            move_to(len(found))
    counts = Counter(outcome for _, outcome in found)
    return Result(
        [_described(*each) for each in found],
        _lines(found, counts, dry_run=dry_run),
        status=int(bool(counts["failed"] + counts["left alone"])),
    )


async def _outcome(store: "Store", garbage: Garbage, *, dry_run: bool) -> str:
    """Remove *garbage* unless *dry_run*, and say what became of it."""
    if garbage.kind is GarbageKind.UNREADABLE:
        return "left alone"
    if dry_run:
        return "found"
    try:
        return "removed" if await store.remove_garbage(garbage) else "in use again"
    except StoreError as exc:
        click.echo(visible(f"{garbage.name}: {exc}"), err=True)
        return "failed"


def _described(garbage: Garbage, outcome: str) -> dict[str, Any]:
    return {
        "kind": garbage.kind.value,
        "in": garbage.place.value,
        "name": garbage.name,
        "since": garbage.since,
        "bytes": garbage.size,
        "reason": garbage.reason,
        "outcome": outcome,
    }


def _lines(found: list[tuple[Garbage, str]], counts: Counter[str], *, dry_run: bool) -> list[RenderableType]:
    if not found:
        return ["nothing: all content is in use, or was written too recently to judge"]
    table = Table("kind", "in", "name", "size", "age", "outcome", box=None)
    for garbage, outcome in found:
        table.add_row(
            garbage.kind.value,
            garbage.place.value,
            cell(garbage.name),
            "" if garbage.size is None else decimal(garbage.size),
            f"{(time.time() - garbage.since) / _HOUR_S:.0f} h",
            outcome,
        )
    kinds = dict.fromkeys(garbage.kind for garbage, _ in found)
    return [
        table,
        *(f"{kind.value}: {_KINDS[kind]}" for kind in kinds),
        ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items())),
        *(["run it without --dry-run to remove what was found"] if dry_run and counts["found"] else []),
    ]
