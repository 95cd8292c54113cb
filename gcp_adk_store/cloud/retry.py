"""Repeat calls that may run twice: the only retry loop of the library.

The SDKs' own retries are off wherever this loop runs, so that loops never nest.
"""

import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay
from tenacity.wait import wait_base, wait_random_exponential

from gcp_adk_store.errors import OutcomeUnknownError, OverloadedError, StoreError, UnavailableError
from gcp_adk_store.operations import telemetry
from gcp_adk_store.operations.operation import at_most, label
from gcp_adk_store.ports.refusals import RefusedError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The times of a repeated call, in seconds."""

    attempt_s: float
    """Longest time of one attempt."""
    deadline_s: float
    """All attempts and the waits between them together."""
    first_wait_s: float = _FIRST_WAIT_S
    """Bound of the first wait; each next bound is twice the last (full jitter)."""
    longest_wait_s: float = _LONGEST_WAIT_S


async def call(
    attempt: Callable[[float], Coroutine[Any, Any, T]],
    *,
    policy: RetryPolicy,
    repeatable_when_unanswered: bool,
) -> T:
    """Run *attempt*, with its seconds, until it succeeds, fails for good, or exceeds the deadline.

    It always repeats a refusal for now (:class:`UnavailableError`), not before the time that the service asks
    for. It repeats a lost answer (:class:`OutcomeUnknownError`) only if the caller allows a second run. It
    raises the last error as it is, with the number of its attempt; but after a lost answer, an error never
    says that nothing was written.
    """
    deadline_s = at_most(policy.deadline_s)
    ends_at = time.monotonic() + deadline_s
    tried = 0
    failure: StoreError | None = None
    unanswered: OutcomeUnknownError | None = None

    async def bounded() -> T:
        nonlocal tried, failure, unanswered
        tried += 1
        telemetry.count_attempt(tried, failure)
        left = max(ends_at - time.monotonic(), 0.001)
        try:
            return await attempt(min(policy.attempt_s, left))
        except StoreError as exc:
            failure = exc
            if isinstance(exc, OutcomeUnknownError):
                unanswered = exc
            raise

    kinds = (UnavailableError, OutcomeUnknownError) if repeatable_when_unanswered else (UnavailableError,)
    try:
        try:
            return await bounded()  # most calls succeed here, without the cost of the loop
        except kinds as exc:
            if isinstance(exc, OverloadedError):
                raise
            return await _repeated(bounded, exc, kinds, policy, left_s=ends_at - time.monotonic())
    except StoreError as exc:
        exc.attempts = tried
        if unanswered is None or exc is unanswered:
            raise
        unanswered.attempts = tried
        raise unanswered from exc
    except RefusedError as exc:
        exc.attempts, exc.perhaps_own = tried, unanswered is not None
        raise


async def _repeated(
    run: Callable[[], Coroutine[Any, Any, T]],
    first: StoreError,
    kinds: tuple[type[StoreError], ...],
    policy: RetryPolicy,
    *,
    left_s: float,
) -> T:
    """Continue after the *first* attempt, which failed; *left_s* is the rest of the deadline."""
    failures = [first]

    async def attempt() -> T:
        if failures:
            raise failures.pop()
        return await run()

    attempts = AsyncRetrying(
        stop=stop_before_delay(left_s),
        wait=_Waits(policy),
        retry=retry_if_exception(lambda exc: isinstance(exc, kinds) and not isinstance(exc, OverloadedError)),
        before_sleep=_report_first,
        reraise=True,
    )
    return await attempts(attempt)


class _Waits(wait_base):
    """Return full jitter, on top of the time that the service asks for."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._jitter = wait_random_exponential(multiplier=policy.first_wait_s, max=policy.longest_wait_s)

    def __call__(self, retry_state: RetryCallState) -> float:
        failure = retry_state.outcome and retry_state.outcome.exception()
        asked = failure.retry_after_s if isinstance(failure, StoreError) else None
        return self._jitter(retry_state) + (asked or 0.0)


def _report_first(state: RetryCallState) -> None:
    if state.attempt_number == 1 and state.outcome is not None:
        failure = state.outcome.exception()
        logger.warning(
            "%s%s; it is tried again", label(), failure, extra=telemetry.log_fields(failure, attempts=1)
        )
