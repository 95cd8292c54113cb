"""The commands that run a tool, or callbacks, on a session."""

import ast
import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.text import Text

from gcp_adk_store import ces
from gcp_adk_store.ces.guest.contract import CALLBACKS, SUBJECTS, subjects_of
from gcp_adk_store.ces.guest.scanning import UNREADABLE, scan
from gcp_adk_store.cli.ces import options
from gcp_adk_store.cli.place import PLACE, open_store, place_options
from gcp_adk_store.cli.screen import CannotLookError, visible

if TYPE_CHECKING:
    from google.adk.artifacts import BaseArtifactService
    from google.adk.sessions import BaseSessionService, Session

    from gcp_adk_store.ces.host.results import Call, Run, RunFailure

_UNKNOWN_TOOL: Final = "UnknownToolError"


def _session_options(command: options.Command) -> options.Command:
    return options.with_options(
        command,
        click.option(
            "--session",
            metavar="APP/USER/ID",
            help="Run on this session, which keeps what changes; a / in an id is written %2F. "
            "Without it the run is not stored.",
        ),
        click.option("--create", is_flag=True, help="Create that session."),
        click.option("--dry-run", is_flag=True, help="Run on a copy of that session, which is not stored."),
        options.object_option(
            "--variables", help="Variables of a new session, or of one that is not stored."
        ),
        click.option(
            "--said", metavar="TEXT", help="What the user says first; it is appended to the session."
        ),
        options.mocks_option,
        place_options,
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    )


@click.command("run-tool", cls=options.RunsCode)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="FUNCTION", help="The tool's function; by default the file's first.")
@options.object_option("--args", default="{}", help="Arguments of the tool; by default none.")
@options.runtime_options
@_session_options
def run_tool(file: Path, name: str | None, args: dict[str, Any], **given: Any) -> None:
    """Run a Python tool, and show its response, output, host calls and changes.

    Ends with 1 if the code fails, with 2 if it cannot run.
    """

    async def work(runtime: "ces.PythonRuntime", place: _Place, invocation_id: str) -> "ces.ToolRun":
        code = ces.load_code(file)
        entry = name or _first_function(code.source) or file.stem
        run = await runtime.run_tool(code, entry, args, place.key, invocation_id=invocation_id)
        return await run.finished()

    _carry_out(work, **given)


@click.command("run-callback", cls=options.RunsCode)
@click.argument("kind", metavar="KIND", type=click.Choice(CALLBACKS))
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.object_option("--llm-request", help="Request for before_model; by default empty.")
@options.object_option("--llm-response", help="Response for after_model.")
@click.option("--tool", metavar="NAME", help="Name of the tool, for before_tool and after_tool.")
@options.object_option("--args", help="Arguments of that tool; by default none.")
@options.object_option("--tool-response", help="Response of that tool, for after_tool.")
@options.runtime_options
@_session_options
def run_callback(kind: str, files: tuple[Path, ...], **given: Any) -> None:
    """Run callbacks of one kind in their order, and show what they return and change.

    KIND is before_agent, after_agent, before_model, after_model, before_tool or after_tool, or, of a
    guardrail, before_agent_guardrail and so on.

    Ends with 1 if the code fails, with 2 if it cannot run.
    """
    about = _about(kind, {name: given.pop(name) for name in SUBJECTS})

    async def work(runtime: "ces.PythonRuntime", place: _Place, invocation_id: str) -> "ces.CallbackRun":
        codes = [ces.load_code(file) for file in files]
        return await runtime.run_callback(kind, codes, place.key, invocation_id=invocation_id, **about)

    _carry_out(work, **given)


_IN_MEMORY: Final = "local/local"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What code runs on."""

    sessions: "BaseSessionService"
    artifacts: "BaseArtifactService | None"
    key: "ces.SessionKey"
    session: "Session"
    """As it is before the run."""
    where: str
    """The place of the session, for display."""
    kept: bool
    """Whether what changes is."""


@asynccontextmanager
async def _opened(
    session: str | None,
    *,
    at: Mapping[str, str | None],
    create: bool,
    dry_run: bool,
    variables: Mapping[str, Any] | None,
) -> AsyncIterator[_Place]:
    """Open the session that is named, one in memory, or with *dry_run* a copy in memory of the one named.

    *at* are the options of :func:`~gcp_adk_store.cli.place.place_options`, which name the store.

    Raises:
        CannotLookError: the session does not exist, or it exists although *create* is set.
    """
    from google.adk.sessions import Session  # noqa: PLC0415  # half of ADK

    if session is None:
        key = ces.SessionKey.of(f"{_IN_MEMORY}/{uuid.uuid4().hex}")
        made = Session(id=key.session, app_name=key.app, user_id=key.user, state=dict(variables or {}))
        memory, made = await _copy_of(made)
        yield _Place(sessions=memory, artifacts=None, key=key, session=made, where="", kept=False)
        return
    key = options.key_of(session)
    if dry_run and create:
        raise CannotLookError("--dry-run makes no session: leave out --create, or run without --session")
    if variables is not None and not create:
        raise CannotLookError("--variables is for a new session: add --create, or leave out --session")
    async with open_store(at) as opened_store:
        store, where = opened_store.store, opened_store.where
        found = await store.sessions.get_session(**key.names)
        if found is None and not create:
            raise CannotLookError(f"the session {session} does not exist in {where}; create it with --create")
        if found is not None and create:
            raise CannotLookError(f"the session {session} exists already; leave out --create")
        if found is None:
            found = await store.sessions.create_session(**key.names, state=dict(variables or {}))
        sessions: BaseSessionService = store.sessions
        if dry_run:
            sessions, found = await _copy_of(found)
        artifacts = store.artifacts if store.has_artifacts else None
        yield _Place(
            sessions=sessions,
            artifacts=artifacts,
            key=key,
            session=found,
            where=f"{session} in {where}",
            kept=not dry_run,
        )


async def _copy_of(found: "Session") -> "tuple[BaseSessionService, Session]":
    """Return *found* in a service of its own, which is forgotten."""
    from google.adk.sessions import InMemorySessionService  # noqa: PLC0415  # half of ADK

    memory = InMemorySessionService()
    whose: dict[str, Any] = {"app_name": found.app_name, "user_id": found.user_id}
    copy = await memory.create_session(**whose, session_id=found.id, state=dict(found.state))
    for event in found.events:
        await memory.append_event(copy, event.model_copy(deep=True))
    # Of what sessions share, events have what it was then.
    shared = {name: value for name, value in found.state.items() if name.startswith(("app:", "user:"))}
    await memory.create_session(**whose, state=shared)
    read = await memory.get_session(**whose, session_id=found.id)
    return memory, read or copy


def _about(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of callbacks of *kind*; raise a CannotLookError if one is missing."""
    about: dict[str, Any] = {"llm_request": {}, "args": {}}
    about |= {name: value for name, value in given.items() if value is not None}
    for name in subjects_of(kind):
        if name not in about:
            raise CannotLookError(f"{kind} callbacks need --{name.replace('_', '-')}")
    return {name: value for name, value in about.items() if name in subjects_of(kind)}


def _carry_out(
    work: "Callable[[ces.PythonRuntime, _Place, str], Awaitable[Run]]",
    *,
    session: str | None,
    create: bool,
    dry_run: bool,
    variables: dict[str, Any] | None,
    said: str | None,
    mocks: dict[str, Any] | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Do *work*, show its result, and end the command."""
    from google.adk.events import Event  # noqa: PLC0415  # half of ADK
    from google.genai import types  # noqa: PLC0415  # likewise

    from gcp_adk_store.ces.host.session_context import visible as seen_by_code  # noqa: PLC0415  # of the extra
    from gcp_adk_store.ces.sandbox.interface import SandboxRunError  # noqa: PLC0415  # likewise

    at, folder = {name: chosen.pop(name) for name in PLACE}, chosen.pop("tools")

    async def run() -> "tuple[_Place, Mapping[str, Any], Run]":
        async with _opened(session, at=at, create=create, dry_run=dry_run, variables=variables) as place:
            invocation_id = f"ces-{uuid.uuid4().hex}"
            if said is not None:
                content = types.Content(role="user", parts=[types.Part(text=said)])
                event = Event(author="user", invocation_id=invocation_id, content=content)
                await place.sessions.append_event(place.session, event)
            asked = options.Chosen(**chosen, allow_problems=True)
            tools = [] if folder is None else ces.load_tools(asked.read_app(folder))
            given = asked.runtime(mocks)
            before = seen_by_code(place.session.state, shared=given["settings"].shared_variables)
            async with ces.PythonRuntime(
                place.sessions, artifact_service=place.artifacts, tools=tools, **given
            ) as runtime:
                return place, before, await work(runtime, place, invocation_id)

    try:
        place, before, ran = options.until_interrupted(run())
    except SandboxRunError as exc:
        _show_end(exc, as_json=as_json)
        sys.exit(1)
    if ran.error is not None and ran.error.type == _UNKNOWN_TOOL and folder is None:
        click.echo("--tools DIR names the app that has the tools", err=True)
    if as_json:
        click.echo(json.dumps(asdict(ran), default=sorted))
    else:
        _show(place, before, ran)
    sys.exit(not ran.ok)


def _show_end(exc: Any, *, as_json: bool) -> None:
    """Show the error of code that has no result."""
    if as_json:
        error = {"type": type(exc).__name__, "message": str(exc), "traceback": ""}
        click.echo(json.dumps({"error": error, "stdout": exc.output}))
        return
    if exc.output:
        click.echo(visible(exc.output))
    click.echo(visible(f"{type(exc).__name__}: {exc}"), err=True)


def _show(place: _Place, before: Mapping[str, Any], ran: "Run") -> None:
    console = Console(soft_wrap=True)
    for title, lines in (
        ("session", _kept(place, ran)),
        ("printed", ran.stdout.rstrip("\n").splitlines()),
        *_of_kind(ran),
        ("variables", _changes(before, ran.variables)),
        ("calls", [line for each in ran.calls for line in _call(each)]),
        ("warnings", list(ran.warnings)),
    ):
        if lines:
            console.print(Text(title, style="bold"))
            for line in lines:
                console.print(Text(f"  {visible(line)}"))
    if ran.error is not None:
        click.echo(visible(_shown(ran.error)), err=True)


def _shown(error: "RunFailure") -> str:
    """Return the traceback; of what the code has no line of, what it says."""
    traceback = error.traceback.rstrip("\n")
    return traceback if '  File "' in traceback else str(error)


def _kept(place: _Place, ran: "Run") -> list[str]:
    """Return the session, and whether it changed."""
    if not place.where:
        return []
    if not place.kept:
        return [f"{place.where}: a copy, not stored"]
    return [f"{place.where}: {'unchanged' if ran.event_id is None else 'changed'}"]


def _of_kind(ran: Any) -> list[tuple[str, list[str]]]:
    """Return what only a tool, or only callbacks, have."""
    if hasattr(ran, "response"):
        return [("response", [] if ran.response is None else _pretty(ran.response))]
    shown = []
    if ran.override is not None:
        shown.append((f"override by callback {ran.overridden_by + 1}", _pretty(ran.override)))
    elif ran.ok:
        shown.append(("override", ["none"]))
    shown += [(f"{name}, changed", _pretty(getattr(ran, name))) for name in sorted(ran.changed)]
    return shown


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    changed = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in after.items()
        if name not in before or json.dumps(before[name]) != json.dumps(value)
    ]
    return [*changed, *(f"{name} removed" for name in before if name not in after)]


def _call(call: "Call") -> list[str]:
    asked = call.asked.get("url", "") if call.kind == "http" else json.dumps(call.asked, ensure_ascii=False)
    said = f"{call.kind} {call.name} {asked}: {call.status_code} {call.reason}".rstrip()
    shown = [said + (", mocked" if call.mocked else "")]
    shown += [f"  {line}" for line in call.stdout.rstrip("\n").splitlines()]
    return (
        shown
        if call.error is None
        else [*shown, *(f"  {line}" for line in call.error.traceback.splitlines())]
    )


def _pretty(value: Mapping[str, Any]) -> list[str]:
    return json.dumps(value, ensure_ascii=False, indent=2).splitlines()


def _first_function(source: str) -> str | None:
    try:
        functions = scan(ast.parse(source)).functions
    except UNREADABLE:
        return None  # the run reports the error
    return next(iter(functions), None)
