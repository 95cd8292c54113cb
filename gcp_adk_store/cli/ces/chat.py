"""Chat with an app, with a model, and save the conversation as a golden evaluation."""

import asyncio
import json
import sys
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gcp_adk_store import ces
from gcp_adk_store.cli import place
from gcp_adk_store.cli.ces import options
from gcp_adk_store.cli.screen import CannotLookError, Result, visible
from gcp_adk_store.errors import InvalidInputError, StoreError
from gcp_adk_store.settings import MEMORY

if TYPE_CHECKING:
    from gcp_adk_store.store import Store


@click.command(cls=options.RunsCode)
@place.at_store()
@click.argument("key", **options.SESSION)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", metavar="NAME", help="Name of the golden; by default the id of the session.")
@click.option(
    "--outputs", is_flag=True, help="Also save the responses of tools, which then answer in their place."
)
async def golden(
    at: place.OpenStore, /, *, key: "ces.SessionKey", file: Path, name: str | None, outputs: bool
) -> None:
    """Save the conversation of a session as a golden in a new FILE of YAML, for `ces eval`.

    A - as FILE is standard output.
    """
    await save_golden(at.store, key, file, name=name, with_outputs=outputs)


async def save_golden(store: Any, key: "ces.SessionKey", file: Path, **how: Any) -> None:
    """Save the session of *key* as a golden in *file*; *how* has the options of ``golden_of``.

    Raises:
        CannotLookError: the session does not exist, or the file exists or cannot be made.
        InvalidInputError: the session makes no golden.
    """
    from gcp_adk_store import Point  # noqa: PLC0415  # half of ADK
    from gcp_adk_store.ces.testing.evaluation_runs import golden_of  # noqa: PLC0415  # of the extra

    everything = Point.as_of(datetime.max.replace(tzinfo=UTC))  # with what is archived
    found = await store.sessions.get_session_at(**key.names, at=everything)
    begun = await store.sessions.get_session_at(**key.names, at=Point.position(0))
    if found is None or begun is None:
        raise CannotLookError(f"the session {key} does not exist")
    try:
        text = golden_of(found, begun.state, **how)
        if str(file) == "-":
            sys.stdout.write(text)
            return
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except OSError as exc:
        raise CannotLookError(f"{file} cannot be written: {exc.strerror}; name a new file") from exc
    click.echo(f"{file}: run it with gcp-adk-store ces eval DIR --tests {file.parent}", err=True)


_PROMPT: Final = "you: "
_HELP: Final = """\
/state  the variables        /calls  what the last turn called
/agent  who answers next     /log    what its code printed, warned of and failed with
/golden FILE  saves the conversation for ces eval
/quit   ends the command; the session stays
Events are texts too: <event>session start</event>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options(options.TalkOptions):
    session: "ces.SessionKey | None" = options.given(
        "Go on with this session of the store, or make it; a / in an id is written %2F.", **options.SESSION
    )
    variables: dict[str, Any] | None = options.given(
        "Variables of a new session, in place of the declared defaults.", **options.OBJECT
    )
    inspect: int | None = options.given(
        "Show the conversation in the inspector on this port of this machine; 0 takes a free one.",
        "PORT",
        type=click.IntRange(0, 65535),
    )


@click.command(cls=options.RunsCode)
@options.of_app
@_Options.given_to
@place.place_options
async def chat(folder: Path, app: Path, *, chosen: _Options, **at: str | None) -> Result:  # noqa: ARG001  # DIR
    """Talk with an agent app: each line is what the user says, and one turn.

    Lines that begin with / show the state, the calls and the log of the last turn, and who answers; /help
    lists them. Warnings and failures of code are on standard error, with --log all that it prints.
    Without --session and a store, the session is in memory. A folder of --local is made if it is missing.

    Ends with 1 if a turn failed, with 2 if the app has problems, or the conversation cannot go on.
    """
    from gcp_adk_store.ces.conversation.models import SERVICE_ERRORS  # noqa: PLC0415  # of the extra
    from gcp_adk_store.cli.servers import inspecting  # noqa: PLC0415  # half of ADK, too
    from gcp_adk_store.inspector.documents import Links, Place  # noqa: PLC0415
    from gcp_adk_store.store import Store  # noqa: PLC0415  # as above, and Google's clients

    read = chosen.read_app(app, allow_problems=chosen.allow_problems, whole=True)
    model = chosen.chosen_model()
    key = chosen.session
    async with AsyncExitStack() as stack:
        where = "in memory, not stored"
        kept = key is not None or any(value is not None for value in at.values())
        if not kept or place.chosen_settings(at).local == MEMORY:
            store = await stack.enter_async_context(Store.local(MEMORY))
        else:
            opened = await stack.enter_async_context(place.open_store(at, creates=True, reads_once=False))
            store, where = opened.store, f"in {opened.where}"
        conversation = ces.Conversation(
            read,
            store.sessions,
            model=model,
            app_name=None if key is None else key.app,
            turns=store.turns,
            artifact_service=store.artifacts if store.has_artifacts else None,
            **chosen.conversation(),
        )
        async with conversation:
            key = await _begun(conversation, store, chosen)
            click.echo(visible(f"{key} {where}; /help lists what can be shown"), err=True)
            if chosen.inspect is not None:
                address = await stack.enter_async_context(inspecting(store, where, chosen.inspect))
                page = Links(address).to("session", Place(app=key.app, user=key.user, session=key.session))
                click.echo(f"{page}&follow=1", err=True)
            try:
                failed = await _talk(conversation, store, key, log=chosen.log)
                return Result(None, [], status=int(failed))
            except (*SERVICE_ERRORS, ValueError) as exc:
                if isinstance(exc, StoreError):
                    raise
                raise CannotLookError(f"the model failed: {visible(str(exc))[:500]}") from exc


async def _begun(conversation: "ces.Conversation", store: "Store", chosen: _Options) -> "ces.SessionKey":
    """Return the session of the conversation, made if it is missing."""
    key, variables = chosen.session, chosen.variables
    if key is None:
        return await conversation.begin(variables=variables)
    if await store.sessions.get_session(**key.names) is None:
        return await conversation.begin(user_id=key.user, session_id=key.session, variables=variables)
    if variables is not None:
        raise CannotLookError("--variables is for a new session, and this one exists; leave it out")
    return key


async def _talk(
    conversation: "ces.Conversation", store: "Store", key: "ces.SessionKey", *, log: bool
) -> bool:
    turn: ces.ConversationTurn | None = None
    failed, warned = False, set[str]()
    while (line := await _line()) is not None:
        said = line.strip()
        if said == "/quit":
            break
        if said.startswith("/golden "):
            try:
                await save_golden(store, key, Path(said.removeprefix("/golden ").strip()))
            except (CannotLookError, InvalidInputError) as exc:
                click.echo(visible(str(exc)), err=True)
        elif said.startswith("/"):
            click.echo(visible(await _shown(said, conversation, key, turn)))
        elif said:
            turn = await conversation.send(said, key)
            failed = failed or turn.error is not None
            _show(turn, warned, log=log)
            if turn.ended:
                click.echo("the session has ended", err=True)
                break
    return failed


async def _line() -> str | None:
    """Return the next line of standard input, or None at its end; background tools go on meanwhile.

    Raises:
        CannotLookError: it cannot be read.
    """
    if sys.stdin.isatty():
        click.echo(_PROMPT, nl=False)
    read: Future[str] = Future()

    def wait() -> None:
        with suppress(InvalidStateError):  # nobody waits any more
            try:
                read.set_result(sys.stdin.readline())
            except (OSError, UnicodeDecodeError) as exc:
                read.set_exception(CannotLookError(f"standard input cannot be read: {exc}"))

    # A thread of its own, which Ctrl-C does not wait for.
    threading.Thread(target=wait, daemon=True).start()
    return await asyncio.wrap_future(read) or None


async def _shown(
    said: str, conversation: "ces.Conversation", key: "ces.SessionKey", turn: "ces.ConversationTurn | None"
) -> str:
    match said:
        case "/state":
            return json.dumps(await conversation.variables(key), ensure_ascii=False, indent=2, default=str)
        case "/agent":
            return await conversation.answering(key)
        case "/calls":
            uses = () if turn is None else turn.calls
            return "\n".join(use.text for use in uses) or "the last turn called nothing"
        case "/log":
            logs = () if turn is None else turn.logs
            return "\n".join(each.text for each in logs) or "the code of the last turn printed nothing"
        case _:
            return _HELP


def _show(turn: "ces.ConversationTurn", warned: set[str], *, log: bool) -> None:
    """Show what agents said, and why the turn failed.

    Without *log*, also the end of each failure of code, and each warning that is not among those *warned* of.
    """
    for author, text in turn.said:
        click.echo(visible(f"{author}: {text}"))
    if turn.error is not None:
        click.echo(visible(f"the turn failed: {turn.error}"), err=True)
    for run in () if log else turn.logs:
        new_lines = [each for each in run.warnings if each not in warned]
        warned.update(new_lines)
        new_lines += [f"{run.failure.splitlines()[-1]} (/log shows all of it)"] if run.failure else []
        for each in new_lines:
            click.echo(visible(f"{run.agent}: {run.what}: {each}"), err=True)
