"""The commands that run a tool, or callbacks, on a session."""

import ast
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import RenderableType
from rich.text import Text

from gcp_adk_store import ces
from gcp_adk_store.ces.guest.contract import CALLBACKS, SUBJECTS, subjects_of
from gcp_adk_store.ces.guest.scanning import UNREADABLE, scan
from gcp_adk_store.ces.sandbox.interface import SandboxRunError
from gcp_adk_store.cli.ces import options
from gcp_adk_store.cli.place import open_store, place_options
from gcp_adk_store.cli.screen import CannotLookError, Result, visible

if TYPE_CHECKING:
    from google.adk.artifacts import BaseArtifactService
    from google.adk.sessions import BaseSessionService, Session

    from gcp_adk_store.ces.host.results import Call, Run, RunFailure

_UNKNOWN_TOOL: Final = "UnknownToolError"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options(options.CodeOptions):
    tools: Path | None = options.given(
        "App, or folder of tools, whose tools the code may call.", **options.FOLDER
    )
    session: "ces.SessionKey | None" = options.given(
        "Run on this session, which keeps what changes; a / in an id is written %2F. Without it the run is "
        "not stored.",
        **options.SESSION,
    )
    create: bool = options.given("Create that session.", is_flag=True)
    dry_run: bool = options.given("Run on a copy of that session, which is not stored.", is_flag=True)
    variables: dict[str, Any] | None = options.given(
        "Variables of a new session, or of one that is not stored.", **options.OBJECT
    )
    said: str | None = options.given("What the user says first; it is appended to the session.", "TEXT")


@click.command("run-tool", cls=options.RunsCode)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="FUNCTION", help="The tool's function; by default the file's first.")
@click.option("--args", default="{}", help="Arguments of the tool; by default none.", **options.OBJECT)
@_Options.given_to
@place_options
@options.json_option
async def run_tool(
    file: Path, name: str | None, args: dict[str, Any], *, chosen: _Options, **at: str | None
) -> Result:
    """Run a Python tool, and show its response, output, host calls and changes.

    Ends with 1 if the code fails, with 2 if it cannot run.
    """
    code = ces.load_code(file)
    entry = name or _first_function(code.source) or file.stem
    return await _carried_out(ces.PythonRuntime.run_tool, (code, entry, args), chosen, at)


@click.command("run-callback", cls=options.RunsCode)
@click.argument("kind", metavar="KIND", type=click.Choice(CALLBACKS))
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--llm-request", default="{}", help="Request for before_model; by default empty.", **options.OBJECT
)
@click.option("--llm-response", help="Response for after_model.", **options.OBJECT)
@click.option("--tool", metavar="NAME", help="Name of the tool, for before_tool and after_tool.")
@click.option("--args", default="{}", help="Arguments of that tool; by default none.", **options.OBJECT)
@click.option("--tool-response", help="Response of that tool, for after_tool.", **options.OBJECT)
@_Options.given_to
@place_options
@options.json_option
async def run_callback(kind: str, files: tuple[Path, ...], *, chosen: _Options, **given: Any) -> Result:
    """Run callbacks of one kind in their order, and show what they return and change.

    KIND is before_agent, after_agent, before_model, after_model, before_tool or after_tool, or, of a
    guardrail, before_agent_guardrail and so on.

    Ends with 1 if the code fails, with 2 if it cannot run.
    """
    subjects = {name: given.pop(name) for name in SUBJECTS}
    about = {name: subjects[name] for name in subjects_of(kind)}
    if missing := [name.replace("_", "-") for name, value in about.items() if value is None]:
        raise CannotLookError(f"{kind} callbacks need --{missing[0]}")
    if others := [name.replace("_", "-") for name in SUBJECTS if subjects[name] and name not in about]:
        raise CannotLookError(f"{kind} callbacks take no --{others[0]}")
    codes = [ces.load_code(file) for file in files]
    return await _carried_out(ces.PythonRuntime.run_callback, (kind, codes), chosen, given, **about)


_Service = tuple["BaseSessionService", "Session"]
"""A service, and the session that code runs on, as it is before the run."""


@asynccontextmanager
async def _opened(
    chosen: _Options, at: Mapping[str, str | None]
) -> AsyncIterator[tuple[_Service, "BaseArtifactService | None", str]]:
    """Open the session that is named, one in memory, or for a dry run a copy in memory of the one named.

    The block gets it, the service of its artifacts, and its place for display, empty for none.
    *at* are the options of :func:`~gcp_adk_store.cli.place.place_options`, which name the store.

    Raises:
        CannotLookError: the session does not exist, or it exists and is to be created.
    """
    from google.adk.sessions import Session  # noqa: PLC0415  # half of ADK

    state = chosen.variables or {}
    if chosen.session is None:
        if chosen.create or chosen.dry_run:
            name = "--create" if chosen.create else "--dry-run"
            raise CannotLookError(f"{name} is about a stored session: name one by --session")
        session = Session(id=uuid.uuid4().hex, app_name="local", user_id="local", state=state)
        yield await _copy_of(session), None, ""
        return
    names = chosen.session.names
    if chosen.dry_run and chosen.create:
        raise CannotLookError("--dry-run makes no session: leave out --create, or run without --session")
    if chosen.variables is not None and not chosen.create:
        raise CannotLookError("--variables is for a new session: add --create, or leave out --session")
    async with open_store(at) as opened:
        store, where = opened.store, f"{chosen.session} in {opened.where}"
        found = await store.sessions.get_session(**names)
        if found is None and not chosen.create:
            raise CannotLookError(f"the session {where} does not exist; create it with --create")
        if found is not None and chosen.create:
            raise CannotLookError(f"there is a session {where} already; leave out --create")
        session = found or await store.sessions.create_session(**names, state=state)
        artifacts = store.artifacts if store.has_artifacts else None
        yield await _copy_of(session) if chosen.dry_run else (store.sessions, session), artifacts, where


async def _copy_of(found: "Session") -> _Service:
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


async def _carried_out(
    run: "Callable[..., Awaitable[Run]]",
    what: tuple[Any, ...],
    chosen: _Options,
    at: Mapping[str, str | None],
    **about: Any,
) -> Result:
    """Call the method *run* of a runtime on a session, and return what comes of it as a result."""
    from google.adk.events import Event  # noqa: PLC0415  # half of ADK
    from google.genai import types  # noqa: PLC0415  # likewise

    from gcp_adk_store.ces.host.invocation import failure_of  # noqa: PLC0415  # of the extra
    from gcp_adk_store.ces.host.session_context import variables_of  # noqa: PLC0415  # likewise

    if chosen.tools is None and (chosen.server or chosen.credential):
        option = "--server" if chosen.server else "--credential"
        raise CannotLookError(f"{option} is about a toolset: name the app that has the toolset by --tools")
    tools = [] if chosen.tools is None else ces.load_tools(chosen.read_app(chosen.tools, allow_problems=True))
    given = {"tools": tools, **chosen.runtime()}
    async with (
        _opened(chosen, at) as ((sessions, session), artifacts, where),
        ces.PythonRuntime(sessions, artifact_service=artifacts, **given) as runtime,
    ):
        invocation_id = f"ces-{uuid.uuid4().hex}"
        if chosen.said is not None:
            content = types.Content(role="user", parts=[types.Part(text=chosen.said)])
            event = Event(author="user", invocation_id=invocation_id, content=content)
            await sessions.append_event(session, event)
        before = variables_of(session, given["settings"].shared_variables, [])
        try:
            key = ces.SessionKey.of_session(session)
            ran = await run(runtime, *what, key=key, invocation_id=invocation_id, **about)
        except SandboxRunError as exc:
            error, printed = failure_of(exc), [visible(exc.output)] if exc.output else []
            data = {"error": asdict(error), "stdout": exc.output}
            return Result(data, printed, status=1, failure=str(error))
    failure = "" if ran.error is None else _shown(ran.error)
    if ran.error is not None and ran.error.type == _UNKNOWN_TOOL and chosen.tools is None:
        click.echo("--tools DIR names the app that has the tools", err=True)
    data = {name: sorted(each) if name == "changed" else each for name, each in asdict(ran).items()}
    changed = "unchanged" if ran.event_id is None else "changed"
    kept = f"{where}: {'a copy, not stored' if chosen.dry_run else changed}" if where else ""
    return Result(data, _lines(kept, before, ran), status=int(not ran.ok), failure=failure)


def _lines(kept: str, before: Mapping[str, Any], ran: "Run") -> list[RenderableType]:
    shown: list[RenderableType] = []
    for title, lines in (
        ("session", [kept] if kept else []),
        ("printed", ran.stdout.rstrip("\n").splitlines()),
        *_of_kind(ran),
        ("variables", _changes(before, ran.variables)),
        ("calls", [line for each in ran.calls for line in _call(each)]),
        ("warnings", list(ran.warnings)),
    ):
        if lines:
            shown += [Text(title, style="bold"), *(f"  {visible(line)}" for line in lines)]
    return shown


def _shown(error: "RunFailure") -> str:
    """Return the traceback; of what the code has no line of, what it says."""
    traceback = error.traceback.rstrip("\n")
    return traceback if '  File "' in traceback else str(error)


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
    failed = [] if call.error is None else call.error.traceback.splitlines()
    below = (f"  {line}" for line in (*call.stdout.rstrip("\n").splitlines(), *failed))
    return [said + (", mocked" if call.mocked else ""), *below]


def _pretty(value: Mapping[str, Any]) -> list[str]:
    return json.dumps(value, ensure_ascii=False, indent=2).splitlines()


def _first_function(source: str) -> str | None:
    try:
        functions = scan(ast.parse(source)).functions
    except UNREADABLE:
        return None  # the run reports the error
    return next((each.name for each in functions), None)
