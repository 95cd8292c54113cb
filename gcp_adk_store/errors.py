"""Name what went wrong by what the caller does next.

::

    StoreError
    ├── InvalidInputError        fix the input           is ADK's InputValidationError
    ├── SessionMissingError      create the session      is ADK's SessionNotFoundError
    ├── SessionExistsError       pick another id         is ADK's AlreadyExistsError
    ├── SessionConflictError     reload, decide again    is ADK's StaleSessionError
    ├── ArtifactConflictError    save again later; nothing was saved
    ├── PromptTemplateError      give the inputs that it names
    ├── TemplateKeyError         set the state key or artifact, or make it optional; is a KeyError
    ├── UploadMissingError       put the file first, then finalize again
    ├── UnavailableError         try again later; nothing was written
    │   └── OverloadedError      slow down, or raise the limit that it names; nothing was sent
    ├── OutcomeUnknownError      read before you repeat; it may have been written
    ├── AccessDeniedError        grant the permission, or change the policy, that the message names
    │   └── CredentialsError     log in, or mend the credentials, with the command that the message names
    ├── ForkedProcessError       fork earlier, or close before the fork; nothing was sent
    ├── NotProvisionedError      make the database or bucket that the message names
    └── StoredDataError          what lies in storage cannot be read by this release
        └── PayloadMissingError  restore the payload, or read with on_missing_payload="placeholder"

``OutcomeUnknownError`` is deliberately not a kind of ``UnavailableError``: repeating a write whose
answer was lost is not the same as repeating one that was refused. Every error pickles, and carries
``operation``, ``key`` (ids, never content) and ``attempts``; its text begins with the first two.
"""

from collections.abc import Sequence
from typing import Final, Self

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError

__all__ = [
    "AccessDeniedError",
    "ArtifactConflictError",
    "CredentialsError",
    "ForkedProcessError",
    "InvalidInputError",
    "NotProvisionedError",
    "OutcomeUnknownError",
    "OverloadedError",
    "PayloadMissingError",
    "PromptTemplateError",
    "SessionConflictError",
    "SessionExistsError",
    "SessionMissingError",
    "StoreError",
    "StoredDataError",
    "TemplateKeyError",
    "UnavailableError",
    "UploadMissingError",
]


_SHOWN_CHARACTERS: Final = 100


class StoreError(Exception):
    """Anything this library raises on purpose.

    Attributes:
        operation: The public operation, such as ``append_event``; empty where there is none.
        key: The ids of what it was about, never content; empty where there is none.
        attempts: How often the request that failed was tried; 0 where none did.
        retry_after_s: Seconds that the service asked to be left alone; ``None`` where it did not.
    """

    def __init__(
        self, message: str, *, operation: str = "", key: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.operation = operation
        self.key = key
        self.attempts = 0
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        message = Exception.__str__(self)  # a KeyError would show the repr
        return f"{self.operation} {self.key}: {message}" if self.operation else message


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


class PromptTemplateError(StoreError, ValueError):
    """Variables of a prompt have no input.

    Attributes:
        missing_variables: Names of all of them, in the order of appearance.
        template: The template.
    """

    def __init__(
        self,
        message: str,
        *,
        missing_variables: tuple[str, ...] = (),
        template: str = "",
        operation: str = "",
        key: str = "",
    ) -> None:
        super().__init__(message, operation=operation, key=key)
        self.missing_variables = missing_variables
        self.template = template

    @classmethod
    def of(cls, missing: Sequence[str], template: str) -> Self:
        """Return the error for *missing* variables of *template*; the message shows 100 characters of it."""
        names = ", ".join(missing)
        shown = template[:_SHOWN_CHARACTERS]
        if len(template) > _SHOWN_CHARACTERS:
            shown += "..."
        return cls(
            f"Missing template variables: [{names}]. Provide them in inputs. Template: '{shown}'",
            missing_variables=tuple(missing),
            template=template,
        )


class TemplateKeyError(StoreError, KeyError):
    """An instruction needs a state key or an artifact that is not there, or that it may not have."""


class UploadMissingError(StoreError):
    """Nothing was put for an upload that is to be finalized; nothing was saved."""


class UnavailableError(StoreError):
    """The service could not be reached or refused for now; nothing was written."""


class OverloadedError(UnavailableError):
    """More calls of this process wait than may, or this one waited too long; nothing was sent."""


class OutcomeUnknownError(StoreError):
    """A write was sent and never answered: it may or may not have been applied."""

    @classmethod
    def since(cls, failure: StoreError, message: str) -> Self:
        """Return the error for a write that *failure*, of a request after it, keeps from being settled."""
        error = cls(message, retry_after_s=failure.retry_after_s)
        error.attempts = failure.attempts
        return error


class AccessDeniedError(StoreError):
    """Credentials are missing, invalid or lack a permission, or a policy forbids it; nothing was written."""


class CredentialsError(AccessDeniedError):
    """There are no credentials, or no token is to be had for them; nothing was sent."""


class ForkedProcessError(StoreError):
    """The process is the child of one in which gRPC ran, and cannot call Firestore; nothing was sent."""


class NotProvisionedError(StoreError):
    """The Firestore database or the bucket does not exist; nothing was written."""


class StoredDataError(StoreError):
    """A stored document or object is of an unknown format, incomplete or damaged."""


class PayloadMissingError(StoredDataError):
    """Large content that a document refers to is gone or damaged."""
