"""Make Google's own Firestore client, for services of ADK that need one."""

from google.auth.credentials import Credentials
from google.cloud.firestore import AsyncClient


def new_client(*, project: str | None, database: str, credentials: Credentials | None = None) -> AsyncClient:
    """Return a client; without *project* and *credentials*, the environment's. The caller closes it."""
    return AsyncClient(project=project, database=database, credentials=credentials)
