"""Save a conversation as a golden evaluation."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gcp_adk_store.cli.ces.place import key_of
from gcp_adk_store.cli.place import OpenStore, at_store
from gcp_adk_store.cli.screen import CannotLookError, needs_ces
from gcp_adk_store.errors import InvalidInputError

if TYPE_CHECKING:
    from gcp_adk_store.ces import SessionKey


@click.command()
@at_store()
@click.argument("session", metavar="APP/USER/ID")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", metavar="NAME", help="Of the golden; by default the id of the session.")
@click.option(
    "--outputs", is_flag=True, help="Let the responses of tools answer in their place when the golden runs."
)
async def golden(at: OpenStore, /, *, session: str, file: Path, name: str | None, outputs: bool) -> None:
    """Save the conversation of a session as a golden in a new FILE of YAML, for `ces eval`.

    A - as FILE is standard output.
    """
    with needs_ces():
        key = key_of(session)
    await save_golden(at.store, key, file, name=name, with_outputs=outputs)


async def save_golden(store: Any, key: "SessionKey", file: Path, **options: Any) -> None:
    """Save the session of *key* as a golden in *file*; *options* are those of ``golden_of``.

    Raises:
        CannotLookError: the session does not exist or makes no golden, or the file exists or cannot be made.
    """
    from gcp_adk_store import Point  # noqa: PLC0415  # half of ADK
    from gcp_adk_store.ces.testing.goldens import golden_of  # noqa: PLC0415  # of the extra

    found = await store.sessions.get_session(**key.names)
    begun = await store.sessions.get_session_at(**key.names, at=Point.position(0))
    if found is None or begun is None:
        raise CannotLookError(f"the session {key} does not exist")
    try:
        text = golden_of(found, begun.state, **options)
        if str(file) == "-":
            sys.stdout.write(text)
            return
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except InvalidInputError as exc:
        raise CannotLookError(str(exc)) from exc
    except OSError as exc:
        raise CannotLookError(f"{file} cannot be written: {exc.strerror}; name a new file") from exc
    click.echo(f"{file}: run it with gcp-adk-store ces eval DIR --tests {file.parent}", err=True)
