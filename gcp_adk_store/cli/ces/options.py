"""The commands that run code: their options, and how they end."""

import asyncio
import inspect
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_type_hints

import click

from gcp_adk_store import ces
from gcp_adk_store.ces.guest.contract import RunSettings
from gcp_adk_store.ces.host.admission import open_sandbox
from gcp_adk_store.ces.sandbox.interface import Limits, SandboxError
from gcp_adk_store.cli.place import with_remedy
from gcp_adk_store.cli.screen import CannotLookError, Number, finish, needs_ces, visible
from gcp_adk_store.errors import InvalidInputError, StoreError

if TYPE_CHECKING:
    from google.adk.models.base_llm import BaseLlm

    from gcp_adk_store.ces.sandbox import Sandbox


class RunsCode(click.Command):
    """Ends with 2 and a message without the packages of the extra, and if the runtime or a store raises.

    Its function may be a coroutine function. The ``Result`` that it returns, if any, is printed at the end.
    """

    def invoke(self, ctx: click.Context) -> None:
        """Run the command."""
        given = dict(ctx.params)
        as_json = given.pop("as_json", False)
        try:
            with needs_ces():
                result = ctx.invoke(cast("Callable[..., Any]", self.callback), **given)
                if inspect.iscoroutine(result):
                    result = until_interrupted(result)
        except SandboxError as exc:  # whose lines stay lines
            raise CannotLookError(str(exc)) from exc
        except StoreError:
            with with_remedy():
                raise
        if result is not None:
            finish(result, as_json=as_json)


Result = TypeVar("Result")


def until_interrupted(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of *work*.

    Ctrl-C is raised where the command is, and every task is cancelled. By its own handler asyncio cancels the
    task of *work* alone, once it waits: a comparison goes on, and its end waits for asynchronous tools.
    Another Ctrl-C does not interrupt the end, which closes sandboxes and stores.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # such as in the background
        return asyncio.run(work)
    interrupts: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    try:
        with asyncio.Runner() as runner:
            signal.signal(signal.SIGINT, interrupt)
            try:
                return runner.run(work)
            except Exception as exc:
                # A block that it was raised in, such as a request's, may end by an error of its own.
                if interrupts:
                    raise KeyboardInterrupt from exc
                raise
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGINT, before)


_LOG_CHARACTERS: Final = 16_384
"""Of each turn: a page or two of prints, and no copy of all that code says."""
_SANDBOXES: Final = ("bubblewrap", "inprocess")


def _object_of(value: str) -> dict[str, Any]:
    """Return the JSON object *value*, or that of ``@FILE``, or of standard input for ``-``.

    Raises:
        BadParameter: it cannot be read, or is not an object.
    """
    try:
        if value in {"-", "@-"}:
            text = sys.stdin.read()
        else:
            text = Path(value[1:]).read_text(encoding="utf-8-sig") if value.startswith("@") else value
        read = json.loads(text)
    except OSError as exc:
        raise click.BadParameter(f"{value[1:]} cannot be read: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:
        raise click.BadParameter(f"not JSON: {exc}") from exc
    if not isinstance(read, dict):
        raise click.BadParameter(f"a JSON object is wanted, such as {{}}, not {value[:40]}")
    return read


def _key_of(session: str) -> "ces.SessionKey":
    """Return the key that *session* is.

    Raises:
        BadParameter: it is malformed.
    """
    try:
        key = ces.SessionKey.of(session)
    except InvalidInputError as exc:
        raise click.BadParameter(f"{session} must be APP/USER/ID; write a / in an id as %2F") from exc
    if key.session != key.session.strip():  # ADK would make one of another id
        raise click.BadParameter(f"{session}: an id neither begins nor ends with a space")
    return key


def given(says: str, metavar: str | None = None, **attributes: Any) -> Any:
    """Return a field of `Options`, with the help and the other attributes of its option."""
    return field(metadata={"help": says, "metavar": metavar, **attributes})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a command: each field is one, by its name."""

    @classmethod
    def given_to(cls, command: Callable[..., Any]) -> Callable[..., Any]:
        """Add the options to *command*, which gets them as *chosen*."""

        @wraps(command)
        def call(**others: Any) -> Any:
            mine = {each.name: others.pop(each.name) for each in fields(cls)}
            return command(chosen=cls(**mine), **others)

        for each in reversed(fields(cls)):  # the help lists them in this order
            call = click.option(f"--{each.name.replace('_', '-')}", **each.metadata)(call)
        return call


OBJECT: Final[Mapping[str, Any]] = {"metavar": "JSON|@FILE|-", "type": _object_of}
SESSION: Final[Mapping[str, Any]] = {"metavar": "APP/USER/ID", "type": _key_of}
DEFAULTS: Final[Mapping[str, Any]] = {
    "says": "Variables, in place of the app's declared defaults.",
    "default": "{}",
    **OBJECT,
}
JUNIT: Final[Mapping[str, Any]] = {
    "says": "Also write JUnit's XML to this file.",
    "metavar": "FILE",
    "type": click.Path(path_type=Path, dir_okay=False, writable=True),
}
FOLDER: Final[Mapping[str, Any]] = {
    "metavar": "DIR",
    "type": click.Path(path_type=Path, exists=True, file_okay=False),
}
"""What options of several commands have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeOptions(Options):
    """Those of every command that runs code."""

    allow_host: tuple[str, ...] = given(
        "Host that ces_requests may reach; by default none. May be given several times.",
        "HOST[:PORT]",
        multiple=True,
    )
    sandbox: str = given(
        "What the code runs in; inprocess protects nothing, and is for debuggers.",
        type=click.Choice(_SANDBOXES),
        default=_SANDBOXES[0],
        show_default=True,
    )
    timeout: float | None = given(
        "Seconds that each run may take; by default what the app says, or 30.",
        "SECONDS",
        type=Number(min=0, min_open=True),
    )
    setting: tuple[str, ...] = given(
        "Setting of docs/ces-runtime.md, such as strict_typing=true.", "NAME=JSON", multiple=True
    )
    shared_variable: tuple[str, ...] = given(
        "Variable of users or apps that code sees and sets, such as app:theme; by default none.",
        "NAME",
        multiple=True,
    )
    server: tuple[str, ...] = given(
        "URL of a toolset, in place of that of environment.json or its document.",
        "TOOLSET=URL",
        multiple=True,
    )
    credential: tuple[str, ...] = given(
        "Environment variable with the key or token of a toolset.", "TOOLSET=VARIABLE", multiple=True
    )
    mocks: dict[str, Any] | None = given(
        "Answers in place of tools: a mockConfig of the platform's API.", **OBJECT
    )

    def read_app(self, folder: Path, *, allow_problems: bool = False, whole: bool = False) -> "ces.AgentApp":
        """Return the app in *folder*, with servers and credentials of its toolsets, and show its problems.

        Args:
            folder: Of the app.
            allow_problems: Return an app that has some.
            whole: Say what of it does not run here, as conversations do.

        Raises:
            CannotLookError: the app has problems that are not allowed, or a credential is missing.
            InvalidInputError: the app has no toolset of that name.
        """
        servers = dict(_named("--server", each, "TOOLSET=URL") for each in self.server)
        credentials: dict[str, str] = {}
        for each in self.credential:
            toolset, variable = _named("--credential", each, "TOOLSET=VARIABLE")
            credentials[toolset] = os.environ.get(variable, "")
            if not credentials[toolset]:
                raise CannotLookError(f"--credential {toolset}: the environment has no variable {variable}")
        app = ces.read_app(folder, servers=servers, credentials=credentials)
        problems = [f"{folder}/{each.path}:{each.line}: {each.says}" for each in app.problems]
        for each in (*problems, *(app.unlike_platform if whole else ())):
            click.echo(visible(each), err=True)
        if problems and not allow_problems:
            says = "the app does not run with these problems: correct them, or add --allow-problems"
            raise CannotLookError(says)
        return app

    def settings(self) -> "ces.RuntimeSettings":
        """Return the settings of code.

        Raises:
            CannotLookError: a setting is not valid.
            InvalidInputError: a variable cannot be shared.
        """
        from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415  # of the extra

        hints, guest = get_type_hints(RunSettings, include_extras=True), RunSettings()
        kinds = {each.name: hints[each.name] for each in fields(RunSettings)}
        for each in self.setting:
            name, _, value = each.partition("=")
            if name not in kinds:
                raise CannotLookError(f"--setting {each[:80]}: write NAME=JSON; known: {', '.join(kinds)}")
            try:
                guest = replace(guest, **{name: TypeAdapter(kinds[name]).validate_json(value, strict=True)})
            except ValidationError as exc:
                says = exc.errors(include_input=False, include_url=False)[0]["msg"]
                raise CannotLookError(f"--setting {each[:80]}: write {name}=JSON: {says}") from exc
        return ces.RuntimeSettings(
            guest=guest,
            limits=None if self.timeout is None else Limits(wall_s=self.timeout),
            shared_variables=self.shared_variable,
            stored_log_characters=_LOG_CHARACTERS,
        )

    def runtime(self, sandbox: "Sandbox | None" = None) -> dict[str, Any]:
        """Return the options of a runtime, by name; without *sandbox* it opens its own."""
        from gcp_adk_store.ces.http.policy import AllowedHost  # noqa: PLC0415  # of the extra

        is_here = any(AllowedHost.of(each).is_here for each in self.allow_host)
        return {
            "http": ces.HttpPolicy(allow=self.allow_host, allow_loopback=is_here),
            "sandbox": sandbox or self.sandbox,
            "settings": self.settings(),
            "mocks": None if self.mocks is None else ces.MockConfig.from_json(self.mocks),
        }

    @asynccontextmanager
    async def opened_sandbox(self) -> "AsyncIterator[Sandbox]":
        """Open the sandbox for a block, as large as this machine allows."""
        sandbox, _ = open_sandbox(self.sandbox, self.settings())
        try:
            yield sandbox
        finally:
            await sandbox.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions(CodeOptions):
    """Those of every command that runs an app."""

    allow_problems: bool = given("Run an app that lacks files, such as those of guardrails.", is_flag=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkOptions(AppOptions):
    """Those of every command that holds conversations."""

    model: str | None = given("Model of ADK, such as gemini-2.5-flash; by default the app's.", "NAME")
    script: Path | None = given(
        "Replies in place of a model's, a list in JSON or YAML.",
        "FILE",
        type=click.Path(path_type=Path, dir_okay=False),
    )
    fakes: bool = given("Let fakes answer in place of tools that enable them (toolFakeConfig).", is_flag=True)
    log: bool = given("Show what code prints, warns of and fails with, as it happens.", is_flag=True)

    def chosen_model(self) -> "BaseLlm | str | None":
        """Return the model that was asked for; None for the one that the app names.

        Raises:
            CannotLookError: both were asked for.
            InvalidInputError: the script cannot be read.
        """
        if self.model and self.script:
            raise CannotLookError("give one of --model and --script")
        return self.model if self.script is None else ces.ScriptedModel.from_file(self.script)

    def conversation(self, sandbox: "Sandbox | None" = None) -> dict[str, Any]:
        """Return the options of a conversation, by name; without *sandbox* it opens its own."""

        def show(_key: "ces.SessionKey", shown: "ces.RunLog") -> None:
            click.echo(visible(shown.text), err=True)

        return {
            **self.runtime(sandbox),
            "allow_problems": self.allow_problems,
            "use_fakes": self.fakes,
            "note_run": show if self.log else None,
        }


def of_app(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add DIR and ``--app`` to *command*, which gets the *folder* and the *app* in it.

    Raises:
        InvalidInputError: the folder does not exist, or has not this app.
    """

    @click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
    @click.option(
        "--app", "app_name", metavar="NAME", help="Folder of the app, if DIR is a project with several."
    )
    @wraps(command)
    def call(folder: Path, app_name: str | None, **given: Any) -> Any:
        from gcp_adk_store.ces.apps.files import app_folder  # noqa: PLC0415  # of the extra

        return command(folder=folder, app=app_folder(folder, app_name), **given)

    return call


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def _named(option: str, given: str, form: str) -> tuple[str, str]:
    """Return the name and the value of ``NAME=VALUE``."""
    name, _, value = given.partition("=")
    if not (name and value):
        raise CannotLookError(f"{option} {given}: write {form}")
    return name, value
