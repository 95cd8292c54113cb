"""The command that runs ADK's own command."""

import asyncio
import difflib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from gcp_adk_store.adk_server.services import missing_bucket, register
from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.terminal import visible
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
    # Imported here: it loads half of ADK.
    from google.adk.cli import main  # noqa: PLC0415

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
        told = f"unknown scheme {scheme[:40]}://" if scheme else "the scheme is missing"
        raise CannotLookError(f"--{option}: {told}; {hint}")


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
