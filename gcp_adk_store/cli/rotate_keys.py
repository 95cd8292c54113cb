"""The command that wraps data keys anew."""

from dataclasses import asdict

import click

from gcp_adk_store.cli.options import json_option
from gcp_adk_store.cli.place import OpenStore, at_store
from gcp_adk_store.cli.screen import Result, progress
from gcp_adk_store.encryption.rotation import RotationReport


@click.command("rotate-keys")
@at_store()
@json_option
async def rotate_keys(at: OpenStore, /) -> Result:
    """Wrap all data keys with the newest version of the encryption key.

    Then older versions can be disabled. Safe while agents run; after an interruption, run it again: it goes
    on. Ends with 1 if a data key cannot be unwrapped, with 2 if it cannot look.
    """
    click.echo(f"looking in {at.where}", err=click.get_current_context().params["as_json"])
    with progress("wrapping: data keys") as move_to:

        def on_progress(report: RotationReport) -> None:
            move_to(report.keys)

        report = await at.store.rotate_keys(on_progress=on_progress)
    lines = [
        f"wrapped anew: {report.rewrapped:,} of {report.keys:,} data keys",
        f"removed: {report.forgotten:,} notes of keys that were destroyed more than a day ago",
    ]
    if report.failed:
        lines.append(f"cannot be unwrapped: {report.failed:,}; do not disable older versions of the key")
    return Result({**at.place, **asdict(report)}, lines, status=int(report.failed > 0))
