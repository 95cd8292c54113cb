"""Lint an app, run its tests and its evaluations, with reports for people and for machines."""

import importlib.util
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gcp_adk_store import ces
from gcp_adk_store.ces.testing.outcomes import Outcome, bounded
from gcp_adk_store.cli.ces import options
from gcp_adk_store.cli.screen import CannotLookError, Number, Result, cell, visible
from gcp_adk_store.imports import how_to_install

_ELEMENTS: Final = {"failed": "failure", "error": "error", "skipped": "skipped"}
_NO_XML: Final = {0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"}
_COLORS: Final = {"passed": "green", "failed": "red", "error": "red", "skipped": "yellow"}
_LEVEL_COLORS: Final = {"error": "red", "warning": "yellow"}


def junit_xml(outcomes: Sequence[Outcome], suite_name: str = "ces test") -> bytes:
    """Return *outcomes* as one suite; what XML cannot have, or controls a terminal, is escaped."""
    root = ET.Element("testsuites")
    took = sum(each.duration_s for each in outcomes)
    suite = ET.SubElement(root, "testsuite", name=suite_name, tests=str(len(outcomes)), time=f"{took:.3f}")
    for status, name in (("failed", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(sum(each.status == status for each in outcomes)))
    for each in outcomes:
        place = {"classname": each.subject or each.path, "name": each.name, "file": each.path}
        case = ET.SubElement(suite, "testcase", place, line=str(each.line), time=f"{each.duration_s:.3f}")
        if each.status in _ELEMENTS:
            says = "\n".join(each.says)
            ET.SubElement(case, _ELEMENTS[each.status], message=says.partition("\n")[0]).text = says
        if each.stdout:
            ET.SubElement(case, "system-out").text = each.stdout
    text = visible(ET.tostring(root, encoding="unicode")).replace("&#13;", r"\r").translate(_NO_XML)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}'.encode()


def report(outcomes: Sequence[Outcome], *, junit: Path | None, suite: str = "ces test") -> Result:
    """Return what the command shows of *outcomes*, as much as reports have; 1 is its status if a test failed.

    Raises:
        CannotLookError: all tests were skipped, or the file *junit* cannot be written.
    """
    shown = bounded(outcomes)
    if all(each.status == "skipped" for each in shown):
        raise CannotLookError("; ".join(["every test was skipped", *dict.fromkeys(shown[0].says)]))
    if junit is not None:
        try:
            junit.write_bytes(junit_xml(shown, suite))
        except OSError as exc:
            raise CannotLookError(f"{junit} cannot be written: {exc.strerror}") from exc
    failed = any(each.status in {"failed", "error"} for each in shown)
    return Result([asdict(each) for each in shown], _lines(shown), status=int(failed))


def _lines(outcomes: Sequence[Outcome]) -> list[RenderableType]:
    """Return *outcomes* as a table, and below it what is wrong."""
    table = Table("", "of", "test", "ms", box=None)
    table.columns[3].justify = "right"
    lines: list[RenderableType] = [table]
    for each in outcomes:
        status = Text(each.status, style=_COLORS[each.status])
        table.add_row(status, cell(each.subject), cell(each.name), f"{each.duration_s * 1000:,.0f}")
        if each.says:
            lines.append(visible(f"\n{each.path}:{each.line}: {each.name}"))
            lines += [f"  {visible(line)}" for text in each.says for line in text.splitlines()]
            if each.stdout:
                lines += ["  printed:", *(f"    {visible(line)}" for line in each.stdout.splitlines())]
    counts = Counter[str](each.status for each in outcomes)
    return [*lines, "", ", ".join(f"{counts[status]} {status}" for status in _COLORS if counts[status])]


@click.command(cls=options.RunsCode)
@options.of_app
@click.option(
    "--ignore",
    metavar="CODE",
    multiple=True,
    help="Rule to leave out, such as CES104; may be given several times.",
)
@options.json_option
def lint(folder: Path, app: Path, ignore: tuple[str, ...]) -> Result:
    """Check the Python of an agent app, or of a folder of tools, without running it.

    DIR may also be a project that has the app in cxas_app/.

    Ends with 1 if it finds an error, with 2 if it cannot check the folder.
    """
    from gcp_adk_store.ces.apps.findings import ERRORS, WARNINGS  # noqa: PLC0415  # of the extra

    known = sorted(ERRORS | WARNINGS)
    if unknown := sorted({*ignore} - {*known}):
        raise CannotLookError(f"--ignore {unknown[0]}: unknown code; known: {', '.join(known)}")
    read = ces.read_app(app)
    if not (read.tools or read.callbacks or read.toolsets or read.agents or read.problems):
        raise CannotLookError(f"{folder} has no Python of an agent app: expected tools/, agents/ or TOOL.py")
    found = [
        replace(each, path=str(app / each.path))  # where an editor finds it
        for each in ces.lint_app(read)
        if each.code not in ignore
    ]
    lines: list[RenderableType] = []
    for each in found:
        place = visible(f"{each.path}:{each.line}:{each.column}: ")
        severity = (each.severity, _LEVEL_COLORS[each.severity])
        lines.append(Text.assemble(place, severity, f" {each.code}: {visible(each.says)}"))
        lines.append(f"    {visible(each.fix)}")
    files, errors = len(read.tools) + len(read.callbacks), sum(each.severity == "error" for each in found)
    lines.append(f"{files} tools and callbacks: {errors} errors, {len(found) - errors} warnings")
    return Result([asdict(each) for each in found], lines, status=int(errors > 0))


_OF_TOOLS: Final = ("**/tool_tests/**",)
_OF_CALLBACKS: Final = ("agents/*/*_callbacks/*", "guardrails/**", "**/callback_tests/tests/**")
"""Where tests are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TestOptions(options.AppOptions):
    tests: Path | None = options.given(
        "Folder of the tests; by default all of the other DIR.", **options.FOLDER
    )
    only: str | None = options.given("Run these tests alone.", type=click.Choice(["tools", "callbacks"]))
    variables: dict[str, Any] = options.given(**options.DEFAULTS)
    junit: Path | None = options.given(**options.JUNIT)


@click.command("test", cls=options.RunsCode)
@options.of_app
@_TestOptions.given_to
@options.json_option
async def test(folder: Path, app: Path, *, chosen: _TestOptions) -> Result:
    """Run the tests of an agent app: of tools, in YAML, and of callbacks, in Python.

    Tests of tools are all YAML files in folders tool_tests; those of callbacks are the files test.py and
    test_*.py beside their python_code.py, which pytest runs in a sandbox that shows it the app. Ends
    with 1 if a test fails or is malformed, with 2 if no test is found, the tests cannot run, or
    the app has problems.
    """
    from gcp_adk_store.ces.testing.callback_checks import run_callback_tests  # noqa: PLC0415  # of the extra
    from gcp_adk_store.ces.testing.tool_tests import Checks, run_tool_tests  # noqa: PLC0415  # likewise

    place = chosen.tests or folder
    of_tools = _found(place, _OF_TOOLS, "*.yaml", "*.yml") if chosen.only != "callbacks" else []
    of_callbacks = _found(app, _OF_CALLBACKS, "test.py", "test_*.py") if chosen.only != "tools" else []
    if not (of_tools or of_callbacks):
        way_out = "put them into tool_tests/*.yaml, or into test.py beside python_code.py"
        raise CannotLookError(f"{place} has no tests: {way_out}")
    if of_callbacks and importlib.util.find_spec("pytest") is None:
        raise CannotLookError(f"callbacks are tested by pytest: {how_to_install('testing')}; or --only tools")
    read = chosen.read_app(app, allow_problems=chosen.allow_problems)
    async with chosen.opened_sandbox() as sandbox:
        checks = Checks(app=read, variables=chosen.variables, options=chosen.runtime(sandbox))
        outcomes = await run_tool_tests(checks, of_tools)
        outcomes += await run_callback_tests(checks, of_callbacks, walled=chosen.sandbox != "inprocess")
    return report(outcomes, junit=chosen.junit)


def _found(folder: Path, places: tuple[str, ...], *names: str) -> list[Path]:
    """Return the files of these *names* in the *places* of *folder*; both are patterns."""
    return sorted({path for place in places for name in names for path in folder.glob(f"{place}/{name}")})


_OTHERS: Final = frozenset(
    {"callback_tests", "eval-reports", "guardrail_tests", "scenarios", "simulations", "tool_tests"}
)
"""Folders beside evaluations. Their files are not evaluations, or need a model that plays the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _EvaluateOptions(options.TalkOptions):
    tests: Path | None = options.given(
        "Folder of the tests; by default evals/ of the project or the app, and evaluations/.",
        **options.FOLDER,
    )
    name: tuple[str, ...] = options.given(
        "Run the evaluation of this name; may be given several times.", "NAME", multiple=True
    )
    tag: tuple[str, ...] = options.given(
        "Run those with this tag; may be given several times.", "TAG", multiple=True
    )
    expected: bool = options.given(
        "Let the model reply as each golden turn expects, to test the callbacks and tools around it.",
        is_flag=True,
    )
    similar: float = options.given(
        "Least similarity of a text that passes; by default 0.8.", "SCORE", type=Number(0, 1), default=0.8
    )
    variables: dict[str, Any] = options.given(**options.DEFAULTS)
    junit: Path | None = options.given(**options.JUNIT)


@click.command("eval", cls=options.RunsCode)
@options.of_app
@_EvaluateOptions.given_to
@options.json_option
async def evaluate(folder: Path, app: Path, *, chosen: _EvaluateOptions) -> Result:
    """Run the evaluations of an agent app: golden conversations, and tests of turns.

    Each is a conversation of its own in memory. Ends with 1 if one fails or is malformed, with 2 if none is
    found, none can run, or the app has problems.
    """
    from gcp_adk_store.ces.testing import evaluation_runs  # noqa: PLC0415  # of the extra

    places = [chosen.tests] if chosen.tests is not None else _places(folder, app)
    files = [each for place in places for each in _files(place)]
    if not files:
        way_out = "put them into evals/goldens/*.yaml beside the app, or name their folder by --tests"
        raise CannotLookError(f"{chosen.tests or folder} has no evaluations: {way_out}")
    read = chosen.read_app(app, allow_problems=chosen.allow_problems, whole=True)
    found = evaluation_runs.selected(files, names=chosen.name, tags=chosen.tag)
    if not found:
        if chosen.name or chosen.tag:
            raise CannotLookError("no evaluation has such a name or tag")
        raise CannotLookError(f"the files, such as {files[0]}, have no golden, and no test of turns")
    async with chosen.opened_sandbox() as sandbox:
        given = {**chosen.conversation(sandbox), "use_fakes": chosen.fakes or read.uses_fakes}
        runs = evaluation_runs.EvaluationRuns(
            app=read,
            **_answering(read, chosen),
            options=given,
            variables=chosen.variables,
            similar=chosen.similar,
        )
        outcomes = await runs.run_all(found)
    return report(outcomes, junit=chosen.junit, suite="ces eval")


def _places(whole: Path, app: Path) -> list[Path]:
    """Return the folders that may have evaluations: of the project and of the app."""
    project = app.parent.parent if app.parent.name == "cxas_app" else whole
    found = (parent / name for parent in (project, whole, app) for name in ("evals", "evaluations"))
    return list(dict.fromkeys(place for place in found if place.is_dir()))


def _files(place: Path) -> list[Path]:
    """Return the files of evaluations in *place*: YAML, and the JSON of exports."""
    found = _found(place, ("**",), "*.yaml", "*.yml", "*.json")
    others = {path for path in found if _OTHERS & set(path.relative_to(place).parts[:-1])}
    return [path for path in found if path not in others and (path.suffix != ".json" or _is_exported(path))]


def _is_exported(path: Path) -> bool:
    return path.stem == path.parent.name and path.resolve().parent.parent.name == "evaluations"


def _answering(app: "ces.AgentApp", chosen: _EvaluateOptions) -> dict[str, Any]:
    """Return what answers, as the runs take it: a model, or scripts by name; neither with ``--expected``."""
    from gcp_adk_store.ces.conversation.models import as_model, read_script  # noqa: PLC0415  # of the extra

    if chosen.expected:
        if chosen.model or chosen.script:
            raise CannotLookError("give --expected without --model and --script")
        return {}
    scripts = None if chosen.script is None else read_script(chosen.script)
    if isinstance(scripts, dict) and not chosen.model:
        return {"scripts": scripts}
    named = chosen.chosen_model() or app.own_model
    if not named:
        raise CannotLookError("the app names no model; give --model")
    return {"model": as_model(named)}
