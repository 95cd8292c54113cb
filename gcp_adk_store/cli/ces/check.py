"""The command that runs the tests of an agent app."""

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gcp_adk_store.cli.ces.options import (
    Chosen,
    app_in,
    app_option,
    defaults_option,
    json_option,
    junit_option,
    test_options,
    tests_option,
    until_interrupted,
)
from gcp_adk_store.cli.ces.reports import show_outcomes, write_junit
from gcp_adk_store.cli.screen import CannotLookError, needs_ces
from gcp_adk_store.errors import StoreError
from gcp_adk_store.imports import how_to_install

if TYPE_CHECKING:
    from gcp_adk_store.ces.testing.outcomes import Outcome


@click.command("test")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@app_option
@tests_option("all of the other DIR")
@click.option("--only", type=click.Choice(["tools", "callbacks"]), help="Leave out the others.")
@defaults_option
@test_options
@json_option
@junit_option
def test(
    folder: Path,
    app_name: str | None,
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
    with needs_ces():
        import gcp_adk_store.ces.testing.tool_tests  # noqa: F401, PLC0415  # of the extra
    as_json, variables = given.pop("as_json"), given.pop("variables")

    app = app_in(folder, app_name)
    outcomes = _run(app, Chosen(tools=app, **given), tests, only, variables=variables, whole=folder)
    if junit is not None:
        write_junit(junit, outcomes)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in outcomes]))
    else:
        show_outcomes(outcomes)
    sys.exit(any(each.status in {"failed", "error"} for each in outcomes))


def _run(
    app: Path,
    chosen: Chosen,
    tests: Path | None,
    only: str | None,
    *,
    whole: Path,
    variables: dict[str, Any],
) -> "list[Outcome]":
    """Return what became of the tests in the folder *tests*, or in *whole*."""
    of_tools = [] if only == "callbacks" else _tool_files(tests or whole)
    of_callbacks = [] if only == "tools" else _callback_files(app)
    if not (of_tools or of_callbacks):
        raise CannotLookError(
            f"{tests or whole} has no tests: put them into tool_tests/*.yaml, or into test.py beside "
            "python_code.py"
        )
    if of_callbacks and importlib.util.find_spec("pytest") is None:
        raise CannotLookError(f"callbacks are tested by pytest: {how_to_install('testing')}; or --only tools")
    try:
        outcomes = until_interrupted(_outcomes(app, of_tools, of_callbacks, variables, chosen))
    except StoreError as exc:
        raise CannotLookError(str(exc)) from exc
    if outcomes and all(each.status == "skipped" for each in outcomes):
        raise CannotLookError(f"every test in {tests or whole} was skipped")

    from gcp_adk_store.ces.testing.outcomes import bounded  # noqa: PLC0415  # of the extra

    return bounded(outcomes)


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
    chosen: Chosen,
) -> "list[Outcome]":
    from gcp_adk_store.ces.testing.callback_checks import CallbackChecks  # noqa: PLC0415  # of the extra
    from gcp_adk_store.ces.testing.tool_tests import ToolChecks  # noqa: PLC0415  # likewise

    app = chosen.read_sound_app(folder)
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
