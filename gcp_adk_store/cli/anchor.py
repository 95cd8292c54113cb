"""The command that keeps heads of histories where nobody can change them."""

from dataclasses import asdict

import click

from gcp_adk_store.cli.options import given_id, json_option
from gcp_adk_store.cli.place import OpenStore, at_store
from gcp_adk_store.cli.screen import Result, progress


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
async def anchor(
    at: OpenStore, /, *, app_name: str, user_id: str | None, session_id: str | None, anchors: str
) -> Result:
    """Keep the heads of sessions in another bucket, for verify --anchors; run it on a schedule.

    Each head that is not there yet takes one object, which names nobody. Ends with 1 if the session does not
    exist, with 2 if it cannot look or write.
    """
    with progress("anchoring: sessions") as move_to:
        report = await at.store.anchor(
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
            anchors=anchors,
            on_progress=lambda so_far: move_to(so_far.sessions),
        )
    lines = [at.where, f"sessions: {report.sessions:,}, new anchors: {report.written:,}"]
    if report.unreadable:
        lines.append(f"cannot be read, see fsck: {report.unreadable:,}")
    return Result({**at.place, "anchors": anchors, **asdict(report)}, lines)
