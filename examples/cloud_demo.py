"""The demo on the emulators, beside ADK's own services: what was stored and its price."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts import GcsArtifactService as AdkGcsArtifactService
from google.adk.integrations.firestore import FirestoreSessionService as AdkFirestoreSessionService
from google.adk.sessions import BaseSessionService
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore
from google.cloud.storage import Client
from rich.table import Column, Table

from examples.support_agent import ScriptedModel
from examples.turns import Checks, check_first_turns, console, first_model, first_turns
from gcp_adk_store import FirestoreSessionService, GcsArtifactService, Store
from gcp_adk_store.testing.emulators import firestore_emulator, storage_emulator
from gcp_adk_store.testing.meters import FirestoreFigures, FirestoreMeter, MeteredSession, StorageFigures


@dataclass(frozen=True)
class Turn:
    """What one turn asked of the services."""

    firestore: FirestoreFigures
    storage: StorageFigures


async def on_emulators() -> int:
    """Run the demo on the emulators that are reachable, or that are started for it; return an exit status.

    Raises:
        EmulatorError: an emulator is missing or does not start.
    """
    with firestore_emulator() as documents, storage_emulator() as objects:
        os.environ[documents.variable] = documents.address
        os.environ[objects.variable] = objects.address
        return await compared()


async def compared() -> int:
    """Take three turns, let a second process take one more, and compare with ADK's own services."""
    checks = Checks()
    stamp = f"{time.time_ns():x}"
    project, bucket = f"demo-{stamp}", f"demo-{stamp}"
    admin = storage_client()
    admin.create_bucket(bucket)
    admin.create_bucket(f"{bucket}-adk")
    with FirestoreMeter(os.environ["FIRESTORE_EMULATOR_HOST"]) as meter:
        console.rule("Three turns of an agent, in this process")
        with pointed_at(meter):
            session = MeteredSession()
            store = Store(
                sessions=FirestoreSessionService(project=project),
                artifacts=GcsArtifactService(bucket, client=storage_client(session)),
            )
            async with store:
                ours, model = await take_turns(store.sessions, store.artifacts, meter, session)
                await check_first_turns(checks, store, model)

        sys.stdout.flush()
        console.rule("A second process goes on")
        command = [sys.executable, "-m", "examples.demo", "--second-in-cloud", project, bucket]
        status = subprocess.run(command, check=False).returncode  # noqa: ASYNC221  # nothing else runs here
        checks.equal("the second process found all it expected", 0, status)

        console.rule("Where it is stored")
        show_stored(project, bucket)

        console.rule("What a turn takes")
        with pointed_at(meter):
            adk_session = MeteredSession()
            theirs, _ = await take_turns(
                AdkFirestoreSessionService(client=firestore.AsyncClient(project=f"{project}-adk")),
                AdkGcsArtifactService(
                    f"{bucket}-adk", project=project, credentials=AnonymousCredentials(), _http=adk_session
                ),
                meter,
                adk_session,
            )
        console.print(figures_table(ours, theirs))
        checks.equal("fewer RPCs than ADK's own services", True, rpcs(ours) < rpcs(theirs))
    return checks.conclude()


async def take_turns(
    sessions: BaseSessionService,
    artifacts: BaseArtifactService,
    meter: FirestoreMeter,
    http: MeteredSession,
) -> tuple[list[Turn], ScriptedModel]:
    """Take the first turns; return what each asked of the services."""
    model = first_model()
    turns = []
    async for _ in first_turns(sessions, artifacts, model):
        turns.append(Turn(firestore=meter.take(), storage=http.take()))  # noqa: PERF401  # not what a list does
    return turns[1:], model


@contextmanager
def pointed_at(meter: FirestoreMeter) -> Iterator[None]:
    """Let clients made meanwhile talk to the emulator through *meter*."""
    emulator = os.environ["FIRESTORE_EMULATOR_HOST"]
    os.environ["FIRESTORE_EMULATOR_HOST"] = meter.address
    try:
        yield
    finally:
        os.environ["FIRESTORE_EMULATOR_HOST"] = emulator


def storage_client(http: MeteredSession | None = None) -> Client:
    """Return a client of the emulator."""
    return Client(project="demo", credentials=AnonymousCredentials(), _http=http)


def show_stored(project: str, bucket: str) -> None:
    """Print paths and sizes, read with Google's own clients."""
    table = Table(Column("stored as", overflow="fold"), Column("what", overflow="fold"), box=None)
    client = firestore.Client(project=project)
    for path, fields in documents_below(client.collections()):
        table.add_row(path, ", ".join(f"{name}={brief(value)}" for name, value in sorted(fields.items())))
    for blob in storage_client().list_blobs(bucket):
        table.add_row(f"gs://{bucket}/{blob.name}", f"{blob.size} bytes, {blob.content_type}")
    console.print(table)


def documents_below(collections: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield path and fields of each document, parents first."""
    for collection in collections:
        for reference in collection.list_documents():
            document = reference.get()
            if document.exists:
                yield reference.path, document.to_dict()
            yield from documents_below(reference.collections())


def brief(value: object) -> str:
    """Return *value* as a word or two."""
    return f"{len(value)} events" if isinstance(value, list) else str(value)


def figures_table(ours: list[Turn], theirs: list[Turn]) -> Table:
    """Return the figures of both, turn by turn."""
    table = Table("", "gcp_adk_store", "ADK's own", title="three turns: calls and billed operations")
    rows: dict[str, Callable[[Turn], int]] = {
        "Firestore RPCs": lambda turn: turn.firestore.rpc_count,
        "  documents read": lambda turn: turn.firestore.reads,
        "  documents written": lambda turn: turn.firestore.writes,
        "Cloud Storage requests": lambda turn: turn.storage.request_count,
        "  Class A (write, list)": lambda turn: turn.storage.class_a,
        "  Class B (read)": lambda turn: turn.storage.class_b,
    }
    for name, count in rows.items():
        cells = []
        for turns in (ours, theirs):
            counts = [count(turn) for turn in turns]
            cells.append(f"{' + '.join(map(str, counts))} = {sum(counts)}")
        table.add_row(name, *cells)
    return table


def rpcs(turns: list[Turn]) -> int:
    """Return all RPCs of *turns*."""
    return sum(turn.firestore.rpc_count for turn in turns)
