"""Sessions, state and artifacts of Google ADK agents, kept in Firestore and Cloud Storage."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gcp_adk_store.adk_server.cloud_logging import CloudLoggingFormatter
    from gcp_adk_store.adk_server.services import register
    from gcp_adk_store.artifacts.browser_uploads import SignedUpload
    from gcp_adk_store.artifacts.files import ArtifactReader
    from gcp_adk_store.artifacts.service import GcsArtifactService
    from gcp_adk_store.artifacts.stored_version import StoredArtifactVersion
    from gcp_adk_store.cloud.auth.credentials import StoreCredentials
    from gcp_adk_store.errors import (
        AccessDeniedError,
        ArtifactConflictError,
        CredentialsError,
        ForkedProcessError,
        InvalidInputError,
        NotProvisionedError,
        OutcomeUnknownError,
        OverloadedError,
        PayloadMissingError,
        PromptTemplateError,
        SessionConflictError,
        SessionExistsError,
        SessionMissingError,
        StoredDataError,
        StoreError,
        TemplateKeyError,
        UnavailableError,
        UploadMissingError,
    )
    from gcp_adk_store.model.garbage import Garbage, GarbageKind
    from gcp_adk_store.sessions.listings import SessionEvent, SessionPage
    from gcp_adk_store.sessions.service import FirestoreSessionService
    from gcp_adk_store.settings import ArtifactLimits, SessionLimits, StoreSettings
    from gcp_adk_store.store import Store
    from gcp_adk_store.templates.inputs import PromptTask, resolve_agent, resolve_tasks, resolve_template
    from gcp_adk_store.templates.state import TemplateSettings, inject_session_state, session_instruction

__all__ = [
    "AccessDeniedError",
    "ArtifactConflictError",
    "ArtifactLimits",
    "ArtifactReader",
    "CloudLoggingFormatter",
    "CredentialsError",
    "FirestoreSessionService",
    "ForkedProcessError",
    "Garbage",
    "GarbageKind",
    "GcsArtifactService",
    "InvalidInputError",
    "NotProvisionedError",
    "OutcomeUnknownError",
    "OverloadedError",
    "PayloadMissingError",
    "PromptTask",
    "PromptTemplateError",
    "SessionConflictError",
    "SessionEvent",
    "SessionExistsError",
    "SessionLimits",
    "SessionMissingError",
    "SessionPage",
    "SignedUpload",
    "Store",
    "StoreCredentials",
    "StoreError",
    "StoreSettings",
    "StoredArtifactVersion",
    "StoredDataError",
    "TemplateKeyError",
    "TemplateSettings",
    "UnavailableError",
    "UploadMissingError",
    "inject_session_state",
    "register",
    "resolve_agent",
    "resolve_tasks",
    "resolve_template",
    "session_instruction",
]

__version__ = "0.1.0"

_HOMES = {
    "ArtifactLimits": "settings",
    "ArtifactReader": "artifacts.files",
    "CloudLoggingFormatter": "adk_server.cloud_logging",
    "FirestoreSessionService": "sessions.service",
    "Garbage": "model.garbage",
    "GarbageKind": "model.garbage",
    "PromptTask": "templates.inputs",
    "TemplateSettings": "templates.state",
    "inject_session_state": "templates.state",
    "register": "adk_server.services",
    "resolve_agent": "templates.inputs",
    "resolve_tasks": "templates.inputs",
    "resolve_template": "templates.inputs",
    "session_instruction": "templates.state",
    "GcsArtifactService": "artifacts.service",
    "SessionEvent": "sessions.listings",
    "SessionLimits": "settings",
    "SessionPage": "sessions.listings",
    "SignedUpload": "artifacts.browser_uploads",
    "Store": "store",
    "StoreCredentials": "cloud.auth.credentials",
    "StoreSettings": "settings",
    "StoredArtifactVersion": "artifacts.stored_version",
}


def __getattr__(name: str) -> Any:
    # At the first use: pytest loads the plugin of this package in every run of its environment, and the
    # emulators run from it; neither should wait for ADK and Google's clients.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
