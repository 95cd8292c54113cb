"""The command that runs the tests of an agent app, also whenever files are saved."""

import dataclasses
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

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
from gcp_adk_store.cli.ces.reports import lcov, show_coverage, show_outcomes, write, write_junit
from gcp_adk_store.cli.extras import needs_ces
from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.cli.terminal import visible
from gcp_adk_store.errors import StoreError
from gcp_adk_store.imports import how_to_install

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

    from gcp_adk_store.ces.apps.layout import AgentApp
    from gcp_adk_store.ces.testing.outcomes import FileCoverage, Outcome


_SAVES: Final = frozenset({"created", "deleted", "modified", "moved"})
_SUFFIXES: Final = frozenset({".json", ".py", ".txt", ".yaml", ".yml"})
"""Of the files of an app; reports and bytecode have others."""
_QUIET_S: Final = 0.1
"""Editors write, rename and touch files for one save; a command may save several files."""

Saved = Callable[[], frozenset[Path]]
Once = Callable[[frozenset[Path] | None], bool]
"""Does the work that saved files concern, or all of it, and returns whether something failed."""


@contextmanager
def saved_files(*folders: Path) -> Iterator[Saved]:
    """Yield a function that waits until files in *folders* are saved or removed, and returns them.

    Files that are saved between two calls belong to the second.

    Raises:
        CannotLookError: the system watches no more files.
    """
    from watchdog.events import FileSystemEventHandler  # noqa: PLC0415  # a third of a second
    from watchdog.observers import Observer  # noqa: PLC0415  # likewise

    saved: SimpleQueue[Path] = SimpleQueue()

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: "FileSystemEvent") -> None:
            if event.event_type in _SAVES and not event.is_directory:
                for name in (event.src_path, event.dest_path):
                    path = Path(os.fsdecode(name))
                    if path.suffix in _SUFFIXES:
                        saved.put(path)

    observer = Observer()
    try:
        for folder in folders:
            observer.schedule(Handler(), str(folder), recursive=True)
        observer.start()
    except OSError as exc:
        raise CannotLookError(f"{folders[0]} cannot be watched: {exc.strerror}") from exc
    try:
        yield partial(_next, saved)
    finally:
        observer.stop()
        observer.join()


def again_and_again(once: Once, saved: Saved) -> bool:
    """Do all of the work, then what saved files concern, until Ctrl-C; return whether the last one failed."""
    failed, changed = False, None
    try:
        while True:
            try:
                failed = once(changed)
            except CannotLookError as exc:
                failed = True
                click.echo(visible(str(exc)), err=True)
            click.echo("waiting until a file is saved; Ctrl-C ends", err=True)
            changed = saved()
    except KeyboardInterrupt:
        return failed


def _next(saved: "SimpleQueue[Path]") -> frozenset[Path]:
    found = {saved.get()}
    with suppress(Empty):
        while True:
            found.add(saved.get(timeout=_QUIET_S))
    return frozenset(found)


@click.command("test")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@app_option
@tests_option("all of the other DIR")
@click.option("--only", type=click.Choice(["tools", "callbacks"]), help="Leave out the others.")
@defaults_option
@test_options
@json_option
@junit_option
@click.option("--coverage", is_flag=True, help="Show which lines of tools and callbacks the tests ran.")
@click.option(
    "--coverage-file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the coverage in the format of lcov.",
)
@click.option("--watch", is_flag=True, help="Run again what a saved file concerns, until Ctrl-C.")
def test(
    folder: Path,
    app_name: str | None,
    tests: Path | None,
    only: str | None,
    junit: Path | None,
    *,
    coverage: bool,
    coverage_file: Path | None,
    watch: bool,
    **given: Any,
) -> None:
    """Run the tests of an agent app: of tools, in YAML, and of callbacks, in Python.

    Tests of tools are all YAML files in folders tool_tests; those of callbacks are the files test.py and
    test_*.py beside their python_code.py, which pytest runs in a sandbox that shows it the app. Ends
    with 1 if a test fails or is malformed, with 2 if no test is found, the tests cannot run, or
    the app has problems. With --watch, the last run decides.
    """
    with needs_ces():
        import gcp_adk_store.ces.testing.tool_tests  # noqa: F401, PLC0415  # of the extra
    as_json, variables = given.pop("as_json"), given.pop("variables")

    def once(saved: frozenset[Path] | None) -> bool:
        with app_in(folder, app_name) as app:
            told = _run(
                app,
                Chosen(tools=app, **given),
                _Selection(tests=tests, only=only, saved=saved),
                whole=folder if folder.is_dir() else unpacked_folder(app),
                variables=variables,
                shown=folder,
                coverage=coverage or coverage_file is not None,
            )
        if junit is not None:
            write_junit(junit, told.outcomes)
        if coverage_file is not None:
            write(coverage_file, lcov(told.covered or []))
        _tell(told, as_json=as_json)
        return any(each.status in {"failed", "error"} for each in told.outcomes)

    if not watch:
        sys.exit(once(None))
    if not folder.is_dir():
        raise CannotLookError(f"{folder} is not a folder; --watch waits until files in it are saved")
    with saved_files(*filter(None, (folder, tests))) as saved:
        sys.exit(again_and_again(once, saved))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """Which tests to run."""

    tests: Path | None
    """The folder of those of tools."""
    only: str | None
    saved: frozenset[Path] | None
    """Only those that these files concern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What became of the tests, and of the code that they ran."""

    outcomes: "list[Outcome]"
    covered: "list[FileCoverage] | None"


def unpacked_folder(app: Path) -> Path:
    """Return the folder that an archive was unpacked into, in which *app* is."""
    from gcp_adk_store.ces.apps.files import UNPACKED  # noqa: PLC0415  # of the extra

    parents = {app, app.parent, app.parent.parent}
    return next(each for each in parents if each.name.startswith(UNPACKED))


def _run(
    app: Path,
    chosen: Chosen,
    selection: _Selection,
    *,
    whole: Path,
    variables: dict[str, Any],
    shown: Path,
    coverage: bool,
) -> _Told:
    """Return what became of the tests in a folder, or in *whole*, whose paths begin with *shown* then."""
    tests, only = selection.tests, selection.only
    of_tools = [] if only == "callbacks" else _tool_files(tests or whole)
    of_callbacks = [] if only == "tools" else _callback_files(app)
    if not (of_tools or of_callbacks):
        raise CannotLookError(
            f"{tests or shown} has no tests: put them into tool_tests/*.yaml, or into test.py beside "
            "python_code.py"
        )
    if of_callbacks and importlib.util.find_spec("pytest") is None:
        raise CannotLookError(f"callbacks are tested by pytest: {how_to_install('testing')}; or --only tools")
    try:
        told = until_interrupted(
            _outcomes(
                app,
                of_tools,
                of_callbacks,
                variables,
                chosen=chosen,
                selection=selection,
                coverage=coverage,
            )
        )
    except StoreError as exc:
        raise CannotLookError(str(exc)) from exc
    if told.outcomes and all(each.status == "skipped" for each in told.outcomes):
        raise CannotLookError(f"every test in {tests or shown} was skipped")

    from gcp_adk_store.ces.testing.outcomes import bounded  # noqa: PLC0415  # of the extra

    def named(path: str) -> str:
        return str(shown / Path(path).relative_to(whole)) if Path(path).is_relative_to(whole) else path

    return _Told(
        outcomes=bounded(dataclasses.replace(each, path=named(each.path)) for each in told.outcomes),
        covered=told.covered and [dataclasses.replace(each, path=named(each.path)) for each in told.covered],
    )


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
    *,
    chosen: Chosen,
    selection: _Selection,
    coverage: bool,
) -> _Told:
    from gcp_adk_store.ces.testing.callback_checks import CallbackChecks  # noqa: PLC0415  # of the extra
    from gcp_adk_store.ces.testing.concerns import callback_tests_of, tool_tests_of  # noqa: PLC0415  # likewise
    from gcp_adk_store.ces.testing.outcomes import Coverage  # noqa: PLC0415  # likewise
    from gcp_adk_store.ces.testing.tool_tests import ToolChecks  # noqa: PLC0415  # likewise

    app = chosen.read_sound_app(folder)
    if selection.saved is not None:
        of_tools = tool_tests_of(app, of_tools, selection.saved)
        of_callbacks = callback_tests_of(app, of_callbacks, selection.saved)
    measured = Coverage(_measured(app, selection.only)) if coverage else None
    async with chosen.opened_sandbox() as sandbox:
        shared: dict[str, Any] = {
            "app": app,
            "sandbox": sandbox,
            "http": chosen.http(),
            "settings": chosen.settings(),
            "variables": variables,
            "coverage": measured,
        }
        outcomes = await ToolChecks(files=of_tools, **shared).run()
        walled = chosen.sandbox != "inprocess"
        outcomes += await CallbackChecks(files=of_callbacks, walled=walled, **shared).run()
    return _Told(outcomes=outcomes, covered=None if measured is None else measured.files())


def _measured(app: "AgentApp", only: str | None) -> list[Path]:
    """Return the code whose coverage is wanted."""
    of_tools = [] if only == "callbacks" else [tool.path for tool in app.tools]
    return of_tools if only == "tools" else [*of_tools, *(callback.path for callback in app.callbacks)]


def _tell(told: _Told, *, as_json: bool) -> None:
    if not (as_json or told.outcomes):
        click.echo("no test concerns the saved files")
    elif not as_json:
        show_outcomes(told.outcomes)
        if told.covered is not None:
            click.echo()
            show_coverage(told.covered)
    if not as_json:
        return
    outcomes = [dataclasses.asdict(each) for each in told.outcomes]
    if told.covered is None:
        click.echo(json.dumps(outcomes))
        return
    covered = [{**dataclasses.asdict(each), "percent": round(each.percent, 1)} for each in told.covered]
    click.echo(json.dumps({"tests": outcomes, "coverage": covered}))
