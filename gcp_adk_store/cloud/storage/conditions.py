"""Distinguish a failed condition of a write from a policy that forbids the write.

Cloud Storage answers 412 to both, with the reason ``conditionNotMet``. Only the object distinguishes them:
after a failed condition it differs from what the condition requires.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from gcp_adk_store.cloud.errors import unexplained
from gcp_adk_store.cloud.storage.calls import Once, Permission, StorageCalls
from gcp_adk_store.kernel.ports import ConditionFailedError, ObjectExistsError, RefusedError
from gcp_adk_store.kernel.transact import resolving

T = TypeVar("T")

_TRIES_TO_MAKE: Final = 2
"""Between a refusal and the check another writer may remove its object, but hardly twice in a row."""


class Conditions:
    """Conditional writes of the objects of one bucket."""

    def __init__(self, calls: StorageCalls) -> None:
        self._calls = calls

    async def make(self, write: Callable[[], Awaitable[T]], look: Callable[[], Awaitable[object]]) -> T:
        """Run *write*, which requires that the object is absent; *look* returns a true value if it exists.

        Raises:
            ObjectExistsError: the object exists.
            AccessDeniedError: the object is absent, and *write* is refused nevertheless.
            OutcomeUnknownError: the same, but an earlier attempt of *write* was not answered.
        """
        unsure = False
        tries_left = _TRIES_TO_MAKE
        while True:
            tries_left -= 1
            try:
                return await write()
            except RefusedError as exc:
                refused = exc
                unsure = refused.maybe_applied = unsure or refused.maybe_applied
                if not isinstance(refused, ConditionFailedError):
                    raise
            with resolving(refused.maybe_applied):
                found = await look()
            if found:
                exists = ObjectExistsError(found)
                exists.maybe_applied = unsure
                raise exists from refused
            if not tries_left:
                raise unexplained(refused, self._calls.bucket) from refused

    async def explained(
        self, refused: ConditionFailedError, name: str, generation: int | None, metageneration: int | None
    ) -> Any:
        """Return the object whose version differs from that of a *refused* write; ``None`` if it is gone.

        Raises:
            AccessDeniedError: it has the required version, where ``None`` stands for any.
            OutcomeUnknownError: the same, but an earlier attempt of the write was not answered.
        """
        with resolving(refused.maybe_applied):
            found = await self.find(name)
        if (
            found is not None
            and generation in (None, found.generation)
            and metageneration in (None, found.metageneration)
        ):
            raise unexplained(refused, self._calls.bucket) from refused
        return found

    async def find(self, name: str) -> Any:
        """Return the client's handle of the object *name* with its metadata; ``None`` if it is missing."""

        def stat(bucket: Any, once: Once) -> Any:
            return bucket.get_blob(name, **once)

        found = await self._calls.read(stat, Permission.GET)
        if found is None:
            await self._calls.require_bucket()
        return found
