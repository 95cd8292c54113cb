"""Commands about templates."""

import asyncio
import dataclasses
import importlib
import json
import sys
from pathlib import Path
from urllib.parse import unquote

import click
from rich.table import Table
from rich.text import Text

from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.screen import cell, show
from gcp_adk_store.errors import StoreError
from gcp_adk_store.store import Store
from gcp_adk_store.templates.lint import Finding, lint_template
from gcp_adk_store.templates.state import TemplateSettings

_COLORS = {"state": "green", "artifact": "green", "unknown": "red", "literal": "yellow", "json": "yellow"}


@click.group()
def template() -> None:
    """Look at instruction templates."""


@template.command()
@click.argument("source", metavar="FILE|MODULE:ATTRIBUTE")
@click.option(
    "--session",
    metavar="APP/USER/ID",
    help="Compare with the state and artifacts of this session; a / in an id is written %2F. "
    "ADK_STORE_PROJECT, _DATABASE, _BUCKET and _PREFIX say where it is.",
)
@click.option("--extended", is_flag=True, help="Read dotted paths and defaults.")
@click.option("--literal-braces", is_flag=True, help="Two braces or more stand for themselves.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def lint(source: str, session: str | None, extended: bool, literal_braces: bool, as_json: bool) -> None:  # noqa: FBT001  # click's
    """List the placeholders of a template, and its surprises.

    Ends with 1 if a placeholder has an unknown name, with 2 if it cannot look.
    """
    text = _template(source)
    settings = TemplateSettings(
        extended=extended, double_braces="literal" if literal_braces else "substitute"
    )
    keys: set[str] | None = None
    names: set[str] | None = None
    if session is not None:
        try:
            keys, names = asyncio.run(_known(session))
        except StoreError as exc:
            raise CannotLookError(str(exc)) from exc
    findings = lint_template(text, state_keys=keys, filenames=names, settings=settings)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], ensure_ascii=False))
    else:
        _show(findings)
    sys.exit(any(finding.kind == "unknown" for finding in findings))


def _template(source: str) -> str:
    """Return the text of a file, or of an attribute of a module, which may be an agent's."""
    path = Path(source)
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as exc:
            raise CannotLookError(f"{source} is no UTF-8: {exc.reason} at byte {exc.start}") from exc
    module, colon, attribute = source.partition(":")
    if not colon:
        raise CannotLookError(f"the file {source} does not exist; name a file, or MODULE:ATTRIBUTE")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the current folder, as for python -m
    try:
        found = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, ValueError, TypeError) as exc:
        raise CannotLookError(f"{source} cannot be imported: {exc}") from exc
    text = getattr(found, "instruction", found)
    if not isinstance(text, str):
        raise CannotLookError(f"{source} is not a text but a {type(text).__name__}")
    return text


async def _known(session: str) -> tuple[set[str], set[str] | None]:
    """Return the state keys and the artifacts of a session."""
    ids = [unquote(part) for part in session.split("/")]
    if len(ids) != 3:  # noqa: PLR2004  # app, user and id
        raise CannotLookError(f"--session {session} must be APP/USER/ID; write a / in an id as %2F")
    app, user, session_id = ids
    async with Store.from_env() as store:
        found = await store.sessions.get_session(app_name=app, user_id=user, session_id=session_id)
        if found is None:
            raise CannotLookError(
                f"the session {session} does not exist; list_sessions shows the existing ones"
            )
        if not store.has_artifacts:
            return set(found.state), None
        names = await store.artifacts.list_artifact_keys(app_name=app, user_id=user, session_id=session_id)
    return set(found.state), set(names)


def _show(findings: list[Finding]) -> None:
    table = Table("line", "column", "text", "kind", "", box=None)
    for finding in findings:
        color = _COLORS[finding.kind]
        table.add_row(
            f"{finding.line}",
            f"{finding.column}",
            cell(finding.text),
            Text(finding.kind, style=color),
            cell(finding.says),
        )
    show(table if findings else "no braces: the template is sent as it is")
