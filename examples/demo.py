"""Run a real agent on the emulators, then go on in a second process; show what was stored and its price.

``make demo`` runs it. It exits with 0 only if every value it expected came back.
"""

import argparse
import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts import GcsArtifactService as AdkGcsArtifactService
from google.adk.integrations.firestore import FirestoreSessionService as AdkFirestoreSessionService
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore
from google.cloud.storage import Client
from google.genai import types
from rich.console import Console
from rich.table import Column, Table

from examples.support_agent import (
    APP,
    FIRST_TURNS,
    LAST_TURN,
    REPORT,
    SESSION,
    USER,
    ScriptedModel,
    agent,
)
from gcp_adk_store import FirestoreSessionService, GcsArtifactService, Store
from gcp_adk_store.testing.emulators import EmulatorError, firestore_emulator, storage_emulator
from gcp_adk_store.testing.firestore_meter import FirestoreFigures, FirestoreMeter
from gcp_adk_store.testing.storage_meter import MeteredSession, StorageFigures

console = Console(width=max(100, Console().width))

WHO: dict[str, Any] = {"app_name": APP, "user_id": USER, "session_id": SESSION}

STATE_AFTER_FIRST = {
    "topic": "invoices",
    "user:name": "Ada",
    "app:last_customer": "Ada",
    "reports": [29, 20],
}
STATE_AFTER_LAST = {**STATE_AFTER_FIRST, "topic": "closed", "reports": [29, 20, 22]}
EVENTS_AFTER_FIRST = 4 + 6 + 4
EVENTS_AFTER_LAST = EVENTS_AFTER_FIRST + 6


@dataclass(frozen=True)
class Turn:
    """What one turn asked of the services."""

    firestore: FirestoreFigures
    storage: StorageFigures


class Checks:
    """Compares what came back with what was expected, and says so."""

    def __init__(self) -> None:
        self.failed = 0

    def equal(self, what: str, expected: object, found: object) -> None:
        """Print whether *found* is as *expected*."""
        if expected == found:
            console.print(f"  [green]ok[/]  {what}")
        else:
            self.failed += 1
            console.print(f"  [red]NOT[/] {what}: expected {expected!r}, found {found!r}", markup=True)


def main(arguments: Sequence[str]) -> int:
    """Run the first process, or with ``--second`` the one that goes on."""
    # A scripted model uses no tokens, which ADK finds worth a warning at each call.
    logging.getLogger("google_adk").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--second", nargs=2, metavar=("PROJECT", "BUCKET"), help=argparse.SUPPRESS)
    second = parser.parse_args(arguments).second
    if second:
        return asyncio.run(second_process(*second))
    try:
        with firestore_emulator() as documents, storage_emulator() as objects:
            os.environ[documents.variable] = documents.address
            os.environ[objects.variable] = objects.address
            return asyncio.run(first_process())
    except EmulatorError as exc:
        print(exc, file=sys.stderr)
        return 1


async def first_process() -> int:
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
                stored = await store.sessions.get_session(**WHO)
        told = model.instructions
        checks.equal("the instruction knows user:name from the second turn on", True, "help Ada" in told[2])
        checks.equal("and the report that the tool saved", True, "two invoices are open." in told[3])
        checks.equal("temp:mood is there in its turn", True, "Mood: busy" in told[4])
        checks.equal("and gone in the next", True, "Mood: busy" not in told[5])
        checks.equal("state of all scopes", STATE_AFTER_FIRST, stored and stored.state)
        checks.equal("events", EVENTS_AFTER_FIRST, stored and len(stored.events))

        sys.stdout.flush()
        console.rule("A second process goes on")
        command = [sys.executable, "-m", "examples.demo", "--second", project, bucket]
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
    console.print()
    if checks.failed:
        console.print(f"[red]{checks.failed} values did not come back as expected[/]")
        return 1
    console.print("[green]Every expected value came back.[/]")
    return 0


async def second_process(project: str, bucket: str) -> int:
    """Open the same session, show it, take one more turn."""
    checks = Checks()
    async with Store.connect(project=project, bucket=bucket) as store:
        session = await store.sessions.get_session(**WHO)
        versions = await store.artifacts.list_versions(**WHO, filename=REPORT)
        checks.equal("merged state", STATE_AFTER_FIRST, session and session.state)
        checks.equal("events of three turns", EVENTS_AFTER_FIRST, session and len(session.events))
        checks.equal("versions of the report", [0, 1], versions)
        for number in versions:
            part = await store.artifacts.load_artifact(**WHO, filename=REPORT, version=number)
            console.print(f"      version {number}: {part.text if part else None}")
        words, script = LAST_TURN
        runner = runner_for(ScriptedModel(script=script), store.sessions, store.artifacts)
        answers = await say_to(runner, words)
        console.print(f"      user: {words}\n      agent: {answers[-1]}")
        checks.equal("the agent's answer", "Closed. Goodbye, Ada.", answers[-1])
        session = await store.sessions.get_session(**WHO)
        report = await store.artifacts.load_artifact(**WHO, filename=REPORT)
        checks.equal("state after the turn", STATE_AFTER_LAST, session and session.state)
        checks.equal("events after the turn", EVENTS_AFTER_LAST, session and len(session.events))
        checks.equal("the latest report", "All invoices are paid.", report and report.text)
    return 1 if checks.failed else 0


async def take_turns(
    sessions: BaseSessionService,
    artifacts: BaseArtifactService,
    meter: FirestoreMeter,
    http: MeteredSession,
) -> tuple[list[Turn], ScriptedModel]:
    """Make the session and take the first turns; return what each asked of the services."""
    model = ScriptedModel(script=[parts for _, answers in FIRST_TURNS for parts in answers])
    runner = runner_for(model, sessions, artifacts)
    await sessions.create_session(**WHO)
    meter.take()
    http.take()
    turns = []
    for words, _ in FIRST_TURNS:
        answers = await say_to(runner, words)
        console.print(f"  user: {words}\n  agent: {answers[-1]}")
        turns.append(Turn(firestore=meter.take(), storage=http.take()))
    return turns, model


def runner_for(model: ScriptedModel, sessions: BaseSessionService, artifacts: BaseArtifactService) -> Runner:
    """Return ADK's runner of the demo's agent on these services."""
    return Runner(app_name=APP, agent=agent(model), session_service=sessions, artifact_service=artifacts)


async def say_to(runner: Runner, words: str) -> list[str]:
    """Take one turn; return what the agent said."""
    message = types.Content(role="user", parts=[types.Part(text=words)])
    said = []
    async for event in runner.run_async(user_id=USER, session_id=SESSION, new_message=message):
        said += [part.text for part in (event.content.parts if event.content else None) or [] if part.text]
    return said


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
