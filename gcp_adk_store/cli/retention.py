"""Erase users, prune sessions and rotate keys."""

from dataclasses import asdict, fields
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Table

from gcp_adk_store.cli.place import (
    OpenStore,
    Work,
    announced,
    at_store,
    deletion_options,
    given_id,
    json_option,
    number_option,
    user_options,
)
from gcp_adk_store.cli.screen import Number, Result, progress
from gcp_adk_store.model.erasures import MAX_QUIET_S, ErasureReceipt
from gcp_adk_store.model.keys import in_one_line, moment, values_by_name

if TYPE_CHECKING:
    from gcp_adk_store.erasure.pruning import Retention

quiet_option = number_option(
    *("--quiet", "quiet_s"),
    kind=Number(0, MAX_QUIET_S),
    metavar="SECONDS",
    default=0.0,
    says="Wait after each pass, until requests of other writers have ended.",
)


@click.command("erase-user")
@at_store()
@user_options
@click.option("--task-owner", metavar="ID", help="Also erase the A2A tasks of this owner.")
@quiet_option
@deletion_options
@json_option
async def erase_user(at: OpenStore, /, *, dry_run: bool, **given: Any) -> Result:
    """Erase a user: sessions, state, memories, artifacts and uploads; print the receipt.

    After an interruption, run it again: it goes on. End the user's access first. Ends with 2 if it cannot
    erase everything.
    """
    label = "counting: found" if dry_run else "erasing: found"
    announced("looking in", at)
    receipts: list[ErasureReceipt] = []
    with progress(label) as move_to:
        async for step in at.store.erase_user(**given, dry_run=dry_run):
            if isinstance(step, ErasureReceipt):
                receipts.append(step)
            else:
                move_to(sum(erased.count for erased in step.found.values()))
    (receipt,) = receipts
    return Result(receipt.to_dict(), _lines(receipt))


def _lines(receipt: ErasureReceipt) -> list[RenderableType]:
    table = Table("kind", "number", "size", box=None)
    for kind, erased in receipt.erased.items():
        table.add_row(kind, f"{erased.count:,}", decimal(erased.bytes))
    if receipt.is_dry_run:
        return [table, "run it with --yes to erase this"] if receipt.erased else ["nothing of the user"]
    recovery = receipt.recovery
    until = (
        ("reads of the database at an older time", recovery.firestore_history_until),
        ("backups of the database", recovery.backups_until),
        ("deleted objects that the bucket keeps", recovery.soft_delete_until),
    )
    return [
        table if receipt.erased else "nothing of the user",
        f"erased what was stored before {moment(receipt.empty_at or 0.0)}, in {receipt.passes} passes",
        *(
            [f"no copy can be read from {moment(receipt.unreadable_from)} on: its key is destroyed"]
            if receipt.unreadable_from is not None
            else []
        ),
        *(f"can be recovered until {moment(time)}: {what}" for what, time in until if time is not None),
        *(f"unknown whether it can be recovered: {in_one_line(what)}" for what in recovery.unknown),
        *(f"not erased: {in_one_line(what)}" for what in receipt.not_covered),
        f"subject {receipt.subject}",
        f"digest {receipt.digest}",
    ]


_DAYS = Number(min=0, min_open=True)


_CONDITIONS = (
    number_option("--idle-days", kind=_DAYS, says="Sessions whose last event is N days old."),
    number_option(
        "--keep-latest",
        kind=click.IntRange(0),
        says="Keep the N sessions of each user that have the latest events.",
    ),
    number_option(
        *("--older-than", "older_than_days"),
        kind=_DAYS,
        metavar="DAYS",
        says="Sessions that were created so many days ago.",
    ),
    click.option(
        "--label", metavar="NAME=VALUE", multiple=True, help="Only sessions with this label; repeatable."
    ),
    number_option(
        "--user-data-idle-days",
        kind=_DAYS,
        says="Also state and memories of users without sessions, if nobody changed them for N days.",
    ),
    number_option(
        "--keep-events",
        kind=click.IntRange(0),
        says="Archive all events but the newest N of the sessions that stay.",
    ),
)


def retention_options(work: Work) -> Work:
    """Add the conditions of what goes to a command at a store, which then gets them as its *retention*."""

    @wraps(work)
    async def decided(at: OpenStore, /, *, label: tuple[str, ...], **given: Any) -> Result | None:
        from gcp_adk_store.erasure.pruning import Retention  # noqa: PLC0415  # half of ADK

        names = {each.name for each in fields(Retention)} & given.keys()
        conditions: dict[str, Any] = {name: given.pop(name) for name in names}
        retention = Retention(labels=values_by_name("--label", label), **conditions)
        return await work(at, retention=retention, **given)

    command: Work = decided
    for option in reversed(_CONDITIONS):
        command = option(command)
    return command


@click.command()
@at_store()
@given_id("--app", required=True, says="Name of the app.")
@retention_options
@click.option("--dry-run", is_flag=True, help="Only say what it would delete.")
@json_option
async def prune(at: OpenStore, /, *, retention: "Retention", dry_run: bool, app_name: str) -> Result:
    """Delete the sessions of an app that were kept long enough, with their artifacts.

    A session goes if it meets all conditions that are given. Safe while agents run, and after an
    interruption. Ends with 1 if something cannot be read, with 2 if it cannot run.
    """
    announced("looking in", at)
    with progress("looking: sessions") as move_to:
        report = await at.store.prune(
            app_name=app_name,
            **asdict(retention),
            dry_run=dry_run,
            on_progress=lambda so_far: move_to(so_far.sessions),
        )
    done = "would delete" if dry_run else "deleted"
    lines = [
        f"{done} {report.pruned_sessions:,} of {report.sessions:,} sessions",
        f"{done} {report.pruned_artifacts:,} artifacts of them",
    ]
    if retention.keep_events is not None:
        done_to = "would archive" if dry_run else "archived"
        lines.append(f"{done_to} {report.archived_events:,} events of {report.archived_sessions:,} sessions")
    if retention.user_data_idle_days is not None:
        lines.append(
            f"{done} the state of {report.pruned_states:,} users, the memories of {report.pruned_memories:,}"
        )
    if report.in_use:
        lines.append(f"in use, left for a later run: {report.in_use:,}")
    if report.unreadable:
        lines.append(f"left, because they cannot be read: {report.unreadable:,}; see gcp-adk-store fsck")
    return Result({**at.place, **asdict(report)}, lines, status=int(bool(report.unreadable)))


@click.command("rotate-keys")
@at_store()
@json_option
async def rotate_keys(at: OpenStore, /) -> Result:
    """Wrap all data keys with the newest version of the encryption key.

    Then older versions can be disabled. Safe while agents run; after an interruption, run it again: it goes
    on. Ends with 1 if a data key cannot be unwrapped, with 2 if it cannot run.
    """
    announced("looking in", at)
    with progress("wrapping: data keys") as move_to:
        report = await at.store.rotate_keys(on_progress=lambda so_far: move_to(so_far.keys))
    lines = [
        f"wrapped anew: {report.rewrapped:,} of {report.keys:,} data keys",
        f"removed: {report.forgotten:,} notes of keys that were destroyed more than a day ago",
    ]
    if report.failed:
        lines.append(f"cannot be unwrapped: {report.failed:,}; do not disable older versions of the key")
    return Result({**at.place, **asdict(report)}, lines, status=int(report.failed > 0))
