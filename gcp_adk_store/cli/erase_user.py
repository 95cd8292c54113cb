"""The command that erases a user."""

from datetime import UTC, datetime

import click
from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Table

from gcp_adk_store.cli.options import deletion_options, json_option, user_options
from gcp_adk_store.cli.place import OpenStore, at_store
from gcp_adk_store.cli.screen import Result, progress
from gcp_adk_store.cli.terminal import in_one_line
from gcp_adk_store.model.erasures import MAX_QUIET_S, ErasureReceipt


@click.command("erase-user")
@at_store()
@user_options
@click.option("--task-owner", metavar="ID", help="Also erase the A2A tasks of this owner.")
@click.option(
    "--quiet",
    metavar="SECONDS",
    type=click.FloatRange(0, MAX_QUIET_S),
    default=0.0,
    show_default=True,
    help="Wait so long after each pass, for writers that are under way.",
)
@deletion_options
@json_option
async def erase_user(
    at: OpenStore,
    /,
    *,
    app_name: str,
    user_id: str,
    task_owner: str | None,
    quiet: float,
    dry_run: bool,
) -> Result:
    """Erase a user: sessions, state, memories, artifacts and uploads; print the receipt.

    After an interruption, run it again: it goes on. End the user's access first. Ends with 2 if it cannot
    erase everything.
    """
    label = "counting: found" if dry_run else "erasing: found"
    click.echo(f"looking in {at.where}", err=click.get_current_context().params["as_json"])
    receipts: list[ErasureReceipt] = []
    with progress(label) as move_to:
        async for step in at.store.erase_user(
            app_name=app_name, user_id=user_id, dry_run=dry_run, task_owner=task_owner, quiet_s=quiet
        ):
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
        return [table if receipt.erased else "nothing of the user", "run it with --yes to erase this"]
    recovery = receipt.recovery
    until = (
        ("reads of the database at an older time", recovery.firestore_history_until),
        ("backups of the database", recovery.backups_until),
        ("deleted objects that the bucket keeps", recovery.soft_delete_until),
    )
    return [
        table if receipt.erased else "nothing of the user",
        f"erased what was stored before {_time(receipt.empty_at)}, in {receipt.passes} passes",
        *(
            [f"no copy can be read from {_time(receipt.unreadable_from)} on: its key is destroyed"]
            if receipt.unreadable_from is not None
            else []
        ),
        *(f"can be recovered until {_time(time)}: {what}" for what, time in until if time is not None),
        *(f"unknown whether it can be recovered: {in_one_line(what)}" for what in recovery.unknown),
        *(f"not erased: {in_one_line(what)}" for what in receipt.not_covered),
        f"subject {receipt.subject}",
        f"digest {receipt.digest}",
    ]


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"
