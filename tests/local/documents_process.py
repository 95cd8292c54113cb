"""Use local documents in a process of its own."""

import asyncio
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gcp_adk_store.codec.writes import Must, Write
from gcp_adk_store.kernel.ports import RefusedError
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.documents import LocalDocuments
from gcp_adk_store.settings import SessionLimits

FIRST = "games/first"


def documents_at(path: str) -> LocalDocuments:
    """Return the documents in a file."""
    return LocalDocuments(Database(Path(path)), SessionLimits())


async def win(path: str, name: str, rounds: int) -> list[list[Any]]:
    """Take each round with the update time that was read; return those that were won, with their times."""
    documents = documents_at(path)
    won = []
    number = 0
    while number < rounds:
        (found,) = await documents.get([FIRST])
        number = 0 if found is None else int(str(found.fields["round"])) + 1
        if number >= rounds:
            break
        try:
            (written,) = await documents.commit(
                [
                    Write(
                        path=FIRST,
                        fields={"round": number, "winner": name},
                        must=Must.BE_ABSENT if found is None else found.update_time,
                    )
                ],
                repeatable_when_unanswered=False,
            )
        except RefusedError:
            continue
        won.append([number, written.update_time])
    await documents.close()
    return won


def write_pairs(caller: Connection, path: str) -> None:
    """Write two documents and a counter in each commit until the process is killed; tell what is stored."""
    asyncio.run(_write_pairs(caller, path))


async def _write_pairs(caller: Connection, path: str) -> None:
    documents = documents_at(path)
    for number in count():
        await documents.commit(
            [
                Write(path=f"pairs/{number}-a", fields={"body": bytes(50_000)}),
                Write(path="pairs/all", fields={}, mask=[], increment={"pairs": 1}),
                Write(path=f"pairs/{number}-b", fields={"texts": ["x" * 500] * 100}),
            ],
            repeatable_when_unanswered=False,
        )
        caller.send(number)  # the process is killed; its last word is what it stored
