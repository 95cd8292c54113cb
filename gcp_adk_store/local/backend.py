"""Open the parts of a local store, which share one database."""

from pathlib import Path
from typing import Final

from gcp_adk_store.kernel.ports import Backend
from gcp_adk_store.local.contents import Contents, FileContents, MemoryContents
from gcp_adk_store.local.database import Database
from gcp_adk_store.local.documents import LocalDocuments
from gcp_adk_store.local.objects import LocalObjects, LocalUploads, local_signer
from gcp_adk_store.local.sweep import Sweeper
from gcp_adk_store.settings import MEMORY, ArtifactLimits, SessionLimits

DATABASE: Final = "store.sqlite3"
"""Name of the database in the folder of a store."""

KEYS: Final = "keys.sqlite3"
"""Name of the database of data keys, which backups must leave out."""

OBJECTS: Final = "objects"
"""Name of the folder with the bytes of objects."""


def open_backend(path: str, session_limits: SessionLimits, artifact_limits: ArtifactLimits) -> Backend:
    """Return the backend in the folder *path*, or in memory; without I/O.

    Raises:
        InvalidInputError: the system cannot have the *path*, such as one with a zero byte.
    """
    # An absolute path: a process may change its directory before the first call.
    database = Database(None if path == MEMORY else Path(path).absolute() / DATABASE)
    contents = contents_of(database, artifact_limits)
    sweeper = Sweeper(database, contents)
    objects = LocalObjects(database, contents, artifact_limits, sweeper=sweeper)
    return Backend(
        documents=LocalDocuments(database, session_limits, sweeper=sweeper),
        objects=objects,
        uploads=LocalUploads(objects, contents),
        signer=local_signer(),
    )


def open_keys(path: str, limits: SessionLimits) -> LocalDocuments:
    """Return the database of the data keys of the store in the folder *path*, or in memory; without I/O."""
    return LocalDocuments(Database(None if path == MEMORY else Path(path).absolute() / KEYS), limits)


def contents_of(database: Database, limits: ArtifactLimits) -> Contents:
    """Return what keeps bytes beside *database*, in the folder ``objects``, or within one in memory."""
    if database.path is None:
        return MemoryContents(database)
    return FileContents(database.path.parent / OBJECTS, limits)
