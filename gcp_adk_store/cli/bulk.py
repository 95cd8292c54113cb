"""The commands that run bulk jobs on Apache Beam."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from gcp_adk_store.cli.place import (
    OpenStore,
    Work,
    at_store,
    chosen_settings,
    deletion_options,
    given_id,
    json_option,
    number_option,
)
from gcp_adk_store.cli.retention import quiet_option, retention_options
from gcp_adk_store.cli.screen import CannotLookError, Result, waiting
from gcp_adk_store.imports import how_to_install

if TYPE_CHECKING:
    import apache_beam as beam

    from gcp_adk_store.bulk import BulkStore, Retention

_PARTITIONS: Final = 256


@click.group()
def bulk() -> None:
    """Read, export, erase, prune and verify all sessions of an app, on Apache Beam.

    A job runs in this process, unless options of Beam after -- name another runner, such as
    -- --runner DataflowRunner --region europe-west1.
    """


_beam_options = click.argument("beam_options", metavar="[-- BEAM]", nargs=-1, type=click.UNPROCESSED)
"""Comes last, after all other arguments."""


def _job(work: Work) -> Work:
    """Add the options of all jobs but :data:`_beam_options`, which *work* passes to :func:`_run`."""
    one_at_least = click.IntRange(1)
    processes = "Processes of all workers; each gets an equal share of the rate."
    work = number_option("--processes", kind=one_at_least, says=processes)(json_option(work))
    ranges = "The most ranges of users, each for one worker."
    work = number_option("--partitions", kind=one_at_least, default=_PARTITIONS, says=ranges)(work)
    return given_id("--app", required=True, says="Name of the app.")(work)


@bulk.command("read")
@at_store()
@_job
@click.argument("out", metavar="OUT")
@_beam_options
async def read(at: OpenStore, /, *, out: str, **job: Any) -> Result:
    """Write a line of JSON for each session, without events and state, to files OUT-*.jsonl.

    OUT is a path, or that of a bucket: gs://BUCKET/PATH.
    """

    def build(pipeline: "beam.Pipeline", store: "BulkStore") -> None:
        import apache_beam as beam  # noqa: PLC0415  # of an extra

        _write(beam, _infos(pipeline, store, job), out)

    return await _run(at, job, build)


@bulk.command("export")
@at_store()
@_job
@click.argument("out", metavar="OUT")
@_beam_options
async def export(at: OpenStore, /, *, out: str, **job: Any) -> Result:
    """Write all sessions and events as Parquet files, OUT/sessions-*.parquet and OUT/events-*.parquet.

    Each session is of one moment. Events are whole, with the metadata that only ADK may write, such as stamps
    of tool calls. Ends with 1 if a session cannot be read.
    """

    def build(pipeline: "beam.Pipeline", store: "BulkStore") -> None:
        from gcp_adk_store.bulk import ReadEvents, WriteParquet  # noqa: PLC0415  # of an extra

        _infos(pipeline, store, job) | ReadEvents(store) | WriteParquet(out)

    return await _run(at, job, build, bad=("unreadable",))


@bulk.command("erase")
@at_store()
@_job
@click.argument("users", metavar="USERS")
@click.argument("receipts", metavar="RECEIPTS")
@quiet_option
@deletion_options
@_beam_options
async def erase(
    at: OpenStore, /, *, users: str, receipts: str, quiet_s: float, dry_run: bool, **job: Any
) -> Result:
    """Erase the users in the file USERS, an id a line; write their receipts to files RECEIPTS-*.jsonl.

    After an interruption, run it again: it goes on. End the users' access first.
    """

    def build(pipeline: "beam.Pipeline", store: "BulkStore") -> None:
        import apache_beam as beam  # noqa: PLC0415  # of an extra

        from gcp_adk_store.bulk import EraseUsers  # noqa: PLC0415

        marked = _marked(users)
        done = (
            pipeline
            | "read users" >> beam.io.ReadFromText(users)
            | "without a mark" >> beam.Map(_without_mark, marked)
            | "given" >> beam.Filter(bool)
            | "once" >> beam.Distinct()
            | EraseUsers(store, app_name=job["app_name"], dry_run=dry_run, quiet_s=quiet_s)
        )
        _write(beam, done, receipts)

    return await _run(at, job, build)


@bulk.command("prune")
@at_store()
@_job
@retention_options
@click.option("--dry-run", is_flag=True, help="Only say what it would delete.")
@_beam_options
async def prune(at: OpenStore, /, *, dry_run: bool, retention: "Retention", **job: Any) -> Result:
    """Delete the sessions of an app that were kept long enough, with their artifacts.

    As the command prune. Ends with 1 if something cannot be read.
    """

    def build(pipeline: "beam.Pipeline", store: "BulkStore") -> None:
        from gcp_adk_store.bulk import PruneSessions  # noqa: PLC0415  # of an extra

        of_app = {"app_name": job["app_name"], "partitions": job["partitions"]}
        pipeline | PruneSessions(store, **of_app, retention=retention, dry_run=dry_run)

    return await _run(at, job, build, bad=("unreadable",))


@bulk.command("verify")
@at_store()
@_job
@click.argument("broken", metavar="BROKEN")
@_beam_options
async def verify(at: OpenStore, /, *, broken: str, **job: Any) -> Result:
    """Verify all sessions by their hash chains; write those that are not proven to files BROKEN-*.jsonl.

    Ends with 1 if there are any, or a session cannot be read.
    """

    def build(pipeline: "beam.Pipeline", store: "BulkStore") -> None:
        import apache_beam as beam  # noqa: PLC0415  # of an extra

        from gcp_adk_store.bulk import VerifySessions  # noqa: PLC0415

        _write(beam, _infos(pipeline, store, job) | VerifySessions(store), broken)

    return await _run(at, job, build, bad=("broken", "unreadable"))


_MARK: Final = "\ufeff"
"""Of the encoding: files of Windows begin with it. Elsewhere in a file it is a character of an id."""


def _marked(files: str) -> frozenset[str]:
    """Return the first lines of *files*, as Beam finds and reads them, that begin with the mark.

    Raises:
        CannotLookError: no file has this name, or a file cannot be read.
    """
    from apache_beam.io.filesystems import FileSystems  # noqa: PLC0415  # of an extra

    firsts = []
    for found in FileSystems.match([files]):
        for each in found.metadata_list:
            try:
                with FileSystems.open(each.path) as file:
                    firsts.append(file.readline().decode().rstrip("\r\n"))
            except OSError as exc:
                raise CannotLookError(f"{each.path} cannot be read: {exc.strerror}") from exc
            except UnicodeDecodeError as exc:
                raise CannotLookError(f"{each.path} is not UTF-8") from exc
    if not firsts:
        raise CannotLookError(f"{files} does not exist; name a file with an id of a user in each line")
    return frozenset(first for first in firsts if first.startswith(_MARK))


def _without_mark(line: str, marked: frozenset[str]) -> str:
    """Return a line without the mark, if it is one of *marked*."""
    return line.removeprefix(_MARK) if line in marked else line


def _write(beam: Any, found: Any, out: str) -> None:
    """Write values as lines of JSON to files."""
    from gcp_adk_store.bulk.jobs import as_json_line  # noqa: PLC0415  # of an extra

    found | "as JSON" >> beam.Map(as_json_line) | "write" >> beam.io.WriteToText(out, ".jsonl")


def _infos(pipeline: "beam.Pipeline", store: "BulkStore", job: Mapping[str, Any]) -> Any:
    """Return all sessions of the app, without events and state."""
    from gcp_adk_store.bulk import ReadSessions  # noqa: PLC0415  # of an extra

    return pipeline | ReadSessions(store, app_name=job["app_name"], partitions=job["partitions"])


async def _run(at: OpenStore, job: Mapping[str, Any], build: Any, *, bad: Sequence[str] = ()) -> Result:
    """Run a job beside this event loop; the counts *bad* are those that end the command with 1.

    Raises:
        CannotLookError: Apache Beam is not installed, or the job failed.
    """
    try:
        from gcp_adk_store.bulk import run  # noqa: PLC0415  # of an extra
    except ModuleNotFoundError as exc:
        if exc.name != "apache_beam":
            raise
        raise CannotLookError(f"bulk jobs need Apache Beam: {how_to_install('beam')}") from exc
    settings = chosen_settings(at.place)
    with waiting("running"):
        counts: Mapping[str, int] = await asyncio.to_thread(
            run, build, settings, job["beam_options"], processes=job["processes"]
        )
    counted = [f"{name.replace('_', ' ')}: {number:,}" for name, number in counts.items()]
    lines = [at.where, ", ".join(counted) or "nothing was counted"]
    return Result({**at.place, "counts": counts}, lines, status=int(any(map(counts.get, bad))))
