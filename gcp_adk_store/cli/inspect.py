"""The command that opens a page on a store."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import click

from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.place import OpenStore, at_store

if TYPE_CHECKING:
    import uvicorn

    from gcp_adk_store.store import Store

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
    with _bound(port) as listener:
        click.echo(at.where)
        click.echo(f"{_address(listener)}/ until Ctrl-C")
        server = _server(at.store, at.where, reveal=reveal, allow_writes=allow_writes)
        await server.serve(sockets=[listener])


@asynccontextmanager
async def inspecting(store: "Store", where: str, port: int) -> AsyncIterator[str]:
    """Show *store* under the mask while the block runs, and yield the address, without a / at its end.

    Raises:
        CannotLookError: the port is taken.
    """
    with _bound(port) as listener:
        # The command around it ends by Ctrl-C as it does without a server, also what follows a session.
        server = _server(store, where, reveal=False, allow_writes=False, log_level="critical")
        server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield _address(listener)
        finally:
            server.should_exit = server.force_exit = True
            await serving


def _server(
    store: "Store", where: str, *, reveal: bool, allow_writes: bool, log_level: str = "warning"
) -> "uvicorn.Server":
    # Imported here: only the server needs them, not the help.
    import uvicorn  # noqa: PLC0415

    from gcp_adk_store.inspector.app import create_app  # noqa: PLC0415

    app = create_app(
        store,
        authorize=lambda request, app, user: True,  # noqa: ARG005  # all that reach this machine's port
        reveal="always" if reveal else "asked",
        allow_writes=allow_writes,
        where=where,
    )
    return uvicorn.Server(uvicorn.Config(app, log_level=log_level, server_header=False, lifespan="off"))


def _address(listener: socket.socket) -> str:
    return f"http://{_HOST}:{listener.getsockname()[1]}"


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
            f"port {port} cannot be used ({exc.strerror}); name another one, or 0 for any"
        ) from exc
    return listener
