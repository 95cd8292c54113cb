"""Connect every subject to the emulators over one line: at once, delayed, or metered."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.adk.artifacts import GcsArtifactService as AdkGcsArtifactService
from google.adk.integrations.firestore import FirestoreSessionService as AdkFirestoreSessionService
from google.adk.sessions import BaseSessionService
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient
from google.cloud.storage import Client

from gcp_adk_store import FirestoreSessionService, GcsArtifactService
from gcp_adk_store.cloud.firestore.documents import Documents, open_documents
from gcp_adk_store.settings import SessionLimits
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE
from gcp_adk_store.testing.meters import FirestoreMeter
from tools.benchmarks.storage_bytes import CountingSession
from tools.benchmarks.subjects import DATABASE, SQLITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run keeps its data: databases and buckets of its own for each subject."""

    stamp: str
    firestore: str
    """``host:port``."""
    storage: str
    """``http://host:port``."""
    folder: Path
    """For what lies in files."""

    @property
    def project(self) -> str:
        """Ours; ADK's own has another."""
        return f"demo-{self.stamp}"

    @property
    def adk_project(self) -> str:
        """Of ADK's own service."""
        return f"demo-{self.stamp}-adk"

    @property
    def bucket(self) -> str:
        """Ours."""
        return f"bench-{self.stamp}"

    @property
    def adk_bucket(self) -> str:
        """Of ADK's own service."""
        return f"bench-{self.stamp}-adk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meters:
    """Counts what goes over a line."""

    firestore: FirestoreMeter
    storage: CountingSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The subjects, connected."""

    place: Place
    delay_ms: float
    meters: Meters | None
    sessions: FirestoreSessionService
    turn_sessions: FirestoreSessionService
    """Ours, with ``durability="turn"``."""
    adk_sessions: AdkFirestoreSessionService
    local: dict[str, BaseSessionService]
    """Services that use no network, by subject; on the line without delay alone."""
    documents: Documents
    client: AsyncClient
    """A connection for services that are made anew for each operation, ours."""
    artifacts: GcsArtifactService
    adk_artifacts: AdkGcsArtifactService
    storage: Client


@asynccontextmanager
async def open_line(
    place: Place,
    *,
    delay_ms: float = 0,
    meters: Meters | None = None,
    local: Callable[[Path], dict[str, BaseSessionService]] | None = None,
) -> AsyncIterator[Line]:
    """Connect the subjects to *place*, whose addresses say which way, and close them in the end."""
    os.environ[FIRESTORE_VARIABLE] = place.firestore
    os.environ[STORAGE_VARIABLE] = place.storage
    http = None if meters is None else meters.storage
    project, anonymous = place.project, AnonymousCredentials()
    storage = Client(project=project, credentials=anonymous, _http=http)
    line = Line(
        place=place,
        delay_ms=delay_ms,
        meters=meters,
        sessions=FirestoreSessionService(project=project),
        turn_sessions=FirestoreSessionService(project=project, durability="turn"),
        adk_sessions=AdkFirestoreSessionService(client=AsyncClient(project=place.adk_project)),
        local={} if local is None else local(place.folder),
        documents=open_documents(
            project=project,
            database="(default)",
            credentials=None,
            client=None,
            interceptors=(),
            limits=SessionLimits(),
        ),
        client=AsyncClient(project=project),
        # A client of its own, as ours has by default, unless requests are to be counted.
        artifacts=GcsArtifactService(place.bucket, client=None if http is None else storage),
        adk_artifacts=AdkGcsArtifactService(
            place.adk_bucket, project=project, credentials=anonymous, _http=http
        ),
        storage=storage,
    )
    await _connect(line)
    try:
        yield line
    finally:
        await line.sessions.close()
        await line.turn_sessions.close()
        await line.artifacts.close()
        await line.documents.close()
        for service in line.local.values():
            if isinstance(service, DatabaseSessionService):
                await service.close()


def line_place(place: Place, *, firestore: str, storage: str) -> Place:
    """Return *place* as it is reached by other addresses."""
    return replace(place, firestore=firestore, storage=f"http://{storage}")


def local_services(folder: Path) -> dict[str, BaseSessionService]:
    """Return ADK's services that keep sessions in a file."""
    return {
        SQLITE: SqliteSessionService(str(folder / "sqlite.db")),
        DATABASE: DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'database.db'}"),
    }


async def _connect(line: Line) -> None:
    """Let every client find its address and open its connection, so that no measured call does."""
    nobody: dict[str, Any] = {"app_name": "none", "user_id": "none", "session_id": "none"}
    await line.sessions.get_session(**nobody)
    await line.turn_sessions.get_session(**nobody)
    await line.adk_sessions.get_session(**nobody)
    await FirestoreSessionService(client=line.client).get_session(**nobody)
    await line.documents.get(["none/none"])
    await line.artifacts.load_artifact(**nobody, filename="none")
    await line.adk_artifacts.load_artifact(**nobody, filename="none")
    next(iter(line.storage.list_blobs(line.place.bucket, max_results=1)), None)
