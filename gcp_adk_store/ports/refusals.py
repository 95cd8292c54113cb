"""Errors by which a backend refuses a conditional write. The services never raise them to callers."""

from typing import Any


class RefusedError(Exception):
    """A condition of a write did not hold; nothing was written.

    Attributes:
        maybe_applied: Whether an earlier attempt of the same write was not answered and may have changed what
            the condition requires.
        attempts: The attempts of the write.
    """

    maybe_applied = False
    attempts = 0


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
