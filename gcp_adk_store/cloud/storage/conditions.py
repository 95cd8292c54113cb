"""Tell a condition of a write that did not hold from a policy that forbids the write.

Cloud Storage answers 412 to both, and names the reason of both ``conditionNotMet``. What tells them apart is
the object: after a condition that did not hold it is not as the condition required.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from gcp_adk_store.cloud.errors import (
    ConditionFailedError,
    RefusedError,
    TargetExistsError,
    unexplained,
)
from gcp_adk_store.cloud.storage.calls import Permission, StorageCalls
from gcp_adk_store.errors import OutcomeUnknownError, StoreError

T = TypeVar("T")

_TRIES_TO_MAKE: Final = 2
"""Between a refusal and the look another writer may remove what it made: hardly twice in a row."""


class ObjectExistsError(TargetExistsError):
    """An object that was to be made is there already: what the look *found*. Never leaves the services."""

    def __init__(self, found: Any) -> None:
        super().__init__(found)
        self.found = found


class Conditions:
    """Conditional writes of the objects of one bucket."""

    def __init__(self, calls: StorageCalls) -> None:
        self._calls = calls

    async def make(self, write: Callable[[], Awaitable[T]], look: Callable[[], Awaitable[object]]) -> T:
        """Run *write*, which requires that there is no object; *look* gives something true if there is one.

        Raises:
            ObjectExistsError: there is one.
            AccessDeniedError: there is none, and *write* is refused all the same.
            OutcomeUnknownError: the same, but an earlier try of *write* was not answered.
        """
        unsure = False
        tries_left = _TRIES_TO_MAKE
        while True:
            tries_left -= 1
            try:
                return await write()
            except RefusedError as exc:
                refused = exc
                unsure = refused.perhaps_own = unsure or refused.perhaps_own
                if not isinstance(refused, ConditionFailedError):
                    raise
            found = await self._settled(look(), refused)
            if found:
                exists = ObjectExistsError(found)
                exists.perhaps_own = unsure
                raise exists from refused
            if not tries_left:
                raise unexplained(refused, self._calls.bucket) from refused

    async def explained(
        self, refused: ConditionFailedError, name: str, generation: int | None, metageneration: int | None
    ) -> Any:
        """Return the object that a *refused* write required to be of another version; ``None`` if it is gone.

        Raises:
            AccessDeniedError: it is of the version that was required, of which ``None`` is any.
            OutcomeUnknownError: the same, but an earlier try of the write was not answered.
        """
        found = await self._settled(self.find(name), refused)
        if (
            found is not None
            and generation in (None, found.generation)
            and metageneration in (None, found.metageneration)
        ):
            raise unexplained(refused, self._calls.bucket) from refused
        return found

    async def find(self, name: str) -> Any:
        """Return the client's handle of an object with its metadata, ``None`` if there is none of *name*."""

        def stat(bucket: Any, timeout_s: float) -> Any:
            return bucket.get_blob(name, timeout=timeout_s, retry=None)

        found = await self._calls.read(stat, Permission.GET)
        if found is None:
            await self._calls.require_bucket()
        return found

    async def _settled(self, look: Awaitable[T], refused: RefusedError) -> T:
        try:
            return await look
        except StoreError as exc:
            if not refused.perhaps_own:
                raise
            raise OutcomeUnknownError.since(
                exc,
                "sent and not answered, and what became of it could not be read; read before repeating it",
            ) from exc
