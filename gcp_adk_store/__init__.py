"""Sessions, state and artifacts of Google ADK agents, kept in Firestore and Cloud Storage."""

from typing import TYPE_CHECKING

from gcp_adk_store.imports import offer

if TYPE_CHECKING:
    from gcp_adk_store.adk_server.cloud_logging import CloudLoggingFormatter
    from gcp_adk_store.adk_server.services import register
    from gcp_adk_store.artifacts.files import ArtifactReader
    from gcp_adk_store.artifacts.gcs import GcsArtifactService
    from gcp_adk_store.artifacts.service import ArtifactService
    from gcp_adk_store.artifacts.uploads import SignedUpload
    from gcp_adk_store.artifacts.versions import StoredArtifactVersion
    from gcp_adk_store.cloud.auth.credentials import StoreCredentials
    from gcp_adk_store.cloud.dlp import DlpRedactor
    from gcp_adk_store.encryption.rotation import RotationReport
    from gcp_adk_store.encryption.wrapping import LocalKeyWrapper
    from gcp_adk_store.erasure.pruning import PruneReport
    from gcp_adk_store.errors import (
        AccessDeniedError,
        ArtifactConflictError,
        CredentialsError,
        EmbedderError,
        EmulatorMissingError,
        ForkedProcessError,
        InvalidInputError,
        KeyDestroyedError,
        NotProvisionedError,
        OutcomeUnknownError,
        OverloadedError,
        PayloadMissingError,
        PointMissingError,
        PromptTemplateError,
        RedactorError,
        SessionBusyError,
        SessionConflictError,
        SessionExistsError,
        SessionInboxFullError,
        SessionMissingError,
        StoredDataError,
        StoreError,
        TaskConflictError,
        TemplateKeyError,
        TurnLostError,
        UnavailableError,
        UploadMissingError,
    )
    from gcp_adk_store.memory.embedding import FunctionEmbedder, GenaiEmbedder
    from gcp_adk_store.memory.searches import FoundMemory, MemoryPage, ReindexedMemories
    from gcp_adk_store.memory.service import MemoryService
    from gcp_adk_store.model.erasures import Erased, Erasure, ErasureProgress, ErasureReceipt, Recovery
    from gcp_adk_store.model.history import Point, Redaction
    from gcp_adk_store.model.payloads import Garbage, GarbageKind
    from gcp_adk_store.model.sessions import HistoryConfig
    from gcp_adk_store.sessions.append.content_hooks import RedactedCallWarning
    from gcp_adk_store.sessions.archive.decide import SessionArchive
    from gcp_adk_store.sessions.describe.decide import SessionInfo, SessionOrigin, UnreadableSession
    from gcp_adk_store.sessions.firestore import FirestoreSessionService
    from gcp_adk_store.sessions.fsck.faults import Fault
    from gcp_adk_store.sessions.fsck.run import Checked
    from gcp_adk_store.sessions.listing.sessions import SessionPage
    from gcp_adk_store.sessions.listing.usage import (
        ModelUsage,
        SessionUsage,
        TokenUsage,
        TurnUsage,
        UserEvent,
    )
    from gcp_adk_store.sessions.read.events import SessionEvent
    from gcp_adk_store.sessions.service import SessionService
    from gcp_adk_store.sessions.verify.decide import (
        Anchor,
        AnchorReport,
        HistoryBreak,
        HistoryChange,
        HistoryProof,
        RedactedEvent,
    )
    from gcp_adk_store.settings import ArtifactLimits, MemoryLimits, SessionLimits, StoreSettings
    from gcp_adk_store.settings.envelope import KmsEnvelope
    from gcp_adk_store.settings.options import StoreOptions
    from gcp_adk_store.store import Store
    from gcp_adk_store.templates.inputs import PromptTask, resolve_agent, resolve_tasks, resolve_template
    from gcp_adk_store.templates.state import TemplateSettings, inject_session_state, session_instruction

__all__ = [
    "AccessDeniedError",
    "Anchor",
    "AnchorReport",
    "ArtifactConflictError",
    "ArtifactLimits",
    "ArtifactReader",
    "ArtifactService",
    "Checked",
    "CloudLoggingFormatter",
    "CredentialsError",
    "DlpRedactor",
    "EmbedderError",
    "EmulatorMissingError",
    "Erased",
    "Erasure",
    "ErasureProgress",
    "ErasureReceipt",
    "Fault",
    "FirestoreSessionService",
    "ForkedProcessError",
    "FoundMemory",
    "FunctionEmbedder",
    "Garbage",
    "GarbageKind",
    "GcsArtifactService",
    "GenaiEmbedder",
    "HistoryBreak",
    "HistoryChange",
    "HistoryConfig",
    "HistoryProof",
    "InvalidInputError",
    "KeyDestroyedError",
    "KmsEnvelope",
    "LocalKeyWrapper",
    "MemoryLimits",
    "MemoryPage",
    "MemoryService",
    "ModelUsage",
    "NotProvisionedError",
    "OutcomeUnknownError",
    "OverloadedError",
    "PayloadMissingError",
    "Point",
    "PointMissingError",
    "PromptTask",
    "PromptTemplateError",
    "PruneReport",
    "Recovery",
    "RedactedCallWarning",
    "RedactedEvent",
    "Redaction",
    "RedactorError",
    "ReindexedMemories",
    "RotationReport",
    "SessionArchive",
    "SessionBusyError",
    "SessionConflictError",
    "SessionEvent",
    "SessionExistsError",
    "SessionInboxFullError",
    "SessionInfo",
    "SessionLimits",
    "SessionMissingError",
    "SessionOrigin",
    "SessionPage",
    "SessionService",
    "SessionUsage",
    "SignedUpload",
    "Store",
    "StoreCredentials",
    "StoreError",
    "StoreOptions",
    "StoreSettings",
    "StoredArtifactVersion",
    "StoredDataError",
    "TaskConflictError",
    "TemplateKeyError",
    "TemplateSettings",
    "TokenUsage",
    "TurnLostError",
    "TurnUsage",
    "UnavailableError",
    "UnreadableSession",
    "UploadMissingError",
    "UserEvent",
    "inject_session_state",
    "register",
    "resolve_agent",
    "resolve_tasks",
    "resolve_template",
    "session_instruction",
]

__version__ = "0.1.0"

offer(
    __name__,
    {
        "errors": [name for name in __all__ if name.endswith("Error")],
        "adk_server.cloud_logging": ("CloudLoggingFormatter",),
        "adk_server.services": ("register",),
        "artifacts.uploads": ("SignedUpload",),
        "artifacts.files": ("ArtifactReader",),
        "artifacts.gcs": ("GcsArtifactService",),
        "artifacts.service": ("ArtifactService",),
        "artifacts.versions": ("StoredArtifactVersion",),
        "cloud.auth.credentials": ("StoreCredentials",),
        "cloud.dlp": ("DlpRedactor",),
        "encryption.wrapping": ("LocalKeyWrapper",),
        "settings.envelope": ("KmsEnvelope",),
        "settings.options": ("StoreOptions",),
        "model.sessions": ("HistoryConfig",),
        "sessions.archive.decide": ("SessionArchive",),
        "sessions.fsck.faults": ("Fault",),
        "sessions.fsck.run": ("Checked",),
        "memory.embedding": ("FunctionEmbedder", "GenaiEmbedder"),
        "memory.searches": ("FoundMemory", "MemoryPage", "ReindexedMemories"),
        "memory.service": ("MemoryService",),
        "erasure.pruning": ("PruneReport",),
        "sessions.verify.decide": (
            "Anchor",
            "AnchorReport",
            "HistoryBreak",
            "HistoryChange",
            "HistoryProof",
            "RedactedEvent",
        ),
        "encryption.rotation": ("RotationReport",),
        "model.erasures": ("Erased", "ErasureProgress", "ErasureReceipt", "Erasure", "Recovery"),
        "model.payloads": ("Garbage", "GarbageKind"),
        "model.history": ("Point", "Redaction"),
        "sessions.describe.decide": ("SessionInfo", "SessionOrigin", "UnreadableSession"),
        "sessions.listing.usage": ("ModelUsage", "SessionUsage", "TokenUsage", "TurnUsage", "UserEvent"),
        "sessions.append.content_hooks": ("RedactedCallWarning",),
        "sessions.read.events": ("SessionEvent",),
        "sessions.listing.sessions": ("SessionPage",),
        "sessions.firestore": ("FirestoreSessionService",),
        "sessions.service": ("SessionService",),
        "settings": ("ArtifactLimits", "MemoryLimits", "SessionLimits", "StoreSettings"),
        "store": ("Store",),
        "templates.inputs": ("PromptTask", "resolve_agent", "resolve_tasks", "resolve_template"),
        "templates.state": ("TemplateSettings", "inject_session_state", "session_instruction"),
    },
)
