"""The commands that list, get and delete artifacts."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.filesize import decimal
from rich.table import Table

from gcp_adk_store.cli.failures import CannotLookError, NotThereError
from gcp_adk_store.cli.options import deletion_options, given_id, json_option, require_decision
from gcp_adk_store.cli.output import called, opened_file
from gcp_adk_store.cli.place import at_store, command_line, described, place_options, where
from gcp_adk_store.cli.screen import cell, progress, show, waiting
from gcp_adk_store.cli.terminal import in_one_line, moment
from gcp_adk_store.operations.fan_out import fan_out
from gcp_adk_store.settings import StoreSettings

if TYPE_CHECKING:
    from gcp_adk_store.artifacts.service import GcsArtifactService
    from gcp_adk_store.artifacts.stored_version import StoredArtifactVersion
    from gcp_adk_store.store import Store

_AT_ONCE: Final = 16
"""Concurrent listings of versions: as many as the service has threads."""

_SCOPE: Final = ("app", "user", "session")

_app = given_id("--app", required=True, says="Name of the app.")
_user = given_id("--user", required=True, says="Id of the user.")


@click.group()
def artifacts() -> None:
    """List, get and delete artifacts.

    Each ends with 1 if the store has no such artifact, with 2 if it cannot look.
    """


@artifacts.command("list")
@place_options
@_app
@_user
@given_id("--session", says="Id of a session, for its own too; by default the user's alone.")
@json_option
@click.pass_context
def list_(
    ctx: click.Context,
    /,
    *,
    app: str,
    user: str,
    session: str | None,
    as_json: bool,
    **place: str | None,
) -> None:
    """List the artifacts of a user, or of a session and its user, with all their versions.

    Takes 1 listing for the names and 1 for each artifact. Ends with 0, also for an empty list, or with 2 if
    it cannot look.
    """
    scope: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": session}

    async def work(
        store: "Store", settings: StoreSettings
    ) -> "tuple[list[tuple[str, StoredArtifactVersion]], StoreSettings]":
        service = _service(ctx, store)
        names = await service.list_artifact_keys(**scope)
        versions: list[Any] = []
        with progress("listing versions: artifacts", total=len(names)) as bar:
            for start in range(0, len(names), _AT_ONCE):
                some = names[start : start + _AT_ONCE]
                versions += await fan_out(
                    service.list_artifact_versions(**scope, filename=each) for each in some
                )
                bar.move_to(len(versions))
        rows = [(name, each) for name, some in zip(names, versions, strict=True) for each in some]
        return rows, settings

    rows, settings = at_store(place, work, needs_project=False)
    if as_json:
        told = [{"filename": name} | _described(version) for name, version in rows]
        click.echo(json.dumps(described(settings) | scope | {"versions": told}))
        return
    show(where(settings))
    table = Table("filename", "version", "size", "type", "saved", box=None)
    for column in table.columns[1:3]:
        column.justify = "right"
    for name, version in rows:
        kind = cell(version.mime_type or "")
        table.add_row(
            cell(name), f"{version.version}", decimal(version.size), kind, moment(version.create_time)
        )
    show(table if rows else "no artifacts")


@artifacts.command("get")
@place_options
@_app
@_user
@given_id("--session", says='Id of the session, unless the filename begins with "user:".')
@click.option("--filename", metavar="NAME", required=True, help="The artifact.")
@click.option("--version", metavar="N", type=click.IntRange(min=0), help="By default the latest.")
@click.option(
    "-o",
    "--output",
    "out",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help='Where its bytes go; "-" is standard output.',
)
@click.pass_context
def get(
    ctx: click.Context,
    /,
    *,
    app: str,
    user: str,
    session: str | None,
    filename: str,
    version: int | None,
    out: Path,
    **place: str | None,
) -> None:
    """Write the bytes of an artifact to a file, of any size in little memory.

    The file appears, or is replaced, when all of it is there and its checksum is right.
    """
    named: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": session, "filename": filename}

    async def work(store: "Store", settings: StoreSettings) -> "StoredArtifactVersion":
        service = _service(ctx, store)
        # Before it opens a file, so that a missing artifact leaves no file.
        found = await service.get_artifact_version(**named, version=version)
        if found is not None:
            with progress("getting: bytes", total=found.size) as bar:
                async with opened_file(ctx, out) as file:
                    found = await service.load_artifact_to(
                        **named, version=found.version, target=file, on_progress=bar.move_to
                    )
        if found is None:
            which = "" if version is None else f" version {version} of"
            raise _not_there(ctx, f"there is no{which} artifact {filename!r} in {where(settings)}")
        return found

    got = at_store(place, work, needs_project=False)
    click.echo(
        f"version {got.version}, {in_one_line(got.mime_type or 'no type')}, {got.size:,} bytes, "
        f"written to {called(out)}",
        err=True,
    )


@artifacts.command("delete")
@place_options
@_app
@_user
@given_id("--session", says="Id of the session; with --all and without it, of all sessions of the user.")
@click.option("--filename", metavar="NAME", help="The artifact, of which all versions are deleted.")
@click.option("--all", "all_", is_flag=True, help="All artifacts of the session, or all that the user has.")
@deletion_options
@json_option
@click.pass_context
def delete(
    ctx: click.Context,
    /,
    *,
    app: str,
    user: str,
    session: str | None,
    filename: str | None,
    all_: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **place: str | None,
) -> None:
    """Delete an artifact, or all of a session or a user; --dry-run says what would go, --yes deletes it."""
    require_decision(ctx, dry_run=dry_run, yes=yes)
    if (filename is None) != all_:
        raise CannotLookError(
            "nothing was deleted: name one artifact with --filename, or all with --all; those there are: "
            + _list_line(ctx)
        )

    async def work(store: "Store", settings: StoreSettings) -> tuple[list[str], StoreSettings]:
        service = _service(ctx, store)
        with waiting("deleting"):
            if filename is None:
                gone = await _delete_all(service, app, user, session, dry_run=dry_run)
            else:
                gone = await _delete_one(service, app, user, session, filename, dry_run=dry_run)
        if not gone:
            raise _not_there(
                ctx, "no artifacts exist" if filename is None else f"the artifact {filename!r} does not exist"
            )
        return gone, settings

    gone, settings = at_store(place, work, needs_project=False)
    if as_json:
        outcome = "found" if dry_run else "deleted"
        click.echo(json.dumps(described(settings) | {"artifacts": gone, "outcome": outcome}))
        return
    show(where(settings))
    for name in gone:
        click.echo(f"{'would delete' if dry_run else 'deleted'} {in_one_line(name)}")


async def _delete_one(
    service: "GcsArtifactService", app: str, user: str, session: str | None, filename: str, *, dry_run: bool
) -> list[str]:
    """Delete all versions of an artifact unless *dry_run*; return its name, or nothing without versions."""
    named: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": session, "filename": filename}
    if not await service.list_versions(**named):
        return []
    if not dry_run:
        await service.delete_artifact(**named)
    return [filename]


async def _delete_all(
    service: "GcsArtifactService", app: str, user: str, session: str | None, *, dry_run: bool
) -> list[str]:
    """Delete all artifacts of a session, or of a user, unless *dry_run*; return their names."""
    if session is None:
        return await service.delete_user_artifacts(app_name=app, user_id=user, dry_run=dry_run)
    return await service.delete_session_artifacts(
        app_name=app, user_id=user, session_id=session, dry_run=dry_run
    )


def _service(ctx: click.Context, store: "Store") -> "GcsArtifactService":
    """Return the service of the artifacts.

    Raises:
        CannotLookError: neither an option nor the environment names a bucket.
    """
    if not store.has_artifacts:
        named = command_line(ctx, bucket="NAME")
        raise CannotLookError(f"no bucket: set ADK_STORE_BUCKET, or pass one: {named}")
    return store.artifacts


def _not_there(ctx: click.Context, says: str) -> NotThereError:
    return NotThereError(f"{in_one_line(says)}; those there are: {_list_line(ctx)}")


def _list_line(ctx: click.Context) -> str:
    return command_line(ctx, "artifacts list", only=_SCOPE)


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
