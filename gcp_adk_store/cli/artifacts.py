"""The commands that list, get and delete artifacts."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.filesize import decimal
from rich.table import Column, Table

from gcp_adk_store.cli.place import (
    IDS,
    OpenStore,
    at_store,
    called,
    command_line,
    deletion_options,
    given_id,
    json_option,
    number_option,
    opened_file,
    user_options,
)
from gcp_adk_store.cli.screen import CannotLookError, NotThereError, Result, cell, progress, waiting
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.model.keys import in_one_line, moment

if TYPE_CHECKING:
    from gcp_adk_store.artifacts.service import ArtifactService
    from gcp_adk_store.artifacts.versions import StoredArtifactVersion
    from gcp_adk_store.store import Store

_AT_ONCE: Final = 16
"""Concurrent listings of versions: as many as the service has threads."""


@click.group()
def artifacts() -> None:
    """List, get and delete artifacts.

    Each ends with 1 if the store has no such artifact, with 2 if it cannot run.
    """


@artifacts.command("list")
@at_store(needs_project=False)
@user_options
@given_id("--session", says="Id of a session, for its own too; by default the user's alone.")
@json_option
async def list_(at: OpenStore, /, **scope: Any) -> Result:
    """List the artifacts of a user, or of a session and its user, with all their versions.

    Takes 1 listing for the names and 1 for each artifact. Ends with 0, also for an empty list, or with 2 if
    it cannot run.
    """
    service = _service(at.store)
    names = await service.list_artifact_keys(**scope)
    versions: list[Any] = []
    with progress("listing versions: artifacts", total=len(names)) as move_to:
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            versions += await gather(service.list_artifact_versions(**scope, filename=each) for each in some)
            move_to(len(versions))
    rows = [(name, each) for name, some in zip(names, versions, strict=True) for each in some]
    described = [{"filename": name} | _described(version) for name, version in rows]
    numbers = (Column(name, justify="right") for name in ("version", "size"))
    table = Table("filename", *numbers, "type", "saved", box=None)
    for name, version in rows:
        kind, saved = cell(version.mime_type or ""), moment(version.create_time)
        table.add_row(cell(name), f"{version.version}", decimal(version.size), kind, saved)
    return Result({**at.place, **scope, "versions": described}, [at.where, table if rows else "no artifacts"])


@artifacts.command("get")
@at_store(needs_project=False)
@user_options
@given_id("--session", says='Id of the session, unless the filename begins with "user:".')
@click.option("--filename", metavar="NAME", required=True, help="The artifact.")
@number_option("--version", kind=click.IntRange(0), says="Version to get; by default the latest.")
@click.option(
    "-o",
    "--output",
    "out",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help='File for the bytes; "-" is standard output.',
)
async def get(at: OpenStore, /, *, version: int | None, out: Path, **named: Any) -> None:
    """Write the bytes of an artifact to a file, of any size in little memory.

    The file appears, or is replaced, when all of it is there and its checksum is right.
    """
    service = _service(at.store)
    which = "" if version is None else f" in version {version}"
    missing = _not_there(f"the artifact {named['filename']!r} does not exist{which} in {at.where}")
    # Before it opens a file, so that a missing artifact leaves no file.
    described = await service.get_artifact_version(**named, version=version)
    if described is None:
        raise missing
    with progress("getting: bytes", total=described.size) as move_to:
        async with opened_file(out) as file:
            found = await service.load_artifact_to(
                **named, version=described.version, target=file, on_progress=move_to
            )
            if found is None:  # a rewind removed it: the file stays as it was
                raise missing
    click.echo(
        f"version {found.version}, {in_one_line(found.mime_type or 'no type')}, {found.size:,} bytes, "
        f"written to {called(out)}",
        err=True,
    )


@artifacts.command("delete")
@at_store(needs_project=False)
@user_options
@given_id("--session", says="Id of the session; with --all and without it, of all sessions of the user.")
@click.option("--filename", metavar="NAME", help="The artifact, of which all versions are deleted.")
@click.option("--all", "all_", is_flag=True, help="All artifacts of the session, or all that the user has.")
@deletion_options
@json_option
async def delete(
    at: OpenStore, /, *, filename: str | None, all_: bool, dry_run: bool, **scope: Any
) -> Result:
    """Delete an artifact, or all of a session or a user; --dry-run only says what it would delete."""
    if (filename is None) != all_:
        raise CannotLookError(
            "nothing was deleted: name one artifact with --filename, or all with --all; list them: "
            + command_line("artifacts list", only=IDS)
        )
    with waiting("deleting"):
        gone = await _delete(_service(at.store), filename, scope, dry_run=dry_run)
    if not gone:
        what = "no artifacts exist" if filename is None else f"the artifact {filename!r} does not exist"
        raise _not_there(what)
    done, outcome = ("would delete", "found") if dry_run else ("deleted", "deleted")
    lines = [f"{done} {in_one_line(name)}" for name in gone]
    return Result({**at.place, "artifacts": gone, "outcome": outcome}, [at.where, *lines])


async def _delete(
    service: "ArtifactService", filename: str | None, scope: dict[str, Any], *, dry_run: bool
) -> list[str]:
    """Delete an artifact, or all of a session or a user, unless *dry_run*; return the names."""
    if filename is not None:
        if not await service.list_versions(**scope, filename=filename):
            return []
        if not dry_run:
            await service.delete_artifact(**scope, filename=filename)
        return [filename]
    if scope["session_id"] is not None:
        return await service.delete_session_artifacts(**scope, dry_run=dry_run)
    user = {name: scope[name] for name in ("app_name", "user_id")}
    return await service.delete_user_artifacts(**user, dry_run=dry_run)


def _service(store: "Store") -> "ArtifactService":
    """Return the service of the artifacts; end the command if nothing names a bucket."""
    if not store.has_artifacts:
        raise CannotLookError(f"no bucket: set ADK_STORE_BUCKET, or pass one: {command_line(bucket='NAME')}")
    return store.artifacts


def _not_there(says: str) -> NotThereError:
    return NotThereError(f"{in_one_line(says)}; list them: {command_line('artifacts list', only=IDS)}")


def _described(version: "StoredArtifactVersion") -> dict[str, Any]:
    return {
        "version": version.version,
        "bytes": version.size,
        "mime_type": version.mime_type,
        "create_time": version.create_time,
        "uri": version.canonical_uri,
        "custom_metadata": version.custom_metadata,
        "crc32c": version.crc32c,
    }
