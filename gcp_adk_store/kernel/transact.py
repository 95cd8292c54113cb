"""Change documents: read, decide, commit under the condition of what was read, and again until it is done.

A commit may be applied although its answer is lost, and it is then refused when it is sent again. So a
refusal says no more than "read again": what is stored tells whether another writer was first, or this call.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, Literal, TypeVar

from gcp_adk_store.codec.writes import Delete, Write, Written
from gcp_adk_store.errors import OutcomeUnknownError, StoreError
from gcp_adk_store.kernel.backoff import ConflictBackoff
from gcp_adk_store.kernel.ports import Documents, RefusedError, TargetExistsError

S = TypeVar("S")
T = TypeVar("T")

Writes = Sequence[Write | Delete]


READ_FIRST: Final = "read before repeating it"
"""What to do after most unknown outcomes."""


class _Again(Enum):
    READ_AGAIN = "read again"


READ_AGAIN: Final = _Again.READ_AGAIN
"""The decision that what was read does not suffice, such as a look that others changed under way."""

ReadAgain = Literal[_Again.READ_AGAIN]


@dataclass(frozen=True, slots=True)
class Attempts:
    """What one transaction knows of its earlier commits."""

    refused: int = 0
    """How many were refused."""
    maybe_applied: bool = False
    """One was not answered, and may have been applied before what was read now."""
    found_existing: bool = False
    """The last was refused because a document exists that it required to be absent."""


NO_ATTEMPTS: Final = Attempts()


@dataclass(frozen=True, slots=True)
class Commit(Generic[T]):
    """The decision to write.

    Attributes:
        writes: At most 10 MiB of them, which require what was read; or what makes them, where that takes a
            thread, a service, or writes of other documents before.
        result: Returns the value of the transaction from what the commit wrote.
        is_first: What was read shows that no earlier commit was applied, or ever will be.
        in_parts: The writes are small and harmless when repeated: they go in commits of several, in order,
            and *result* gets nothing.
    """

    writes: Writes | Callable[[], Awaitable[Writes]]
    result: Callable[[Sequence[Written]], T]
    is_first: bool = False
    in_parts: bool = False


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The decision that nothing is left to write, also because an earlier commit was applied."""

    value: T


Decision = Commit[T] | Done[T] | ReadAgain


async def transact(
    documents: Documents,
    read: Callable[[], Awaitable[S]],
    decide: Callable[[S, Attempts], Decision[T]],
    *,
    known: tuple[S] | None = None,
    advice: str = READ_FIRST,
) -> T:
    """Read, decide, commit under the condition of what was read; again until it is done.

    Args:
        documents: Where the commit goes.
        read: Returns what is stored. It may write what is harmless when repeated, such as payloads.
        decide: Says what to write, or that it is done, from what was read and what is known of earlier
            commits. It does no I/O and may run several times. Its errors are raised as they are.
        known: What this process knows already, in a tuple: the first decision then stands on it, without a
            read.
        advice: What to do when the outcome stays unknown; the end of that error's message.

    Raises:
        OutcomeUnknownError: a commit was not answered, and what became of it could not be read.
        UnavailableError: other writers were first until the deadline; nothing was written.
    """
    backoff = ConflictBackoff(documents.deadline_s)
    attempts = NO_ATTEMPTS
    refused: RefusedError | None = None
    while True:
        if known is None:
            with resolving(attempts.maybe_applied, advice):
                known = (await read(),)
        try:
            decision = decide(known[0], attempts)
        except StoreError as exc:
            if refused is None:
                raise
            raise exc from refused
        if isinstance(decision, Done):
            return decision.value
        if isinstance(decision, Commit):
            earlier = NO_ATTEMPTS if decision.is_first else attempts
            try:
                with resolving(earlier.maybe_applied, advice):
                    writes = await decision.writes() if callable(decision.writes) else decision.writes
                    written = await _commit(documents, writes, in_parts=decision.in_parts)
                return decision.result(written)
            except RefusedError as exc:
                refused = exc
                attempts = Attempts(
                    refused=attempts.refused + 1,
                    maybe_applied=earlier.maybe_applied or exc.maybe_applied,
                    found_existing=isinstance(exc, TargetExistsError),
                )
        known = None
        with resolving(attempts.maybe_applied, advice):
            await backoff.wait(refused)


async def _commit(documents: Documents, writes: Writes, *, in_parts: bool) -> Sequence[Written]:
    if in_parts:
        await documents.commit_all(writes)
        return ()
    return await documents.commit(writes, repeatable_when_unanswered=True)


async def commit_once(documents: Documents, writes: Writes) -> Sequence[Written] | None:
    """Commit *writes*; return ``None`` if what they require has changed, perhaps by this commit itself.

    For writes that another call makes as well when this one is refused.

    Raises:
        OutcomeUnknownError: the commit was not answered.
        UnavailableError: the database refused for now until the deadline; nothing was written.
    """
    try:
        return await documents.commit(writes, repeatable_when_unanswered=True)
    except RefusedError:
        return None


@contextmanager
def resolving(maybe_applied: bool, advice: str = READ_FIRST) -> Iterator[None]:  # noqa: FBT001  # of a write
    """Report an unknown outcome if the block fails and an earlier write may have been applied.

    The block's own error would say that nothing was written.

    Raises:
        OutcomeUnknownError: *maybe_applied* is true, and the block raised a StoreError; the message ends with
            *advice*.
    """
    try:
        yield
    except StoreError as exc:
        if not maybe_applied:
            raise
        raise OutcomeUnknownError.since(
            exc, f"sent and not answered, and what became of it could not be read; {advice}"
        ) from exc
