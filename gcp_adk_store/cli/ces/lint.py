"""The command that checks an agent app."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.text import Text

from gcp_adk_store.cli.ces.options import app_in, app_option
from gcp_adk_store.cli.screen import CannotLookError, needs_ces, visible

if TYPE_CHECKING:
    from gcp_adk_store.ces.apps.findings import Finding


_COLORS: Final = {"error": "red", "warning": "yellow"}


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@app_option
@click.option("--ignore", metavar="CODE", multiple=True, help="Leave these out; may be given several times.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def lint(folder: Path, app_name: str | None, ignore: tuple[str, ...], *, as_json: bool) -> None:
    """Check the Python of an agent app, or of a folder of tools, without running it.

    DIR may also be a project that has the app in cxas_app/.

    Ends with 1 if it finds an error, with 2 if it cannot check the folder.
    """
    with needs_ces():
        from gcp_adk_store.ces.apps.findings import RULES  # noqa: PLC0415  # of the extra
        from gcp_adk_store.ces.apps.lint import lint_app  # noqa: PLC0415  # of the extra
        from gcp_adk_store.ces.apps.reading import read_app  # noqa: PLC0415  # of the extra
    unknown = sorted(set(ignore) - set(RULES))
    if unknown:
        raise CannotLookError(f"--ignore {unknown[0]}: unknown code; known: {', '.join(RULES)}")
    place = app_in(folder, app_name)
    app = read_app(place)
    if not (app.tools or app.callbacks or app.toolsets or app.problems):
        raise CannotLookError(f"{folder} has no Python of an agent app: expected tools/, agents/ or TOOL.py")
    found = [
        dataclasses.replace(each, path=str(place / each.path))  # where an editor finds it
        for each in lint_app(app)
        if each.code not in ignore
    ]
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in found]))
    else:
        _show(found, files=len(app.tools) + len(app.callbacks))
    sys.exit(any(each.severity == "error" for each in found))


def _show(found: "list[Finding]", *, files: int) -> None:
    console = Console(soft_wrap=True)
    for each in found:
        place = visible(f"{each.path}:{each.line}:{each.column}: ")
        severity = (each.severity, _COLORS[each.severity])
        console.print(Text.assemble(place, severity, f" {each.code}: {visible(each.says)}"))
        console.print(Text(f"    {visible(each.fix)}"))
    errors = sum(each.severity == "error" for each in found)
    summary = f"{files} tools and callbacks: {errors} errors, {len(found) - errors} warnings"
    console.print(summary, highlight=False)
