"""Errors by which a backend refuses a conditional write. The services never raise them to callers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from gcp_adk_store.errors import OutcomeUnknownError, StoreError


class RefusedError(Exception):
    """A condition of a write did not hold; nothing was written.

    Attributes:
        perhaps_own: Whether an earlier attempt of the same write was not answered and may have changed what
            the condition requires.
        attempts: The attempts of the write.
    """

    perhaps_own = False
    attempts = 0

    def after(self, earlier: "RefusedError") -> Self:
        """Return this refusal, which is perhaps own, too, if the *earlier* one of the same loop was."""
        self.perhaps_own = self.perhaps_own or earlier.perhaps_own
        return self


class ConditionFailedError(RefusedError):
    """A document or object differs from the write's requirement."""


class TargetExistsError(RefusedError):
    """A document or object that the write required to be absent exists."""


class TargetMissingError(RefusedError):
    """A document that the write required to exist does not."""


class ObjectExistsError(TargetExistsError):
    """The object exists already; *found* describes it."""

    def __init__(self, found: Any) -> None:
        super().__init__(found)
        self.found = found


class ObjectGoneError(RefusedError):
    """An object was removed or replaced before its use."""


@contextmanager
def settling(refused: RefusedError, *, advice: str = "read before repeating it") -> Iterator[None]:
    """Report an unknown outcome if the block fails and the *refused* write may have been stored.

    The block reads what became of that write. Its own error would say that nothing was written.

    Raises:
        OutcomeUnknownError: an attempt of the write was not answered, and the block raised a StoreError;
            the message ends with *advice*.
    """
    try:
        yield
    except StoreError as exc:
        if not refused.perhaps_own:
            raise
        raise OutcomeUnknownError.since(
            exc, f"sent and not answered, and what became of it could not be read; {advice}"
        ) from exc
