"""Change documents: read, decide, commit under the condition of what was read, and again until it is done.

A commit may be applied although its answer is lost, and it is then refused when it is sent again. So a
refusal says no more than "read again": what is stored shows whether another writer was first, or this call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Literal, TypeVar

from gcp_adk_store import machine
from gcp_adk_store.codec.writes import Delete, Write, Written
from gcp_adk_store.errors import OutcomeUnknownError, StoreError, UnavailableError
from gcp_adk_store.kernel.operation import at_most
from gcp_adk_store.kernel.ports import Documents, ObjectExistsError, RefusedError, TargetExistsError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_RACE_S: Final = 0.25

_LONGEST_PAUSE_S: Final = 0.02
"""A longer pause makes a merging writer lose more often: the last of 10 writers took 5 s with pauses of up to
0.25 s, and 0.7 s with this limit."""


def jitter(attempt: int, *, longest_s: float = _LONGEST_RACE_S) -> float:
    """Return the seconds to wait after conflict number *attempt*, counted from 0."""
    bound = min(_FIRST_PAUSE_S * attempt, longest_s)
    return machine.uniform(0, bound)


class ConflictBackoff:
    """The waits of one loop that reads again after other writers were first.

    Each of their writes is progress, so only time limits the turns of the loop.
    """

    def __init__(self, deadline_s: float) -> None:
        """Begin; no turn begins after *deadline_s*, or after the running operation's deadline."""
        self._ends_at = machine.monotonic() + at_most(deadline_s)
        self._turns = 0

    async def wait(self, refused: Exception | None = None) -> None:
        """Pause before the next turn; the first time not at all.

        Args:
            refused: The refusal that ended this turn; it becomes the cause of the error.

        Raises:
            UnavailableError: the time is over.
        """
        self._turns += 1
        if machine.monotonic() >= self._ends_at:
            late = UnavailableError("other writers were first on every try; try again later")
            late.attempts = self._turns
            raise late from refused
        if self._turns > 1:
            await asyncio.sleep(jitter(self._turns - 1, longest_s=_LONGEST_PAUSE_S))


class _Changed(Enum):
    CHANGED = "changed"


CHANGED: Final = _Changed.CHANGED
"""What a look returns if others changed what it read meanwhile, and a decision that needs another look."""

Changed = Literal[_Changed.CHANGED]


async def read_whole(deadline_s: float, look: Callable[[], Awaitable[T | Changed]]) -> T:
    """Return what *look* finds, as soon as nobody changes it during a look.

    Raises:
        UnavailableError: others changed it until *deadline_s*, or until the running operation's deadline.
    """
    backoff = ConflictBackoff(deadline_s)
    while True:
        found = await look()
        if not isinstance(found, _Changed):
            return found
        await backoff.wait()


S = TypeVar("S")

Writes = Sequence[Write | Delete]


READ_FIRST: Final = "read before repeating it"
"""What to do after most unknown outcomes."""


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
class Commit(Generic[T_co]):
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
    result: Callable[[Sequence[Written]], T_co]
    is_first: bool = False
    in_parts: bool = False


@dataclass(frozen=True, slots=True)
class Done(Generic[T_co]):
    """The decision that nothing is left to write, also because an earlier commit was applied."""

    value: T_co


Decision = Commit[T_co] | Done[T_co] | Changed


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
                    written: Sequence[Written] = ()
                    if decision.in_parts:
                        await commit_all(documents, writes)
                    else:
                        written = await documents.commit(writes)
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


_WRITES_PER_COMMIT: Final = 500
"""Keeps each commit of a deletion far below 4 MiB, with paths of up to 6 kB."""


async def commit_all(documents: Documents, writes: Writes) -> None:
    """Commit small *writes* that are harmless when repeated, in order, 500 at a time.

    Raises:
        RefusedError, OutcomeUnknownError, UnavailableError, AccessDeniedError: as :meth:`Documents.commit`.
    """
    for start in range(0, len(writes), _WRITES_PER_COMMIT):
        await documents.commit(writes[start : start + _WRITES_PER_COMMIT])


async def commit_once(documents: Documents, writes: Writes) -> Sequence[Written] | None:
    """Commit *writes*; return ``None`` if what they require has changed, perhaps by this commit itself.

    For writes that another call makes as well when this one is refused.

    Raises:
        OutcomeUnknownError: the commit was not answered.
        UnavailableError: the database refused for now until the deadline; nothing was written.
    """
    try:
        return await documents.commit(writes)
    except RefusedError:
        return None


@contextmanager
def resolving(maybe_applied: bool, advice: str = READ_FIRST) -> Iterator[None]:  # noqa: FBT001  # of a write
    """Report an unknown outcome, of the block or of an earlier write that may have been applied.

    The block's own error would say that nothing was written, or to read first.

    Raises:
        OutcomeUnknownError: the block raised it, or *maybe_applied* is true and it raised a StoreError; the
            message ends with *advice*.
    """
    try:
        yield
    except StoreError as exc:
        if maybe_applied:
            what = "sent and not answered, and what became of it could not be read"
        elif isinstance(exc, OutcomeUnknownError) and advice != READ_FIRST:
            what = "sent and not answered"
        else:
            raise
        raise OutcomeUnknownError.since(exc, f"{what}; {advice}") from exc


async def create_next(
    number: int,
    create: Callable[[int], Awaitable[None]],
    *,
    is_own: Callable[[Any], bool],
    following: Callable[[int], Awaitable[int | Done[int]]],
    at_most: int,
) -> int | None:
    """Create the object of *number*, or of a later one; return its number, or ``None`` after *at_most* tries.

    Args:
        number: The number to begin with.
        create: Creates the object of a number.
        is_own: Whether an object that exists was made by this call, whose answer was lost.
        following: Returns the next free number after one that another writer took; or the later number, as
            done, under which another call made this object.
        at_most: How many numbers are tried.
    """
    for attempt in range(at_most):
        try:
            await create(number)
        except ObjectExistsError as exc:
            if not is_own(exc.found):
                # The first writer knows the next number, the others must list: a random wait gives each of
                # them a chance.
                await asyncio.sleep(jitter(attempt))
                found = await following(number)
                if isinstance(found, Done):
                    return found.value
                number = found
                continue
        return number
    return None
