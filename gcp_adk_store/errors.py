"""Name what went wrong by what the caller does next.

::

    StoreError
    ├── InvalidInputError        fix the input           is ADK's InputValidationError
    ├── SessionMissingError      create the session      is ADK's SessionNotFoundError
    ├── SessionExistsError       pick another id         is ADK's AlreadyExistsError
    ├── SessionConflictError     reload, decide again    is ADK's StaleSessionError
    ├── ArtifactConflictError    save again later; nothing was saved
    ├── UploadMissingError       put the file first, then finalize again
    ├── UnavailableError         try again later; nothing was written
    ├── OutcomeUnknownError      read before you repeat; it may have been written
    ├── AccessDeniedError        grant the permission that the message names
    ├── NotProvisionedError      make the database or bucket that the message names
    └── StoredDataError          what lies in storage cannot be read by this release
        └── PayloadMissingError  restore the payload, or read with on_missing_payload="placeholder"

``OutcomeUnknownError`` is deliberately not a kind of ``UnavailableError``: repeating a write whose
answer was lost is not the same as repeating one that was refused. Every error pickles, and carries
``operation`` and ``key`` (ids, never content).
"""

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError

__all__ = [
    "AccessDeniedError",
    "ArtifactConflictError",
    "InvalidInputError",
    "NotProvisionedError",
    "OutcomeUnknownError",
    "PayloadMissingError",
    "SessionConflictError",
    "SessionExistsError",
    "SessionMissingError",
    "StoreError",
    "StoredDataError",
    "UnavailableError",
    "UploadMissingError",
]


class StoreError(Exception):
    """Anything this library raises on purpose.

    Attributes:
        operation: The public operation, such as ``append_event``; empty where there is none.
        key: The ids of what it was about, never content; empty where there is none.
    """

    def __init__(self, message: str, *, operation: str = "", key: str = "") -> None:
        super().__init__(message)
        self.operation = operation
        self.key = key


class InvalidInputError(StoreError, InputValidationError):
    """The input can never be stored; nothing was written."""


class SessionMissingError(StoreError, SessionNotFoundError):
    """The session does not exist or was deleted; nothing was written."""


class SessionExistsError(StoreError, AlreadyExistsError):
    """A session with this id exists already; nothing was written."""


class SessionConflictError(StoreError, StaleSessionError):
    """Another writer advanced the session first; nothing was written."""


class ArtifactConflictError(StoreError):
    """Other writers took every version number that was tried; nothing was saved."""


class UploadMissingError(StoreError):
    """Nothing was put for an upload that is to be finalized; nothing was saved."""


class UnavailableError(StoreError):
    """The service could not be reached or refused for now; nothing was written."""


class OutcomeUnknownError(StoreError):
    """A write was sent and never answered: it may or may not have been applied."""


class AccessDeniedError(StoreError):
    """The credentials are missing, invalid or lack a permission; nothing was written."""


class NotProvisionedError(StoreError):
    """The Firestore database or the bucket does not exist; nothing was written."""


class StoredDataError(StoreError):
    """A stored document or object is of an unknown format, incomplete or damaged."""


class PayloadMissingError(StoredDataError):
    """Large content that a document refers to is gone or damaged."""
