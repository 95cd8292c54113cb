"""Errors, sorted by what the caller does next.

::

    StoreError
    ├── InvalidInputError        fix the input           is ADK's InputValidationError
    ├── SessionMissingError      create the session      is ADK's SessionNotFoundError
    ├── SessionExistsError       pick another id         is ADK's AlreadyExistsError
    ├── SessionConflictError     reload, decide again    is ADK's StaleSessionError
    │   └── TurnLostError        stop: another turn has begun
    ├── SessionBusyError         try again later, or interrupt the turn that it names
    ├── SessionInboxFullError    try again later
    ├── PointMissingError        choose a point that the session has
    ├── TaskConflictError        get the task, decide again
    ├── ArtifactConflictError    save again later; nothing was saved
    ├── PromptTemplateError      give the inputs that it names
    ├── TemplateKeyError         set the state key or artifact, or make it optional; is a KeyError
    ├── UploadMissingError       put the file first, then finalize again
    ├── EmbedderError            correct the embedder, or call again once it works
    ├── RedactorError            correct the redactor, or append again once it works; nothing was written
    ├── UnavailableError         try again later; nothing was written
    │   ├── EmulatorMissingError start the emulator at the address that it names; nothing was sent
    │   └── OverloadedError      slow down, or raise the limit that it names; nothing was sent
    ├── OutcomeUnknownError      read before you repeat; it may have been written
    ├── AccessDeniedError        grant the permission, or change the policy, that the message names
    │   └── CredentialsError     log in, or repair the credentials, with the command that the message names
    ├── ForkedProcessError       make a store after the fork; nothing was sent
    ├── NotProvisionedError      create the database or bucket that the message names
    └── StoredDataError          this release cannot read the stored data
        ├── PayloadMissingError  restore the payload, or read with on_missing_payload="placeholder"
        └── KeyDestroyedError    nobody can read the data any more

``OutcomeUnknownError`` is deliberately not a kind of ``UnavailableError``: a refused write is safe to
repeat, a write whose answer was lost is not. Every error pickles, and carries ``operation``, ``key`` (ids,
never content) and ``attempts``; its text begins with the first two.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Final, Self

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError

_SHOWN_CHARACTERS: Final = 100


class StoreError(Exception):
    """The base class of all errors that this library raises.

    Attributes:
        operation: The public operation, such as ``append_event``; empty outside of an operation.
        key: The ids of the session or artifact, never content; empty outside of an operation.
        attempts: The attempts of the failed request; 0 if no request failed.
        retry_after_s: Seconds to wait as the service asks; ``None`` if it does not ask.
    """

    http_status: ClassVar[int] = 500
    """How servers answer a request that it ended."""

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
        called = f"{self.operation} {self.key}".rstrip()
        return f"{called}: {message}" if called else message


class InvalidInputError(StoreError, InputValidationError):
    """The store can never accept the input; nothing was written."""

    http_status = 400


class SessionMissingError(StoreError, SessionNotFoundError):
    """The session does not exist or was deleted; nothing was written."""

    http_status = 404

    def __init__(
        self,
        message: str = "the session does not exist",
        *,
        operation: str = "",
        key: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, operation=operation, key=key, retry_after_s=retry_after_s)


class SessionExistsError(StoreError, AlreadyExistsError):
    """A session with this id exists already; nothing was written."""

    http_status = 409


class SessionConflictError(StoreError, StaleSessionError):
    """Another writer advanced the session first; nothing was written."""

    http_status = 409


class TurnLostError(SessionConflictError):
    """The turn that an append belongs to has ended, or another one took its place; nothing was written."""


class SessionBusyError(StoreError):
    """Another turn of the session runs, and the caller has none.

    Attributes:
        holder: Names the one who runs it.
        fence: Its number.
        until: When it ends if its holder does not renew it, in Unix seconds of Firestore's clock.
    """

    http_status = 409

    def __init__(
        self,
        message: str,
        *,
        holder: str = "",
        fence: int = 0,
        until: float = 0.0,
        operation: str = "",
        key: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, operation=operation, key=key, retry_after_s=retry_after_s)
        self.holder = holder
        self.fence = fence
        self.until = until


class SessionInboxFullError(StoreError):
    """As many messages wait for a turn of the session as may, or as many bytes; nothing was written."""

    http_status = 409


class PointMissingError(StoreError):
    """The session does not have the point: fewer events, or none of the event's or the invocation's id."""

    http_status = 404


class TaskConflictError(StoreError):
    """Another writer changed or ended the A2A task first; nothing was written."""

    http_status = 409


class ArtifactConflictError(StoreError):
    """Other writers took every version number that was tried; nothing was saved."""

    http_status = 409


class PromptTemplateError(StoreError, ValueError):
    """Variables of a prompt have no input.

    Attributes:
        missing_variables: Names of all these variables, in the order of appearance.
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
    """An instruction needs a state key or an artifact that is missing or not allowed."""


class UploadMissingError(StoreError):
    """The file of an upload has not arrived, so it cannot be finalized; nothing was saved."""

    http_status = 404


class EmbedderError(StoreError):
    """The embedder of memories failed, or answered with other vectors than it must; nothing was written."""


class RedactorError(StoreError):
    """A redactor of content failed, took too long, or answered wrongly; nothing was written."""


class UnavailableError(StoreError):
    """The service is unreachable, or refuses requests for now; nothing was written."""

    http_status = 503


class EmulatorMissingError(UnavailableError):
    """Nothing listens at the address of an emulator that the environment names; nothing was sent."""

    @classmethod
    def at(cls, address: str, variable: str) -> Self:
        """Return the error for an *address* that *variable* names."""
        return cls(f"nothing listens at {address}; start `gcp-adk-store emulators`, or unset {variable}")


class OverloadedError(UnavailableError):
    """Too many calls of this process wait already, or this one waited too long; nothing was sent."""


class OutcomeUnknownError(StoreError):
    """A write was sent and not answered: the service may have applied it."""

    @classmethod
    def since(cls, failure: StoreError, message: str) -> Self:
        """Return the error for a write whose outcome stays unknown because a later request met *failure*."""
        error = cls(message, retry_after_s=failure.retry_after_s)
        error.attempts = failure.attempts
        return error


class AccessDeniedError(StoreError):
    """Credentials are missing, invalid or lack a permission, or a policy forbids it; nothing was written."""


class CredentialsError(AccessDeniedError):
    """The credentials are missing, or yield no token; nothing was sent."""


class ForkedProcessError(StoreError):
    """A parent of this process used the store before it forked, or gRPC ran in it; nothing was sent."""


class NotProvisionedError(StoreError):
    """The Firestore database or the bucket does not exist; nothing was written."""

    @classmethod
    def of_database(cls) -> Self:
        """Return the error for a database that refuses a new document which requires nothing."""
        return cls(
            "the Firestore database does not exist or is not in native mode; create it, or correct project "
            "and database"
        )


class StoredDataError(StoreError):
    """A stored document or object has an unknown format, is incomplete or damaged."""


class PayloadMissingError(StoredDataError):
    """A payload that a document refers to is missing or damaged."""


class KeyDestroyedError(StoredDataError):
    """Stored data are encrypted with a key that does not exist any more, such as that of an erased user."""


def shown(value: object, most: int = 80) -> str:
    """Return the start of *value* for a message: *most* characters of a text, or of what Python shows of it.

    Python shows no number of thousands of digits, and no list that holds one: these get their type.
    """
    try:
        return repr(value[:most]) if isinstance(value, str) else f"{value!r:.{most}}"
    except ValueError:
        return f"of the type {type(value).__name__}"


MAX_BITS: Final = 1023
"""Bits of a whole number: a float takes no more, and no message has room for all."""


def require_number(name: str, value: object) -> None:
    """Refuse a number that no option takes; anything else passes.

    Raises:
        InvalidInputError: *value* is NaN, or a whole number that is too large to be shown or compared.
    """
    if isinstance(value, float) and math.isnan(value):
        raise InvalidInputError(f"{name} is nan, it must be a number")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise InvalidInputError(
            f"{name} is a whole number of {value.bit_length():,} bits, it must have {MAX_BITS:,} at most"
        )
