"""Commands about templates."""

import asyncio
import dataclasses
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote

import click
from rich.table import Table
from rich.text import Text

from gcp_adk_store.cli.place import (
    IDS,
    command_line,
    imported,
    json_option,
    open_store,
    place_options,
    with_remedy,
)
from gcp_adk_store.cli.screen import CannotLookError, Result, cell, finish
from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import quoted
from gcp_adk_store.templates.lint import lint_template
from gcp_adk_store.templates.state import ADK_SETTINGS, TemplateSettings, made_of

_SHOWN: Final = 200
"""Characters of an argument in an error."""

_COLORS = {"state": "green", "artifact": "green", "unknown": "red", "literal": "yellow", "json": "yellow"}


@click.group()
def template() -> None:
    """Check instruction templates."""


@template.command()
@click.argument("source", metavar="FILE|MODULE:ATTRIBUTE")
@click.option(
    "--session",
    metavar="APP/USER/ID",
    help="Compare with the state and artifacts of this session; a / in an id is written %2F.",
)
@place_options
@click.option(
    "--extended", is_flag=True, help="Read dotted paths, {order.id}, and defaults, {tone|friendly}."
)
@click.option("--literal-braces", is_flag=True, help="Treat two braces or more as text.")
@json_option
def lint(
    *,
    source: str,
    session: str | None,
    extended: bool,
    literal_braces: bool,
    as_json: bool,
    **place: str | None,
) -> None:
    """List the placeholders of a template, and which of them are unknown or unexpected.

    Ends with 1 if a placeholder has an unknown name, with 2 if it cannot run.
    """
    text, settings = _template(source)
    if extended or literal_braces:
        braces: Literal["literal", "substitute"] = "literal" if literal_braces else settings.double_braces
        settings = dataclasses.replace(settings, extended=extended or settings.extended, double_braces=braces)
    with with_remedy():
        keys, names = (None, None) if session is None else asyncio.run(_known(session, place))
    findings = lint_template(text, state_keys=keys, filenames=names, settings=settings)
    table = Table("line", "column", "text", "kind", "", box=None)
    for each in findings:
        spot, kind = (f"{each.line}", f"{each.column}"), Text(each.kind, style=_COLORS[each.kind])
        table.add_row(*spot, cell(each.text), kind, cell(each.says))
    status = int(any(each.kind == "unknown" for each in findings))
    shown = table if findings else "no braces: the template is sent as it is"
    result = Result([dataclasses.asdict(each) for each in findings], [shown], status)
    finish(result, as_json=as_json)


def _template(source: str) -> tuple[str, TemplateSettings]:
    """Return the text of a file, or of an attribute of a module, which may be an agent's, and its rules."""
    if os.path.isfile(source):  # noqa: PTH113  # it raises no OSError, as for the text of a template itself
        try:
            return Path(source).read_text(encoding="utf-8"), ADK_SETTINGS
        except UnicodeDecodeError as exc:
            raise CannotLookError(f"{source} is not UTF-8: {exc.reason} at byte {exc.start}") from exc
        except OSError as exc:
            raise CannotLookError(f"{source} cannot be read: {exc.strerror}") from exc
    module, colon, attribute = source.partition(":")
    if not colon:
        shown = source if len(source) <= _SHOWN else f"{source[:_SHOWN]}..."
        raise CannotLookError(f"the file {shown} does not exist; name a file, or MODULE:ATTRIBUTE")
    try:
        found = imported(module, attribute)
    except (Exception, SystemExit) as exc:  # a module may raise anything, and scripts end
        says = str(exc) if isinstance(exc, ImportError | AttributeError) else repr(exc)
        raise CannotLookError(f"{source} cannot be imported: {says}") from exc
    text, settings = made_of(getattr(found, "instruction", found))
    if not isinstance(text, str):
        raise CannotLookError(f"{source} is not a text but a {type(text).__name__}")
    return text, settings


async def _known(session: str, place: Mapping[str, str | None]) -> tuple[set[str], set[str] | None]:
    """Return the state keys and the artifacts of a session."""
    ids = [unquote(part) for part in session.split("/")]
    if len(ids) != len(IDS):
        raise CannotLookError(f"--session {session} must be APP/USER/ID; write a / in an id as %2F")
    key: dict[str, Any] = dict(zip(IDS, ids, strict=True))
    from gcp_adk_store.artifacts.owners import names_for  # noqa: PLC0415  # brings half of ADK

    async with open_store(place, needs_project=False) as at:
        found = await at.store.sessions.get_session(**key)
        if found is None:
            of_user = f" --app {quoted(key['app_name'])} --user {quoted(key['user_id'])}"
            raise CannotLookError(
                f"the session {session} does not exist; list the sessions: "
                f"{command_line('sessions list', only=())}{of_user}"
            )
        names: set[str] | None = None
        if at.store.has_artifacts:
            names = set()
            with suppress(InvalidInputError):  # artifacts cannot have this user's id
                names = {*await names_for(at.store.artifacts, **key)}
    return set(found.state), names
