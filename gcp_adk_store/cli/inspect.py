"""The command that opens a page on a store."""

import socket
from typing import Final

import click

from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.place import OpenStore, at_store

_HOST: Final = "127.0.0.1"


@click.command()
@at_store(reads_once=False)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=8780,
    show_default=True,
    help="Port of this machine; 0 takes a free one.",
)
@click.option("--reveal", is_flag=True, help="Show content from the start; by default a button does.")
@click.option("--allow-writes", is_flag=True, help="Let pages fork, restore, redact and erase.")
async def inspect(at: OpenStore, /, *, port: int, reveal: bool, allow_writes: bool) -> None:
    """Open a page that shows the sessions, artifacts and memories of a store, until Ctrl-C.

    Only programs of this machine reach it. It reads, and writes nothing unless --allow-writes is given.
    """
    # Imported here: only the server needs them, not the help.
    import uvicorn  # noqa: PLC0415

    from gcp_adk_store.inspector.app import create_app  # noqa: PLC0415

    app = create_app(
        at.store,
        authorize=lambda request, app, user: True,  # noqa: ARG005  # all that reach this machine's port
        reveal="always" if reveal else "asked",
        allow_writes=allow_writes,
        where=at.where,
    )
    with _bound(port) as listener:
        click.echo(at.where)
        click.echo(f"http://{_HOST}:{listener.getsockname()[1]}/ until Ctrl-C")
        config = uvicorn.Config(app, log_level="warning", server_header=False, lifespan="off")
        await uvicorn.Server(config).serve(sockets=[listener])


def _bound(port: int) -> socket.socket:
    """Return a socket of this machine alone.

    Raises:
        CannotLookError: the port is taken.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
        listener.listen()  # whoever follows the printed address finds it
    except OSError as exc:
        listener.close()
        raise CannotLookError(
            f"port {port} cannot be used ({exc.strerror}); pass another one with --port"
        ) from exc
    return listener
