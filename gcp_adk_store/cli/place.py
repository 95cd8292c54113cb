"""Open the store that a command names, and the file it writes to."""

import asyncio
import errno
import importlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import click
from click.core import ParameterSource

from gcp_adk_store import settings as environment
from gcp_adk_store.cli.screen import CannotLookError, NotThereError, Number, Result, Time, finish
from gcp_adk_store.errors import (
    AccessDeniedError,
    InvalidInputError,
    NotProvisionedError,
    OutcomeUnknownError,
    SessionMissingError,
    StoredDataError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.model.keys import in_one_line, quoted
from gcp_adk_store.settings import MAX_RESULTS, SessionLimits, StoreSettings

if TYPE_CHECKING:
    from gcp_adk_store.sessions.describe.decide import UnreadableSession
    from gcp_adk_store.store import Store

Command = TypeVar("Command", bound=Callable[..., Any])

_HELPS: Final = {
    "project": ("ID", "Google Cloud project"),
    "database": ("ID", "Firestore database"),
    "bucket": ("NAME", "Bucket of artifacts and payloads"),
    "prefix": ("TEXT", "Start of the collections' names"),
    "local": ("PATH", "Folder of a local store, instead of project, database and bucket"),
}
PLACE: Final = tuple(_HELPS)
"""Parameters that name a store, of each command with :func:`place_options`."""
_READS_ONCE: Final = SessionLimits(segment_cache_bytes=0)
"""A command reads each segment once, so a cache would only take memory."""


Work = Callable[..., Awaitable[Result | None]]
"""A command at a store: a coroutine function of the `OpenStore` and the command's options."""


@dataclass(frozen=True, slots=True)
class OpenStore:
    """The store that a command works on."""

    store: "Store"
    where: str
    """Its place in one line."""
    place: Mapping[str, Any]
    """Its place as JSON values."""


def place_options(command: Command) -> Command:
    """Add ``--project``, ``--database``, ``--bucket``, ``--prefix`` and ``--local`` to *command*."""
    for name, (metavar, says) in reversed(_HELPS.items()):
        help_text = f"{says}; by default ADK_STORE_{name.upper()}."
        command = click.option(f"--{name}", metavar=metavar, help=help_text)(command)
    return command


def chosen_settings(place: Mapping[str, str | None]) -> StoreSettings:
    """Return the settings of the environment, with the options of :func:`place_options` in their place.

    An option of a local store overrides variables of a cloud store, and the other way round.

    Raises:
        InvalidInputError: a setting is malformed, or the options name two stores.
    """
    given: dict[str, Any] = {name: value for name, value in place.items() if value is not None}
    settings = StoreSettings.from_env()
    if "local" in given:
        settings = replace(settings, project=None, bucket=None)
    elif given.keys() - {"prefix"}:
        settings = replace(settings, local=None)
    return replace(settings, **given)


def where(settings: StoreSettings) -> str:
    """Return the place of a store in one line; without a project, only the bucket."""
    if settings.local is not None:
        return in_one_line(f"folder {settings.local}, prefix {settings.prefix}")
    names, emulators = [], []
    if settings.project:
        names += [f"project {settings.project}", f"database {settings.database}", f"prefix {settings.prefix}"]
        emulators.append(environment.firestore_emulator_host())
    names.append(f"bucket {settings.bucket}" if settings.bucket else "no bucket")
    if settings.bucket:
        emulators.append(environment.storage_emulator_url())
    at = " and ".join(each for each in emulators if each)
    return in_one_line(", ".join(names) + (f", on the emulator at {at}" if at else ""))


def described(settings: StoreSettings) -> dict[str, Any]:
    """Return the place of a store as JSON values."""
    return {name: getattr(settings, name) for name in PLACE}


@asynccontextmanager
async def open_store(
    place: Mapping[str, str | None],
    *,
    needs_project: bool = True,
    reads_once: bool = True,
    creates: bool = False,
) -> AsyncIterator[OpenStore]:
    """Open the store that options and environment name: every command's store is chosen here.

    Args:
        place: The options of :func:`place_options`.
        needs_project: Whether a project must be named; a bucket's name suffices for objects.
        reads_once: Whether the command reads each segment once, and so keeps none.
        creates: Whether a folder without a local store gets one.

    Raises:
        StoreError: a setting is malformed, or the project is missing.
        CannotLookError: the folder of a local store contains none, and the command does not create one; or
            the file with the key is missing.
    """
    # Imported here: they bring half of ADK and Google's clients.
    from gcp_adk_store.store import Store  # noqa: PLC0415

    settings = chosen_settings(place)
    limits = _READS_ONCE if reads_once else SessionLimits()
    require_key_file(settings)
    if settings.local is not None:
        store_folder(settings.local, creates=creates)
    elif needs_project:
        settings = await _with_project(settings)
    async with Store.from_settings(settings, session_limits=limits) as store:
        yield OpenStore(store, where(settings), described(settings))


def require_key_file(settings: StoreSettings) -> None:
    """Raise a `CannotLookError` if *settings* name a key in a file that is missing: a store would make it."""
    key = settings.encryption and settings.encryption.key
    if isinstance(key, Path) and not os.path.exists(key):  # noqa: PTH110  # it raises no OSError
        raise CannotLookError(
            f"the key file {str(key)!r} is not there; name it in ADK_STORE_ENCRYPTION_KEY, or make a key: "
            f"openssl rand -base64 32 > {quoted(str(key))}"
        )


def store_folder(path: str, *, creates: bool = False) -> str:
    """Return the *path* of a local store, which exists unless the command *creates* one.

    Raises:
        CannotLookError: the folder contains no store, or cannot contain one.
    """
    from gcp_adk_store.local.backend import DATABASE  # noqa: PLC0415  # as above

    if path == environment.MEMORY:
        raise CannotLookError(
            "a store in memory ends with its process, so no command finds it; name a folder with --local or "
            "ADK_STORE_LOCAL"
        )
    try:
        size = (Path(path) / DATABASE).stat().st_size
    except FileNotFoundError as exc:
        if creates:
            return path
        raise CannotLookError(
            f"the folder {path!r} contains no local store; an agent creates one: Store.local({path!r})"
        ) from exc
    except NotADirectoryError as exc:
        says = f"{path!r} is a file; name the folder of a store, which contains {DATABASE}"
        raise CannotLookError(says) from exc
    except OSError as exc:
        raise CannotLookError(
            f"the folder {path!r} cannot be read ({exc.strerror}); let this user read it, or name another one"
        ) from exc
    if size == 0 and not creates:
        raise CannotLookError(
            f"the folder {path!r} has an empty {DATABASE}, which lost its content, or never had any: restore "
            f"a backup; an agent begins anew there: Store.local({path!r})"
        )
    return path


def at_store(**opening: bool) -> Callable[[Work], Callable[..., None]]:
    """Make a command of a coroutine function, which gets the open store and the command's other options.

    Adds :func:`place_options`, and prints the result once the store is closed. A `StoreError` ends the
    command as :func:`with_remedy` says; *opening* are arguments of :func:`open_store`.
    """

    def command(work: Work) -> Callable[..., None]:
        @wraps(work)
        def run(*, as_json: bool = False, **given: Any) -> None:
            place = {name: given.pop(name) for name in PLACE}

            async def at_open_store() -> Result | None:
                async with open_store(place, **opening) as at:
                    return await work(at, **given)

            with with_remedy():
                result = asyncio.run(at_open_store())
            if result is not None:
                finish(result, as_json=as_json)

        return place_options(run)

    return command


@contextmanager
def with_remedy() -> Iterator[None]:
    """End the command if the block raises a `StoreError`; the message ends with the command that helps.

    Raises:
        NotThereError: instead of a `SessionMissingError`.
        CannotLookError: instead of any other `StoreError`.
    """
    try:
        yield
    except StoreError as exc:
        remedy = _remedy(exc)
        says = in_one_line(str(exc))  # for ids, which stay unchanged
        error = NotThereError if isinstance(exc, SessionMissingError) else CannotLookError
        raise error(f"{says}; {remedy}" if remedy else says) from exc


def command_line(path: str | None = None, *, only: Iterable[str] | None = None, **changes: str | bool) -> str:
    """Return the running command for a shell, or another command for the same place.

    Args:
        path: The other command, such as ``sessions list``.
        only: Names of the parameters to keep, beside the place; by default all.
        changes: Options with another value.
    """
    ctx = click.get_current_context()
    words = [ctx.command_path if path is None else f"{ctx.find_root().info_name} {path}"]
    kept = None if only is None else {*PLACE, *only}
    arguments: list[str] = []
    for parameter in ctx.command.params:
        name = parameter.name or ""
        value = changes.pop(name, None)
        if value is None:
            given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
            if not given or (kept is not None and name not in kept):
                continue
            value = ctx.params[name]
        if isinstance(parameter, click.Argument):
            given_last = isinstance(value, tuple) and value
            arguments += ["--", *map(quoted, given_last)] if given_last else []
            arguments += [] if isinstance(value, tuple) else [quoted(str(value))]
        elif value is True:
            words.append(parameter.opts[0])
        elif isinstance(value, tuple):
            words += [word for each in value for word in (parameter.opts[0], quoted(str(each)))]
        else:
            words += [parameter.opts[0], quoted(str(value))]
    return " ".join([*words, *arguments])


def looking_at(session: "UnreadableSession") -> str:
    """Return the command that looks at a session that cannot be read, in the place of this command."""
    ids = {"app": session.app_name, "user": session.user_id, "session": session.session_id}
    options = [f" --{name} {quoted(id_)}" for name, id_ in ids.items() if id_ is not None]
    return command_line("fsck", only=()) + "".join(options)


async def _with_project(settings: StoreSettings) -> StoreSettings:
    """Return *settings* with a project; raise if neither they nor the credentials name one."""
    if settings.project:
        return settings
    if environment.firestore_emulator_host():
        # A store takes this project silently, but the caller may mean another one.
        raise NotProvisionedError(
            "no Google Cloud project: set ADK_STORE_PROJECT or pass --project; on the emulator a store "
            f"without one keeps its data in {environment.EMULATOR_PROJECT}: "
            + command_line(project=environment.EMULATOR_PROJECT)
        )
    from gcp_adk_store.cloud.auth.credentials import StoreCredentials  # noqa: PLC0415

    project = await asyncio.to_thread(StoreCredentials.from_settings(settings).find_project)
    if project is None:
        raise NotProvisionedError(
            "no Google Cloud project: set ADK_STORE_PROJECT, or pass one: " + command_line(project="PROJECT")
        )
    return replace(settings, project=project)


def _remedy(exc: StoreError) -> str:
    """Return a remedy for *exc*, unless its message ends with a command itself."""
    ctx = click.get_current_context()
    if "gcloud " in str(exc) or f"{ctx.find_root().info_name} " in str(exc):
        return ""
    if isinstance(exc, SessionMissingError):
        return f"list the sessions: {command_line('sessions list', only=('app_name', 'user_id'))}"
    if isinstance(exc, InvalidInputError):
        return f"see the options: {ctx.command_path} --help"
    if isinstance(exc, OutcomeUnknownError):
        return f"run it again: {command_line()}"
    if isinstance(exc, (AccessDeniedError, NotProvisionedError, UnavailableError)):
        return f"see what is wrong: {command_line('doctor', only=())}"
    return _looking(ctx) if isinstance(exc, StoredDataError) else ""


def _looking(ctx: click.Context) -> str:
    """Return the command that looks at damaged data, unless this is it, or data that it does not look at."""
    is_other = ctx.params.get("app_name") is None or " artifacts " in ctx.command_path
    if is_other or ctx.info_name == "fsck":
        return ""
    return f"look at it: {command_line('fsck', only=IDS)}"


def imported(module: str, attribute: str) -> Any:
    """Return an attribute of a module, which may lie in the current folder, as for ``python -m``."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    return attrgetter(attribute)(importlib.import_module(module))


STANDARD: Final = "-"
"""The path that stands for standard output."""


def called(out: Path) -> str:
    """Return the readable name of the output file."""
    return "standard output" if str(out) == STANDARD else in_one_line(str(out))


@asynccontextmanager
async def opened_file(out: Path) -> AsyncIterator[BinaryIO]:
    """Open *out* for a block, or standard output for ``-``.

    A file appears, or is replaced, when the block succeeds: never a part of it.

    Raises:
        CannotLookError: it cannot be written.
    """
    from gcp_adk_store.artifacts.files import opened_target  # noqa: PLC0415  # brings half of Google's clients

    standard = str(out) == STANDARD
    if standard and sys.stdout is None:
        raise CannotLookError(f"standard output is closed; name a file: {command_line(out='FILE')}")
    target: BinaryIO | Path = sys.stdout.buffer if standard else out
    try:
        async with opened_target(target) as file:
            yield file
            file.flush()
    except OSError as exc:
        if standard and exc.errno == errno.EPIPE:
            raise  # the reader closed the pipe, for which click ends silently
        says = f"{called(out)} cannot be written: {exc.strerror}; name another file: "
        raise CannotLookError(says + command_line(out="FILE")) from exc


_PARAMETERS: Final = {"--app": "app_name", "--user": "user_id", "--session": "session_id"}
IDS: Final = tuple(_PARAMETERS.values())
"""Parameters of the ids, with the names that ADK gives them."""


def given_id(name: str, *, required: bool = False, says: str) -> Callable[[Command], Command]:
    """Return ``--app``, ``--user`` or ``--session``, an id that stays unchanged."""
    return click.option(name, _PARAMETERS[name], metavar="ID", required=required, help=says)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def number_option(
    *names: str, kind: click.IntRange | Number, says: str, metavar: str = "N", default: float | None = None
) -> Callable[[Command], Command]:
    """Return an option for a number of a *kind*, whose default, if any, the help shows."""
    shown = default is not None
    return click.option(*names, metavar=metavar, type=kind, default=default, show_default=shown, help=says)


def choice_option(*names: str, of: Sequence[str], says: str) -> Callable[[Command], Command]:
    """Return an option for one *of* several words, by default the first."""
    return click.option(*names, type=click.Choice(of), default=of[0], show_default=True, help=says)


def time_option(name: str, *, says: str) -> Callable[[Command], Command]:
    """Return an option for a date, or a date with a time, in UTC."""
    return click.option(name, metavar="TIME", type=Time(), help=says)


def page_options(items: str) -> Callable[[Command], Command]:
    """Add ``--page-size`` and ``--cursor`` to a command that lists *items* a page at a time."""

    def paged(command: Command) -> Command:
        size = click.IntRange(1, MAX_RESULTS)
        sized = number_option("--page-size", kind=size, default=50, says=f"{items} of a page.")
        cursor = click.option("--cursor", metavar="TEXT", help="The cursor that the page before printed.")
        return sized(cursor(command))

    return paged


def next_page(cursor: str | None) -> list[str]:
    """Return the line with the command for the page at *cursor*, if there is one."""
    return [] if cursor is None else [f"next page: {command_line(cursor=cursor)}"]


def user_options(command: Command) -> Command:
    """Add ``--app`` and ``--user`` to *command*."""
    command = given_id("--user", required=True, says="Id of the user.")(command)
    return given_id("--app", required=True, says="Name of the app.")(command)


def session_options(command: Command) -> Command:
    """Add ``--app``, ``--user`` and ``--session`` to *command*."""
    return user_options(given_id("--session", required=True, says="Id of the session.")(command))


def announced(doing: str, at: OpenStore) -> None:
    """Print where a command looks before it takes long: on standard error if it prints JSON."""
    click.echo(f"{doing} {at.where}", err=click.get_current_context().params["as_json"])


def deletion_options(work: Work) -> Work:
    """Add ``--dry-run`` and ``--yes`` to a command at a store, which then gets *dry_run*.

    With neither of them, or both, it changes nothing and raises a `CannotLookError`.
    """

    @wraps(work)
    async def decided(at: OpenStore, /, *, dry_run: bool, yes: bool, **given: Any) -> Result | None:
        if dry_run == yes:
            said = "both are given" if yes else "neither is given"
            others = click.get_current_context().params.keys() - {"dry_run", "yes"}
            raise CannotLookError(
                "nothing was changed: --yes does it, --dry-run says what it would do, "
                f"{said}: {command_line(only=others, dry_run=True)}"
            )
        return await work(at, dry_run=dry_run, **given)

    with_yes = click.option("--yes", is_flag=True, help="Do it.")(decided)
    return click.option("--dry-run", is_flag=True, help="Only say what it would do.")(with_yes)
