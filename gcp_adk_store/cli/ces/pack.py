"""The command that writes an app as an archive."""

from pathlib import Path

import click

from gcp_adk_store.cli.ces.options import app_option
from gcp_adk_store.cli.extras import needs_ces
from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.terminal import visible
from gcp_adk_store.errors import InvalidInputError


@click.command()
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@app_option
def pack(source: Path, target: Path, app_name: str | None) -> None:
    """Write an agent app as a .zip that the platform imports, with the same bytes for the same files.

    DIR may also be a project that has the app in cxas_app/. FILE is replaced.

    Ends with 2 if the folder does not contain an app.
    """
    with needs_ces():
        from gcp_adk_store.ces.apps.locating import app_folder  # noqa: PLC0415  # of the extra
        from gcp_adk_store.ces.apps.packing import pack as write  # noqa: PLC0415  # likewise
    if not source.exists():
        raise CannotLookError(f"{source} does not exist")
    try:
        count = write(app_folder(source, app_name), target)
    except InvalidInputError as exc:
        raise CannotLookError(str(exc)) from exc
    click.echo(visible(f"{target}: {count} files"))
