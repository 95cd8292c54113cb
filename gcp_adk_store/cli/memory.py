"""The commands that list, search and delete memories, and make their vectors."""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource
from rich.table import Table

from gcp_adk_store.cli.place import (
    IDS,
    OpenStore,
    at_store,
    command_line,
    deletion_options,
    given_id,
    imported,
    json_option,
    next_page,
    number_option,
    page_options,
    user_options,
)
from gcp_adk_store.cli.screen import CannotLookError, NotThereError, Result, cell, progress, waiting
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.model.keys import in_one_line, moment
from gcp_adk_store.settings import MAX_RESULTS

if TYPE_CHECKING:
    from google.adk.memory.memory_entry import MemoryEntry

    from gcp_adk_store.kernel.ports import Embedder

_SHOWN: Final = 200
"""Characters of a memory in a table; JSON has it whole."""


@click.group()
def memory() -> None:
    """List, search and delete memories, and make their vectors.

    Each ends with 1 if the store has no such memory, with 2 if it cannot run.
    """


@memory.command("list")
@at_store()
@user_options
@given_id("--session", says="Only memories of this session.")
@page_options("Memories")
@json_option
async def list_(at: OpenStore, /, **asked: Any) -> Result:
    """List the memories of a user, the newest first, a page at a time.

    Ends with 0, also for an empty page, or with 2 if it cannot run.
    """
    page = await at.store.memory.list_memories(**asked)
    described = [_described(each) for each in page.memories]
    shown = _table(page.memories) if page.memories else "no memories on this page"
    data = {**at.place, "memories": described, "next_cursor": page.next_cursor}
    return Result(data, [at.where, shown, *next_page(page.next_cursor)])


@memory.command("search")
@at_store()
@user_options
@given_id("--session", says="Only memories of this session.")
@number_option("--limit", kind=click.IntRange(1, MAX_RESULTS), default=10, says="Memories to show.")
@click.argument("query")
@json_option
async def search(at: OpenStore, /, *, query: str, **asked: Any) -> Result:
    """Search the memories of a user for the words of QUERY, the best first.

    Ends with 0, also if it finds nothing, or with 2 if it cannot run.
    """
    found = await at.store.memory.search_memories(query=query, **asked)
    described = [{**_described(each.memory), "score": each.score} for each in found]
    table = _table([each.memory for each in found], [f"{each.score:.3f}" for each in found])
    shown = table if found else "no memory has these words"
    return Result({**at.place, "memories": described}, [at.where, shown])


@memory.command("delete")
@at_store()
@user_options
@click.option("--id", "memory_id", metavar="ID", help="Id of one memory.")
@given_id("--session", says="Id of a session, of which all memories are deleted.")
@click.option("--all", "all_", is_flag=True, help="All memories of the user, and every trace of them.")
@deletion_options
@json_option
async def delete(
    at: OpenStore,
    /,
    *,
    memory_id: str | None,
    session_id: str | None,
    all_: bool,
    dry_run: bool,
    **user: Any,
) -> Result:
    """Delete one memory, or all of a session or a user; --dry-run only says what it would delete.

    What is deleted by --id or --session does not come back when its session is added again. What cannot be
    read is deleted, too, as far as it can be found; a dry run ends with 2 at it.
    """
    if [memory_id is not None, session_id is not None, all_].count(True) != 1:
        raise CannotLookError(
            "nothing was deleted: name one memory with --id, one session with --session, or all with --all; "
            f"list them: {command_line('memory list', only=IDS[:2])}"
        )
    with waiting("deleting"):
        gone, unread = await _chosen(at, user, memory_id, session_id)
        if unread is not None and dry_run:
            raise unread
        # Of all, what is left may be ids of removed ones alone.
        if not dry_run and (gone or unread is not None or all_):
            await _delete(at, user, memory_id, session_id)
    if unread is not None:
        says = f"some of it could not be read, and is deleted, too: {in_one_line(str(unread))}"
        click.echo(says, err=True)
    elif not gone:
        raise NotThereError(f"no such memory exists; list them: {command_line('memory list', only=IDS[:2])}")
    ids = [each.id for each in gone] if memory_id is None else [memory_id]
    done, outcome = ("would delete", "found") if dry_run else ("deleted", "deleted")
    data = {**at.place, "memories": ids, "outcome": outcome}
    return Result(data, [at.where, f"{done} {len(ids):,}", _table(gone)])


async def _chosen(
    at: OpenStore, user: dict[str, Any], memory_id: str | None, session_id: str | None
) -> "tuple[list[MemoryEntry], StoredDataError | None]":
    """Return the memories to delete that can be read, and why others cannot that may be among them."""
    gone: list[MemoryEntry] = []
    try:
        async for each in _all(at, {**user, "session_id": session_id}):
            gone += [each] if memory_id in (None, each.id) else []
    except StoredDataError as exc:
        # One memory may be another one than that which cannot be read.
        if memory_id is None or (not gone and await at.store.memory.has_memory(**user, memory_id=memory_id)):
            return gone, exc
    return gone, None


async def _delete(at: OpenStore, user: dict[str, Any], memory_id: str | None, session_id: str | None) -> None:
    service = at.store.memory
    if memory_id is not None:
        await service.delete_memory(**user, memory_id=memory_id)
    elif session_id is not None:
        await service.delete_session_memory(**user, session_id=session_id)
    else:
        await service.delete_user_memory(**user)


@memory.command("reindex")
@at_store()
@user_options
@click.option(
    "--model",
    metavar="NAME",
    default="gemini-embedding-001",
    show_default=True,
    help="Embedding model of google-genai.",
)
@number_option(
    "--dimensions", kind=click.IntRange(1, 4096), default=256, says="Numbers in each vector of the model."
)
@click.option(
    "--embedder", metavar="MODULE:NAME", help="Your own embedder, or a function that returns it, instead."
)
@click.option("--dry-run", is_flag=True, help="Only count the vectors that are missing.")
@json_option
async def reindex(
    at: OpenStore, /, *, model: str, dimensions: int, embedder: str | None, dry_run: bool, **user: Any
) -> Result:
    """Make the vectors that memories of a user lack, and replace those of another model.

    Safe while agents run; an interrupted one goes on where it ended. Ends with 1 if the model refused texts.
    """
    # Imported here: they bring google-genai.
    from gcp_adk_store.memory.embedding import GenaiEmbedder  # noqa: PLC0415
    from gcp_adk_store.memory.service import MemoryService  # noqa: PLC0415

    asked = click.get_current_context().get_parameter_source
    if embedder is not None and ParameterSource.COMMANDLINE in map(asked, ("model", "dimensions")):
        raise CannotLookError("--embedder takes no --model and no --dimensions: leave them out")
    genai = GenaiEmbedder(model=model, dimensions=dimensions)
    chosen = genai if embedder is None else _named(embedder)
    try:
        service = MemoryService(at.store.sessions.storage, embedder=chosen)
    except ModuleNotFoundError as exc:  # the message has the command that installs the extra
        raise CannotLookError(str(exc)) from exc
    with progress("embedding: memories") as move_to:
        done = await service.reindex_memories(**user, dry_run=dry_run, on_progress=move_to)
    return Result(
        {**at.place, "embedder": chosen.name, "dimensions": chosen.dimensions, **asdict(done)},
        [
            at.where,
            f"{done.memories:,} memories, {done.missing:,} without a vector of {in_one_line(chosen.name)}",
            "run it without --dry-run to make them" if dry_run else f"{done.embedded:,} got one",
            *(f"the embedder refused the text of {in_one_line(each)}" for each in done.refused),
        ],
        status=1 if done.refused else 0,
    )


def _named(path: str) -> "Embedder":
    """Return the embedder that *path*, ``MODULE:NAME``, names.

    Raises:
        CannotLookError: it names none.
    """
    module, _, name = path.partition(":")
    try:
        found = imported(module, name)
        if not hasattr(found, "embed") or isinstance(found, type):
            found = found()
    except (Exception, SystemExit) as exc:  # a module may raise anything, and scripts end
        raise CannotLookError(
            f"--embedder {in_one_line(path)} names no embedder ({type(exc).__name__}); pass MODULE:NAME"
        ) from exc
    embedder: Embedder = found
    return embedder


async def _all(at: OpenStore, scope: dict[str, Any]) -> "AsyncIterator[MemoryEntry]":
    cursor = None
    while True:
        page = await at.store.memory.list_memories(**scope, page_size=MAX_RESULTS, cursor=cursor)
        for each in page.memories:
            yield each
        cursor = page.next_cursor
        if cursor is None:
            return


def _table(entries: "list[MemoryEntry]", scores: list[str] | None = None) -> Table:
    table = Table(*(["score"] if scores else []), "id", "session", "author", "time", "text", box=None)
    for number, each in enumerate(entries):
        text = _text(each)
        table.add_row(
            *([scores[number]] if scores else []),
            cell(each.id or ""),
            cell(str(each.custom_metadata.get("adk_store_session", ""))),
            cell(each.author or ""),
            cell(_time(each)),
            cell(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"),
        )
    return table


def _time(entry: "MemoryEntry") -> str:
    stamp = entry.timestamp or ""
    with suppress(ValueError, OverflowError):
        return moment(datetime.fromisoformat(stamp).timestamp())
    return stamp


def _text(entry: "MemoryEntry") -> str:
    return " ".join(part.text for part in entry.content.parts or [] if part.text)


def _described(entry: "MemoryEntry") -> dict[str, Any]:
    return entry.model_dump(mode="json", exclude_none=True)
