"""The commands that copy sessions between stores, export them and import them."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

import click

from gcp_adk_store.cli.place import (
    STANDARD,
    OpenStore,
    at_store,
    called,
    choice_option,
    chosen_settings,
    command_line,
    given_id,
    json_option,
    looking_at,
    number_option,
    opened_file,
    require_key_file,
    time_option,
    with_remedy,
)
from gcp_adk_store.cli.screen import CannotLookError, Number, Result, finish, progress
from gcp_adk_store.errors import StoreError
from gcp_adk_store.model.keys import in_one_line, values_by_name

if TYPE_CHECKING:
    from gcp_adk_store.moving import Report
    from gcp_adk_store.sessions.describe.decide import UnreadableSession

_COUNTS: Final = (
    *("listed", "copied", "continued", "replaced", "removed", "unchanged", "verified"),
    *("events", "artifact_versions", "memories"),
)


@click.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@given_id("--app", required=True, says="Name of the app.")
@given_id("--user", says="Id of a user; by default all users of the app.")
@time_option("--since", says="Only sessions that were updated then or later; in UTC.")
@click.option(
    "--resume",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Remember finished sessions in this file, and go on after a kill.",
)
@click.option(
    "--artifacts", metavar="FROM TO", nargs=2, help="URIs of artifact services: copy artifacts, too."
)
@click.option("--memories", metavar="FROM TO", nargs=2, help="URIs of memory services: copy memories, too.")
@click.option("--verify", is_flag=True, help="Read everything again in the target, and compare digests.")
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C, then copy once more and end.")
@number_option(
    *("--interval", "interval_s"),
    kind=Number(0.1),
    metavar="SECONDS",
    default=5.0,
    says="Pause between two passes of --follow.",
)
@click.option("--dry-run", is_flag=True, help="Only say what it would copy.")
@json_option
def copy_(
    *, source: str, target: str, since: datetime | None, follow: bool, as_json: bool, **given: Any
) -> None:
    """Copy the sessions of an app from one store to another, with the state of app and users.

    FROM and TO are URIs: those of ADK's servers, such as sqlite:///PATH or postgresql://..., firestore:// and
    firestore+local:// for this store, adk-firestore:// for ADK's Firestore service, adk-java-firestore:// for
    that of ADK for Java.

    A session that is there already gets what it lacks, so the command can be run again after a kill. Ends
    with 1 if a session differs, or could not be copied.
    """
    from gcp_adk_store.adk_server.services import register  # noqa: PLC0415  # half of ADK
    from gcp_adk_store.moving import copy  # noqa: PLC0415

    async def work() -> "Report":
        with progress("copying: sessions") as move_to, _until_stopped(asked=follow) as stop:
            return await copy(
                source,
                target,
                since=None if since is None else since.replace(tzinfo=UTC).timestamp(),
                follow=stop,
                on_progress=lambda report: move_to(_done(report)),
                **given,
            )

    for each in ("artifacts", "memories"):
        given[each] = given[each] or None
    register()
    with with_remedy():
        require_key_file(chosen_settings({}))
        report = asyncio.run(work())
    nothing = _no_session(given["app_name"], given["user_id"])
    finish(_result(report, would=given["dry_run"], nothing=nothing), as_json=as_json)


@click.command("export")
@at_store()
@given_id("--app", required=True, says="Name of the app.")
@given_id("--user", says="Id of a user; by default all users of the app.")
@choice_option(
    *("--format", "form"),
    of=["jsonl", "parquet"],
    says="Lines of JSON, or two Parquet files in the folder OUT.",
)
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path, allow_dash=True))
async def export(
    at: OpenStore, /, *, app_name: str, user_id: str | None, form: Literal["jsonl", "parquet"], out: Path
) -> Result:
    """Write all sessions of an app, or of one user, as they are at one moment.

    Events are whole, with the metadata that only ADK may write, such as stamps of tool calls.

    The file OUT, or standard output for "-", appears when all of it is written. Ends with 1 if a session
    cannot be read: it names such sessions, and leaves them out.
    """
    from gcp_adk_store.moving import export_jsonl, export_parquet, records_of  # noqa: PLC0415  # half of ADK

    if form == "parquet" and str(out) == STANDARD:
        raise CannotLookError(f"Parquet files go to a folder: {command_line(out='FOLDER')}")
    left_out: list[UnreadableSession] = []
    exporting = records_of(at.store.sessions, app_name, user_id, on_unreadable=left_out.append)
    with progress("exporting: events") as move_to:
        async with aclosing(exporting) as records:
            if form == "parquet":
                try:
                    found = await export_parquet(records, out, on_event=move_to)
                except OSError as exc:
                    raise CannotLookError(f"{called(out)} cannot be written: {exc.strerror}") from exc
            else:
                async with opened_file(out) as file:
                    found = await export_jsonl(records, file, place=at.place, on_event=move_to)
    for each in left_out:
        click.echo(f"left out: {in_one_line(each.reason)}; see: {looking_at(each)}", err=True)
    if not found.sessions and not left_out:
        click.echo(_no_session(app_name, user_id), err=True)
    click.echo(f"sessions: {found.sessions:,}, events: {found.events:,}, written to {called(out)}", err=True)
    return Result(None, [], status=int(bool(left_out)))


class _Input(click.File):
    """A file to read, or standard input for ``-``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == STANDARD and sys.stdin is None:
            self.fail("standard input is closed; name a file", param, ctx)
        return super().convert(value, param, ctx)


@click.command("import")
@at_store(creates=True)
@click.argument("file", metavar="FILE", type=_Input("rb"))
@click.option("--remap-user", metavar="OLD=NEW", multiple=True, help="Give a user another id; repeatable.")
@choice_option(
    "--on-conflict",
    of=["skip", "overwrite", "new-id"],
    says="What happens to a session whose id is taken.",
)
@json_option
async def import_(at: OpenStore, /, *, file: BinaryIO, remap_user: tuple[str, ...], **asked: Any) -> Result:
    """Make the sessions that export or sessions export wrote as lines of JSON to FILE, or "-".

    A folder of --local that contains no store gets one, and a line says so. Ends with 1 if a stored session
    cannot be read, and stays. Ends with 2 at a damaged line; the sessions before it are made.
    """
    from gcp_adk_store.moving import import_jsonl  # noqa: PLC0415  # half of ADK

    users = values_by_name("--remap-user", remap_user, form="OLD=NEW")
    had_store, target = _has_store(at), at.store.sessions
    try:
        with progress("importing: sessions") as move_to:
            report = await import_jsonl(
                file, target, users=users, on_progress=lambda so_far: move_to(so_far.listed), **asked
            )
    except StoreError:
        for line in _made(at, had_store=had_store):
            click.echo(line, err=True)
        raise
    result = _result(report, would=False, nothing="no sessions")
    made = _made(at, had_store=had_store)
    data = {**at.place, "is_new": bool(made), **result.data}
    return Result(data, [at.where, *made, *result.lines], result.status)


def _has_store(at: OpenStore) -> bool:
    """Return whether the folder of a local store contains one; any other place does."""
    from gcp_adk_store.local.backend import DATABASE  # noqa: PLC0415  # as above

    folder = at.place["local"]
    return folder is None or (Path(folder) / DATABASE).exists()


def _made(at: OpenStore, *, had_store: bool) -> list[str]:
    """Return the line that says that the command made the store of a folder, if it did."""
    is_new = _has_store(at) and not had_store
    return [in_one_line(f"{at.place['local']} contained no store, and has one now")] if is_new else []


def _no_session(app: str, user: str | None) -> str:
    of_user = "" if user is None else f"the user {user!r} of "
    return in_one_line(f"no session of {of_user}the app {app!r}")


def _result(report: "Report", *, would: bool, nothing: str) -> Result:
    numbers = {name.replace("_", " "): getattr(report, name) for name in _COUNTS}
    counts = [f"{name}: {number:,}" for name, number in numbers.items() if number]
    lines = [("would do: " if would else "") + (", ".join(counts) or nothing)]
    lines += [in_one_line(str(note)) for note in report.notes]
    if report.notes_left_out:
        lines.append(f"notes left out: {report.notes_left_out:,}")
    return Result(report.to_dict(), lines, 0 if report.is_complete else 1)


def _done(report: "Report") -> int:
    return report.copied + report.continued + report.replaced + report.unchanged


@contextmanager
def _until_stopped(*, asked: bool) -> Iterator[asyncio.Event | None]:
    """Return what Ctrl-C or SIGTERM sets within the block, if that is *asked*; a second one ends it."""
    if not asked:
        yield None
        return
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)

    def first() -> None:
        for each in signals:
            loop.remove_signal_handler(each)
        stop.set()

    for each in signals:
        loop.add_signal_handler(each, first)
    try:
        yield stop
    finally:
        for each in signals:
            loop.remove_signal_handler(each)
