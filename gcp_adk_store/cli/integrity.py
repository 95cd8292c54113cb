"""Check, verify, anchor and clean up what is stored."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Table

from gcp_adk_store.cli.place import (
    IDS,
    OpenStore,
    announced,
    at_store,
    command_line,
    given_id,
    json_option,
    number_option,
    session_options,
)
from gcp_adk_store.cli.screen import Number, Result, cell, progress, visible
from gcp_adk_store.errors import StoreError
from gcp_adk_store.model.keys import in_one_line
from gcp_adk_store.model.payloads import Garbage, GarbageKind
from gcp_adk_store.sessions.fsck.faults import CODES, Fault, Help
from gcp_adk_store.sessions.fsck.run import Checked
from gcp_adk_store.sessions.verify.decide import RedactedEvent

if TYPE_CHECKING:
    from gcp_adk_store.store import Store

_HELPS = {
    Help.REPAIR: "fsck --repair repairs it",
    Help.PERSON: "a person decides: the stored data does not show which value is right",
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
@click.option("--repair", is_flag=True, help="Repair what has one right answer.")
@click.option("--dry-run", is_flag=True, help="With --repair: only say what it would repair.")
@json_option
async def fsck(at: OpenStore, /, *, full: bool, repair: bool, dry_run: bool, **scope: Any) -> Result:
    """Check stored data: segments, counts, state, references, chain, expiry, notes, orphans.

    Safe while agents run. Changes nothing without --repair, and then only documents that no one has written
    meanwhile. Ends with 1 if a fault remains, with 2 if it cannot run.
    """
    announced("checking", at)
    looked = Checked()
    with progress("checking: sessions") as move_to:

        def on_progress(checked: Checked) -> None:
            nonlocal looked
            looked = checked
            move_to(checked.sessions)

        found = at.store.check(**scope, full=full, on_progress=on_progress)
        faults = [fault async for fault in found]
    repaired = await at.store.repair(faults) if repair and not dry_run else []
    outcomes = [_outcome(fault, repaired, repair=repair, dry_run=dry_run) for fault in faults]
    described = [_described(*each) for each in zip(faults, outcomes, strict=True)]
    data = {**at.place, "checked": asdict(looked), "faults": described}
    return Result(data, _lines(looked, faults, outcomes), status=int(len(repaired) < len(faults)))


def _outcome(fault: Fault, repaired: Sequence[Fault], *, repair: bool, dry_run: bool) -> str:
    if not repair or not fault.repair:
        return "found"
    if dry_run:
        return "would be repaired"
    return "repaired" if any(fault is one for one in repaired) else "changed meanwhile"


def _described(fault: Fault, outcome: str) -> dict[str, Any]:
    return {
        "code": fault.code,
        "name": fault.path,
        "item": fault.item,
        "says": fault.says,
        "help": fault.help.value,
        "outcome": outcome,
    }


def _lines(looked: Checked, faults: Sequence[Fault], outcomes: Sequence[str]) -> list[RenderableType]:
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
    found = zip(faults, outcomes, strict=True)
    is_asked = any(fault.repair and outcome == "found" for fault, outcome in found)
    again = command_line(only=click.get_current_context().params.keys() - {"repair", "dry_run"})
    return [
        table,
        *(f"{code}: {CODES[code].invariant}" for code in codes),
        *(f"{help_.value}: {_HELPS[help_]}" for help_ in helps),
        f"looked at {counted}",
        ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items())),
        *([f"repair them: {again} --repair"] if is_asked else []),
        *(["run it without --dry-run to repair what was found"] if counts["would be repaired"] else []),
    ]


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
@number_option(
    "--older-than",
    kind=Number(1),
    metavar="HOURS",
    default=24.0,
    says="Keep content that is younger than this.",
)
@click.option("--dry-run", is_flag=True, help="Only list the garbage.")
@json_option
async def gc(at: OpenStore, /, *, older_than: float, dry_run: bool) -> Result:
    """Remove garbage: leftovers of deletions, payloads without a reference, unfinished uploads, lost files.

    Safe while agents run. It reads the names of all payloads, and says where it looks. Ends with 1 if garbage
    remains, with 2 if it cannot run.
    """
    announced("looking in", at)
    found: list[_Found] = []
    with progress("looking: found") as move_to:
        async for garbage in at.store.find_garbage(older_than_s=older_than * _HOUR_S):
            found.append((garbage, await _gc_outcome(at.store, garbage, dry_run=dry_run)))
            move_to(len(found))
    counts = Counter(outcome for _, outcome in found)
    data = [_garbage_described(*each) for each in found]
    lines = _garbage_lines(found, counts, dry_run=dry_run)
    return Result(data, lines, status=int(bool(counts["failed"] + counts["left alone"])))


async def _gc_outcome(store: "Store", garbage: Garbage, *, dry_run: bool) -> str:
    """Remove *garbage* unless *dry_run*, and say what became of it."""
    if garbage.kind is GarbageKind.UNREADABLE:
        return "left alone"
    if dry_run:
        return "found"
    try:
        if await store.remove_garbage(garbage):
            return "removed"
    except StoreError as exc:
        click.echo(visible(f"{garbage.name}: {exc}"), err=True)
        return "failed"
    if store.has_artifacts or garbage.kind not in (GarbageKind.DELETION, GarbageKind.RESTORE):
        return "in use again"
    says = "it may have artifacts, and stays without their bucket; name the bucket with --bucket"
    click.echo(visible(f"{garbage.name}: {says}"), err=True)
    return "left alone"


def _garbage_described(garbage: Garbage, outcome: str) -> dict[str, Any]:
    return {
        "kind": garbage.kind.value,
        "in": garbage.place.value,
        "name": garbage.name,
        "since": garbage.since,
        "bytes": garbage.size,
        "reason": garbage.reason,
        "outcome": outcome,
    }


def _garbage_lines(found: list[_Found], counts: Counter[str], *, dry_run: bool) -> list[RenderableType]:
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


@click.command()
@at_store()
@session_options
@number_option("--events", "known_events", kind=click.IntRange(0), says="Events of an earlier proof.")
@click.option("--head", "known_head", metavar="HEX", help="Head of the same proof.")
@click.option(
    "--anchors",
    metavar="BUCKET",
    help="Compare with the anchors in this bucket; of a local store, in this folder.",
)
@json_option
async def verify(at: OpenStore, /, **given: Any) -> Result:
    """Verify by its hash chain that no event of a session was changed, dropped, swapped or cut off.

    Ends with 1 if the events are not those that were appended, the session does not exist, or --anchors has
    no anchor of it, with 2 if it cannot run or cannot read the session.
    """
    proof = await at.store.verify_session(**given)
    broken = proof.broken
    lines = [f"events: {proof.events:,}", f"head: {proof.head}"]
    if broken is None:
        lines.append("the chain proves all of them")
        again = command_line("verify", only=IDS)
        lines.append(f"compare later: {again} --events {proof.events} --head {proof.head}")
    else:
        event = f", {in_one_line(broken.event_id)}," if broken.event_id else ""
        lines += [
            f"{broken.change}: not proven from event {broken.position}{event} on: {in_one_line(broken.says)}",
            f"in {in_one_line(broken.path)}",
        ]
    lines += [
        f"redacted: event {one.position}, {in_one_line(one.event_id)}, hash {one.sha256}; {_known_of(one)}"
        for one in proof.redacted
    ]
    if proof.anchors is not None:
        lines.append(
            f"anchors: {proof.anchors:,}; they prove the first {proof.anchored or 0:,} events"
            if proof.anchors
            else "no anchor of this session: it is newer than the last run of anchor, or another session"
        )
    if proof.unbound:
        lines.append(
            f"{proof.unbound:,} of the anchors are of release 0.1 and do not say whose they are; run anchor"
        )
    is_bad = broken is not None or proof.anchors == 0
    return Result({**at.place, **asdict(proof)}, [at.where, *lines], status=int(is_bad))


def _known_of(redacted: RedactedEvent) -> str:
    """Return what proves a redaction."""
    if not redacted.is_audited:
        return "no event of the chain reports it"
    message = "an event of the chain reports it"
    if not redacted.is_bound:
        message += ", without the hash of the marker"
    if redacted.is_anchored is None:
        return message
    return message + (
        ", and an anchor proves that" if redacted.is_anchored else "; no anchor proves that yet"
    )


@click.command()
@at_store()
@given_id("--app", required=True, says="Name of the app.")
@given_id("--user", says="Id of a user; by default all users of the app.")
@given_id("--session", says="Id of a session of the user; by default all.")
@click.option(
    "--anchors",
    metavar="BUCKET",
    required=True,
    help="Bucket with a locked retention policy; of a local store, a folder.",
)
@json_option
async def anchor(at: OpenStore, /, *, anchors: str, **scope: Any) -> Result:
    """Keep the heads of sessions in another bucket, for verify --anchors; run it on a schedule.

    Each head that is not there yet takes one object, which names nobody. Ends with 1 if a session does not
    exist or cannot be read, with 2 if it cannot run.
    """
    with progress("anchoring: sessions") as move_to:
        report = await at.store.anchor(
            **scope, anchors=anchors, on_progress=lambda so_far: move_to(so_far.sessions)
        )
    lines = [at.where, f"sessions: {report.sessions:,}, new anchors: {report.written:,}"]
    if report.unreadable:
        lines.append(f"cannot be read, see fsck: {report.unreadable:,}")
    described = {**at.place, "anchors": anchors, **asdict(report)}
    return Result(described, lines, status=int(report.unreadable > 0))
