"""Repeat calls that may run twice: the only retry of the library's requests.

The SDKs' own retries are off wherever this runs, so that loops never nest. The first attempt is a plain
call, and tenacity begins after it failed: a call that succeeds pays nothing for what repeats it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    retry_if_not_exception_type,
    wait_exponential,
)

from gcp_adk_store import machine
from gcp_adk_store.errors import (
    EmulatorMissingError,
    OutcomeUnknownError,
    OverloadedError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.operation import at_most
from gcp_adk_store.kernel.ports import RefusedError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PASSING: Final = (UnavailableError, OutcomeUnknownError)
"""Failures that another try may change."""
_AT_ONCE: Final = (OverloadedError, EmulatorMissingError)
"""Refusals that no repetition changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The times of a repeated call, in seconds."""

    attempt_s: float
    """Longest time of one attempt."""
    deadline_s: float
    """All attempts and the waits between them together."""
    first_wait_s: float = 0.05
    """Bound of the first wait; each next bound is twice the last (full jitter). No later attempt starts with
    less time: it would fail for that, and hide why the earlier ones failed."""
    longest_wait_s: float = 5.0


async def call(attempt: Callable[[float], Coroutine[Any, Any, T]], *, policy: RetryPolicy) -> T:
    """Run *attempt*, with its seconds, until it succeeds, fails for good, or exceeds the deadline.

    It repeats a refusal for now (:class:`UnavailableError`), not before the time that the service asks for,
    unless another try does not change it, and a request whose answer is lost (:class:`OutcomeUnknownError`).
    So a second run has to be harmless, or the caller has to recognise it. It raises the last error as it is,
    with the number of its attempt; but after a lost answer, an error never says that nothing was written.
    """
    attempts = _Attempts(attempt, policy)
    try:
        return await attempts.run()
    except StoreError as exc:
        first = exc
    return await attempts.repeated(first)


class _Attempts(Generic[T]):
    """The attempts of one call."""

    def __init__(self, attempt: Callable[[float], Coroutine[Any, Any, T]], policy: RetryPolicy) -> None:
        self._attempt = attempt
        self._policy = policy
        self._ends_at = machine.monotonic() + at_most(policy.deadline_s)
        self._tried = 0
        self._failure: StoreError | None = None
        self._unanswered: OutcomeUnknownError | None = None

    async def run(self) -> T:
        """Make one attempt, and take note of its failure."""
        self._tried += 1
        telemetry.count_attempt(self._tried, self._failure)
        try:
            left_s = max(self._ends_at - machine.monotonic(), 0.001)
            return await self._attempt(min(self._policy.attempt_s, left_s))
        except RefusedError as exc:
            exc.attempts, exc.maybe_applied = self._tried, self._unanswered is not None
            raise
        except StoreError as exc:
            self._failure, exc.attempts = exc, self._tried
            self._unanswered = exc if isinstance(exc, OutcomeUnknownError) else self._unanswered
            raise

    async def repeated(self, first: StoreError) -> T:
        """Go on after the *first* attempt failed, as long as another try may change that."""
        repeating = AsyncRetrying(
            retry=retry_if_exception_type(_PASSING) & retry_if_not_exception_type(_AT_ONCE),
            wait=self._wait_s,
            stop=self._is_late,
            before_sleep=self._warn,
            sleep=asyncio.sleep,
            reraise=True,
        )

        async def again() -> T:
            if repeating.statistics["attempt_number"] == 1:  # tenacity begins with a run: the one that failed
                raise first
            return await self.run()

        try:
            return await repeating(again)
        except StoreError as exc:
            if self._unanswered is None or exc is self._unanswered:
                raise
            self._unanswered.attempts = self._tried
            raise self._unanswered from exc

    def _wait_s(self, state: RetryCallState) -> float:
        longest_s = wait_exponential(multiplier=self._policy.first_wait_s, max=self._policy.longest_wait_s)
        asked_s = self._failure.retry_after_s if self._failure else None
        return machine.uniform(0, longest_s(state)) + (asked_s or 0.0)

    def _is_late(self, state: RetryCallState) -> bool:
        return machine.monotonic() + state.upcoming_sleep + self._policy.first_wait_s >= self._ends_at

    def _warn(self, state: RetryCallState) -> None:
        if state.attempt_number == 1 and self._failure is not None:
            failure = self._failure
            logger.warning(
                "%s%s; trying again", telemetry.label(), failure, extra=telemetry.log_fields(failure)
            )
