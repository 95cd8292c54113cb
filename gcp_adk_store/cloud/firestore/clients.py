"""Make Google's own Firestore client, for services of ADK that need one."""

from google.cloud.firestore import AsyncClient


def new_client(*, project: str | None, database: str) -> AsyncClient:
    """Return a client; without *project*, that of the environment. The caller closes it."""
    return AsyncClient(project=project, database=database)
