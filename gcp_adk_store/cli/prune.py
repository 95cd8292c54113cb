"""The command that removes sessions that were kept long enough."""

from dataclasses import asdict

import click

from gcp_adk_store.cli.options import Command, given_id, json_option
from gcp_adk_store.cli.place import OpenStore, at_store
from gcp_adk_store.cli.screen import Result, progress
from gcp_adk_store.cli.sessions import label_of
from gcp_adk_store.erasure.pruning import PruneReport

_DAYS = click.FloatRange(min=0, min_open=True)


_CONDITIONS = (
    click.option("--idle-days", metavar="N", type=_DAYS, help="Sessions without an event for so long."),
    click.option(
        "--keep-latest", metavar="N", type=click.IntRange(0), help="Keep so many sessions of each user."
    ),
    click.option("--older-than", metavar="DAYS", type=_DAYS, help="Sessions that were created before."),
    click.option(
        "--label", metavar="NAME=VALUE", multiple=True, help="Only sessions with this label; repeatable."
    ),
    click.option(
        "--user-data-idle-days",
        metavar="N",
        type=_DAYS,
        help="Also state and memories, of users without sessions, that nobody changed for so long.",
    ),
)


def retention_options(command: Command) -> Command:
    """Add the conditions of what goes to *command*."""
    for option in reversed(_CONDITIONS):
        command = option(command)
    return command


@click.command()
@at_store()
@given_id("--app", required=True, says="Name of the app.")
@retention_options
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@json_option
async def prune(
    at: OpenStore,
    /,
    *,
    app_name: str,
    idle_days: float | None,
    keep_latest: int | None,
    older_than: float | None,
    label: tuple[str, ...],
    user_data_idle_days: float | None,
    dry_run: bool,
) -> Result:
    """Delete the sessions of an app that were kept long enough, with their artifacts.

    A session goes if it meets all conditions that are given. Safe while agents run, and after an
    interruption. Ends with 1 if something cannot be read, with 2 if it cannot look.
    """
    click.echo(f"looking in {at.where}", err=click.get_current_context().params["as_json"])
    with progress("looking: sessions") as move_to:

        def on_progress(report: PruneReport) -> None:
            move_to(report.sessions)

        report = await at.store.prune(
            app_name=app_name,
            idle_days=idle_days,
            keep_latest=keep_latest,
            older_than_days=older_than,
            labels=dict(map(label_of, label)),
            user_data_idle_days=user_data_idle_days,
            dry_run=dry_run,
            on_progress=on_progress,
        )
    done = "would delete" if dry_run else "deleted"
    lines = [
        f"{done} {report.pruned_sessions:,} of {report.sessions:,} sessions",
        f"{done} {report.pruned_artifacts:,} artifacts of them",
    ]
    if user_data_idle_days is not None:
        lines.append(
            f"{done} the state of {report.pruned_states:,} users, the memories of {report.pruned_memories:,}"
        )
    if report.in_use:
        lines.append(f"in use, left for a later run: {report.in_use:,}")
    if report.unreadable:
        lines.append(f"left, because they cannot be read: {report.unreadable:,}; see gcp-adk-store fsck")
    return Result({**at.place, **asdict(report)}, lines, status=int(bool(report.unreadable)))
