"""Run ADK's servers and the inspector over a store."""

import asyncio
import difflib
import importlib.util
import os
import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gcp_adk_store.cli.place import OpenStore, at_store, number_option
from gcp_adk_store.cli.screen import CannotLookError, visible
from gcp_adk_store.doctor.bucket import make_on_emulator
from gcp_adk_store.errors import InvalidInputError, StoreError
from gcp_adk_store.settings import EMULATOR_PROJECT, storage_emulator_url

SCHEMES: Final[Mapping[str, Sequence[str]]] = {
    "session": ("agentengine", "firestore", "firestore+local", "memory", "mysql", "postgresql", "sqlite"),
    "artifact": ("file", "gs", "gs+local", "memory"),
    "memory": ("agentengine", "memory", "rag", "sqlite"),
}
"""URI schemes of ADK and of this store by the kind of service; sessions also accept SQLAlchemy's."""

_OURS: Final = ("firestore", "gs")
"""In these schemes, the text after a + does not name a driver of a SQL database."""

_SERVERS: Final = ("api_server", "run", "web")
"""Commands of ADK that use the services in this process."""


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="ARGUMENTS...")
@click.pass_context
def adk(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Run ADK's command ``adk``, which then knows firestore://, this store's gs://, and both in a folder.

    For instance: gcp-adk-store adk web --session_service_uri 'firestore://PROJECT/(default)' agents

    Or in a folder: gcp-adk-store adk web --session_service_uri firestore+local:///PATH agents

    Before web, api_server and run it checks that the bucket exists, for 5 seconds at most. Ends with 2 if
    it is missing, or a URI has an unknown scheme.
    """
    # Imported here: they load half of ADK.
    from google.adk.cli import main  # noqa: PLC0415

    from gcp_adk_store.adk_server.services import register  # noqa: PLC0415

    register()
    said = _read_as_adk_does(main, arguments)
    _require_schemes(said)
    _require_bucket(said)
    try:
        main.main(args=list(arguments), prog_name=ctx.command_path)
    except InvalidInputError as exc:
        if exc.operation:
            raise  # from a turn of `adk run`, not from an argument
        raise click.UsageError(str(exc)) from exc


def _read_as_adk_does(main: click.Group, arguments: Sequence[str]) -> dict[str, str]:
    """Return the texts among the arguments of a serving command; empty if the command serves nothing."""
    name, *rest = arguments or ("",)
    command = main.get_command(click.Context(main), name)
    if name not in _SERVERS or command is None:
        return {}
    try:
        said, _, _ = command.make_parser(click.Context(command)).parse_args(list(rest))
    except click.UsageError:
        return {}  # ADK's command reports the error itself
    if {"help", "_click_default_help"} & set(said) or said.get("in_memory"):
        return {}
    return {name: value for name, value in said.items() if isinstance(value, str) and value}


def _require_schemes(said: Mapping[str, str]) -> None:
    """Refuse an unknown scheme, for which ADK uses a SQL database or memory, and suggest a similar one."""
    folder = Path(said.get("agents_dir") or said.get("agent") or ".")
    own = any((folder / f"services.{kind}").exists() for kind in ("yaml", "yml", "py"))
    if own or importlib.util.find_spec("services") is not None:
        return  # ADK finds registrations there, which may add any scheme
    for kind, known in SCHEMES.items():
        option = f"{kind}_service_uri"
        if option not in said:
            continue
        found = re.match(r"([a-z][a-z0-9.-]*)(\+[a-z0-9_]+)?:", said[option], re.IGNORECASE)
        base = found[1].lower() if found else ""
        scheme = base + (found[2] or "").lower() if found else ""
        if scheme in known or (base in known and base not in _OURS):
            continue
        if kind == "session" and base and _is_sql(base):
            continue
        close = difflib.get_close_matches(scheme, known, n=1)
        hint = f"did you mean {close[0]}://?" if close else f"known schemes: {'://, '.join(known)}://"
        problem = f"unknown scheme {scheme[:40]}://" if scheme else "the scheme is missing"
        raise CannotLookError(f"--{option}: {problem}; {hint}")


def _is_sql(scheme: str) -> bool:
    """Return whether SQLAlchemy knows the scheme; ADK passes it all other schemes of sessions."""
    try:
        from sqlalchemy.engine import make_url  # noqa: PLC0415  # not needed for this store
        from sqlalchemy.exc import ArgumentError  # noqa: PLC0415
    except ModuleNotFoundError:
        return False
    try:
        make_url(f"{scheme}://").get_dialect()
    except ArgumentError:
        return False  # a malformed URL, or an unknown dialect
    except ImportError:
        pass  # known, but not fully installed: ADK names the missing package
    return True


def _require_bucket(said: Mapping[str, str]) -> None:
    """Refuse a missing bucket, with the command that makes it; warn of one that could not be checked."""
    from gcp_adk_store.adk_server.services import missing_bucket  # noqa: PLC0415  # likewise

    session_uri, artifact_uri = said.get("session_service_uri"), said.get("artifact_service_uri")
    try:
        missing = asyncio.run(missing_bucket(session_uri=session_uri, artifact_uri=artifact_uri))
    except InvalidInputError:
        return  # ADK's command creates the service and reports the error
    except StoreError as exc:
        click.echo(visible(f"Warning: {exc}; adk starts anyway"), err=True)
        return
    if missing is not None:
        making = f"gcloud storage buckets create gs://{missing}"
        if emulator := storage_emulator_url():
            making = make_on_emulator(missing, EMULATOR_PROJECT, at=emulator.rstrip("/"))
        raise CannotLookError(f"gs://{missing} does not exist; make it: {making}")


if TYPE_CHECKING:
    import uvicorn

    from gcp_adk_store.store import Store

_HOST: Final = "127.0.0.1"


@click.command()
@at_store(reads_once=False)
@number_option(
    "--port", kind=click.IntRange(0, 65535), default=8780, says="Port of this machine; 0 takes a free one."
)
@click.option("--reveal", is_flag=True, help="Show content from the start; by default a button does.")
@click.option(
    "--allow-writes",
    is_flag=True,
    help="Let pages fork and restore sessions, redact events, and erase users.",
)
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
    try:
        return socket.create_server((_HOST, port))  # it listens: the address that is shown answers
    except OSError as exc:
        # Without the address, which Python adds.
        reason = os.strerror(exc.errno) if exc.errno else exc.strerror
        says = f"port {port} cannot be used ({reason}); name another one, or 0 for any"
        raise CannotLookError(says) from exc
