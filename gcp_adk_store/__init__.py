"""Sessions, state and artifacts of Google ADK agents, kept in Firestore and Cloud Storage."""

from gcp_adk_store.artifacts import GcsArtifactService
from gcp_adk_store.errors import (
    AccessDeniedError,
    ArtifactConflictError,
    InvalidInputError,
    NotProvisionedError,
    OutcomeUnknownError,
    SessionConflictError,
    SessionExistsError,
    SessionMissingError,
    StoredDataError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.sessions import FirestoreSessionService
from gcp_adk_store.settings import ArtifactLimits, SessionLimits, StoreSettings
from gcp_adk_store.store import Store

__all__ = [
    "AccessDeniedError",
    "ArtifactConflictError",
    "ArtifactLimits",
    "FirestoreSessionService",
    "GcsArtifactService",
    "InvalidInputError",
    "NotProvisionedError",
    "OutcomeUnknownError",
    "SessionConflictError",
    "SessionExistsError",
    "SessionLimits",
    "SessionMissingError",
    "Store",
    "StoreError",
    "StoreSettings",
    "StoredDataError",
    "UnavailableError",
]

__version__ = "0.1.0"
