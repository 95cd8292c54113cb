"""The command that removes garbage."""

import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from rich.filesize import decimal
from rich.table import Table

from gcp_adk_store.cli.place import at_store, place_options, where
from gcp_adk_store.cli.screen import cell, progress, show
from gcp_adk_store.cli.terminal import visible
from gcp_adk_store.errors import StoreError
from gcp_adk_store.model.garbage import Garbage, GarbageKind
from gcp_adk_store.settings import StoreSettings

if TYPE_CHECKING:
    from gcp_adk_store.store import Store

_KINDS = {
    GarbageKind.DELETION: "a deletion that was interrupted",
    GarbageKind.PAYLOAD: "large content that nothing refers to",
    GarbageKind.UPLOAD: "a file that was put and never finalized",
    GarbageKind.UNREADABLE: "left alone: what it belongs to cannot be read",
}
_HOUR_S = 3600.0


@dataclass(slots=True)
class _Outcome:
    garbage: Garbage
    done: str
    """``found``, ``removed``, ``in use again``, ``left alone`` or ``failed``."""


@dataclass(slots=True)
class _Run:
    outcomes: list[_Outcome] = field(default_factory=list)

    def count(self) -> Counter[str]:
        return Counter(outcome.done for outcome in self.outcomes)


@click.command()
@place_options
@click.option(
    "--older-than",
    metavar="HOURS",
    type=click.FloatRange(min=1),
    default=24.0,
    show_default=True,
    help="Leave what was written later.",
)
@click.option("--dry-run", is_flag=True, help="Only list it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def gc(*, older_than: float, dry_run: bool, as_json: bool, **place: str | None) -> None:
    """Remove what nothing uses: rests of deletions, payloads that nothing refers to, old uploads.

    Safe while agents run. Reads the names of all payloads, and shows the place. Ends with 1 if garbage
    remains, with 2 if it cannot look or no project is named.
    """

    async def work(store: "Store", settings: StoreSettings) -> _Run:
        click.echo(f"looking in {where(settings)}", err=as_json)
        run = _Run()
        with progress("looking: found") as bar:
            async for garbage in store.find_garbage(older_than_s=older_than * _HOUR_S):
                run.outcomes.append(_Outcome(garbage, await _dealt_with(store, garbage, dry_run=dry_run)))
                bar.move_to(len(run.outcomes))
        return run

    run = at_store(place, work)
    if as_json:
        click.echo(json.dumps([_described(outcome) for outcome in run.outcomes]))
    else:
        _show(run, dry_run=dry_run)
    counts = run.count()
    sys.exit(bool(counts["failed"] + counts["left alone"]))


async def _dealt_with(store: "Store", garbage: Garbage, *, dry_run: bool) -> str:
    if garbage.kind is GarbageKind.UNREADABLE:
        return "left alone"
    if dry_run:
        return "found"
    try:
        return "removed" if await store.remove_garbage(garbage) else "in use again"
    except StoreError as exc:
        click.echo(visible(f"{garbage.name}: {exc}"), err=True)
        return "failed"


def _described(outcome: _Outcome) -> dict[str, Any]:
    garbage = outcome.garbage
    return {
        "kind": garbage.kind.value,
        "in": garbage.place.value,
        "name": garbage.name,
        "since": garbage.since,
        "bytes": garbage.size,
        "reason": garbage.reason,
        "outcome": outcome.done,
    }


def _show(run: _Run, *, dry_run: bool) -> None:
    if not run.outcomes:
        show("nothing: all that is stored is in use, or was written too lately to tell")
        return
    table = Table("kind", "in", "name", "size", "age", "outcome", box=None)
    for outcome in run.outcomes:
        garbage = outcome.garbage
        table.add_row(
            garbage.kind.value,
            garbage.place.value,
            cell(garbage.name),
            "" if garbage.size is None else decimal(garbage.size),
            f"{(time.time() - garbage.since) / _HOUR_S:.0f} h",
            outcome.done,
        )
    show(table)
    for kind in dict.fromkeys(outcome.garbage.kind for outcome in run.outcomes):
        show(f"{kind.value}: {_KINDS[kind]}")
    show(", ".join(f"{number} {done}" for done, number in sorted(run.count().items())))
    if dry_run and run.count()["found"]:
        show("run it without --dry-run to remove what was found")
