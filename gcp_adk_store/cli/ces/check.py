"""Lint an app and run its tests, with reports for people and for machines."""

import dataclasses
import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn
from xml.etree import ElementTree as ET

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gcp_adk_store import ces
from gcp_adk_store.cli.ces import options
from gcp_adk_store.cli.place import json_option
from gcp_adk_store.cli.screen import CannotLookError, cell, show, visible
from gcp_adk_store.imports import how_to_install

if TYPE_CHECKING:
    from gcp_adk_store.ces.testing.outcomes import Outcome


_ELEMENTS: Final = {"failed": "failure", "error": "error", "skipped": "skipped"}
_NO_XML: Final = {0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"}


def junit_xml(outcomes: "Sequence[Outcome]", suite_name: str = "ces test") -> bytes:
    """Return *outcomes* as one suite, in UTF-8; characters that XML cannot have are escaped."""
    counts = {name: sum(each.status == status for each in outcomes) for status, name in _ELEMENTS.items()}
    suite = ET.Element(
        "testsuite",
        name=suite_name,
        tests=str(len(outcomes)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time=f"{sum(each.duration_s for each in outcomes):.3f}",
    )
    for each in outcomes:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=xml_text(each.subject or each.path),
            name=xml_text(each.name),
            file=xml_text(each.path),
            line=str(each.line),
            time=f"{each.duration_s:.3f}",
        )
        if each.status in _ELEMENTS:
            says = xml_text("\n".join(each.says))
            ET.SubElement(case, _ELEMENTS[each.status], message=says.partition("\n")[0]).text = says
        if each.stdout:
            ET.SubElement(case, "system-out").text = xml_text(each.stdout)
    root = ET.Element("testsuites")
    root.append(suite)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def xml_text(text: str) -> str:
    """Return *text* without characters that XML cannot have, or that control a terminal."""
    return visible(text).translate(_NO_XML)


_COLORS: Final = {"passed": "green", "failed": "red", "error": "red", "skipped": "yellow"}


def report(
    work: "Coroutine[Any, Any, list[Outcome]]", *, junit: Path | None, as_json: bool, suite: str = "ces test"
) -> NoReturn:
    """Show what comes of *work*, as much as reports have, and end the command: with 1 if a test failed.

    Raises:
        CannotLookError: all tests were skipped, or the file *junit* cannot be written.
    """
    from gcp_adk_store.ces.testing.outcomes import bounded  # noqa: PLC0415  # of the extra

    shown = bounded(options.until_interrupted(work))
    if all(each.status == "skipped" for each in shown):
        raise CannotLookError("; ".join(["every test was skipped", *dict.fromkeys(shown[0].says)]))
    if junit is not None:
        try:
            junit.write_bytes(junit_xml(shown, suite))
        except OSError as exc:
            raise CannotLookError(f"{junit} cannot be written: {exc.strerror}") from exc
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in shown]))
    else:
        _show_outcomes(shown)
    sys.exit(any(each.status in {"failed", "error"} for each in shown))


def _show_outcomes(outcomes: "list[Outcome]") -> None:
    """Print *outcomes* as a table, and below it what is wrong."""
    table = Table("", "of", "test", "ms", box=None)
    table.columns[3].justify = "right"
    for each in outcomes:
        status = Text(each.status, style=_COLORS[each.status])
        table.add_row(status, cell(each.subject), cell(each.name), f"{each.duration_s * 1000:,.0f}")
    show(table)
    for each in outcomes:
        if each.says:
            click.echo(visible(f"\n{each.path}:{each.line}: {each.name}"))
            for text in each.says:
                click.echo("\n".join(f"  {visible(line)}" for line in text.splitlines()))
            if each.stdout:
                printed = (f"    {visible(line)}" for line in each.stdout.splitlines())
                click.echo("\n".join(("  printed:", *printed)))
    counts = Counter[str](each.status for each in outcomes)
    click.echo()
    show(Text(", ".join(f"{counts[status]} {status}" for status in _COLORS if counts[status])))


_LEVEL_COLORS: Final = {"error": "red", "warning": "yellow"}


@click.command(cls=options.RunsCode)
@options.of_app
@click.option(
    "--ignore",
    metavar="CODE",
    multiple=True,
    help="Rule to leave out, such as CES104; may be given several times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def lint(folder: Path, app: Path, ignore: tuple[str, ...], *, as_json: bool) -> None:
    """Check the Python of an agent app, or of a folder of tools, without running it.

    DIR may also be a project that has the app in cxas_app/.

    Ends with 1 if it finds an error, with 2 if it cannot check the folder.
    """
    from gcp_adk_store.ces.apps.findings import RULES  # noqa: PLC0415  # of the extra

    unknown = sorted(set(ignore) - set(RULES))
    if unknown:
        raise CannotLookError(f"--ignore {unknown[0]}: unknown code; known: {', '.join(RULES)}")
    read = ces.read_app(app)
    if not (read.tools or read.callbacks or read.toolsets or read.problems):
        raise CannotLookError(f"{folder} has no Python of an agent app: expected tools/, agents/ or TOOL.py")
    found = [
        dataclasses.replace(each, path=str(app / each.path))  # where an editor finds it
        for each in ces.lint_app(read)
        if each.code not in ignore
    ]
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in found]))
    else:
        _show(found, files=len(read.tools) + len(read.callbacks))
    sys.exit(any(each.severity == "error" for each in found))


def _show(found: "list[ces.Finding]", *, files: int) -> None:
    console = Console(soft_wrap=True)
    for each in found:
        place = visible(f"{each.path}:{each.line}:{each.column}: ")
        severity = (each.severity, _LEVEL_COLORS[each.severity])
        console.print(Text.assemble(place, severity, f" {each.code}: {visible(each.says)}"))
        console.print(Text(f"    {visible(each.fix)}"))
    errors = sum(each.severity == "error" for each in found)
    summary = f"{files} tools and callbacks: {errors} errors, {len(found) - errors} warnings"
    console.print(summary, highlight=False)


@click.command("test", cls=options.RunsCode)
@options.of_app
@options.tests_option("all of the other DIR")
@click.option("--only", type=click.Choice(["tools", "callbacks"]), help="Run these tests alone.")
@options.defaults_option
@options.test_options
@json_option
@options.junit_option
def test(
    folder: Path,
    app: Path,
    tests: Path | None,
    only: str | None,
    junit: Path | None,
    **given: Any,
) -> None:
    """Run the tests of an agent app: of tools, in YAML, and of callbacks, in Python.

    Tests of tools are all YAML files in folders tool_tests; those of callbacks are the files test.py and
    test_*.py beside their python_code.py, which pytest runs in a sandbox that shows it the app. Ends
    with 1 if a test fails or is malformed, with 2 if no test is found, the tests cannot run, or
    the app has problems.
    """
    as_json, variables = given.pop("as_json"), given.pop("variables")
    place = tests or folder
    of_tools = [] if only == "callbacks" else _tool_files(place)
    of_callbacks = [] if only == "tools" else _callback_files(app)
    if not (of_tools or of_callbacks):
        raise CannotLookError(
            f"{place} has no tests: put them into tool_tests/*.yaml, or into test.py beside python_code.py"
        )
    if of_callbacks and importlib.util.find_spec("pytest") is None:
        raise CannotLookError(f"callbacks are tested by pytest: {how_to_install('testing')}; or --only tools")
    work = _outcomes(app, of_tools, of_callbacks, variables, options.Chosen(**given))
    report(work, junit=junit, as_json=as_json)


def _tool_files(folder: Path) -> list[Path]:
    found = [path for suffix in ("yaml", "yml") for path in folder.rglob(f"*.{suffix}")]
    return sorted(path for path in found if "tool_tests" in path.relative_to(folder).parts[:-1])


def _callback_files(folder: Path) -> list[Path]:
    beside = folder.glob("agents/*/*_callbacks/*/test*.py")
    guarding = folder.glob("guardrails/**/test*.py")
    apart = folder.rglob("callback_tests/tests/**/test*.py")
    return sorted(
        {
            path
            for path in (*beside, *guarding, *apart)
            if path.stem == "test" or path.stem.startswith("test_")
        }
    )


async def _outcomes(
    folder: Path,
    of_tools: list[Path],
    of_callbacks: list[Path],
    variables: dict[str, Any],
    chosen: options.Chosen,
) -> "list[Outcome]":
    from gcp_adk_store.ces.testing.callback_checks import CallbackChecks  # noqa: PLC0415  # of the extra
    from gcp_adk_store.ces.testing.tool_tests import ToolChecks  # noqa: PLC0415  # likewise

    app = chosen.read_app(folder)
    async with chosen.opened_sandbox() as sandbox:
        shared: dict[str, Any] = {
            "app": app,
            "sandbox": sandbox,
            "http": chosen.http(),
            "settings": chosen.settings(),
            "variables": variables,
        }
        outcomes = await ToolChecks(files=of_tools, **shared).run()
        walled = chosen.sandbox != "inprocess"
        outcomes += await CallbackChecks(files=of_callbacks, walled=walled, **shared).run()
    return outcomes
